"""Decodings under the user's states of torch are those without them, confidences included."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch

import pbcore
from pbcore.ceilings.ceiling import ceiling
from pbcore.models.base import Generation
from pbcore.names import SamplerNameError
from tests.models.test_reference import grouped
from tests.reference import bundled
from tests.torch_states import STATES, states

# What reads probabilities, attention, what-if rows, hidden tokens and drawn numbers.
CASES = [
    ("tiny", "threshold-0.9"),
    ("tiny", "pc-k2"),
    ("tiny", "spec-8"),
    ("tiny", "dapd_direct"),
    ("tiny", "wino-0.6"),
    ("tiny", "confidence-k2+t1.0"),
    ("tiny", "confidence-k2+b8+dual"),
    ("tiny-block", "s2d2"),
    ("tiny-ar", "ar"),
    ("tiny-ar", "ar+t1.0"),
    ("ideal", "eb-0.1"),
    ("tiny-sedd", "analytic-s4"),
]


def answers(model: str, sampler: str) -> list[Generation]:
    """Two answers, of a model that is loaded for them: two blocks, or the whole answer where the
    model takes no other.
    """
    name = "list_ops/shuffle" if model == "tiny-sedd" else "waiting_line/shuffle"
    length = None if model in ("ideal", "tiny-sedd") else 16
    return pbcore.decode(pbcore.load_model(model), samples(name), sampler, length)


@cache
def samples(task: str) -> list[Any]:
    return list(pbcore.load_task(task, limit=2).samples)


@cache
def usual(model: str, sampler: str) -> list[Generation]:
    return answers(model, sampler)


@pytest.mark.parametrize("state", STATES)
def test_golden_decodings(state: str) -> None:
    """Reference decodings of LLaDA and Dream, loaded within the state, give the reference's tokens
    and forwards.
    """
    for name, file in (("llada-tiny", "decode_llada"), ("dream-tiny", "decode_dream")):
        (sampler, length), cases = next(
            (key, cases) for key, cases in grouped(file).items() if key[1] <= 32
        )
        with STATES[state]():
            before = states()
            model = pbcore.load_model(str(bundled(name)))
            out = pbcore.decode(model, [case["prompt"] for case in cases], sampler, length)
            assert states() == before
        assert [list(answer.token_ids) for answer in out] == [case["output"] for case in cases]
        assert [answer.nfe for answer in out] == [case["nfe"] for case in cases]


@pytest.mark.parametrize(("model", "sampler"), CASES)
@pytest.mark.parametrize("state", ["bfloat16", "meta", "autocast"])
def test_confidences(model: str, sampler: str, state: str) -> None:
    """Tokens, forwards and confidences are those without the state, which stays."""
    with STATES[state]():
        before = states()
        within = answers(model, sampler)
        assert states() == before
    for answer, other in zip(within, usual(model, sampler), strict=True):
        assert answer.token_ids == other.token_ids
        assert answer.nfe == other.nfe
        assert answer.confidences == other.confidences


@pytest.mark.parametrize("state", STATES)
def test_states_stay_after_a_refusal(state: str) -> None:
    """A sampler or model that is refused leaves the states as they were."""
    with STATES[state]():
        before = states()
        with pytest.raises(SamplerNameError):
            pbcore.decode(pbcore.load_model("tiny"), samples("waiting_line/shuffle"), "nobody-k2")
        with pytest.raises(pbcore.PbcoreError):
            pbcore.load_model("nowhere/at-all")
        assert states() == before


@pytest.mark.parametrize("sampler", ["threshold-0.3", "confidence-k2+t1.0"])
def test_ceilings(sampler: str) -> None:
    """What the ideal model reaches is worked out in the same numbers."""
    some = samples("waiting_line/shuffle")
    expected = ceiling(some, sampler)
    for state in ("bfloat16", "meta", "autocast"):
        with STATES[state]():
            assert ceiling(some, sampler) == expected


def test_a_model_loaded_within_inference_mode_can_be_trained() -> None:
    """Its weights are ordinary tensors."""
    with torch.inference_mode():
        loaded: Any = pbcore.load_model("tiny")
    assert not any(weight.is_inference() for weight in loaded.network.module.parameters())
