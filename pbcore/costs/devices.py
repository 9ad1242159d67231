"""The table of devices and backends that prices are computed for: data/devices.yaml."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pbcore.base.package_data import package_yaml


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU's peaks: dense bfloat16 products in 10^12 operations a second, memory in 10^12 bytes a
    second and 10^9 bytes, and where these numbers come from.
    """

    name: str
    title: str
    tflops: float
    bandwidth: float
    memory: float
    source: str
    sure: str

    @property
    def operations(self) -> float:
        """Operations a second."""
        return self.tflops * 1e12

    @property
    def bytes(self) -> float:
        """Bytes a second."""
        return self.bandwidth * 1e12

    @property
    def ridge(self) -> float:
        """Tokens from which on a layer of 16-bit weights computes for longer than it reads."""
        return self.tflops / self.bandwidth


@dataclass(frozen=True, slots=True)
class Backend:
    """How a network is run: the shares of a device's `operations` and `bandwidth` that forwards
    reach, and the host's seconds for each `kernel` that it starts and each wait for the device.
    With `graph` a forward is started at once.
    """

    name: str
    operations: float
    bandwidth: float
    kernel: float
    graph: bool


@dataclass(frozen=True, slots=True)
class Kernels:
    """Kernels of a network's forward: for each `layer`, and for each `call` beside them."""

    layer: float
    call: float


@cache
def _table() -> Mapping[str, Any]:
    table: Mapping[str, Any] = package_yaml("pbcore.costs", "devices.yaml")
    return table


def devices() -> Mapping[str, Device]:
    """All devices by name."""
    return {name: Device(name, **values) for name, values in _table()["devices"].items()}


def device_named(text: str) -> str | None:
    """The name of the device that a driver's text is of, such as `NVIDIA H200`; None for one that
    isn't in the table.
    """
    found = [name for name in devices() if name.removeprefix("rtx").upper() in text.upper()]
    return max(found, key=len, default=None)


def backends() -> Mapping[str, Backend]:
    """All backends by name, the first the default."""
    return {name: Backend(name, **values) for name, values in _table()["backends"].items()}


def kernels() -> Kernels:
    """The kernels of a network's forward."""
    return Kernels(**_table()["kernels"])
