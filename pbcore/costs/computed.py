"""Prices computed from a model's shape and a device's peaks.

A call takes what the host needs to start its kernels and what the device needs to compute them: a
step waits for its logits, so the two hardly overlap. (The published timings fit their sum better
than the longer of them.) The device's part is a roofline: operations or bytes, whichever takes
longer, at the shares of the peaks that the backend reaches.
"""

from dataclasses import dataclass

from pbcore.costs.calls import CallShape
from pbcore.costs.devices import Backend, Device, Kernels
from pbcore.costs.own_work import own_work, stand_in
from pbcore.costs.price_list import OwnPrice
from pbcore.costs.shape import ModelShape
from pbcore.names import SamplerName

SOFTMAX = 16  # bytes moved for each logit after the projection: its float32 copy, read and written


@dataclass(frozen=True, slots=True)
class ComputedCalls:
    """Seconds of a call of a network of this shape on this device."""

    shape: ModelShape
    device: Device
    backend: Backend
    kernels: Kernels

    def seconds(self, call: CallShape, batch: float, refresh: bool = False) -> float:
        """The host's part and the device's.

        Args:
            call: the shape of one answer's part.
            batch: answers that take part.
            refresh: not used; computed prices are the same for a forward that fills a cache.
        """
        return self.host_seconds() + self.device_seconds(call, batch)

    def host_seconds(self) -> float:
        """What the host takes to start a forward's kernels, or its graph."""
        if self.backend.graph:
            return self.backend.kernel
        started = self.kernels.layer * self.shape.layers + self.kernels.call
        return started * self.backend.kernel

    def device_seconds(self, call: CallShape, batch: float) -> float:
        """What the device takes for the layers and then for the logits."""
        shape = self.shape
        rows = batch * call.rows
        positions = rows * call.tokens
        keys = call.tokens + call.context
        attended = 4 * shape.layers * shape.heads * shape.head_width * positions * keys
        operations = 2 * shape.active * positions + attended
        bytes_ = shape.number * (shape.weights_read(positions) + rows * call.context * shape.cached)
        read = rows * call.logits
        last = self._roofline(2 * shape.head * read, shape.number * shape.head) if read else 0.0
        moved = read * shape.vocabulary * SOFTMAX
        softmax = moved / (self.device.bytes * self.backend.bandwidth)
        return self._roofline(operations, bytes_) + last + softmax

    def _roofline(self, operations: float, bytes_: float) -> float:
        computing = operations / (self.device.operations * self.backend.operations)
        reading = bytes_ / (self.device.bytes * self.backend.bandwidth)
        return max(computing, reading)


@dataclass(frozen=True, slots=True)
class ComputedOwnWork:
    """The price of a sampler's own work: its kernels and waits in a call, counted once on a device
    that isn't there, times the backend's price of each.
    """

    backend: Backend

    def of(self, sampler: SamplerName) -> OwnPrice:
        counts = own_work(sampler)
        # Outside a network's graph each kernel is started by the host, whatever runs the network.
        return OwnPrice(call=(counts.kernels + counts.waits) * self.backend.kernel)

    def stand_in(self, sampler: SamplerName) -> str:
        return stand_in(sampler)
