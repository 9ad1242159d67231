"""`pbcore list models`."""

from __future__ import annotations

from pathlib import Path

import pytest

from pbcore.cli import main
from pbcore.models import catalog
from pbcore.models.entry import ModelEntry
from pbcore.models.families import FAMILIES
from pbcore.models.registry import all_entries, resolve_model


def output(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["list", "models", *arguments]) == 0
    return capsys.readouterr().out


class TestModels:
    """The table."""

    def test_lists_every_name(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Each entry has a row with its state."""
        rows = output([], capsys).splitlines()
        for entry in all_entries():
            assert any(
                row.startswith(entry.name + " ") and row.endswith(catalog.availability(entry))
                for row in rows
            ), entry.name

    def test_long(self, capsys: pytest.CaptureFixture[str]) -> None:
        """--long tells revision, ids and shift."""
        text = output(["--long"], capsys)
        assert "revision: 08b83a6feb34df1a6011b80c3c00c7563e963b07" in text
        assert "shifted: position i is predicted at i - 1" in text

    def test_availability(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """An embedded model without its folder is not in this installation; a hub model is to
        download until its weights are cached; config.json alone is what an estimate reads.
        """
        assert (
            catalog.availability(ModelEntry("tiny", "masked", folder=tmp_path, embedded=True))
            == "not in this installation"
        )
        hub = ModelEntry("x", "masked", source="someone/nothing-of-that-name", revision="main")
        assert catalog.availability(hub) == "download"
        monkeypatch.setattr(
            "huggingface_hub.try_to_load_from_cache",
            lambda *_, **__: str(tmp_path / "config.json"),
        )
        assert catalog.availability(hub) == "download"
        (tmp_path / "model.safetensors").touch()
        assert catalog.availability(hub) == "cached"

    def test_details_name_what_is_known(self) -> None:
        """A line each; what is not known has none."""
        bare = ModelEntry("x", "user", factory=print)
        assert catalog.details(bare).splitlines() == [
            "  family: user",
            "  source: registered by a package or conftest",
            "  availability: ready",
        ]
        full = ModelEntry(
            "x",
            "masked",
            mask_id=0,
            eos_id=0,
            shift=False,
            block=4,
            chat="plain",
            settings={"k": 1, "b": 2},
            about="here",
        )
        assert catalog.details(full).splitlines()[1:] == [
            "  source: here",
            "  availability: ready",
            "  mask id: 0",
            "  eos id: 0",
            "  block length: 4",
            "  logits: as is",
            "  chat: plain",
            "  published settings: k 1, b 2",
        ]

    def test_sizes_are_counted(self) -> None:
        """Of published shapes of masked models: parameters, and two bytes for each."""
        shape = resolve_model("llada-8b").shape
        weights = "weights: 8.02 billion parameters, 16.0 GB in bfloat16"
        assert weights in catalog.details(ModelEntry("x", "masked", shape=shape))
        for entry in (ModelEntry("x", "causal", shape=shape), ModelEntry("x", "masked")):
            assert "weights" not in catalog.details(entry)

    def test_the_table_of_families_stands_alone(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Without the table of models, and as text."""
        said = output(["--families"], capsys)
        assert said.startswith("family ")
        assert "|" not in said
        assert all(f"\n{name}  " in said for name in FAMILIES)

    def test_the_end_names_the_other_names(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Dummies of those with a shape, folders and hub ids."""
        *_, dummies, last = output([], capsys).splitlines()
        shaped = [entry.name for entry in all_entries() if entry.dummy_name]
        assert dummies.endswith(f"for {', '.join(shaped)}")
        assert last.startswith("A checkpoint folder or a hub id")
