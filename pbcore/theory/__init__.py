"""Exact theory: total correlation, step bounds, accuracies of the ideal model, distributions of
valid answers.
"""

from pbcore.theory.accuracy import accuracy
from pbcore.theory.answers import TooManyAnswers
from pbcore.theory.bounds import (
    answers_entropy,
    optimal_bound,
    partition_bound,
    step_bound,
    total_correlation,
)
from pbcore.theory.canvas import AnswerDistribution, NoDistribution
from pbcore.theory.distributions import answer_distribution, supports
from pbcore.theory.tables import FigurePoint, Finding, figure2, table1

__all__ = [
    "AnswerDistribution",
    "FigurePoint",
    "Finding",
    "NoDistribution",
    "TooManyAnswers",
    "accuracy",
    "answer_distribution",
    "answers_entropy",
    "figure2",
    "optimal_bound",
    "partition_bound",
    "step_bound",
    "supports",
    "table1",
    "total_correlation",
]
