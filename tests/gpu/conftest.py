"""What all tests on the pseudo-GPU share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def same_products() -> Iterator[None]:
    """oneDNN's products, of the CPU alone, round otherwise."""
    before = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = False
    yield
    torch.backends.mkldnn.enabled = before
