"""How the blocks of a block model lie, and how finished ones are stored. Doesn't import torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Grid:
    """The blocks of a model.

    - `start`: what they are counted from: the first token of the `row`, so that the prompt's last
      tokens may share a block with the first new ones; or the `prompt`'s end, so that its first
      block may be short.
    - `causal`: whether the prompt and finished blocks are read token by token. The open block sees
      all before it and itself in any case.
    - `leads`: whether what is stored predicts the first token behind it.
    - `along`: whether a block's first forward also stores what precedes it. Else a forward of its
      own does.
    - `course`: what samplers without a course of their own take, by the names of
      `decoding.protocol.Course`.
    """

    start: Literal["row", "prompt"] = "row"
    causal: bool = False
    leads: bool = False
    along: bool = False
    course: Mapping[str, Any] = field(default_factory=dict)

    def lead(self, prompt: int, block: int) -> int:
        """The tokens of a prompt that share a block with the first new ones.

        Args:
            prompt: the number of its tokens.
            block: tokens of a block.
        """
        return prompt % block if self.start == "row" else 0


DEFAULT_GRID = Grid()
