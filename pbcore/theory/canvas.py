"""Canvases as words, the protocol of an answer distribution on one, and the product of independent
ones: several questions that are answered together (`questions/…`).
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pbcore.base.errors import InputError
from pbcore.tasks.lists import MASK
from pbcore.tasks.words import tokens

EOS = "<|endoftext|>"
MASKED = -1

Ids = NDArray[np.int64]
Probabilities = NDArray[np.float64]


class NoDistribution(InputError):
    """The valid answers of a sample are not known."""


class AnswerDistribution(Protocol):
    """The law of a sample's valid answers, each padded with EOS to `length` tokens; uniform, but
    for `chains.Chain`. `vocabulary` holds the tokens that occur, EOS last; ids are indices into it.
    `canvas` has the sample's given tokens, MASKED elsewhere.
    """

    vocabulary: tuple[str, ...]
    length: int
    canvas: Ids

    def marginals(self, canvas: Ids) -> Probabilities:
        """p(token at i | revealed tokens), (L, v), for a canvas (L,) with MASKED at hidden
        positions. If no valid answer has all revealed tokens, some are ignored: going from left to
        right, each token that is impossible given those before it. Ids outside the vocabulary are
        always impossible.
        """

    def fits(self, canvas: Ids) -> bool:
        """Whether some valid answer has all revealed tokens of a canvas (L,). Positions behind its
        first EOS don't count: an answer ends there.
        """


def up_to_eos(canvas: Ids, eos: int) -> Ids:
    """A canvas (L,) with masks behind its first EOS."""
    ends = (canvas == eos).nonzero()[0]
    if not len(ends):
        return canvas
    result = canvas.copy()
    result[ends[0] + 1 :] = MASKED
    return result


def canvas_tokens(canvas: str) -> list[str | None]:
    """A canvas's tokens, None for each `[MASK]`."""
    result: list[str | None] = []
    for number, piece in enumerate(canvas.split(MASK)):
        if number:
            result.append(None)
        result += tokens(piece)
    return result


def check_room(needed: int, length: int) -> None:
    if needed > length:
        raise NoDistribution(
            f"an answer has {needed} tokens, the canvas only {length}: increase max_new_tokens"
        )


def given_ids(given: Sequence[str | None] | None, length: int, ids: Mapping[str, int]) -> Ids:
    """The initial canvas (L,).

    Args:
        given: its tokens, None where masked; None if all are.
        length: L.
        ids: the id of each token that occurs in an answer.

    Raises:
        NoDistribution: for given tokens that occur in no answer.
    """
    if given is None:
        return np.full(length, MASKED, dtype=np.int64)
    unknown = [token for token in given if token is not None and token not in ids]
    if unknown:
        raise NoDistribution(
            f"the canvas has {unknown[0]!r}, which occurs in no valid answer; correct the sample's"
            " canvas"
        )
    return np.array([MASKED if token is None else ids[token] for token in given], dtype=np.int64)


class ProductDistribution:
    """The answers of `parts`, joined by `between` and padded with EOS to `length`; every part's
    canvas has the length of its answers. What is revealed of one tells nothing of another, so k
    questions need the steps of one: the ideal speed-up is k.
    """

    def __init__(
        self,
        parts: Sequence[AnswerDistribution],
        between: str,
        length: int,
        given: Sequence[str | None] | None = None,
    ) -> None:
        joint = tokens(between)
        self.parts = tuple(parts)
        self.length = length
        check_room(sum(part.length for part in parts) + len(joint) * (len(parts) - 1), length)
        words = {token for part in parts for token in part.vocabulary} - {EOS}
        self.vocabulary = (*sorted(words | set(joint)), EOS)
        ids = {token: i for i, token in enumerate(self.vocabulary)}
        self.canvas = given_ids(given, length, ids)
        starts = np.cumsum([0, *(part.length + len(joint) for part in parts[:-1])])
        self.slices = tuple(
            slice(int(at), int(at) + part.length) for at, part in zip(starts, parts, strict=True)
        )
        self._columns = [np.array([ids[token] for token in part.vocabulary]) for part in parts]
        # per part: its id of each token of the vocabulary, an impossible one for those of others
        self._local = []
        for part, columns in zip(parts, self._columns, strict=True):
            local = np.full(len(ids), len(part.vocabulary), dtype=np.int64)
            local[columns] = np.arange(len(columns))
            self._local.append(local)
        self._fixed = np.zeros((length, len(ids)))  # (L, v)
        self._fixed[:, ids[EOS]] = 1.0
        for where in self.slices[:-1]:
            for offset, token in enumerate(joint):
                self._fixed[where.stop + offset] = np.eye(len(ids))[ids[token]]

    def local(self, canvas: Ids, number: int) -> Ids:
        """The part of a canvas (L,) that belongs to a question, in its own ids."""
        own = canvas[self.slices[number]]
        known = np.where((own >= 0) & (own < len(self.vocabulary)), own, 0)
        result: Ids = np.where(own == MASKED, MASKED, self._local[number][known])
        result[own >= len(self.vocabulary)] = len(self.parts[number].vocabulary)
        return result

    def marginals(self, canvas: Ids) -> Probabilities:
        result = self._fixed.copy()
        for number, (part, where) in enumerate(zip(self.parts, self.slices, strict=True)):
            result[where] = 0.0
            result[where, self._columns[number]] = part.marginals(self.local(canvas, number))
        return result

    def fits(self, canvas: Ids) -> bool:
        canvas = up_to_eos(canvas, len(self.vocabulary) - 1)
        between = np.ones(self.length, dtype=bool)  # (L,) positions that belong to no question
        for where in self.slices:
            between[where] = False
        shown = (between & (canvas != MASKED)).nonzero()[0]
        if (self._fixed.argmax(-1)[shown] != canvas[shown]).any():
            return False
        return all(part.fits(self.local(canvas, number)) for number, part in enumerate(self.parts))
