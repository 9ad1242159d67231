"""Step maps and tokens that a server reports of an answer: the decoding order, how many forwards a
request can take, and whether the tokens are those of the text.
"""

import re
from collections.abc import Sequence
from itertools import accumulate, pairwise

from pbcore.base.printable import shown

LEAST_ROOM = 256  # tokens: a server's canvas may be longer than what is asked of it
PER_TOKEN = 16  # forwards: edits and remasking take more than one
MANY = 100_000
_SPECIAL = re.compile(r"<[^<>]{1,40}>")  # <|endoftext|>, <eos>
_RAW = "\ufffd\u0120\u010a\u2581"  # part of a character; Ġ, Ċ, ▁: pieces as vocabularies have them


def most_tokens(max_tokens: int, block: int | None) -> int:
    """The most tokens of an answer to a request for `max_tokens`: whole blocks of them."""
    size = block or 1
    return max(LEAST_ROOM, -(-max_tokens // size) * size)


def most_forwards(tokens: int) -> int:
    """The most forwards that an answer of so many tokens is taken to need."""
    return max(tokens, min(PER_TOKEN * tokens, MANY))


def decoding_order(
    reported: Sequence[int], block: int | None, tokens: int, forwards: int | None = None
) -> tuple[tuple[int, ...], int]:
    """The 0-based steps of an answer's tokens over all its blocks, and its forwards: Σ over blocks
    of the largest step.

    Args:
        reported: 1-based steps, counted within each block, or on and on over the answer.
        block: The tokens of a block (None: one block); the last one may be cut.
        tokens: The most tokens that the answer can have (`room`).
        forwards: Those of the answer, where they are told; the steps are then theirs.

    Raises:
        ValueError: for steps that are neither, and for more of them than the request can take.
    """
    if len(reported) > tokens:
        raise ValueError(
            f"its step map has {len(reported):,} tokens, and the request takes at most {tokens:,}"
        )
    most = most_forwards(tokens)
    largest = max(reported, default=0)
    if largest > most:
        raise ValueError(
            f"its step map has step {largest:,}, and an answer of {tokens:,} tokens takes at most"
            f" {most:,}"
        )
    if forwards is not None:
        if largest > forwards:
            raise ValueError(
                f"it has a token of forward {largest:,}, and took {forwards:,} forwards"
            )
        return tuple(step - 1 for step in reported), forwards
    size = block or max(1, len(reported))
    blocks = [reported[start : start + size] for start in range(0, len(reported), size)]
    later = [steps for steps in blocks[1:] if len(steps) == size]
    if later and all(min(after) > max(before) for before, after in pairwise(blocks)):
        return tuple(step - 1 for step in reported), largest
    if any(min(steps) != 1 for steps in later):
        raise ValueError(
            f"its steps don't begin at 1 in each block of {size}; declare the server's block length"
            " (+b)"
        )
    before = [0, *accumulate(map(max, blocks))]  # forwards before each block, and after the last
    whole = before[-1]
    if whole > most:
        raise ValueError(
            f"its step map has {whole:,} forwards, and an answer of {tokens:,} tokens takes at"
            f" most {most:,}"
        )
    steps = tuple(before[place // size] + step - 1 for place, step in enumerate(reported))
    return steps, whole


def contradiction(text: str, joined: str) -> str | None:
    """How the tokens of an answer, one after another, contradict its text; None if they don't.

    White space is not compared, and more may stand around the text, such as EOS. Where the tokens
    are raw pieces or parts of characters, ASCII alone is compared.
    """
    words = "".join(text.split())
    tokens = "".join(joined.split())
    if not words:
        same = not _SPECIAL.sub("", tokens)
    elif any(sign in tokens for sign in _RAW):
        same = _ascii(words) in _ascii(tokens)
    else:
        same = words in tokens
    return None if same else f"its tokens read {shown(joined)}, and its text {shown(text)}"


def _ascii(text: str) -> str:
    return "".join(sign for sign in text if sign.isascii())
