"""Settings: what derives from the declared options, and which of them go together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pbcore.base.errors import InputError
from pbcore.grid.settings import Settings
from pbcore.grid.validate_settings import check

FILE = Path("b.json")


class TestCheck:
    @pytest.mark.parametrize(
        ("given", "said"),
        [
            ({"per_sample": True, "gate_time": 0.0, "gate": (FILE,)}, "--per-sample and --sample"),
            ({"revision": "main", "model": ("a", "b")}, "exactly one --model"),
            ({"factor": ("dtype=float32",), "dtype": "bfloat16"}, "--dtype bfloat16 would not"),
        ],
    )
    def test_options_that_exclude_or_lack_one_another_are_refused(
        self, given: dict[str, Any], said: str
    ) -> None:
        """The message names both options."""
        with pytest.raises(InputError, match=said):
            check(Settings(**given))

    @pytest.mark.parametrize(
        "given",
        [
            {},
            {"out": FILE},
            {"resume": FILE},
            {"resume": FILE, "resume_anyway": True},
            {"per_sample": True, "sample": (3,)},
            {"gate": (FILE,), "floor": ("* nfe<=9",), "update_baseline": FILE},
            {"revision": "main", "model": ("a",)},
            {"gate_time": 0.0, "gate": (FILE,)},
            {"gate_time": 0.1, "against": "main"},
            {"factor": ("threads=1,2",), "dtype": "bfloat16"},
        ],
    )
    def test_others_go_together(self, given: dict[str, Any]) -> None:
        """They come back as they were."""
        assert check(Settings(**given)) == Settings(**given)


class TestGated:
    @pytest.mark.parametrize(
        "given",
        [
            {"gate": (FILE,)},
            {"floor": ("* nfe<=9",)},
            {"update_baseline": FILE},
            {"gate_time": 0.0},
        ],
    )
    def test_each_verdict_needs_whole_cells(self, given: dict[str, Any]) -> None:
        """A gate, a floor, a new baseline or a time gate, though its margin be 0."""
        assert Settings(**given).gated
        assert not Settings(sample=(1,), gate_level=0.01).gated


class TestRecorded:
    def test_what_was_given_and_can_change_an_answer(self) -> None:
        """Loading options and the scored text are kept by name; what the record has fields of its
        own for is not.
        """
        given = Settings(
            model=("tiny",),
            seed=(1, 2),
            n=(5,),
            dtype="float32",
            quantization="torchao-int8",
            official_text=True,
        )
        assert given.recorded == {
            "device": "cpu",
            "data_seed": 0,
            "rounds": 1,
            "dtype": "float32",
            "quantization": "torchao-int8",
            "official_text": True,
        }
        assert given.load_options == {"quantization": "torchao-int8"}

    def test_what_a_resumed_run_compares(self) -> None:
        """Profile, limit and seeds always, and what was given of the rest that decides an answer;
        not how fast.
        """
        given = Settings(gpu=True, batch_size=(4,), limit=5, data_seed=3)
        assert given.remembered == {
            "profile": "quick",
            "limit": 5,
            "gpu": True,
            "data_seed": 3,
            "seed": (0,),
        }
        assert (given.place, Settings().place) == ("cuda", "cpu")
