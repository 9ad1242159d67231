"""SEDD as a kind of checkpoint that the core knows by its registry."""

from __future__ import annotations

from pathlib import Path

import pytest

from pbcore.grid.capabilities import Capabilities
from pbcore.models.registry import model_names, resolve_model
from pbcore.report.glossary import about_model


def test_its_models() -> None:
    """Two that come with it, first, and two of the hub, last, whose commits are not known."""
    names = [name for name in model_names() if resolve_model(name).loaded_as == "sedd"]
    assert names == ["tiny-sedd", "tiny-sedd-uniform", "sedd-small", "sedd-medium"]
    for entry in map(resolve_model, names[2:]):
        assert (entry.revision, entry.settings) == (None, {"sampler": "analytic-s1024"})
    for entry in map(resolve_model, names[:2]):
        assert entry.folder is not None
        assert (entry.folder / "model.safetensors").is_file()


def test_what_it_can_do() -> None:
    """It decodes by itself, keeps given tokens, and runs its own samplers."""
    can = Capabilities("sedd-small")
    assert can.may_decode_itself
    assert can.infills
    assert can.own_samplers[0] == "analytic-s32"
    assert not can.looped


@pytest.mark.parametrize("name", ["tiny-sedd", "tiny-sedd-uniform"])
def test_reports_say_what_its_models_are(name: str) -> None:
    """In words, as of the package's others."""
    assert "sedd" in about_model(name, {}) or "score-based" in about_model(name, {})


def test_a_folder_is_known_by_its_config() -> None:
    """As any checkpoint's."""
    folder = resolve_model("tiny-sedd").folder
    assert folder is not None
    assert resolve_model(str(Path(folder))).loaded_as == "sedd"
