"""What theory says of a cell: its ceiling, and the bits that its decodings lost.

The ceiling is the expected accuracy of the ideal model on the cell's samples under the cell's
sampler. What a model loses against its ceiling is the model's own; what the ceiling lacks to 1 is
lost by parallel decoding.
"""

import hashlib
import json
import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict
from functools import lru_cache
from importlib.metadata import version
from statistics import fmean
from typing import Any

import numpy as np

from pbcore.base.cache_folder import cache_folder
from pbcore.base.disk_cache import DiskCache
from pbcore.base.errors import InputError
from pbcore.base.torch_states import own_states
from pbcore.ceilings.counting import counts_of
from pbcore.ceilings.table import TableDenoiser, fits, listed_rows
from pbcore.decoding.checks import check_needs
from pbcore.decoding.engine import denoise
from pbcore.decoding.policies.registry import is_ours
from pbcore.decoding.protocol import Policy, fixed_count
from pbcore.decoding.samplers import Sampler, of_name, sampler_code, sampler_of
from pbcore.models.ar import POLICY
from pbcore.models.base import Request, complete
from pbcore.models.ideal import Ideal
from pbcore.names import SamplerName, SamplerNameError
from pbcore.tasks.base import Sample, Task
from pbcore.tasks.words import tokens
from pbcore.theory.accuracy import accuracy
from pbcore.theory.canvas import EOS, AnswerDistribution
from pbcore.theory.ceiling import KINDS, Ceiling
from pbcore.theory.distributions import Listed, Shuffled, answer_distribution, listed, supports
from pbcore.theory.lost import bits_lost
from pbcore.theory.problems import FEW, NotExact, everything, expected_accuracy, structure, targets
from pbcore.theory.shuffles import problem

DRAWS = 1000
MOST_TOKENS = 64_000  # of all draws
MOST_TEXTS = 1000  # answers of one sample that are put through a tokenizer
FIXED = ("left_to_right", "dus")  # their partition follows from the number of positions alone


class NoCeiling(InputError):
    """The ideal model has no answer to these samples, or can't run this sampler."""


def ceiling(
    samples: Iterable[Sample], sampler: str | SamplerName | Sampler, draws: int = DRAWS
) -> Ceiling:
    """The mean ceiling of samples under a sampler. Samples whose answers differ in names alone are
    computed once.

    Args:
        samples: whose answers can be listed or counted.
        sampler: as text, parsed or whole; a cache in it changes nothing.
        draws: answers decoded in all, with a fixed seed, where no exact result is at hand; fewer on
            canvases of more than 64 tokens.

    Raises:
        NoCeiling: for samples that the ideal model can't answer, and for samplers that it can't
            run.
    """
    return combined(structures(samples), sampler_of(sampler).but(cache=None), draws)


def structures(samples: Iterable[Sample]) -> list[tuple[AnswerDistribution, int]]:
    """The distributions of samples' answers that differ in more than names, with their numbers of
    samples.
    """
    found: dict[Hashable, tuple[AnswerDistribution, int]] = {}
    for sample in samples:
        try:
            distribution = answer_distribution(sample)
            key = structure(distribution)
        except InputError as error:
            raise NoCeiling(f"{sample.task}, sample {sample.index}: {error}") from error
        first, count = found.get(key, (distribution, 0))
        found[key] = first, count + 1
    if not found:
        raise NoCeiling("there is no sample")
    return list(found.values())


