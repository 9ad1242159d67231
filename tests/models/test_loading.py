"""pbcore.models.loading: in which numbers a model computes."""

from __future__ import annotations

import pytest
import torch

from pbcore.models.errors import ModelError
from pbcore.models.loading import find_dtype


class TestFindDtype:
    @pytest.mark.parametrize(
        ("name", "device", "dtype"),
        [
            (None, "cpu", torch.float32),
            (None, "cuda", torch.bfloat16),
            ("float32", "cuda", torch.float32),
            ("bfloat16", "cpu", torch.bfloat16),
        ],
    )
    def test_the_devices_own_unless_named(self, name: str | None, device: str, dtype: torch.dtype) -> None:
        """float32 on the CPU, bfloat16 on a GPU."""
        assert find_dtype(name, torch.device(device)) == dtype

    def test_an_unknown_name(self) -> None:
        """The message lists those that are known."""
        with pytest.raises(ModelError, match=r"dtype 'float3' is not known; choose from .*float32"):
            find_dtype("float3", torch.device("cpu"))
