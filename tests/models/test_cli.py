"""`pbcore models`."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from pbcore.models import cli
from pbcore.models.entry import ModelEntry
from pbcore.models.registry import all_entries


def output(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    parser = argparse.ArgumentParser()
    cli.add_parser(parser.add_subparsers())
    args = parser.parse_args(["models", *arguments])
    assert args.run(args) == 0
    return capsys.readouterr().out


class TestModels:
    """The table."""

    def test_lists_every_name(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Each entry has a row with its state."""
        rows = output([], capsys).splitlines()
        for entry in all_entries():
            assert any(row.startswith(entry.name + " ") and row.endswith(cli.availability(entry)) for row in rows), (
                entry.name
            )

    def test_long(self, capsys: pytest.CaptureFixture[str]) -> None:
        """--long tells revision, ids and shift."""
        text = output(["--long"], capsys)
        assert "revision: 08b83a6feb34df1a6011b80c3c00c7563e963b07" in text
        assert "shifted: position i is predicted at i - 1" in text

    def test_availability(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """An embedded model without its folder is not in this installation; a hub model is to download until it is
        cached.
        """
        assert (
            cli.availability(ModelEntry("tiny", "masked", folder=tmp_path, embedded=True)) == "not in this installation"
        )
        hub = ModelEntry("x", "masked", source="someone/nothing-of-that-name", revision="main")
        assert cli.availability(hub) == "download"
        monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_, **__: str(tmp_path))
        assert cli.availability(hub) == "cached"
