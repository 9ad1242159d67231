"""The table of devices."""

import pytest

from pbcore.costs.devices import device_named, devices


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("NVIDIA H200", "h200"),
        ("NVIDIA H20", "h20"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA A100-PCIE-40GB", "a100-pcie"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("AMD Instinct MI300X", "mi300x"),
        ("Intel(R) Xeon(R) Processor", None),
    ],
)
def test_a_drivers_text_names_a_device(text: str, name: str | None) -> None:
    """The longest name that it holds."""
    assert device_named(text) == name
    assert name is None or name in devices()
