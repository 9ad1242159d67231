"""Settings of adapter training; defaults are those of the paper's appendix F.1, for SEDD models
(F4) of F.4.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from pbcore.base.errors import InputError
from pbcore.grid.option import lengths

# What may change between two parts of a run, since it decides no weight.
FREE = ("scored", "device")
# What a model that is trained whole has no use for.
OF_ADAPTERS = ("rank", "alpha", "dropout", "targets", "dtype", "gradient_checkpointing")
# The recipe of the paper's appendix F.4; F.1's are the defaults. How many examples F.4 had is not
# published.
F4: Mapping[str, Any] = {
    "method": "full",
    "epochs": 32,
    "batch": 64,
    "rate": 3e-4,
    "warmup": 0.25,
    "sampler": "analytic-s32",
}


def _option(default: Any, help: str, metavar: str = "N", **words: Any) -> Any:
    """A setting that the command has as an option, with what argparse is to know of it."""
    return field(
        default=default, metadata={"type": type(default), "help": help, "metavar": metavar, **words}
    )


@dataclass(frozen=True, slots=True)
class LoraSettings:
    """The settings of a run; docs/train.md has a table of them. Raises InputError for values
    that don't fit.

    `train` and `validation` count examples; `batch` rows of an optimizer step, which `accumulate`
    forwards share. The learning rate grows in the share `warmup` of the steps, then falls to 0 by
    half a cosine. `method` is `lora`, or `full` for all weights and none of OF_ADAPTERS. With a
    `balance` of 1 every row counts alike, with 0 every token. Every `every` steps (None: after each
    epoch) `scored` validation examples are decoded under `sampler`; the weights with the best score
    are kept. Without `shots` an example is its last question alone, as in the official code.
    """

    model: str
    task: str
    rank: int = _option(128, "rank of the adapter")
    alpha: int = _option(256, "its scale is α / rank", "A")
    dropout: float = _option(0.05, "dropout before the adapter", "P")
    targets: tuple[str, ...] = _option(
        ("q_proj", "k_proj", "v_proj"), "adapted", "MODULE", type=str, nargs="+"
    )
    train: int = _option(20_000, "training examples")
    validation: int = _option(5_000, "validation examples")
    epochs: int = _option(10, "passes over the training examples")
    batch: int = _option(32, "rows of an optimizer step")
    accumulate: int = _option(1, "forwards that share a step's rows, for less memory")
    rate: float = _option(1e-5, "learning rate", "R")
    warmup: float = _option(0.05, "share of the steps in which the learning rate grows", "SHARE")
    weight_decay: float = _option(0.0, "weight decay of AdamW", "W")
    clip: float = _option(1.0, "norm at which gradients are clipped", "NORM")
    balance: float = _option(1.0, "a row's tokens weigh its number of masks to the power −B", "B")
    seed: int = _option(0, "seed of examples, noise, dropout and first weights")
    n: tuple[int, ...] | None = _option(
        None, "items of the lists: 15, 3-6 or 5,10,20", type=lengths
    )
    shots: int = _option(
        0, "solved examples before each question; 0, the official way: the last question alone"
    )
    data_dir: str | None = _option(
        None,
        "folder with the official train split, in the layout of the official samples",
        "DIR",
        type=str,
    )
    dtype: str | None = _option(
        None,
        "dtype of the frozen weights: float32 (default on CPUs), bfloat16 (on GPUs)",
        "DTYPE",
        type=str,
    )
    gradient_checkpointing: bool = field(
        default=False, metadata={"help": "compute layers again to save memory"}
    )
    sampler: str = _option("confidence-k1", "sampler under which the best adapter is found", "NAME")
    scored: int = _option(200, "validation examples that are decoded to find it")
    every: int | None = _option(None, "steps between two validations (default: an epoch)", type=int)
    method: str = "lora"
    device: str = "cpu"

    def __post_init__(self) -> None:
        def odd(names: str, fits: Callable[[Any], bool], allowed: str) -> list[str]:
            given = {name: getattr(self, name) for name in names.split()}
            return [
                f"{name} {value:g} ({allowed})" for name, value in given.items() if not fits(value)
            ]

        wrong = odd(
            "rank train validation epochs batch accumulate scored",
            lambda count: count >= 1,
            "at least 1",
        )
        wrong += odd("shots", lambda count: count >= 0, "at least 0")
        wrong += odd("every", lambda count: count is None or count >= 1, "at least 1")
        wrong += odd("alpha rate clip", lambda value: value > 0, "above 0")
        wrong += odd("dropout warmup", lambda share: 0 <= share < 1, "0 to 1")
        if wrong:
            raise InputError(f"adapter settings: {', '.join(wrong)}")
        if self.batch % self.accumulate:
            raise InputError(
                f"adapter settings: a batch of {self.batch} rows can't be shared by"
                f" {self.accumulate} forwards; give a number of forwards that divides it"
            )

    def rate_at(self, step: int, steps: int) -> float:
        """The learning rate of step `step` (from 0) of `steps`."""
        warm = round(self.warmup * steps)
        if step < warm:
            return self.rate * (step + 1) / warm
        return self.rate * (0.5 + 0.5 * math.cos(math.pi * (step - warm) / max(1, steps - warm)))

    def to_json(self) -> dict[str, Any]:
        """As plain values, those of OF_ADAPTERS for an adapter only."""
        used = {
            name: value
            for name, value in asdict(self).items()
            if self.method == "lora" or name not in OF_ADAPTERS
        }
        return {
            name: list(value) if isinstance(value, tuple) else value for name, value in used.items()
        }

    def differences(self, earlier: Mapping[str, Any]) -> list[str]:
        """`rate was 1e-05, is 0.001` for each setting that decides the weights and differs from an
        earlier run's.
        """
        now = self.to_json()
        names = [
            field.name for field in fields(self) if field.name not in FREE and field.name in now
        ]
        return [
            f"{name} was {earlier.get(name)}, is {now[name]}"
            for name in names
            if earlier.get(name) != now[name]
        ]
