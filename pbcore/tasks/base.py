"""Sample: one question with its label. Task: the questions of the benchmark and the scoring of their answers."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pbcore.errors import InputError
from pbcore.tasks.cot import final_answer
from pbcore.tasks.naming import category
from pbcore.tasks.scoring import Scored, score_all, scorer

Message = dict[str, str]


@dataclass(frozen=True, slots=True)
class Sample:
    """One question with its label.

    `messages` is the whole chat, shots included. `input` holds the values that fill the prompt (`context`, `word`,
    `index`, `words`, `text`, `sudoku`, `symbols` …) and `label` the official `answer` value: a string, or a mapping
    such as `{"input": [...], "example": "..."}` where several answers are valid. `max_new_tokens` is the canvas length
    in tokens; `limited` says that a run or a harness task asked for it, so that it also holds for models without a
    canvas. `canvas` is None, or for infilling the answer with `[MASK]` for each token to predict. `source` is `own`,
    `official` or `rewrite-2026` (`tasks.naming.REWRITE`).
    """

    task: str
    index: int
    messages: tuple[Message, ...]
    input: Mapping[str, Any]
    label: Any
    max_new_tokens: int
    length: int | None = None
    canvas: str | None = None
    source: str = "own"
    limited: bool = False

    def answer_limit(self, own: int) -> int:
        """The most tokens of an answer by a model without a canvas, whose own limit is `own`: what was asked for, else
        the larger of that limit and the canvas length."""
        return self.max_new_tokens if self.limited else max(self.max_new_tokens, own)

    @property
    def prompt(self) -> str:
        """The last user turn: the question without its shots."""
        return self.messages[-1]["content"]

    @property
    def answer(self) -> str | None:
        """One correct answer as text; None if the label has none."""
        if isinstance(self.label, str):
            return self.label
        for key in ("example", "summary"):
            if isinstance(self.label.get(key), str):
                return str(self.label[key])
        return None


@dataclass(frozen=True, slots=True)
class Task:
    """A named list of samples with its scorer.

    `name` is a task name such as `waiting_line/shuffle`; `kind` the operation or generator (`shuffle`, `latin_square`,
    `words_to_sentence` …); `category` the part before the slash; `headline` the score shown in tables;
    `data_hash` a digest of all samples in order, which is equal if two runs had the same samples;
    `identity` a digest of everything else that decides scores: declaration, headline, scorer and the scorer's code;
    with `cot` the question asks for steps, and what follows the last "The answer is:" is scored (`cot_answer` marked),
    or the whole text (`whole`).
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

    @property
    def category(self) -> str:
        return category(self.name)

    def score(self, prediction: str, sample: Sample, metrics: Collection[str] | None = None) -> dict[str, float]:
        """Scores of one answer, each in [0, 1]; `metrics` selects the scores to compute (default: all). Raises
        InputError for a metric that this task does not have, and for a prediction that is not a string."""
        return self.score_many([prediction], [sample], metrics)[0].scores

    def score_many(
        self, predictions: Sequence[str], samples: Sequence[Sample], metrics: Collection[str] | None = None
    ) -> list[Scored]:
        """Scores with their details, one per answer; servers and models get all answers of a call in one batch."""
        if isinstance(predictions, str):
            odd: list[object] = [predictions]
        else:
            odd = [text for text in predictions if not isinstance(text, str)]
        if odd:
            raise InputError(f"{self.name}: predictions must be texts, one per sample, not {odd[0]!r}")
        if any(not isinstance(sample, Sample) for sample in samples):
            raise InputError(f"{self.name}: samples must be Samples (task.samples), not {str(samples)[:80]}")
        if len(predictions) != len(samples):
            raise InputError(f"{len(predictions)} predictions for {len(samples)} samples of {self.name}: give one each")
        score = scorer(self.scorer)
        if isinstance(metrics, str):
            raise InputError(f"metrics {metrics!r}: give a list, such as [{metrics!r}]")
        unknown = set(metrics or ()) - set(score.metrics)
        if unknown:
            raise InputError(f"{self.name} has no metric {sorted(unknown)}; it has {sorted(score.metrics)}")
        wanted = frozenset(score.metrics if metrics is None else metrics)
        if not self.cot or self.cot_answer == "whole":
            return score_all(self.scorer, predictions, samples, wanted)
        answers = [final_answer(text) for text in predictions]
        scored = score_all(self.scorer, [answer or "" for answer in answers], samples, wanted)
        return [one if answer else _unanswered(one) for one, answer in zip(scored, answers, strict=True)]


def _unanswered(scored: Scored) -> Scored:
    """The scores of an answer with steps but no final answer: 0, whatever a scorer makes of an empty text."""
    details = {name: value for name, value in scored.details.items() if name == "absent"}
    why = {"why": 'nothing follows "The answer is:"', "failure": "no final answer"}
    return Scored(dict.fromkeys(scored.scores, 0.0), {**details, **why})
