"""What stays constant while a batch is decoded. V tokens."""

from dataclasses import dataclass, field

from pbcore.decoding.outlook import Alarms
from pbcore.decoding.protocol import Policy, Traits
from pbcore.decoding.rows import Log
from pbcore.lazy_torch import Tensor, torch
from pbcore.models.base import Denoiser
from pbcore.models.counter_rng import RandomSource, uniform
from pbcore.names import SamplerName


@dataclass(frozen=True, slots=True)
class Job:
    """What stays constant while a batch is decoded. `size` is the number of slots in a block."""

    model: Denoiser
    policy: Policy
    traits: Traits
    name: SamplerName
    size: int
    seed: int
    log: Log
    draw: RandomSource = uniform
    alarms: Alarms = field(default_factory=Alarms)
    _moved: list[Tensor] = field(default_factory=list)

    @property
    def frequencies(self) -> Tensor | None:
        """The model's background probabilities (V,), copied to its device once a batch."""
        table = self.model.frequencies
        if table is not None and not self._moved:
            self._moved.append(table.to(self.model.device))
        return self._moved[0] if self._moved else None

    def stops(self, token: Tensor) -> Tensor:
        """Where `token` is one that ends an answer."""
        ends = torch.zeros_like(token, dtype=torch.bool)
        for stop in self.model.stop_ids:
            ends |= token == stop
        return ends
