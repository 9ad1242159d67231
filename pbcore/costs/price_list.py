"""What things cost on a machine: seconds of a call of a network, and of a sampler's own work."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from pbcore.costs.calls import CallShape, tokens_forwarded
from pbcore.costs.shape import ModelShape
from pbcore.names import SamplerName

Basis = Literal["measured", "computed"]


class CallPrices(Protocol):
    """Prices of a network's calls."""

    def seconds(self, call: CallShape, batch: float, refresh: bool = False) -> float:
        """Seconds of one call in which all answers have the same shape.

        Args:
            call: the shape of one answer's part.
            batch: answers that take part.
            refresh: True if it fills a cache.
        """


@dataclass(frozen=True, slots=True)
class OwnPrice:
    """Seconds of a sampler's own work: for each call of the network, for each position whose logits
    it reads, and for each answer once.
    """

    call: float
    logit: float = 0.0
    answer: float = 0.0


class OwnPrices(Protocol):
    """Prices of samplers' own work."""

    def of(self, sampler: SamplerName) -> OwnPrice:
        """The price of a sampler's own work."""

    def stand_in(self, sampler: SamplerName) -> str:
        """The sampler whose price this is where the work of no sampler of its policy is known, such
        as of a user's own; else empty.
        """


@dataclass(frozen=True, slots=True)
class PriceList:
    """Prices of one model in one dtype on one machine.

    `name` is what `--price` was given, short; `basis` says whether its numbers were measured on
    that machine or computed from the model's shape and the device's peaks; `about` is the machine
    in a line. Of measured prices `scatter` is how far repeated calls lay from their median, as a
    share (None: timed once), and `unsteady` why they can't be believed; empty if they can.
    """

    name: str
    basis: Basis
    model: str
    dtype: str
    shape: ModelShape | None
    calls: CallPrices
    own: OwnPrices
    about: str = ""
    scatter: float | None = None
    unsteady: str = ""

    @property
    def basis_text(self) -> str:
        """The basis, of measured prices with their scatter."""
        if self.scatter is None:
            return self.basis
        return f"{self.basis} ± {100 * self.scatter:.0f} %"

    def assumed(self, samplers: Iterable[SamplerName]) -> str:
        """What the prices of these samplers assume, in words; empty if nothing."""
        alike: dict[str, list[str]] = {}
        for sampler in dict.fromkeys(samplers):
            other = self.own.stand_in(sampler)
            if other:
                alike.setdefault(other, []).append(str(sampler))
        return "; ".join(
            f"the own work of {', '.join(names)} isn't known and counts as that of {other}"
            for other, names in alike.items()
        )

    def call_seconds(self, shape: CallShape, batch: float = 1, refresh: bool = False) -> float:
        """Seconds of one call of the network in which all answers have the same shape.

        Args:
            shape: of one answer's part.
            batch: answers that take part.
            refresh: True if it fills a prefix or dual cache.
        """
        return self.calls.seconds(shape, batch, refresh)

    def own_seconds(
        self, sampler: SamplerName, calls: int, batch: float = 1, logits: int = 0
    ) -> float:
        """Seconds of a sampler's own work in some calls.

        Args:
            sampler: its name in canonical form.
            calls: how many calls, each of `batch` answers.
            batch: answers that take part in each.
            logits: positions of each answer whose logits are read in these calls together.
        """
        price = self.own.of(sampler)
        return calls * price.call + batch * logits * price.logit

    def answer_seconds(
        self,
        calls: Mapping[CallShape, int],
        answers: int,
        sampler: SamplerName,
        batch: int = 1,
        padded: float = 0,
        together: float | None = None,
    ) -> float:
        """Mean seconds of an answer.

        Answers of a batch share its calls, so a call's seconds are divided among those that take
        part in it. Answers end at different times, and those of block models store their blocks at
        different steps, so these are fewer than the batch: `together`.

        Args:
            calls: how often each shape was called, summed over all answers.
            answers: how many answers these are.
            sampler: the sampler's name, for its own work and whether it fills caches.
            batch: answers decoded together.
            padded: positions of padding that were forwarded beside those of `calls`.
            together: answers that take part in a call, in the mean; None: all of the batch.
        """
        sharing = batch if together is None else min(batch, together)
        price = self.own.of(sampler)
        fills = sampler.cache is not None
        number = sum(calls.values())
        logits = sum(times * shape.rows * shape.logits for shape, times in calls.items())
        forwarded = tokens_forwarded(calls)
        wider = 1 + padded / forwarded if forwarded else 1.0
        network = 0.0
        for shape, times in calls.items():
            ran = replace(shape, tokens=max(1, round(shape.tokens * wider)))
            network += times * self.call_seconds(ran, sharing, fills and not shape.context)
        own = self.own_seconds(sampler, number, sharing, logits)
        return ((network + own) / sharing) / answers + price.answer
