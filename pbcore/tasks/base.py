"""Task: the questions of the benchmark and the scoring of their answers."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pbcore.base.errors import InputError
from pbcore.tasks.cot import final_answer
from pbcore.tasks.naming import category
from pbcore.tasks.scoring import Details, Message, Sample, Scored, score_all, scorer

__all__ = ["Message", "Sample", "Task"]


@dataclass(frozen=True, slots=True)
class Task:
    """A named list of samples with its scorer.

    `name` is a task name such as `waiting_line/shuffle`; `kind` the operation or generator
    (`shuffle`, `latin_square`, `words_to_sentence` …); `category` the part before the slash;
    `available` how many questions its data has, of which `samples` may be the first (None: they are
    drawn, without a known end);
    `headline` the score shown in tables; `data_hash` a digest of all samples in order, which is
    equal if two runs had the same samples; `identity` a digest of everything else that decides
    scores: declaration, headline, scorer and the scorer's code; with `cot` the question asks for
    steps, and what follows the last "The answer is:" is scored (`cot_answer` marked), or the whole
    text (`whole`).
    """

    name: str
    kind: str
    samples: tuple[Sample, ...]
    scorer: str
    headline: str
    source: str = "own"
    data_hash: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    identity: str = ""
    cot: bool = False
    cot_answer: str = "marked"
    available: int | None = None

    @property
    def category(self) -> str:
        return category(self.name)

    def score(
        self, prediction: str, sample: Sample, metrics: Collection[str] | None = None
    ) -> dict[str, float]:
        """Scores of one answer, each in [0, 1].

        Args:
            prediction: the answer's text.
            sample: the question.
            metrics: the scores to compute; None: all of the task's.

        Raises:
            InputError: for a metric that this task does not have, and for a prediction that is not
                a
                string.
        """
        return self.score_many([prediction], [sample], metrics)[0].scores

    def score_many(
        self,
        predictions: Sequence[str],
        samples: Sequence[Sample],
        metrics: Collection[str] | None = None,
    ) -> list[Scored]:
        """Scores with their details, one per answer.

        Scoring servers and models get all answers of a call in one batch.

        Args:
            predictions: the answers' texts.
            samples: their questions, in the same order.
            metrics: the scores to compute; None: all of the task's.

        Raises:
            InputError: as `score`.
        """
        if isinstance(predictions, str):
            odd: list[object] = [predictions]
        else:
            odd = [text for text in predictions if not isinstance(text, str)]
        if odd:
            raise InputError(
                f"{self.name}: predictions must be texts, one per sample, not {odd[0]!r}"
            )
        if any(not isinstance(sample, Sample) for sample in samples):
            raise InputError(
                f"{self.name}: samples must be Samples (task.samples), not {str(samples)[:80]}"
            )
        if len(predictions) != len(samples):
            raise InputError(
                f"{len(predictions)} predictions for {len(samples)} samples of {self.name}: give"
                " one each"
            )
        score = scorer(self.scorer)
        if isinstance(metrics, str):
            raise InputError(f"metrics {metrics!r}: give a list, such as [{metrics!r}]")
        unknown = set(metrics or ()) - set(score.metrics)
        if unknown:
            raise InputError(
                f"{self.name} has no metric {sorted(unknown)}; it has {sorted(score.metrics)}"
            )
        wanted = frozenset(score.metrics if metrics is None else metrics)
        if not self.cot or self.cot_answer == "whole":
            return score_all(self.scorer, predictions, samples, wanted)
        answers = [final_answer(text) for text in predictions]
        scored = score_all(self.scorer, [answer or "" for answer in answers], samples, wanted)
        return [
            one if answer else _unanswered(one) for one, answer in zip(scored, answers, strict=True)
        ]


def _unanswered(scored: Scored) -> Scored:
    """The scores of an answer with steps but no final answer: 0, whatever a scorer makes of an
    empty text.
    """
    details: Details = {"why": 'nothing follows "The answer is:"', "failure": "no final answer"}
    if "absent" in scored.details:
        details = {"absent": scored.details["absent"], **details}
    return Scored(dict.fromkeys(scored.scores, 0.0), details)
