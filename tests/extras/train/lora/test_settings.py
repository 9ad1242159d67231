"""LoraSettings."""

from __future__ import annotations

from typing import Any

import pytest

from pbcore.base.errors import InputError
from pbcore.extras.train.lora.settings import F4, OF_ADAPTERS, LoraSettings

F1 = LoraSettings("llada-1.5", "waiting_line/shuffle")


class TestDefaults:
    def test_are_the_papers(self) -> None:
        """Appendix F.1."""
        assert (F1.rank, F1.alpha, F1.dropout, F1.targets) == (
            128,
            256,
            0.05,
            ("q_proj", "k_proj", "v_proj"),
        )
        assert (F1.train, F1.validation, F1.epochs, F1.batch) == (20_000, 5_000, 10, 32)
        assert (F1.rate, F1.warmup) == (1e-5, 0.05)

    def test_of_sedd_models(self) -> None:
        """Appendix F.4: 32 epochs, batches of 64, 3e-4 after a quarter of the steps; and nothing of
        an adapter.
        """
        f4 = LoraSettings("sedd-small", "waiting_line/shuffle", **F4)
        assert (f4.epochs, f4.batch, f4.rate, f4.warmup) == (32, 64, 3e-4, 0.25)
        assert f4.rate_at(49, 200) == f4.rate_at(50, 200) == 3e-4
        assert f4.rate_at(125, 200) == pytest.approx(1.5e-4)
        assert not f4.to_json().keys() & set(OF_ADAPTERS)
        assert f4.differences(f4.to_json()) == []


class TestRate:
    def test_grows_then_falls_by_half_a_cosine(self) -> None:
        """A twentieth of the steps up to the rate, half of it midway through the rest, and next to
        nothing at last.
        """
        rates = [F1.rate_at(step, 200) for step in range(200)]
        assert rates[:10] == pytest.approx([1e-6 * (step + 1) for step in range(10)])
        assert max(rates) == rates[9] == rates[10] == pytest.approx(1e-5)
        assert rates[105] == pytest.approx(5e-6)
        assert 0 < rates[-1] < 1e-8

    def test_without_warm_up(self) -> None:
        """The first step has the whole rate."""
        assert LoraSettings("m", "t", warmup=0.0).rate_at(0, 3) == 1e-5


class TestRefused:
    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ({"rank": 0}, r"rank 0 \(at least 1\)"),
            ({"rate": 0.0, "train": 0}, r"train 0 \(at least 1\), rate 0 \(above 0\)"),
            ({"dropout": 1.0}, r"dropout 1 \(0 to 1\)"),
            ({"every": 0}, r"every 0 \(at least 1\)"),
            ({"batch": 32, "accumulate": 5}, "32 rows can't be shared by 5 forwards"),
        ],
    )
    def test_values_out_of_bounds(self, given: dict[str, Any], message: str) -> None:
        """Each is named with what is allowed."""
        with pytest.raises(InputError, match=message):
            LoraSettings("m", "t", **given)


class TestDifferences:
    def test_what_decides_the_weights(self) -> None:
        """A tuple and the list that a file keeps of it are equal; the device decides no weight."""
        assert (
            LoraSettings("m", "t", n=(3, 4), device="cuda").differences(
                LoraSettings("m", "t", n=(3, 4)).to_json()
            )
            == []
        )
        assert LoraSettings("m", "t", rate=0.5).differences(LoraSettings("m", "t").to_json()) == [
            "rate was 1e-05, is 0.5"
        ]
