"""What stays constant while a batch is decoded."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from pbcore.base.lazy_torch import Tensor
from pbcore.decoding.block_rules import BlockRule
from pbcore.decoding.outlook import Alarms
from pbcore.decoding.predicted import Decoding
from pbcore.decoding.prediction import Law
from pbcore.decoding.protocol import Policy, Traits
from pbcore.decoding.rows import Log, stops_in
from pbcore.models.base import Denoiser
from pbcore.models.counter_rng import RandomSource, uniform
from pbcore.names import SamplerName


@dataclass(frozen=True, slots=True)
class Job:
    """What stays constant while a batch is decoded. `size` is the most slots that a block has,
    `blocks` says how long each is, `labels` say in errors which row of the batch is meant, and
    `started` whether rows go on from canvases that were begun.
    """

    model: Denoiser
    policy: Policy
    traits: Traits
    name: SamplerName
    size: int
    blocks: BlockRule
    decoding: Decoding
    log: Log
    labels: Sequence[str]
    started: bool = False
    alarms: Alarms = field(default_factory=Alarms)

    @property
    def counts_mask(self) -> bool:
        """Whether the mask token has a share in confidences. Policies that read its probability
        do that themselves, and what-if rows leave it out.
        """
        return self.model.counts_mask and not {"mask", "probe"} & self.traits.needs

    def stops(self, token: Tensor) -> Tensor:
        """Where `token` is one that ends an answer."""
        return stops_in(token, self.model)


def law_of(model: Any, name: SamplerName) -> Law:
    """What a sampler draws tokens of a model from. Top-p comes before top-k: beside it the
    checkpoint's own `top_k` belongs to the law, too, and the smaller of both counts.
    """
    own = getattr(model, "top_k", None) if name.top_p < 1 else None
    top_k = min(own, name.top_k or own) if own else name.top_k
    return Law(name.temperature, name.top_p, top_k, getattr(model, "ranks", "raw"))


def unfiltered(model: Denoiser, name: SamplerName) -> Denoiser:
    """The model without a filter of candidates that the law of the sampler has."""
    if name.top_p < 1 and getattr(model, "top_k", None):
        filtered: Any = model
        return cast(Denoiser, replace(filtered, top_k=None))
    return model


def decoding_of(
    model: Denoiser, declared: Traits, name: SamplerName, seed: int, draw: RandomSource = uniform
) -> Decoding:
    """What policies may know of a decoding.

    Args:
        model: says which distribution ranks places; its table of token frequencies, if it has one,
            is copied to its device.
        declared: what the policy declares.
        name: the sampler, with temperature, top-p and top-k.
        seed: of the random draws.
        draw: makes these; by default they depend on seed, row, forward and position alone.
    """
    table = model.frequencies
    return Decoding(
        seed=seed,
        mask_id=model.mask_id,
        law=law_of(model, name),
        frequencies=None if table is None else table.to(model.device),
        reach=declared.reach,
        reads=declared.reads,
        draw=draw,
    )
