"""How an engine is to decode. Doesn't import torch."""

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

from pbcore.base.check import Packed, checked
from pbcore.names import SamplerName, parse

AttentionKind = Literal["full", "blocks"]


@checked
@dataclass(frozen=True, slots=True)
class Setting:
    """What `generate` gets beside the checkpoint and the prompts. Fields are also read as those of
    a mapping: `setting["k"]`, `dict(setting)`. What doesn't apply is None.

    - `policy`: `confidence` and `entropy` reveal the `k` surest places in each step, the last step
      of a block what is left; `threshold` all whose token has at least the probability
      `threshold`, and always the surest.
    - `gen_length`: tokens of an answer.
    - `block_length`: blocks are decoded from left to right; None: one block. Where they are counted
      from is the family's: the answer's start, or position 0 of the prompt.
    - `cache`: None, `prefix` or `dual`.
    - `temperature`: 0, the likeliest token.
    - `eos_ids`: the tokens that end an answer.
    - `batch`: how many prompts are decoded at once; 1: one after another.
    - `attention`: `full`, or `blocks` for a model with block-causal attention.
    """

    policy: str
    k: int | None
    threshold: float | None
    gen_length: int
    block_length: int | None
    cache: str | None
    temperature: float
    eos_ids: Annotated[tuple[int, ...], Packed(list[int], tuple)]
    batch: int
    attention: AttentionKind = "full"

    def __getitem__(self, name: str) -> Any:
        if name not in self.keys():
            raise KeyError(name)
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def keys(self) -> tuple[str, ...]:
        """The names of the fields."""
        return tuple(each.name for each in fields(self))

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a field, as of a mapping."""
        return getattr(self, name) if name in self.keys() else default

    def sampler(self) -> SamplerName:
        """The sampler that it describes. Blocks of block-causal attention are the model's, and no
        part of the name. Raises SamplerNameError for what no sampler of this package is.
        """
        text = self.policy
        if self.k is not None:
            text += f"-k{self.k}"
        if self.threshold is not None:
            text += f"-{self.threshold}"
        if self.block_length is not None and self.attention == "full":
            text += f"+b{self.block_length}"
        if self.cache is not None:
            text += f"+{self.cache}"
        return parse(text)


def setting_of(
    sampler: str, gen_length: int, eos_ids: tuple[int, ...], batch: int, block: int | None = None
) -> Setting:
    """The setting that a sampler's name stands for.

    Args:
        sampler: such as `threshold-0.9+b8+dual`.
        gen_length: tokens of an answer.
        eos_ids: what ends an answer.
        batch: how many at once.
        block: the block length of a model whose blocks are its own.
    """
    name = parse(sampler)
    numbers = dict(name.arguments)
    k = numbers.get("k")
    threshold = numbers.get("")
    return Setting(
        policy=name.policy,
        k=None if k is None else int(k),
        threshold=None if threshold is None else float(threshold),
        gen_length=gen_length,
        block_length=block or name.block,
        cache=name.cache,
        temperature=name.temperature,
        eos_ids=eos_ids,
        batch=batch,
        attention="full" if block is None else "blocks",
    )
