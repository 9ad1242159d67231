"""Settings of adapter training; defaults are those of the paper's appendix F.1, for SEDD models (F4) of F.4."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from pbcore.errors import InputError

# What may change between two parts of a run, since it decides no weight.
FREE = ("scored", "device")
# What a model that is trained whole has no use for.
OF_ADAPTERS = ("rank", "alpha", "dropout", "targets", "dtype", "gradient_checkpointing")
# The recipe of the paper's appendix F.4; F.1's are the defaults. How many examples F.4 had is not published.
F4: Mapping[str, Any] = {
    "method": "full",
    "epochs": 32,
    "batch": 64,
    "rate": 3e-4,
    "warmup": 0.25,
    "sampler": "analytic-s32",
}


@dataclass(frozen=True, slots=True)
class LoraSettings:
    """The settings of a run; docs/fine-tune.md has a table of them. Raises InputError for values that don't fit.

    `train` and `validation` count examples; `batch` rows of an optimizer step, which `accumulate` forwards share;
    `warmup` is the share of steps in which the learning rate grows to `rate`, after which it falls to 0 by half a
    cosine. `method` is `lora`, or `full` for all weights and none of OF_ADAPTERS. `balance`: a row's tokens weigh its
    number of masks to the power −`balance`, so with 1 every row counts alike. `shots` solved examples stand before each
    question; without any, as in the official code, an example is its last question alone. The weights with the best
    score of `scored` validation examples under `sampler` are kept; they are looked for every `every` steps (None: after
    each epoch).
    """

    model: str
    task: str
    rank: int = 128
    alpha: int = 256
    dropout: float = 0.05
    targets: tuple[str, ...] = ("q_proj", "k_proj", "v_proj")
    train: int = 20_000
    validation: int = 5_000
    epochs: int = 10
    batch: int = 32
    accumulate: int = 1
    rate: float = 1e-5
    warmup: float = 0.05
    weight_decay: float = 0.0
    clip: float = 1.0
    balance: float = 1.0
    seed: int = 0
    n: tuple[int, ...] | None = None
    shots: int = 0
    data_dir: str | None = None
    dtype: str | None = None
    gradient_checkpointing: bool = False
    sampler: str = "confidence-k1"
    scored: int = 200
    every: int | None = None
    method: str = "lora"
    device: str = "cpu"

    def __post_init__(self) -> None:
        least = {"rank": 1, "train": 1, "validation": 1, "epochs": 1, "batch": 1, "accumulate": 1, "scored": 1}
        low = [f"{name} {getattr(self, name)} (at least {low})" for name, low in least.items() if self._of(name) < low]
        positive = [f"{name} {self._of(name):g} (above 0)" for name in ("alpha", "rate", "clip") if self._of(name) <= 0]
        shares = [
            f"{name} {self._of(name):g} (0 to 1)" for name in ("dropout", "warmup") if not 0 <= self._of(name) < 1
        ]
        if self.shots < 0:
            low.append(f"shots {self.shots} (at least 0)")
        if self.every is not None and self.every < 1:
            low.append(f"every {self.every} (at least 1)")
        if low or positive or shares:
            raise InputError(f"adapter settings: {', '.join([*low, *positive, *shares])}")
        if self.batch % self.accumulate:
            raise InputError(
                f"adapter settings: a batch of {self.batch} rows can't be shared by {self.accumulate} forwards; give a "
                "number of forwards that divides it"
            )

    def _of(self, name: str) -> float:
        return float(getattr(self, name))

    def rate_at(self, step: int, steps: int) -> float:
        """The learning rate of step `step` (from 0) of `steps`."""
        warm = round(self.warmup * steps)
        if step < warm:
            return self.rate * (step + 1) / warm
        return self.rate * (0.5 + 0.5 * math.cos(math.pi * (step - warm) / max(1, steps - warm)))

    def to_json(self) -> dict[str, Any]:
        """As plain values, those of OF_ADAPTERS for an adapter only."""
        used = {name: value for name, value in asdict(self).items() if self.method == "lora" or name not in OF_ADAPTERS}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in used.items()}

    def differences(self, earlier: Mapping[str, Any]) -> list[str]:
        """`rate was 1e-05, is 0.001` for each setting that decides the weights and differs from an earlier run's."""
        now = self.to_json()
        names = [field.name for field in fields(self) if field.name not in FREE and field.name in now]
        return [f"{name} was {earlier.get(name)}, is {now[name]}" for name in names if earlier.get(name) != now[name]]
