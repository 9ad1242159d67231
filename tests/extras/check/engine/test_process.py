"""An engine in its process: what it may do without ending the check."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pbcore.base.errors import InputError
from pbcore.cli import main
from pbcore.extras.check.engine.process import Engine
from pbcore.extras.check.engine.setting import setting_of
from pbcore.models.errors import ModelError

SETTING = setting_of("threshold-0.9+b8+dual", 16, (3,), 2)


def engine(folder: Path, body: str, timeout: float = 60.0) -> Engine:
    """An engine of these lines."""
    path = folder / "own.py"
    path.write_text("import os, sys, time\ndef generate(checkpoint, prompts, setting):\n" + body)
    return Engine(str(path), timeout)


def test_it_gets_checkpoint_prompts_and_setting(tmp_path: Path) -> None:
    """The setting's fields are read as attributes and as those of a mapping."""
    body = (
        "    print('noise')\n"
        "    assert setting['threshold'] == setting.threshold == 0.9 and setting.k is None\n"
        "    assert dict(setting)['cache'] == 'dual' and setting.get('batch') == 2\n"
        "    assert checkpoint == '/x'\n"
        "    return [ids + [setting.block_length] for ids in prompts]\n"
    )
    running = engine(tmp_path, body)
    assert running.answer(Path("/x"), [[1], [2]], SETTING) == [[1, 8], [2, 8]]
    running.close()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("    raise ValueError('no memory')\n", "raised ValueError: no memory"),
        ("    print('last words', file=sys.stderr); os._exit(7)\n", "status 7: last words"),
    ],
)
def test_the_others_go_on_after_one_that_fails(tmp_path: Path, body: str, said: str) -> None:
    """What it raised, and how its process ended, is said; the next case is answered."""
    running = engine(tmp_path, f"    if prompts == [[1]]:\n    {body}    return prompts\n")
    with pytest.raises(ModelError, match=said):
        running.answer(tmp_path, [[1]], SETTING)
    assert running.answer(tmp_path, [[2]], SETTING) == [[2]]
    running.close()


def test_one_that_hangs_is_ended(tmp_path: Path) -> None:
    """After the timeout the case fails, and the next one is answered."""
    body = "    if prompts == [[1]]: time.sleep(600)\n    return prompts\n"
    running = engine(tmp_path, body, timeout=2.0)
    running.answer(tmp_path, [[2]], SETTING)
    with pytest.raises(ModelError, match="no answer in 2 s"):
        running.answer(tmp_path, [[1]], SETTING)
    running.timeout = 60.0
    assert running.answer(tmp_path, [[2]], SETTING) == [[2]]
    running.close()


def test_a_setting_that_it_lacks_is_skipped(tmp_path: Path) -> None:
    """NotImplementedError says so."""
    running = engine(tmp_path, "    raise NotImplementedError('no dual cache')\n")
    with pytest.raises(NotImplementedError, match="no dual cache"):
        running.answer(tmp_path, [[1]], SETTING)
    running.close()


@pytest.mark.parametrize("name", ["missing.py", "vllm"])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    """One line says what a name is."""
    with pytest.raises(InputError, match="--engine"):
        Engine(name)


class TestCommand:
    def test_it_writes_verdicts_as_json(
        self, tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """An engine that answers the last prompt's id: a fault, and the fields of the schema."""
        path = tmp_path / "own.py"
        path.write_text(
            "def generate(checkpoint, prompts, setting):\n"
            "    if setting.cache: raise NotImplementedError('no cache')\n"
            "    return [[ids[-1]] * setting.gen_length for ids in prompts]\n"
        )
        out = tmp_path / "out.json"
        arguments = ["check", "engine", str(folder), "--engine", str(path), "--json", str(out)]
        assert main([*arguments, "-k", "dual batch"]) == 5
        assert main([*arguments, "-k", "k3 batch"]) == 1
        printed = capsys.readouterr().out
        assert "not tried, no cache" in printed
        assert "none fits" in printed
        (case,) = json.loads(out.read_text())["cases"]
        fields = ("id", "setting", "property", "verdict", "equal", "of", "first", "diagnosis")
        assert [case[name] for name in fields if name not in ("setting", "first")] == [
            "engine/llada/confidence-k3+b8/batch",
            "batch",
            "fault",
            0,
            3,
            ["none fits"],
        ]
        assert {*case["first"]} == {"prompt", "place", "step", "expected", "token", "margin"}

    @pytest.mark.parametrize(
        "more",
        [[], ["--engine", "pbcore", "--timeout", "0"], ["--engine", "pbcore", "-k", "nothing"]],
    )
    def test_wrong_use_is_refused(self, folder: Path, more: list[str]) -> None:
        """Status 2 without an engine, without seconds, and for words that no case has."""
        assert main(["check", "engine", str(folder), *more]) == 2

    @pytest.mark.parametrize("more", ["--seed 0", "--family llada", "--published-ids", "--code"])
    def test_what_is_made_is_said_with_make(
        self, folder: Path, more: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Options of --make are refused where a check would ignore them."""
        check = ["check", "engine", str(folder), "--engine", "pbcore"]
        assert main([*check, *more.split()]) == 2
        option = more.split()[0]
        assert f"{option} says what --make DIR writes" in capsys.readouterr().err

    @pytest.mark.parametrize(
        "more", ["--json OUT", "-k first", "--url http://x", "--engine pbcore"]
    )
    def test_how_it_is_checked_is_not_said_with_make(
        self, tmp_path: Path, more: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Options of a check, a neighbour's among them, are refused where nothing is checked."""
        assert main(["check", "engine", "--make", str(tmp_path / "new"), *more.split()]) == 2
        assert f"leave out {more.split()[0]};" in capsys.readouterr().err
        assert not (tmp_path / "new").exists()

    def test_what_is_to_be_made(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The maker gets each option, for each family that is named."""
        made = []

        def make(folder: Path, family: str, seed: int, **options: Any) -> Any:
            made.append((folder, family, seed, options.pop("published_ids"), options.pop("code")))
            return SimpleNamespace(cases=[])

        monkeypatch.setattr("pbcore.extras.check.engine.make.make", make)
        options = ["--family", "llada", "dream", "--seed", "3", "--published-ids", "--code"]
        assert main(["check", "engine", "--make", str(tmp_path), *options]) == 0
        assert main(["check", "engine", "--make", str(tmp_path), "--family", "sdar"]) == 0
        assert made == [
            (tmp_path / "llada", "llada", 3, True, True),
            (tmp_path / "dream", "dream", 3, True, True),
            (tmp_path / "sdar", "sdar", 0, False, False),
        ]

    def test_a_folder_without_material_is_refused(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The line says how to make some."""
        assert main(["check", "engine", str(tmp_path), "--engine", "pbcore"]) == 2
        assert "make it with pbcore check engine --make" in capsys.readouterr().err
