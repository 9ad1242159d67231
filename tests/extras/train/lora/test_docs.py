"""docs/train.md holds to the command."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

from pbcore.extras.train.lora.command import _parser
from pbcore.extras.train.lora.settings import F4, LoraSettings

PAGE = (Path(__file__).parents[4] / "docs" / "train.md").read_text(encoding="utf-8")
TABLE = dict(re.findall(r"^\| `--([a-z-]+)` \| ([^|]+?) \|", PAGE, re.MULTILINE))
UNTOLD = (
    "model",
    "task",
    "device",
    "method",
)  # named elsewhere on the page, or decided by the model
WORDS = {
    "n": "the task's",
    "data_dir": "–",
    "dtype": "–",
    "every": "an epoch",
    "gradient_checkpointing": "off",
}


class TestOptions:
    def test_the_table_has_every_setting_with_its_default(self) -> None:
        settings = [field for field in fields(LoraSettings) if field.name not in UNTOLD]
        assert set(TABLE) == {field.name.replace("_", "-") for field in settings}
        for field in settings:
            shown = (
                " ".join(field.default) if isinstance(field.default, tuple) else str(field.default)
            )
            assert TABLE[field.name.replace("_", "-")] == WORDS.get(field.name, shown), field.name

    def test_every_option_is_on_the_page(self) -> None:
        """And the page names none that the command lacks."""
        options = {text for action in _parser()._actions for text in action.option_strings} - {
            "-h",
            "--help",
        }
        assert {
            option for option in options if f"`{option}" not in PAGE and f"{option} " not in PAGE
        } == set()

    def test_the_commands_parse(self) -> None:
        """Those that train on the page, with the options that they give."""
        text = PAGE.replace("\\\n", " ").replace("$(cat docs/examples/adapter/settings.txt)", "")
        commands = re.findall(r"^python -m pbcore.train (--adapt .*)$", text, re.MULTILINE)
        assert len(commands) == 4
        for command in commands:
            _parser().parse_args(command.split())

    def test_the_recipe_of_sedd_models(self) -> None:
        """Its table has every setting that differs from an adapter's."""
        table = dict(
            re.findall(
                r"^\| ([a-z]+) \| ([^|]+?) \|", PAGE.split("## SEDD models")[1], re.MULTILINE
            )
        )
        told = {name: str(value) for name, value in F4.items() if name != "method"}
        assert told == {name: shown for name, shown in table.items() if name in told}
