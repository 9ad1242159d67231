"""Settings of papers by name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pbcore.base.errors import InputError
from pbcore.cli import main
from pbcore.decoding import resolve
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
    """`pbcore list presets` prints each name, its options and where they are stated."""
    assert main(["list", "presets"]) == 0
    printed = capsys.readouterr().out
    for name, preset in presets().items():
        assert f"{name}\n  {preset.words()}\n  {preset.source}\n" in printed


class TestFiles:
    def test_a_file_is_a_preset(self, tmp_path: Path) -> None:
        """Its options are those of the run, its other parts are for readers."""
        file = tmp_path / "tuned.yaml"
        file.write_text("source: mine\noptions: {sampler: [eb-0.1]}\ntuned: {bound: 0.4}\n")
        values = with_preset({"preset": str(file)}, OPTIONS)
        assert values == {"preset": str(file), "sampler": ("eb-0.1",)}

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            (None, "No such file"),
            ("[1, 2", "not a YAML file"),
            ("sampler: [eb-0.1]", "it needs options, e.g."),
            ("options: {}", "it needs options, e.g."),
            ("options: {sampler: [eb-0.1]}\nother: 1", "and may have source, tuned"),
            ("options: {samplers: [eb-0.1]}", "option 'samplers' is unknown"),
            ("options: {sampler: eb-0.1}", "option 'sampler' is a list"),
            ("options: {max_new_tokens: [5]}", "option 'max_new_tokens' is a single value"),
            ("options: {max_new_tokens: many}", "max_new_tokens: 'many' is not a whole number"),
        ],
    )
    def test_a_bad_file(self, text: str | None, told: str, tmp_path: Path) -> None:
        """One line names the file and what is wrong."""
        file = tmp_path / "tuned.yaml"
        if text is not None:
            file.write_text(text)
        with pytest.raises(InputError, match=re.escape(told)) as caught:
            with_preset({"preset": str(file)}, OPTIONS)
        assert str(caught.value).startswith(f"--preset {file}: ")
        assert "\n" not in str(caught.value)
