"""Samples, and the scorers of their answers by name; `pbcore.metrics` defines the package's own."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, NotRequired, Protocol, TypedDict

from pbcore.base.errors import InputError
from pbcore.base.printable import counted, shown
from pbcore.base.registry import Registry

Message = dict[str, str]


@dataclass(frozen=True, slots=True)
class Sample:
    """One question with its label.

    `messages` is the whole chat, shots included. `input` holds the values that fill the prompt
    (`context`, `word`, `index`, `words`, `text`, `sudoku`, `symbols` …) and `label` the official
    `answer` value: a string, or a mapping such as `{"input": [...], "example": "..."}` where
    several answers are valid. `max_new_tokens` is the canvas length in tokens; `limited` says that
    a run or a harness task asked for it, so that it also holds for models without a canvas.
    `canvas` is None, or for infilling the answer with `[MASK]` for each token to predict. `source`
    is `own`, `official` or `rewrite-2026`. `seed` generated the question; 0 where it was read.
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
    seed: int = 0

    @property
    def key(self) -> int:
        """Tells the question's random draws apart from those of all others, whatever else runs: 63
        bits from its task's name, the data's seed and its index.
        """
        text = f"{self.task}\0{self.seed}\0{self.index}"
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") >> 1

    def answer_limit(self, own: int) -> int:
        """The most tokens of an answer by a model without a canvas, whose own limit is `own`: what
        was asked for, else the larger of that limit and the canvas length.
        """
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


class ScorerError(InputError):
    """A scorer gave something else than scores."""


class Repeated(TypedDict):
    """An item that stands more often in an answer than it may: how often is `allowed`, and where in
    the scored text it begins each time; `within` which part of the answer.
    """

    item: str
    allowed: int
    at: list[int]
    within: NotRequired[str]


class Details(TypedDict, total=False):
    """What explains an answer's scores, in plain JSON values: `why`, a sentence on a wrong answer;
    `failure`, its kind or kinds (`recombined`, `item missing` …); items that stand too often; which
    questions of several are `wrong`; `matches` of grammar (rule, message, span); `absent`, metric →
    why it was not measured. A scorer may add keys of its own.
    """

    why: str
    failure: str | list[str]
    repeated: list[Repeated]
    wrong: list[int]
    matches: list[dict[str, Any]]
    absent: dict[str, str]


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores of one answer, each in [0, 1], and details that explain them."""

    scores: dict[str, float]
    details: Details = field(default_factory=Details)


class Scorer(Protocol):
    """Scores the answers of one task. `metrics` are the names of its scores, the official ones
    first.
    """

    @property
    def metrics(self) -> tuple[str, ...]: ...

    def score(
        self, predictions: Sequence[str], samples: Sequence[Sample], metrics: frozenset[str]
    ) -> list[Scored]: ...


@dataclass(frozen=True, slots=True)
class FunctionScorer:
    """Scores each answer by a function of its text and its sample: the score `accuracy`."""

    function: Callable[[str, Sample], float]
    metrics: tuple[str, ...] = ("accuracy",)

    def score(
        self, predictions: Sequence[str], samples: Sequence[Sample], metrics: frozenset[str]
    ) -> list[Scored]:
        """As `Scorer.score`."""
        pairs = zip(predictions, samples, strict=True)
        return [Scored({"accuracy": self.function(*pair)}) for pair in pairs]


SCORERS: Registry[Scorer] = Registry("scorer", "pbcore.scorers", builtins="pbcore.metrics")


def register_scorer(name: str, scorer: Scorer) -> None:
    """Makes `scorer` available to tasks under `name`. Raises ValueError if another scorer has that
    name. Packages register scorers by entry points of the group `pbcore.scorers`, named like the
    scorer.
    """
    SCORERS.register(name, scorer)


def scorer(name: str) -> Scorer:
    """The scorer registered under `name`. Raises KeyError with close matches, or else all names."""
    return SCORERS[name]


def score_all(
    name: str, predictions: Sequence[str], samples: Sequence[Sample], metrics: frozenset[str]
) -> list[Scored]:
    """The scores of answers by a registered scorer, one of a user's included.

    Args:
        name: the scorer's.
        predictions: the answers' texts.
        samples: their questions, in the same order.
        metrics: the scores to compute.

    Raises:
        ScorerError: unless it gives a `Scored` for each answer, in which every score is a number
            from 0 to 1.
    """
    scored = scorer(name).score(predictions, samples, metrics)
    if not isinstance(scored, Sequence) or len(scored) != len(predictions):
        given = f"{len(scored)} results" if isinstance(scored, Sequence) else shown(scored)
        raise ScorerError(
            f"scorer {name!r} gave {given} for {counted(len(predictions), 'answer')}; give a list,"
            " one each"
        )
    for one, sample in zip(scored, samples, strict=True):
        where = f"scorer {name!r}, sample {sample.index} of {sample.task}"
        if not isinstance(one, Scored):
            raise ScorerError(f"{where}: it gave {shown(one)}; give a pbcore.tasks.scoring.Scored")
        for metric, value in one.scores.items():
            if not isinstance(value, Real) or not 0 <= float(value) <= 1:
                raise ScorerError(
                    f"{where}: {shown(metric)} is {shown(value)}; scores are numbers from 0 to 1,"
                    " and one that can't be measured is left out, with the reason in"
                    " details['absent']"
                )
    return list(scored)
