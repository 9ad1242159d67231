"""What models can do, known before loading."""

from dataclasses import dataclass
from functools import cached_property

from pbcore.models import resolve_model
from pbcore.models.entry import ModelEntry
from pbcore.models.families import KINDS, OwnDecoding, block_of

OWN_DECODERS = {
    "diffusion_gemma": OwnDecoding(("eb",), "eb-0.1"),
    "causal": OwnDecoding(("ar",), "ar", samplers=("ar",)),
}
_IN_THE_LOOP = OwnDecoding((), "", infills=True)


def forms_batches(entry: ModelEntry) -> bool:
    """Whether a model forms its batches by itself."""
    return entry.loaded_as == "diffusion_gemma" or entry.loaded_as in KINDS


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
        kind = self.entry.loaded_as
        if kind in KINDS:
            return KINDS[kind].decoding
        return OWN_DECODERS.get(kind, _IN_THE_LOOP)

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
        return self.entry.served or self.opaque or forms_batches(self.entry)

    @property
    def own_samplers(self) -> tuple[str, ...]:
        """The samplers that it has instead of the profile's; none for models that run the
        profile's.
        """
        return self.entry.samplers or self.own.samplers
