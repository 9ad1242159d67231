"""Canvases as words, and the protocol of an answer distribution on one."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from pbcore.errors import InputError
from pbcore.tasks.lists import MASK
from pbcore.tasks.words import tokens

EOS = "<|endoftext|>"
MASKED = -1

Ids = NDArray[np.int64]
Probabilities = NDArray[np.float64]


class NoDistribution(InputError):
    """The valid answers of a sample are not known."""


class AnswerDistribution(Protocol):
    """The law of a sample's valid answers, each padded with EOS to `length` tokens; uniform, but for `chains.Chain`.
    `vocabulary` holds the tokens that occur, EOS last; ids are indices into it. `canvas` has the sample's given tokens,
    MASKED elsewhere."""

    vocabulary: tuple[str, ...]
    length: int
    canvas: Ids

    def marginals(self, canvas: Ids) -> Probabilities:
        """p(token at i | revealed tokens), (L, v), for a canvas (L,) with MASKED at hidden positions. If no valid
        answer has all revealed tokens, some are ignored: going from left to right, each token that is impossible given
        those before it. Ids outside the vocabulary are always impossible."""
        ...


def canvas_tokens(canvas: str) -> list[str | None]:
    """A canvas's tokens, None for each `[MASK]`."""
    result: list[str | None] = []
    for number, piece in enumerate(canvas.split(MASK)):
        result += [None] if number else []
        result += tokens(piece)
    return result


def check_room(needed: int, length: int) -> None:
    if needed > length:
        raise NoDistribution(f"an answer has {needed} tokens, the canvas only {length}: increase max_new_tokens")


def given_ids(given: Sequence[str | None] | None, length: int, ids: Mapping[str, int]) -> Ids:
    """The initial canvas (L,). Raises NoDistribution for given tokens that occur in no answer."""
    if given is None:
        return np.full(length, MASKED, dtype=np.int64)
    unknown = [token for token in given if token is not None and token not in ids]
    if unknown:
        raise NoDistribution(
            f"the canvas has {unknown[0]!r}, which occurs in no valid answer; correct the sample's canvas"
        )
    return np.array([MASKED if token is None else ids[token] for token in given], dtype=np.int64)
