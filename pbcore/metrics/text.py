"""Scorers of the text tasks: grammar, each task's own metrics, and the composites of both benchmark
versions.

ROUGE is computed by rouge-score, BLEU by sacrebleu. `v1` is the product shown in the paper's
tables; `v2` is grammar alone, as in the 2026 rewrite. A metric that can't be measured is left out,
with the reason in `details["absent"]`, and so are the composites that need it.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from math import prod
from typing import Any

from pbcore.metrics import grammar, semantic
from pbcore.metrics.answers import label_part
from pbcore.metrics.languagetool import LanguageToolUnavailable, Match
from pbcore.tasks.base import Sample
from pbcore.tasks.scoring import Details, Scored, register_scorer

_KIND_BY_RULE = {
    "ENGLISH_WORD_REPEAT_RULE": "repeated word",
    "PHRASE_REPETITION": "repeated word",
    "EN_A_VS_AN": "a/an disagreement",
}
_VERB_RULE = re.compile(
    r"(^|_)(VB[A-Z]*|VERB|MD|BE|HAVE|HAS|HAD|DO|DOES|DID|IS|ARE|WAS|WERE|AGREEMENT)(_|$)"
)
_KIND_BY_CATEGORY = {
    "TYPOS": "misspelling",
    "PUNCTUATION": "punctuation",
    "TYPOGRAPHY": "punctuation",
    "CASING": "casing",
}
_KINDS = (  # of several errors, an answer's failure is the first of these
    "repeated word",
    "a/an disagreement",
    "broken verb group",
    "misspelling",
    "punctuation",
    "casing",
    "other grammar",
)
_TOOLS = {"grammar": grammar.available, "bertscore": semantic.available}
_ROUGE = {"rouge1": "rouge_1", "rouge2": "rouge_2", "rougeL": "rouge_l"}


@dataclass(slots=True)
class TextMeasurement:
    """Results for one answer so far: scores, reasons for absent ones, faults as (kind, sentence),
    grammar's matches.
    """

    scores: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    faults: list[tuple[str, str]] = field(default_factory=list)
    matches: tuple[Match, ...] = ()

    def compose(self, name: str, factors: tuple[str, ...]) -> None:
        """The product of scores; absent for the reason of the first that is."""
        missing = [factor for factor in factors if factor not in self.scores]
        if not missing:
            self.scores[name] = prod(self.scores[factor] for factor in factors)
        elif reasons := [
            f"{factor}: {self.absent[factor]}" for factor in missing if factor in self.absent
        ]:
            self.absent[name] = reasons[0]

    def scored(self, metrics: Collection[str]) -> Scored:
        details: Details = {}
        if self.matches:
            details["matches"] = [asdict(match) for match in self.matches]
        if self.faults:
            details["why"] = "; ".join(why for _, why in self.faults)
            details["failure"] = self.faults[0][0]
        if absent := {name: why for name, why in self.absent.items() if name in metrics}:
            details["absent"] = absent
        return Scored(
            {name: value for name, value in self.scores.items() if name in metrics}, details
        )


@dataclass(frozen=True, slots=True)
class TextScorer:
    """Grammar, the task's own metrics by `measure`, `v1` as the product of `factors`, and `v2`,
    which is grammar.
    """

    own: tuple[str, ...]
    factors: tuple[str, ...]
    measure: Callable[[str, Sample, Collection[str], TextMeasurement], None]

    @property
    def metrics(self) -> tuple[str, ...]:
        return ("grammar", *self.own, "v1", "v2")

    def score(
        self, predictions: Sequence[str], samples: Sequence[Sample], metrics: frozenset[str]
    ) -> list[Scored]:
        needed = (
            metrics
            | ({*self.factors} if "v1" in metrics else set())
            | ({"grammar"} if "v2" in metrics else set())
        )
        answers = [TextMeasurement() for _ in predictions]
        for prediction, answer in zip(predictions, answers, strict=True):
            if not prediction.strip():
                answer.faults.append(("empty", "the answer is empty"))
        if "grammar" in needed:
            _measure_grammar(predictions, answers)
        for prediction, sample, answer in zip(predictions, samples, answers, strict=True):
            self.measure(prediction, sample, needed, answer)
        if "bertscore" in needed:
            _measure_meaning(predictions, samples, answers)
        for answer in answers:
            answer.compose("v1", self.factors)
            answer.compose("v2", ("grammar",))
        return [answer.scored(metrics) for answer in answers]


def now_measurable(absent: Mapping[str, str], scores: Collection[str]) -> bool:
    """Whether a score that no answer of a record has, because a tool was missing, can be measured
    now: `absent` maps scores to reasons, and some answers may have those in `scores`.
    """
    unmeasured = [(name, why) for name, why in absent.items() if name not in scores]
    # Composites name it.
    lacked = {why.partition(":")[0] if name in ("v1", "v2") else name for name, why in unmeasured}
    return any(_TOOLS[name]() for name in lacked if name in _TOOLS)


def failure_kind(match: Match) -> str:
    """The kind of a grammatical error: one of those that the paper's Appendix H names for parallel
    decoding, or a broader one.
    """
    broken = "broken verb group" if _VERB_RULE.search(match.rule) else "other grammar"
    return _KIND_BY_RULE.get(match.rule) or _KIND_BY_CATEGORY.get(match.category) or broken


def _measure_grammar(predictions: Sequence[str], answers: Sequence[TextMeasurement]) -> None:
    try:
        verdicts = grammar.checker().check(predictions)
    except LanguageToolUnavailable as error:
        for answer in answers:
            answer.absent["grammar"] = str(error)
        return
    for prediction, verdict, answer in zip(predictions, verdicts, answers, strict=True):
        if verdict.score is None:
            answer.absent["grammar"] = verdict.problem
            continue
        answer.scores["grammar"], answer.matches = verdict.score, verdict.matches
        if verdict.matches:
            worst = min(verdict.matches, key=lambda match: _KINDS.index(failure_kind(match)))
            span = prediction.strip()[worst.offset : worst.offset + worst.length]
            why = f"{failure_kind(worst)} at {span!r}: {worst.message} ({worst.rule})"
            answer.faults.append((failure_kind(worst), why))


def _measure_meaning(
    predictions: Sequence[str], samples: Sequence[Sample], answers: Sequence[TextMeasurement]
) -> None:
    try:
        values = semantic.bert_scorer().f1(
            predictions, [label_part(sample, "text", str) for sample in samples]
        )
    except semantic.BertScoreUnavailable as error:
        for answer in answers:
            answer.absent["bertscore"] = str(error)
        return
    for value, answer in zip(values, answers, strict=True):
        answer.scores["bertscore"] = value


def _measure_words(
    prediction: str, sample: Sample, needed: Collection[str], answer: TextMeasurement
) -> None:
    """`inclusion` as in the official benchmark: every word is a substring of the answer,
    case-sensitive.
    """
    words = [str(word) for word in label_part(sample, "words", list)]
    missing = [word for word in words if word not in prediction]
    answer.scores["inclusion"] = float(not missing)
    answer.scores["inclusion_any_case"] = float(
        all(word.lower() in prediction.lower() for word in words)
    )
    if missing and "inclusion" in needed:
        answer.faults.append(("word missing", f"missing words: {', '.join(missing)}"))


def _measure_summary(
    prediction: str, sample: Sample, needed: Collection[str], answer: TextMeasurement
) -> None:
    summary = label_part(sample, "summary", str)
    answer.scores |= rouge(prediction, summary)
    answer.scores["rouge_l_unstemmed"] = rouge(prediction, summary, stemmed=False)["rouge_l"]


def _measure_paraphrase(
    prediction: str, sample: Sample, needed: Collection[str], answer: TextMeasurement
) -> None:
    answer.scores["inv_bleu"] = inv_bleu(prediction, label_part(sample, "text", str))


def rouge(prediction: str, reference: str, *, stemmed: bool = True) -> dict[str, float]:
    """F-measures `rouge_1`, `rouge_2` and `rouge_l` (Lin 2004) of two stripped texts.

    Args:
        prediction: the answer.
        reference: the reference text.
        stemmed: whether words are stemmed (Porter), as the first version of the benchmark does and
            the 2026 rewrite does not.
    """
    scores = _rouge_scorer(stemmed).score(reference.strip(), prediction.strip())
    return {ours: float(scores[theirs].fmeasure) for theirs, ours in _ROUGE.items()}


def bleu(prediction: str, reference: str) -> float:
    """Sentence BLEU in [0, 1] with the official benchmark's settings: 13a tokens, 4-grams, no
    smoothing, no effective order. It is 0 when the two texts share no run of four tokens.
    """
    # For one sentence the corpus score is equal, and sacrebleu doesn't warn about the effective
    # order.
    return min(
        1.0,
        float(_bleu_scorer().corpus_score([prediction.strip()], [[reference.strip()]]).score) / 100,
    )


def inv_bleu(prediction: str, source: str) -> float:
    """1 − BLEU against the text to be paraphrased: 0 for a copy, and for an empty prediction, as on
    every metric.
    """
    return 1.0 - bleu(prediction, source) if prediction.strip() else 0.0


@cache
def _rouge_scorer(stemmed: bool) -> Any:
    # Imported on first use, here and below: the imports take seconds, and most runs don't need
    # them.
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(list(_ROUGE), use_stemmer=stemmed)


@cache
def _bleu_scorer() -> Any:
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize="13a", max_ngram_order=4, smooth_method="none", effective_order=False)


WORDS_TO_SENTENCE = TextScorer(
    ("inclusion", "inclusion_any_case"), ("inclusion", "grammar"), _measure_words
)
SUMMARIZATION = TextScorer(
    ("rouge_l", "rouge_1", "rouge_2", "rouge_l_unstemmed"), ("rouge_l", "grammar"), _measure_summary
)
PARAPHRASING = TextScorer(
    ("bertscore", "inv_bleu"), ("inv_bleu", "bertscore", "grammar"), _measure_paraphrase
)

register_scorer("words_to_sentence", WORDS_TO_SENTENCE)
register_scorer("summarization", SUMMARIZATION)
register_scorer("paraphrasing", PARAPHRASING)
