"""Stepping out of torch's settings and back."""

from __future__ import annotations

import pytest
import torch

from pbcore.base.torch_states import loading_states, own_states
from tests.torch_states import STATES, states


@pytest.mark.parametrize("state", STATES)
def test_steps_out_and_back(state: str) -> None:
    """Inside, numbers are float32 on the CPU and nothing is cast; afterwards all is as it was."""
    with STATES[state]():
        before = states()
        with own_states():
            made = torch.ones(2, 2)
            assert made.device.type == "cpu"
            assert (made @ made).dtype == torch.float32
        assert states() == before


@pytest.mark.parametrize("state", STATES)
def test_back_after_an_exception(state: str) -> None:
    """An exception inside leaves them as they were, too."""

    @own_states()
    def fails() -> None:
        raise RuntimeError("inside")

    with STATES[state]():
        before = states()
        with pytest.raises(RuntimeError, match="inside"):
            fails()
        with pytest.raises(RuntimeError, match="inside"), loading_states():
            fails()
        assert states() == before


def test_loaded_tensors_are_no_inference_tensors() -> None:
    """What is loaded within inference mode can be trained later, and draws don't count."""
    with torch.inference_mode():
        before = states()
        with loading_states():
            assert not torch.ones(2).is_inference()
            torch.rand(3)
        assert states() == before
