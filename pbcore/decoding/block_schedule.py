"""How a policy goes through the blocks of a block model."""

from dataclasses import dataclass

FILLS = ("grid", "length", "blocks")
STOPS = ("block", "token", "revealed", "never")
STORES = ("needed", "unstopped", "all")


@dataclass(frozen=True, slots=True)
class Course:
    """How a policy goes through the blocks of a block model.

    - `fill`: what is decoded: `grid`, all of the last block; `length`, exactly the requested tokens, so that the last
      block may be short; `blocks`, length // block blocks from the one that holds the prompt's end, and one token more.
    - `cut`: whether the answer is cut to the requested length.
    - `stop`: when a stop token ends a row: `block`, once its block is finished; `token`, as soon as no mask stands
      before it; `revealed`, in the step that reveals one if no mask stands before the first, else as `block`; `never`.
    - `ends_at_stop`: whether the answer ends with its first stop token. Else it goes to the end of the last block.
    - `pads`: whether everything after the first stop token of a finished block becomes EOS.
    - `store`: the last block's storing forward: `needed`, none, since nothing follows; `unstopped`, except after a
      stop token; `all`.
    """

    fill: str = "grid"
    cut: bool = True
    stop: str = "block"
    ends_at_stop: bool = False
    pads: bool = False
    store: str = "needed"

    def __post_init__(self) -> None:
        for name, allowed in (("fill", FILLS), ("stop", STOPS), ("store", STORES)):
            if getattr(self, name) not in allowed:
                raise ValueError(f"course.{name} is {getattr(self, name)!r}; allowed: {', '.join(allowed)}")


PLAIN = Course()
