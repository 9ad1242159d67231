"""A server's reply as an answer for the record: its text, and the steps and tokens that the server may report."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pbcore.integrations.servers.reply import Ask, Reply
from pbcore.integrations.servers.spec import ServerSpec
from pbcore.models.base import Generation, Prompt
from pbcore.models.errors import ModelError
from pbcore.models.tokenizer import EOS
from pbcore.names import SamplerName
from pbcore.tasks.base import Sample

if TYPE_CHECKING:
    from pbcore.models.tokenizer import Tokenizer


class AnswerTokens:
    """The tokens that a server's answers had, by number, and the declared tokenizer."""

    def __init__(self, spec: ServerSpec) -> None:
        self.spec = spec
        self._texts: list[str] = []
        self._numbers: dict[str, int] = {}

    @cached_property
    def tokenizer(self) -> Tokenizer | None:
        """The declared one; None without. Raises ModelError for a folder that has none."""
        if self.spec.tokenizer is None:
            return None
        from pbcore.models.tokenizer import NoTokenizer, read_tokenizer

        found = read_tokenizer(Path(self.spec.tokenizer), self.spec.name, None)
        if isinstance(found, NoTokenizer):
            raise ModelError(
                f"model {self.spec.name}: tokenizer {self.spec.tokenizer} is no folder with tokenizer.json"
            )
        return found

    def text(self, ids: Sequence[int]) -> str:
        """The text of tokens by their numbers."""
        return "".join(self._texts[token] for token in ids)

    def number(self, token: str | int) -> int:
        """The number of a token that an answer has, as text or id."""
        if not isinstance(token, str):
            if self.tokenizer is None:
                raise ModelError(
                    f"model {self.spec.name}: tokens_field holds ids; declare tokenizer, the model's folder"
                )
            token = self.tokenizer.decode([token])
        if token not in self._numbers:
            self._numbers[token] = len(self._texts)
            self._texts.append(token)
        return self._numbers[token]


def generation(
    known: AnswerTokens, reply: Reply, kept: bool, ask: Ask, prompt: Prompt, sampler: SamplerName
) -> Generation:
    """An answer; `kept`: it was on disk before. With a step map it has steps, and tokens if these are known: what they
    leave of the task's canvas is EOS, as if given. Raises ModelError for a step map that can't be read.
    """
    extra = {"served": _told(known.spec, reply, kept), "max_new_tokens": ask.max_tokens}
    if reply.step_map is None:
        return Generation(reply.text, (), reply.nfe, reply.tokens_out, extra=extra)
    length = len(reply.step_map)
    try:
        if reply.tokens is not None and len(reply.tokens) != length:
            raise ValueError(f"an answer of {len(reply.tokens)} tokens has steps of {length}")
        steps, forwards = decoding_order(reply.step_map, sampler.block)
    except ValueError as error:
        raise ModelError(f"model {known.spec.name} at {known.spec.base_url}: {error}") from None
    left = max(0, prompt.max_new_tokens - length) if isinstance(prompt, Sample) else 0
    ids = map(known.number, (*reply.tokens, *[EOS] * left)) if reply.tokens else ()
    return Generation(reply.text, tuple(ids), forwards or None, length, (*steps, *(-1,) * left), extra=extra)


def _told(spec: ServerSpec, reply: Reply, kept: bool) -> dict[str, Any]:
    """What a sample's record keeps of a reply; times only of this session's."""
    return {
        "seconds": None if kept else reply.seconds,
        "first_token": None if kept else reply.first_token,
        "tokens_in": reply.tokens_in,
        "tokens_out": reply.tokens_out,
        "cost": reply.cost(spec),
        "model": reply.model,
        "finish": reply.finish,
        "outcomes": list(reply.outcomes),
        "asked": reply.asked,
        "kept": kept,
    }


def decoding_order(reported: Sequence[int], block: int | None) -> tuple[tuple[int, ...], int]:
    """The 0-based steps of an answer's tokens over all its blocks, and its forwards: Σ over blocks of the largest step.

    `reported` are 1-based steps, counted within each block of so many tokens (None: one block), or on and on over the
    answer; the last block may be cut. Raises ValueError for steps that are neither.
    """
    if any(type(step) is not int or step < 1 for step in reported):
        raise ValueError("its steps are no whole numbers from 1")
    size = block or max(1, len(reported))
    blocks = [list(reported[start : start + size]) for start in range(0, len(reported), size)]
    later = [one for one in blocks[1:] if len(one) == size]
    if later and all(min(after) > max(before) for before, after in pairwise(blocks)):
        return tuple(step - 1 for step in reported), max(reported)
    if any(min(one) != 1 for one in later):
        raise ValueError(f"its steps don't begin at 1 in each block of {size}; declare the server's block length (+b)")
    steps: list[int] = []
    forwards = 0
    for one in blocks:
        steps += [forwards + step - 1 for step in one]
        forwards += max(one)
    return tuple(steps), forwards
