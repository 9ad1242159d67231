"""What models can do, known before loading."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from pbcore.models import resolve_model
from pbcore.models.entry import ModelEntry
from pbcore.models.families import block_of


class OwnDecoding(NamedTuple):
    """A kind of model that decodes by itself: policies whose names it reads, an example, whether it
    keeps given tokens, and the samplers that it runs in place of a profile's.
    """

    policies: tuple[str, ...]
    example: str
    infills: bool = False
    samplers: tuple[str, ...] = ()


_STEPS = tuple(f"analytic-s{steps}" for steps in (32, 16, 8, 4, 2, 1))
OWN_DECODERS = {
    "diffusion_gemma": OwnDecoding(("eb",), "eb-0.1"),
    "causal": OwnDecoding(("ar",), "ar", samplers=("ar",)),
    "sedd": OwnDecoding(("analytic", "euler"), "analytic-s32", infills=True, samplers=_STEPS),
}
_IN_THE_LOOP = OwnDecoding((), "", infills=True)
OWN_BATCHES = ("diffusion_gemma", "sedd")  # families that form their batches by themselves


def is_served(model: str) -> bool:
    """Whether a model answers elsewhere, behind a server; "" is none."""
    return bool(model) and resolve_model(model).served


@dataclass(frozen=True)
class Capabilities:
    """Of one model, by its registry's entry."""

    model: str  # as the user names it

    @cached_property
    def entry(self) -> ModelEntry:
        return resolve_model(self.model)

    @cached_property
    def own(self) -> OwnDecoding:
        """How it decodes by itself; no policies for models that go through the loop."""
        return OWN_DECODERS.get(self.entry.loaded_as, _IN_THE_LOOP)

    @property
    def ideal(self) -> bool:
        return self.entry.loaded_as == "ideal"

    @property
    def opaque(self) -> bool:
        """Whether only the loaded model knows what it does: a user's, or the hub's before its
        config.json is here.
        """
        return self.entry.loaded_as in ("user", "unknown")

    @property
    def looped(self) -> bool:
        """Whether it surely goes through the decoding loop."""
        return not (self.entry.served or self.opaque or self.own.policies)

    @property
    def infills(self) -> bool:
        """Whether it keeps given tokens."""
        return not self.entry.served and self.own.infills

    @cached_property
    def block(self) -> int | None:
        """The block's length of a model that decodes block by block; None for others."""
        return block_of(self.entry)

    @property
    def in_blocks(self) -> bool:
        """Whether it decodes block by block, by itself or by its attention."""
        return self.block is not None

    @property
    def may_decode_itself(self) -> bool:
        """Whether it reads sampler names in its own way; of a user's own model only its `check`
        knows.
        """
        # The samplers of `causal` are known.
        return self.entry.served or self.opaque or self.entry.loaded_as in OWN_BATCHES

    @property
    def own_samplers(self) -> tuple[str, ...]:
        """The samplers that it has instead of the profile's; none for models that run the
        profile's.
        """
        return self.entry.samplers or self.own.samplers
