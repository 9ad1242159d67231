"""Settings of papers by name."""

from __future__ import annotations

import pytest

from pbcore.cli import main
from pbcore.decoding import resolve
from pbcore.errors import InputError
from pbcore.grid.profiles import presets, with_preset
from pbcore.grid.settings import OPTIONS, Settings
from pbcore.tasks import task_names


@pytest.mark.parametrize("name", presets())
def test_every_preset_can_be_run(name: str) -> None:
    """Its samplers are canonical names, its tasks exist, and its source is named."""
    settings = Settings.of(**with_preset({"preset": name}, OPTIONS))
    assert [str(resolve(sampler)) for sampler in settings.sampler] == list(settings.sampler)
    assert set(settings.task) <= set(task_names())
    assert len(presets()[name].source.split()) > 1
    assert settings.recorded["preset"] == name


def test_what_a_preset_sets() -> None:
    """Values have their option's type, and what it leaves open is as given."""
    values = with_preset({"preset": "fast-dllm-llada", "limit": 5}, OPTIONS)
    assert values == {
        "preset": "fast-dllm-llada",
        "limit": 5,
        "sampler": ("threshold-0.9+b32",),
        "max_new_tokens": 256,
    }
    assert with_preset({"preset": "parallelbench-cot"}, OPTIONS)["cot"] is True
    assert with_preset({"limit": 5}, OPTIONS) == {"limit": 5}


def test_a_contradiction_is_an_error() -> None:
    """The same value may be said twice, another one may not."""
    same = {"preset": "fast-dllm-llada", "max_new_tokens": 256}
    assert with_preset(same, OPTIONS)["max_new_tokens"] == 256
    with pytest.raises(
        InputError,
        match="--preset fast-dllm-llada means --max-new-tokens 256, and another --max-new",
    ):
        with_preset({"preset": "fast-dllm-llada", "max_new_tokens": 128}, OPTIONS)


def test_an_unknown_name_lists_near_ones() -> None:
    with pytest.raises(InputError, match=r"there is no 'fast-dllm-lada'; .*fast-dllm-llada"):
        with_preset({"preset": "fast-dllm-lada"}, OPTIONS)


def test_the_list_names_sources(capsys: pytest.CaptureFixture[str]) -> None:
    """`pbcore presets` prints each name, its options and where they are stated."""
    assert main(["presets"]) == 0
    printed = capsys.readouterr().out
    for name, preset in presets().items():
        assert f"{name}\n  {preset.words()}\n  {preset.source}\n" in printed
