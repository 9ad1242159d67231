"""Overlap with a reference text: ROUGE (rouge-score) and BLEU (sacrebleu)."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rouge_score.rouge_scorer import RougeScorer
    from sacrebleu.metrics.bleu import BLEU

_NAMES = {"rouge1": "rouge_1", "rouge2": "rouge_2", "rougeL": "rouge_l"}


def rouge(prediction: str, reference: str, *, stemmed: bool = True) -> dict[str, float]:
    """F-measures `rouge_1`, `rouge_2` and `rouge_l` (Lin 2004) of two stripped texts.

    The first version of the benchmark stems words (Porter), the 2026 rewrite does not.
    """
    scores = _rouge_scorer(stemmed).score(reference.strip(), prediction.strip())
    return {ours: float(scores[theirs].fmeasure) for theirs, ours in _NAMES.items()}


def bleu(prediction: str, reference: str) -> float:
    """Sentence BLEU in [0, 1] with the official benchmark's settings: 13a tokens, 4-grams, no smoothing, no effective
    order.

    It is 0 when the two texts share no run of four tokens.
    """
    # For one sentence the corpus score is equal, and sacrebleu doesn't warn about the effective order.
    return min(1.0, float(_bleu_scorer().corpus_score([prediction.strip()], [[reference.strip()]]).score) / 100)


def inv_bleu(prediction: str, source: str) -> float:
    """1 − BLEU against the text to be paraphrased: 0 for a copy.

    An empty prediction scores 0 too, as on every metric.
    """
    return 1.0 - bleu(prediction, source) if prediction.strip() else 0.0


@cache
def _rouge_scorer(stemmed: bool) -> RougeScorer:
    # Imported on first use, here and below: the imports take seconds, and most runs don't need them.
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(list(_NAMES), use_stemmer=stemmed)


@cache
def _bleu_scorer() -> BLEU:
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize="13a", max_ngram_order=4, smooth_method="none", effective_order=False)
