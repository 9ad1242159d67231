"""What theory says of a cell: its ceiling, and the bits that its decodings lost."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from statistics import fmean
from typing import Any

from pbcore.ceilings.ceiling import NoCeiling, combined, structures
from pbcore.decoding.protocol import traits
from pbcore.decoding.samplers import policy
from pbcore.decoding.table import fits, listed_rows
from pbcore.errors import InputError
from pbcore.models.ar import POLICY
from pbcore.models.ideal import Ideal
from pbcore.names import SamplerName, SamplerNameError, parse
from pbcore.tasks.base import Sample, Task
from pbcore.tasks.words import tokens
from pbcore.theory.canvas import EOS, AnswerDistribution
from pbcore.theory.ceiling import Ceiling
from pbcore.theory.distributions import answer_distribution, listed, supports
from pbcore.theory.lost import bits_lost

MOST_TEXTS = 1000  # answers of one sample that are put through a tokenizer


class Ceilings:
    """Ceilings by task and sampler, each worked out once; the samples of a task are looked at once."""

    def __init__(self) -> None:
        self._parts: dict[tuple[str, str, int], list[tuple[AnswerDistribution, int]]] = {}
        self._known: dict[tuple[tuple[str, str, int], str], Ceiling | None] = {}

    def of(self, task: Task, sampler: str, block: int | None = None) -> Ceiling | None:
        """The ceiling of a cell; None if its headline isn't accuracy, its answers can't be listed or counted or come
        after steps (`cot`), the sampler isn't one that `ideal` can run, or the model decodes in blocks of its own
        (`block`).
        """
        if task.headline != "accuracy" or task.cot or block is not None or not supports(task.name):
            return None
        key = task.name, task.data_hash, len(task.samples)
        if (key, sampler) not in self._known:
            try:
                if key not in self._parts:
                    self._parts[key] = structures(task.samples)
                self._known[key, sampler] = combined(self._parts[key], parse(sampler))
            except (NoCeiling, SamplerNameError):
                self._known[key, sampler] = None
        return self._known[key, sampler]


def mean_bits_lost(model: Any, sampler: str, decoded: Iterable[tuple[Sample, Sequence[int]]]) -> float | None:
    """The mean over answers of L_T of the partition that each decoding took; `decoded` has samples and their steps.

    None where it isn't known of every answer: without recorded steps, for samplers that mask or replace tokens again,
    for tasks whose answers can't be listed, and where a tokenizer's answers are too many (`answers_of`).
    """
    if not _partitions(parse(sampler)):
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


@lru_cache(maxsize=256)
def _partitions(name: SamplerName) -> bool:
    """Whether a sampler reveals each position once, and the tokens of one step independently of each other."""
    if name.policy == POLICY:
        return True
    try:
        declared = traits(policy(name))
    except SamplerNameError:
        return False  # a sampler that only its own model knows
    waits = declared.cap is not None and name.policy != "origin"  # origin may wait, but masks nothing again
    depends = "probe" in declared.needs or name.together is not None  # on each other: tokens of one step
    return name.remask is None and declared.review is None and not waits and not depends


def answers_of(model: Any, sample: Sample) -> AnswerDistribution:
    """The answers of a sample in the model's own tokens; word for word those of `ideal` where its tokenizer splits so.

    Raises InputError for a task whose answers can't be listed, a model that shows no tokenizer, and more than
    1,000 answers that are not split into words.
    """
    exact = answer_distribution(sample)
    if isinstance(model, Ideal):
        return exact
    tokenizer = getattr(model, "tokenizer", None)
    piece = getattr(tokenizer, "piece", None)
    if piece is None:
        raise InputError(f"{getattr(model, 'name', model)} shows no tokenizer, so its answers can't be put into tokens")
    if _by_words(piece, sample):
        return exact
    texts = _texts(exact)
    rows = [list(map(str, piece(text))) for text in texts]
    given = None
    if sample.canvas is not None:
        mask = model.mask_id
        given = [None if token == mask else str(token) for token in model.encode(sample, None, 0).canvas]
    return listed(rows, len(given) if given is not None else sample.max_new_tokens, given)


def _by_words(piece: Any, sample: Sample) -> bool:
    """Whether a tokenizer splits the sample's answer as `pbcore.tasks.words` does."""
    if sample.answer is None:
        return False
    words = tokens(sample.answer)
    ids = piece(sample.answer)
    return len(ids) == len(words) and [piece(word) for word in words] == [[one] for one in ids]


def _texts(distribution: AnswerDistribution) -> list[str]:
    if not fits(distribution):
        raise InputError("the answers are too many to put them through a tokenizer")
    rows, words = listed_rows(distribution)
    if len(rows) > MOST_TEXTS:
        raise InputError(f"{len(rows)} answers; at most {MOST_TEXTS} are put through a tokenizer")
    return ["".join(words[token] for token in row if words[token] != EOS) for row in rows.tolist()]
