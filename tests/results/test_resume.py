"""pbcore.results.resume: what a cell's key depends on, and which cells count as finished."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

import grimp
import pytest
from torch import Tensor

from pbcore.base.source import source_digest
from pbcore.decoding import register_policy
from pbcore.decoding.policies.registry import POLICIES
from pbcore.decoding.step import Step
from pbcore.models import load_model, register_model
from pbcore.models.registry import FACTORIES
from pbcore.names import parse
from pbcore.results import create, error_cell
from pbcore.results.environment import versions
from pbcore.results.resume import (
    CODE,
    cell_key,
    changed_settings,
    code_version,
    finished,
    user_code,
)
from tests.results import factory

KEY = {
    "model": "tiny",
    "model_identity": {"revision": "r1"},
    "task": "waiting_line/copy",
    "data_hash": "d",
    "sampler": "random-k2",
    "settings": {"max_new_tokens": 32},
    "dtype": "float32",
    "seeds": [0],
    "code": "c",
}


@dataclass(frozen=True)
class Mine:
    """A user's policy, and in its test a user's model too."""

    k: int = 1

    def select(self, step: Step) -> Tensor:
        return step.masked


class TestResume:
    @pytest.mark.parametrize(
        "changed",
        [{name: "other"} for name in KEY if name not in ("seeds", "settings", "model_identity")]
        + [{"seeds": [1]}, {"settings": {}}, {"model_identity": {"revision": "r2"}}]
        + [{"task_identity": "other"}, {"own_code": {"policy": "other"}}],
    )
    def test_every_part_counts(self, changed: dict[str, object]) -> None:
        """Changing any part of what decides an outcome changes the key; order of settings
        doesn't.
        """
        assert cell_key(**{**KEY, **changed}) != cell_key(**KEY)  # type: ignore[arg-type]
        assert cell_key(**KEY) == cell_key(**dict(reversed(KEY.items())))  # type: ignore[arg-type]

    def test_user_code(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A user's policy, factory and model have digests; pbcore's own have none."""
        monkeypatch.setattr(POLICIES, "_registered", dict(POLICIES.all()))
        monkeypatch.setattr(FACTORIES, "_registered", {})
        register_policy("mine")(Mine)
        register_model("mine", lambda **options: Mine())
        users = user_code("mine", Mine(), parse("mine-k2"))
        assert {name: len(digest) for name, digest in users.items()} == {
            "policy": 16,
            "factory": 16,
            "model": 16,
        }
        assert set(user_code("ideal", load_model("ideal"), parse("confidence-k2")).values()) == {""}

    def test_code_version_of_this_package(self) -> None:
        """By default a key holds the digest of the packages that decide an answer, read where they
        are installed: five and the rooms that they import, and neighbours that say so.
        """
        rooms = {f"pbcore.{name}" for name in ("decoding", "metrics", "models", "tasks", "theory")}
        graph = grimp.build_graph("pbcore")
        upstream = set().union(*(graph.find_upstream_modules(room, True) for room in rooms))
        imported = {".".join(name.split(".")[:2]) for name in upstream}
        tools = {"pbcore.base", "pbcore.names"}
        assert rooms | imported - tools <= set(CODE)
        roots = {name: Path(str(import_module(name).__file__)).parent for name in CODE}
        assert code_version() == source_digest(roots)
        settings = {name: value for name, value in KEY.items() if name != "code"}
        assert cell_key(**settings) == cell_key(**settings, code=source_digest(roots))  # type: ignore[arg-type]

    def test_code_version_needs_its_packages(self) -> None:
        """A package that isn't there is named, not skipped."""
        with pytest.raises(ModuleNotFoundError, match="no_such_package"):
            code_version(("no_such_package",))

    def test_versions_are_a_copy(self) -> None:
        """What one caller changes, another doesn't see."""
        versions()["python"] = "0"
        assert versions()["python"] == platform.python_version()

    def test_no_shots_are_a_setting(self) -> None:
        """0 is a value."""
        assert changed_settings({"settings": {"shots": 0}}, {}) == ["shots was 0, is not given"]
        assert changed_settings({"settings": {}}, {"shots": 0}) == ["shots was not given, is 0"]
        assert changed_settings({"settings": {"shots": 0}}, {"shots": 0}) == []

    def test_finished_leaves_out_errors(self, tmp_path: Path) -> None:
        """Only cells that ended well count as finished."""
        run = factory.write(
            create(tmp_path, "a"),
            [factory.cell(), (error_cell(factory.cell(sampler="ar")[0], "boom"), [])],
        )
        done = finished(run.path)
        assert list(done) == ["tiny/shuffle/confidence-k2"]
        key, entry = done["tiny/shuffle/confidence-k2"]
        assert key == entry.cell.conditions.key == "key of tiny/shuffle/confidence-k2"
