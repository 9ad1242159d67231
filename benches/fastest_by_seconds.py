"""Which sampler is fastest in seconds: `python -m benches.fastest_by_seconds`.

Samplers decode questions on whole canvases, with a prefix cache, and on a block model; their calls
are priced for an 8B model of each kind on GPUs (computed), and for the small models that decoded
them on this machine (measured by `pbcore price`). Samplers whose score is more than 3 points
below one token at a time are left out. The calls are those of `tiny` and `tiny-block`: a larger
model's samplers take others.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from pbcore.base.errors import InputError
from pbcore.base.tabular import Code, MarkdownText, Table, markdown
from pbcore.costs.calls import CallShape
from pbcore.costs.price_list import PriceList
from pbcore.decoding import decode, resolve
from pbcore.models import load_model
from pbcore.results.build import answers_per_call
from pbcore.results.seconds import price_list
from pbcore.tasks import load_task

TASK = "waiting_line/shuffle"
LOSS = 0.03  # of the score, beyond which a sampler is left out
SAMPLERS = ("eb-0.1", "threshold-0.9", "klass-0.9", "spec-8")
GPUS = ("h200", "a100")
BATCHES = (1, 32)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of forwards: the model that decodes, the model whose price is meant on GPUs, what
    samplers have beside their names, and those that can't have it.
    """

    title: str
    model: str
    priced: str
    suffix: str = ""
    without: tuple[str, ...] = ()


KINDS = (
    Kind("whole canvases", "tiny", "llada-8b"),
    Kind("prefix cache", "tiny", "llada-8b", "+b8+prefix", ("spec-8",)),
    Kind("block model", "tiny-block", "sdar-8b"),
)


@dataclass(frozen=True, slots=True)
class Decoded:
    """A sampler's mean score and counted calls, and how many answers took part in a call where
    BATCHES[-1] are decoded together: they end at different times.
    """

    sampler: str
    score: float
    calls: Mapping[CallShape, int]
    together: float | None


def decoded(kind: Kind, limit: int) -> list[Decoded]:
    """One token at a time, then every sampler."""
    task = load_task(TASK, limit=limit)
    model = load_model(kind.model)
    result = []
    for name in ("confidence-k1", *SAMPLERS):
        if name in kind.without:
            continue
        sampler = name + kind.suffix
        answers = decode(model, task.samples, sampler, batch_size=BATCHES[-1])
        calls: Counter[CallShape] = Counter()
        for answer in answers:
            calls.update(answer.calls or {})
        scores = [
            task.score(answer.text, sample)[task.headline]
            for sample, answer in zip(task.samples, answers, strict=True)
        ]
        result.append(Decoded(sampler, fmean(scores), calls, answers_per_call(answers)))
    return result


def lists(kind: Kind) -> list[PriceList]:
    """The GPUs' lists, and this machine's where it was measured."""
    result = [price_list(name, kind.priced) for name in GPUS]
    try:
        result.append(price_list("here", kind.model))
    except InputError as error:
        print(f"left out: {error}", file=sys.stderr)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--limit", type=int, default=64, help="questions (64)")
    options = parser.parse_args()
    rows = []
    for kind in KINDS:
        samplers = decoded(kind, options.limit)
        least = samplers[0].score - LOSS
        fit = [decoding for decoding in samplers if decoding.score >= least]
        for prices in lists(kind):
            for batch in BATCHES:
                rows.append(_row(kind, fit, prices, batch, options.limit))
    heads = ["forwards", "machine", "batch", "fastest", "ms", "one token at a time", "next"]
    print(markdown(Table(heads, rows)))


def _row(
    kind: Kind, fit: Sequence[Decoded], prices: PriceList, batch: int, answers: int
) -> tuple[str, ...]:
    """The fastest of the samplers that fit, by a price list at a batch."""
    seconds = {}
    for decoding in fit:
        together = None if batch == 1 else decoding.together
        seconds[decoding.sampler] = prices.answer_seconds(
            decoding.calls, answers, resolve(decoding.sampler).name, batch, together=together
        )
    ordered = sorted(seconds, key=seconds.__getitem__)
    best = ordered[0]
    plain = fit[0].sampler
    machine = f"{prices.model} on {prices.name} ({prices.basis})"
    further = ordered[1] if len(ordered) > 1 else "–"
    told = "" if further == "–" else f" ({1000 * seconds[further]:.0f})"
    return (
        kind.title,
        machine,
        str(batch),
        Code(best),
        f"{1000 * seconds[best]:.0f}",
        f"{1000 * seconds[plain]:.0f}",
        MarkdownText(f"`{further}`{told}"),
    )


if __name__ == "__main__":
    main()
