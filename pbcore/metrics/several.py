"""Scores of several list questions that are answered together, a list on each line."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pbcore.metrics.answers import label_part
from pbcore.tasks.base import Sample
from pbcore.tasks.registry import task_spec
from pbcore.tasks.scoring import Scored, register_scorer, scorer

_LIST = re.compile(r"\[[^\[\]]*\]?")


class SeveralScorer:
    """`accuracy`: the share of the questions whose list is right, the i-th list for the i-th question, each scored as
    its own task does. `accuracy_all`: whether all of them are, with no list more.
    """

    metrics = ("accuracy", "accuracy_all")

    def score(self, predictions: Sequence[str], samples: Sequence[Sample], metrics: frozenset[str]) -> list[Scored]:
        """One result per answer; `details` name the wrong questions, from 1, and what is wrong with the first."""
        return [self._one(text, sample, metrics) for text, sample in zip(predictions, samples, strict=True)]

    def _one(self, text: str, sample: Sample, metrics: frozenset[str]) -> Scored:
        questions = label_part(sample, "questions", list)
        lists = _LIST.findall(text)
        scored = [
            _scored(question, lists[number] if number < len(lists) else "", sample)
            for number, question in enumerate(questions)
        ]
        wrong = [number for number, one in enumerate(scored, 1) if not one.scores["accuracy"]]
        scores = {
            "accuracy": 1 - len(wrong) / len(questions),
            "accuracy_all": float(not wrong and len(lists) == len(questions)),
        }
        details: dict[str, Any] = {}
        if wrong:
            first = scored[wrong[0] - 1].details
            details = {"wrong": wrong, "failure": first["failure"], "why": f"question {wrong[0]}: {first['why']}"}
        elif not scores["accuracy_all"]:
            details = {"failure": "extra list", "why": f"{len(lists)} lists for {len(questions)} questions"}
        return Scored({metric: score for metric, score in scores.items() if metric in metrics}, details)


def _scored(question: dict[str, Any], text: str, sample: Sample) -> Scored:
    """One question by the scorer of its task."""
    asked = replace(sample, task=question["task"], input=question["input"], label=question["label"])
    rule = scorer(task_spec(question["task"]).scorer)
    return rule.score([text], [asked], frozenset(rule.metrics))[0]


register_scorer("questions", SeveralScorer())
