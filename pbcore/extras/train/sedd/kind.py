"""SEDD as a kind of checkpoint (`models.families.AddedKind`). Doesn't import torch."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pbcore.costs.shape import NORM, ModelShape
from pbcore.models.families import AddedKind, Family, OwnDecoding

HERE = "pbcore.extras.train.sedd"
SCORE = 36  # bytes for each of its scores: float32 and float64 tensors of a step
STEPS = (32, 16, 8, 4, 2, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeddShape(ModelShape):
    """The shape of SEDD's blocks, which have no cache. Its bytes are read off its layers, as
    `ModelShape`'s are, and `tests/decoding/test_batch_size.py` holds them, too.
    """

    @property
    def column_bytes(self) -> int:
        """Queries, keys and values, as they come and rotated, or the MLP's two tensors; beside the
        input and its changed norm.
        """
        return self.width * max(14 * self.number, self.number + NORM)

    @property
    def cached_bytes(self) -> int:
        return 0

    @property
    def stored_bytes(self) -> int:
        return 0

    @property
    def attended_bytes(self) -> int:
        return 0

    @property
    def logit_bytes(self) -> int:
        return SCORE


def of_config(config: Any, number: int = 2) -> SeddShape:
    """The shape of a `SeddConfig`: as many key-value heads as heads, an MLP of four times the
    width.

    Args:
        config: its sizes.
        number: bytes of a number that it computes with.
    """
    return SeddShape(
        layers=config.blocks,
        width=config.width,
        heads=config.heads,
        key_heads=config.heads,
        head_width=config.width // config.heads,
        inner=4 * config.width,
        vocabulary=config.columns,
        matrices=2,
        number=number,
    )


def read_shape(raw: Mapping[str, Any], name: str) -> SeddShape:
    """The shape of a config.json. Raises ModelError for one that can't be read."""
    from pbcore.extras.train.sedd.network import read_sedd  # imports torch

    return of_config(read_sedd(raw, name))


KIND = AddedKind(
    family=Family(
        body="its own network",
        own=("tokens", "graph", "noise", "model"),
        reads=("tokens", "graph", "noise", "model"),
        ignores=(
            "data",
            "defaults",
            "eval",
            "hydra",
            "ngpus",
            "optim",
            "sampling",
            "training",
            "wandb*",
            "work_dir",
        ),
        cache="none",
        threshold="–",
        samplers="`analytic-s…`, `euler-s…`",
        ranks_from="it ranks no places",
        texts={"mask id": "behind the tokens; none with uniform noise", "logits": "log-scores"},
    ),
    package=HERE,
    loader=f"{HERE}.model:load_sedd",
    shape=read_shape,
    number=4,
    decoding=OwnDecoding(
        ("analytic", "euler"),
        "analytic-s32",
        infills=True,
        samplers=tuple(f"analytic-s{steps}" for steps in STEPS),
    ),
    words={
        "tiny-sedd": "a small score-based diffusion model that comes with pbcore",
        "tiny-sedd-uniform": "as tiny-sedd, trained with uniform noise",
    },
)