@own_states()
def combined(
    parts: Sequence[tuple[AnswerDistribution, int]], sampler: Sampler, draws: int = DRAWS
) -> Ceiling:
    """The mean ceiling of distributions.

    Args:
        parts: distributions, each with its number of samples.
        sampler: without a cache.
        draws: answers decoded in all where no exact result is at hand.

    Raises:
        NoCeiling: for samplers that the ideal model can't run.
    """
    total = sum(count for _, count in parts)
    each = [
        (_ceiling_of(part, sampler, -(-draws * count // total)), count) for part, count in parts
    ]
    mean = sum(part.mean * count for part, count in each) / total
    below = math.hypot(*((part.mean - part.low) * count for part, count in each)) / total
    above = math.hypot(*((part.high - part.mean) * count for part, count in each)) / total
    kind = max((part.kind for part, _ in each), key=KINDS.index)
    return Ceiling(mean, kind, mean - below, mean + above)


def _ceiling_of(distribution: AnswerDistribution, sampler: Sampler, draws: int) -> Ceiling:
    name = sampler.name
    if name.policy == POLICY:
        return Ceiling(1.0, "closed", 1.0, 1.0)  # one token at a time, from exact probabilities
    rule = sampler.policy
    _check(sampler, distribution)
    mean = 1.0 if _certain(distribution, sampler) else _formula(distribution, name)
    if mean is not None:
        return Ceiling(mean, "closed", mean, mean)
    try:
        mean = exact(distribution, rule, name)
    except NotExact:
        return _sampled(distribution, rule, name, draws)
    return Ceiling(mean, "exact", mean, mean)


def _certain(distribution: AnswerDistribution, sampler: Sampler) -> bool:
    """Whether all answers are right: there is one answer, or each step reveals one predicted token
    and keeps it. A policy of the user's must declare by `chooses` that it writes these alone.
    """
    declared = sampler.declared
    if declared.chooses is None and not is_ours(type(sampler.policy)):
        return False
    if isinstance(distribution, Listed) and len(distribution.rows) == 1:
        return True
    return (
        declared.chooses is not None
        and declared.reveals == "k"
        and fixed_count(sampler.policy) == 1
    )


def _check(sampler: Sampler, distribution: AnswerDistribution) -> None:
    """Raises NoCeiling for a sampler that the ideal model can't run on such answers."""
    name = sampler.name
    count = len(targets(distribution))
    if name.block and not name.adaptive and count % name.block:
        raise NoCeiling(
            f"sampler {name}: block length {name.block} doesn't divide the {count} tokens of"
            " ideal's canvas"
        )
    try:
        check_needs(complete(Ideal()), sampler.declared, name)
    except ValueError as error:
        raise NoCeiling(str(error)) from error


def _formula(distribution: AnswerDistribution, name: SamplerName) -> float | None:
    """`theory.accuracy` of a shuffle whose masks are its items; None where there is no formula."""
    if not isinstance(distribution, Shuffled) or not distribution.identity or _ends(name):
        return None
    n, width = distribution.slots.shape
    if width > 1 or len(targets(distribution)) != n:
        return None
    try:
        return accuracy("shuffle", n, str(name))
    except InputError:
        return None


def _ends(name: SamplerName) -> bool:
    """Whether a sampler has rules of its own for EOS."""
    return name.eos_stop or name.no_early_eos or name.eos_last


@own_states()
def exact(distribution: AnswerDistribution, rule: Policy, name: SamplerName) -> float:
    """The expected accuracy by enumeration.

    Args:
        distribution: of the answers.
        rule: the sampler's policy.
        name: the sampler, without a cache.

    Raises:
        NotExact: where that isn't known how, or takes too long.
    """
    if name.remask or _ends(name):
        raise NotExact(f"sampler {name}: remasking and rules for EOS are decoded")
    if name.adaptive:
        raise NotExact(f"sampler {name}: blocks chosen while decoding are decoded")
    if name.cuts and name.temperature:
        raise NotExact(f"sampler {name}: draws that +p and +top cut are decoded")
    if name.together or name.gap or name.adas is not None:
        raise NotExact(f"sampler {name}: joint draws, gaps and other orders are decoded")
    masked = targets(distribution)
    parts = np.full(distribution.length, -1, dtype=np.int64)
    if name.policy in FIXED:
        parts[masked] = _steps(len(masked), name)
        return expected_accuracy(
            problem(distribution, parts), lambda *seen: list(everything(*seen)), name.temperature
        )
    if isinstance(distribution, Listed) and len(distribution.rows) > FEW:
        raise NotExact(f"{len(distribution.rows)} answers leave too many states")
    parts[masked] = np.arange(len(masked)) // (name.block or max(1, len(masked)))
    scheduled = name.counts is not None or name.schedule is not None
    counts = counts_of(rule, name)
    return expected_accuracy(
        problem(distribution, parts), counts, name.temperature, scheduled=scheduled
    )


@lru_cache(maxsize=256)
def _steps(count: int, name: SamplerName) -> list[int]:
    """The step of each masked position under a policy that looks at places alone, by decoding one
    fixed answer.
    """
    single = Listed(("x", "<|endoftext|>"), np.zeros((1, count), dtype=np.int64))
    table = TableDenoiser(single)
    rule = of_name(name).policy
    [answer] = denoise(complete(table), [Request((), table.canvas, 0)], rule, name)
    return list(answer.steps)


def _sampled(
    distribution: AnswerDistribution, rule: Policy, name: SamplerName, draws: int
) -> Ceiling:
    """The share of valid answers among `draws`, with Agresti and Coull's interval."""
    if not fits(distribution):
        why = "no exact ceiling is known, and the answers are too many to decode from a table"
        raise NoCeiling(f"sampler {name}: {why}")
    table = TableDenoiser(distribution)
    draws = max(100, min(draws, MOST_TOKENS // distribution.length))
    requests = [Request((), table.canvas, i) for i in range(draws)]
    answers = denoise(complete(table), requests, rule, name)
    right = sum(answer.token_ids in table.answers for answer in answers)
    centre = (right + 2) / (draws + 4)
    half = 1.96 * math.sqrt(centre * (1 - centre) / (draws + 4))
    mean = right / draws
    return Ceiling(
        mean, "sampled", max(0.0, min(mean, centre - half)), min(1.0, max(mean, centre + half))
    )


class Ceilings:
    """Ceilings by task and sampler, each worked out once; the samples of a task are looked at
    once.
    """

    def __init__(self, kept: DiskCache | None = None, code: str = "") -> None:
        """Nothing is worked out yet.

        Args:
            kept: where those that were decoded are kept for later runs.
            code: a digest of the package's code, whose ceilings they are.
        """
        self._kept = kept
        self._code = code
        self._parts: dict[tuple[str, str, int], list[tuple[AnswerDistribution, int]]] = {}
        self._known: dict[tuple[tuple[str, str, int], Sampler], Ceiling | None] = {}

    def of(self, task: Task, sampler: Sampler, block: int | None = None) -> Ceiling | None:
        """The ceiling of a cell.

        Args:
            task: with its samples.
            sampler: the cell's.
            block: tokens of the model's own blocks; None: it has none.

        Returns:
            The ceiling; None if the headline isn't accuracy, the answers can't be listed or counted
            or come after steps (`cot`), the sampler isn't one that `ideal` can run, or the model
            decodes in blocks of its own.
        """
        if task.headline != "accuracy" or task.cot or block is not None or not supports(task.name):
            return None
        key = task.name, task.data_hash, len(task.samples)
        if (key, sampler) not in self._known:
            try:
                if key not in self._parts:
                    self._parts[key] = structures(task.samples)
                self._known[key, sampler] = self._once(self._parts[key], key, sampler)
            except (NoCeiling, SamplerNameError):
                self._known[key, sampler] = None
        return self._known[key, sampler]

    def _once(
        self,
        parts: Sequence[tuple[AnswerDistribution, int]],
        key: tuple[str, str, int],
        sampler: Sampler,
    ) -> Ceiling:
        """`combined`, kept on disk by all that it depends on where it was decoded."""
        if self._kept is None:
            return combined(parts, sampler)
        own = sampler_code(sampler.name)
        facts = [*key, str(sampler), DRAWS, self._code, own, version("torch")]
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
        for text in self._kept.get([digest]).values():
            return Ceiling(**json.loads(text))
        found = combined(parts, sampler)
        if found.kind == "sampled":
            self._kept.put({digest: json.dumps(asdict(found))})
        return found


def kept_ceilings() -> DiskCache:
    """The file of the user's cache folder that keeps them."""
    return DiskCache(cache_folder() / "ceilings.sqlite", "ceilings", "ceilings")


def mean_bits_lost(
    model: Any, sampler: Sampler, decoded: Iterable[tuple[Sample, Sequence[int]]]
) -> float | None:
    """The mean over answers of L_T, in bits, of the partition that each decoding took.

    Args:
        model: whose tokenizer tells what the answers are.
        sampler: what decoded them.
        decoded: samples and the steps of their tokens.

    Returns:
        The mean; None where it isn't known of every answer: without recorded steps, for samplers
        that mask or replace tokens again, for tasks whose answers can't be listed, and where a
        tokenizer's answers are too many (`answers_of`).
    """
    if not _partitions(sampler):
        return None
    known: dict[int, AnswerDistribution] = {}
    lost = []
    for sample, steps in decoded:
        try:
            if sample.index not in known:
                known[sample.index] = answers_of(model, sample)
            lost.append(bits_lost(known[sample.index], steps))
        except InputError:
            return None
    return fmean(lost) if lost else None


def _partitions(sampler: Sampler) -> bool:
    """Whether a sampler reveals each position once, and the tokens of one step independently of
    each other.
    """
    name = sampler.name
    if name.policy == POLICY:
        return True
    if not sampler.in_the_loop:
        return False
    declared = sampler.declared
    # Origin may wait, but masks nothing again.
    waits = declared.cap is not None and name.policy != "origin"
    # Whether tokens of one step depend on each other.
    depends = "probe" in declared.needs or name.together is not None
    return name.remask is None and declared.review is None and not waits and not depends


def answers_of(model: Any, sample: Sample) -> AnswerDistribution:
    """The answers of a sample in the model's own tokens; word for word those of `ideal` where its
    tokenizer splits so. Raises InputError for a task whose answers can't be listed, a model that
    shows no tokenizer, and more than 1,000 answers that are not split into words.
    """
    exact = answer_distribution(sample)
    if isinstance(model, Ideal):
        return exact
    piece = getattr(getattr(model, "tokenizer", None), "piece", None)
    if piece is None:
        raise InputError(
            f"{getattr(model, 'name', model)} shows no tokenizer, so its answers can't be put into"
            " tokens"
        )
    words = None if sample.answer is None else [piece(word) for word in tokens(sample.answer)]
    if words is not None and words == [[one] for one in piece(sample.answer)]:
        return exact
    if not fits(exact):
        raise InputError("the answers are too many to put them through a tokenizer")
    listing, texts = listed_rows(exact)
    if len(listing) > MOST_TEXTS:
        raise InputError(
            f"{len(listing)} answers; at most {MOST_TEXTS} are put through a tokenizer"
        )
    answers = [
        "".join(texts[token] for token in row if texts[token] != EOS) for row in listing.tolist()
    ]
    rows = [list(map(str, piece(answer))) for answer in answers]
    if sample.canvas is None:
        return listed(rows, sample.max_new_tokens, None)
    canvas = model.encode(sample, None, 0).canvas
    return listed(
        rows, len(canvas), [None if token == model.mask_id else str(token) for token in canvas]
    )
