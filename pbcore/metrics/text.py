"""Scorers of the text tasks: grammar, each task's own metrics, and the composites of both benchmark versions.

`v1` is the product shown in the paper's tables; `v2` is grammar alone, as in the 2026 rewrite. A metric that can't be
measured is left out, with the reason in `details["absent"]`, and so are the composites that need it.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import prod
from typing import Protocol

from pbcore.errors import InputError
from pbcore.metrics import grammar, semantic
from pbcore.metrics.languagetool import Match, Unavailable
from pbcore.metrics.overlap import inv_bleu, rouge
from pbcore.tasks.base import Sample
from pbcore.tasks.scoring import Scored, register_scorer

_KIND_BY_RULE = {
    "ENGLISH_WORD_REPEAT_RULE": "repeated word",
    "PHRASE_REPETITION": "repeated word",
    "EN_A_VS_AN": "a/an disagreement",
}
_VERB_RULE = re.compile(r"(^|_)(VB[A-Z]*|VERB|MD|BE|HAVE|HAS|HAD|DO|DOES|DID|IS|ARE|WAS|WERE|AGREEMENT)(_|$)")
_KIND_BY_CATEGORY = {
    "TYPOS": "misspelling",
    "PUNCTUATION": "punctuation",
    "TYPOGRAPHY": "punctuation",
    "CASING": "casing",
}
_KINDS = (
    "repeated word",
    "a/an disagreement",
    "broken verb group",
    "misspelling",
    "punctuation",
    "casing",
    "other grammar",
)


_TOOLS = {"grammar": grammar.available, "bertscore": semantic.available}


class CellScores(Protocol):
    """What a cell's record says of its scores: those measured, and metric → reason of the others."""

    @property
    def scores(self) -> Mapping[str, object]: ...
    @property
    def absent(self) -> Mapping[str, str]: ...


@dataclass(slots=True)
class Measured:
    """Results for one answer so far: scores, reasons for absent scores, and errors with their kinds and matches."""

    scores: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    kinds: list[str] = field(default_factory=list)
    matches: list[Match] = field(default_factory=list)

    def scored(self, metrics: Collection[str]) -> Scored:
        details: dict[str, object] = {}
        if self.matches:
            details["matches"] = [asdict(match) for match in self.matches]
        if self.wrong:
            details |= {"why": "; ".join(self.wrong), "failure": self.kinds[0]}
        if absent := {name: why for name, why in self.absent.items() if name in metrics}:
            details["absent"] = absent
        return Scored({name: value for name, value in self.scores.items() if name in metrics}, details)


Measure = Callable[[Sequence[str], Sequence[Sample], Collection[str], Sequence[Measured]], None]


@dataclass(frozen=True, slots=True)
class TextScorer:
    """Grammar, the task's own metrics by `measure`, `v1` as the product of `factors`, and `v2`, which is grammar."""

    own: tuple[str, ...]
    factors: tuple[str, ...]
    measure: Measure

    @property
    def metrics(self) -> tuple[str, ...]:
        return ("grammar", *self.own, "v1", "v2")

    def score(self, predictions: Sequence[str], samples: Sequence[Sample], metrics: frozenset[str]) -> list[Scored]:
        needed = metrics | ({*self.factors} if "v1" in metrics else set()) | ({"grammar"} if "v2" in metrics else set())
        answers = [Measured() for _ in predictions]
        for prediction, answer in zip(predictions, answers, strict=True):
            if not prediction.strip():
                answer.wrong.append("the answer is empty")
                answer.kinds.append("empty")
        if "grammar" in needed:
            _measure_grammar(predictions, answers)
        self.measure(predictions, samples, needed, answers)
        for answer in answers:
            _compose(answer, "v1", self.factors)
            _compose(answer, "v2", ("grammar",))
        return [answer.scored(metrics) for answer in answers]


def now_measurable(cell: CellScores) -> bool:
    """Whether a score that no answer of a record has, because a tool was missing, can be measured now."""
    lacked = {
        reason.partition(":")[0] if name in ("v1", "v2") else name  # a composite's reason begins with what it lacks
        for name, reason in cell.absent.items()
        if name not in cell.scores
    }
    return any(_TOOLS[name]() for name in lacked if name in _TOOLS)


def failure_kind(match: Match) -> str:
    """The kind of a grammatical error: one of those that the paper's Appendix H names for parallel decoding, or a
    broader one.
    """
    if match.rule in _KIND_BY_RULE:
        return _KIND_BY_RULE[match.rule]
    if match.category in _KIND_BY_CATEGORY:
        return _KIND_BY_CATEGORY[match.category]
    return "broken verb group" if _VERB_RULE.search(match.rule) else "other grammar"


def _compose(answer: Measured, name: str, factors: tuple[str, ...]) -> None:
    missing = [factor for factor in factors if factor not in answer.scores]
    if not missing:
        answer.scores[name] = prod(answer.scores[factor] for factor in factors)
    elif reasons := [f"{factor}: {answer.absent[factor]}" for factor in missing if factor in answer.absent]:
        answer.absent[name] = reasons[0]


def _measure_grammar(predictions: Sequence[str], answers: Sequence[Measured]) -> None:
    try:
        verdicts = grammar.checker().check(predictions)
    except Unavailable as error:
        for answer in answers:
            answer.absent["grammar"] = str(error)
        return
    for prediction, verdict, answer in zip(predictions, verdicts, answers, strict=True):
        if verdict.score is None:
            answer.absent["grammar"] = verdict.problem
            continue
        answer.scores["grammar"] = verdict.score
        answer.matches.extend(verdict.matches)
        if verdict.matches:
            worst = min(verdict.matches, key=lambda match: _KINDS.index(failure_kind(match)))
            span = prediction.strip()[worst.offset : worst.offset + worst.length]
            answer.wrong.append(f"{failure_kind(worst)} at {span!r}: {worst.message} ({worst.rule})")
            answer.kinds.append(failure_kind(worst))


def _measure_words(
    predictions: Sequence[str], samples: Sequence[Sample], needed: Collection[str], answers: Sequence[Measured]
) -> None:
    """`inclusion` as in the official benchmark: every word is a substring of the answer, case-sensitive ("Dog" differs
    from "dog").
    """
    for prediction, sample, answer in zip(predictions, samples, answers, strict=True):
        words = [str(word) for word in _field(sample, "words")]
        missing = [word for word in words if word not in prediction]
        answer.scores["inclusion"] = float(not missing)
        answer.scores["inclusion_any_case"] = float(all(word.lower() in prediction.lower() for word in words))
        if missing and "inclusion" in needed:
            answer.wrong.append(f"missing words: {', '.join(missing)}")
            answer.kinds.append("word missing")


def _measure_summary(
    predictions: Sequence[str], samples: Sequence[Sample], needed: Collection[str], answers: Sequence[Measured]
) -> None:
    for prediction, sample, answer in zip(predictions, samples, answers, strict=True):
        summary = str(_field(sample, "summary"))
        answer.scores |= rouge(prediction, summary)
        answer.scores["rouge_l_unstemmed"] = rouge(prediction, summary, stemmed=False)["rouge_l"]


def _measure_paraphrase(
    predictions: Sequence[str], samples: Sequence[Sample], needed: Collection[str], answers: Sequence[Measured]
) -> None:
    sources = [str(_field(sample, "text")) for sample in samples]
    for prediction, source, answer in zip(predictions, sources, answers, strict=True):
        answer.scores["inv_bleu"] = inv_bleu(prediction, source)
    if "bertscore" not in needed:
        return
    try:
        values = semantic.scorer().f1(predictions, sources)
    except semantic.Unavailable as error:
        for answer in answers:
            answer.absent["bertscore"] = str(error)
        return
    for value, answer in zip(values, answers, strict=True):
        answer.scores["bertscore"] = value


def _field(sample: Sample, name: str) -> str | Sequence[str]:
    label = sample.label
    if not isinstance(label, Mapping) or name not in label:
        raise InputError(
            f"{sample.task} sample {sample.index} has the label {label!r} without {name!r}; scoring needs it"
        )
    value: str | Sequence[str] = label[name]
    return value


WORDS_TO_SENTENCE = TextScorer(("inclusion", "inclusion_any_case"), ("inclusion", "grammar"), _measure_words)
SUMMARIZATION = TextScorer(
    ("rouge_l", "rouge_1", "rouge_2", "rouge_l_unstemmed"), ("rouge_l", "grammar"), _measure_summary
)
PARAPHRASING = TextScorer(("bertscore", "inv_bleu"), ("inv_bleu", "bertscore", "grammar"), _measure_paraphrase)

register_scorer("words_to_sentence", WORDS_TO_SENTENCE)
register_scorer("summarization", SUMMARIZATION)
register_scorer("paraphrasing", PARAPHRASING)
