"""Hooks around a whole run, on runs that only look like some: options, collection, gates."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pbcore.analysis.run_verdict import Ruling
from pbcore.decoding.samplers import sampler_of
from pbcore.grid.cellid import CellName
from pbcore.grid.settings import OPTIONS, Settings
from pbcore.plugin import collection, gate, options
from tests.plugin.fakes import A, B, C, Config, Item, node_id, report

BY_NAME = {option.name: option for option in OPTIONS}


class TestOptions:
    def test_an_ini_value_is_read_as_the_command_line_would(self, tmp_path: Path) -> None:
        """Each by its kind; the command line goes first, and what is not set stays the default."""
        config = Config(
            tmp_path, ini={"pbcore_limit": 3, "pbcore_model": ["a", "b"], "pbcore_gpu": True}
        )
        config.option.pbcore_limit = 5
        read = options.read(config)  # type: ignore[arg-type]
        assert (read.limit, read.model, read.gpu, read.seed) == (
            5,
            ("a", "b"),
            True,
            Settings().seed,
        )
        assert options.given(config)  # type: ignore[arg-type]
        assert not options.given(Config(tmp_path))  # type: ignore[arg-type]

    def test_a_bad_ini_value_names_its_option(self, tmp_path: Path) -> None:
        """So does one that does not go with another."""
        with pytest.raises(
            pytest.UsageError, match="ini option pbcore_limit: '0' is not a whole number above 0"
        ):
            options.read(Config(tmp_path, ini={"pbcore_limit": 0}))  # type: ignore[arg-type]
        with pytest.raises(pytest.UsageError, match="--resume-anyway goes with"):
            options.read(Config(tmp_path, ini={"pbcore_resume_anyway": True}))  # type: ignore[arg-type]

    @pytest.mark.parametrize(
        ("name", "kind"),
        [
            ("model", "linelist"),
            ("gpu", "bool"),
            ("limit", "int"),
            ("shard", "string"),
            ("rounds", "int"),
        ],
    )
    def test_kinds_in_an_ini_file(self, name: str, kind: str) -> None:
        """Repeatable options are lists of lines."""
        assert options._ini_type(BY_NAME[name]) == kind

    def test_options_on_the_command_line_as_written_there(self, tmp_path: Path) -> None:
        """Short names unless another plugin has them; an ini value is not on the command line."""
        config = Config(tmp_path, ini={"pbcore_gate_time": 0.1}, floor=("x",), gate=(tmp_path,))
        config.stash[options._SHORT] = frozenset({"gate"})
        named = options.on_command_line(config, "floor", "gate", "gate-time")  # type: ignore[arg-type]
        assert sorted(named) == ["--gate", "--pbcore-floor"]


class TestCollection:
    def config(self, tmp_path: Path, **settings: Any) -> Config:
        config = Config(tmp_path, **settings)
        config.deselected = []  # type: ignore[attr-defined]
        config.hook.pytest_deselected = lambda items: config.deselected.extend(items)  # type: ignore[attr-defined]
        return config

    def order(self, config: Config, items: list[Any]) -> list[str]:
        session: Any = SimpleNamespace()
        collection.pytest_collection_modifyitems(session, config, items)  # type: ignore[arg-type]
        return [item.nodeid.partition("[")[2].rstrip("]") or item.nodeid for item in items]

    def test_a_models_cells_stand_together_where_cells_stood(self, tmp_path: Path) -> None:
        """Models in the order of their first cells; other tests keep their places; an empty grid's
        item is dropped.
        """
        names = [
            CellName(model, "waiting_line/copy", sampler_of(f"ar{i}"))
            for i, model in enumerate("abab")
        ]
        config = self.config(tmp_path, cells=names)
        items: list[Any] = [Item(config, name) for name in names]
        items.insert(1, Item(config, "t.py::test_x", mark=False))
        items.append(Item(config, "t.py::test_cell[NOTSET]"))
        assert self.order(config, items) == [
            "a/copy/ar0",
            "t.py::test_x",
            "a/copy/ar2",
            "b/copy/ar1",
            "b/copy/ar3",
        ]

    def test_a_shard_keeps_its_cells_and_other_tests(self, tmp_path: Path) -> None:
        """The others are deselected."""
        config = self.config(tmp_path, shard=(1, 2))
        items: list[Any] = [
            *(Item(config, name) for name in (A, B, C)),
            Item(config, "t.py::test_x", mark=False),
        ]
        assert self.order(config, items) == [A.cell_id, C.cell_id, "t.py::test_x"]
        assert [item.nodeid for item in config.deselected] == [node_id(B)]  # type: ignore[attr-defined]

    def test_without_cells_nothing_is_done(self, tmp_path: Path) -> None:
        """But the empty grid's item goes."""
        config = self.config(tmp_path, shard=(1, 2))
        items: list[Any] = [
            Item(config, "t.py::test_x", mark=False),
            Item(config, "t.py::test_cell[NOTSET]"),
        ]
        assert self.order(config, items) == ["t.py::test_x"]
        assert config.deselected == []  # type: ignore[attr-defined]

    def test_a_cell_is_collected_once_and_without_other_parameters(self, tmp_path: Path) -> None:
        """Else its id would not tell which is meant."""
        config = self.config(tmp_path)
        other = node_id(A).replace("waiting_line", "other")
        with pytest.raises(
            pytest.UsageError, match=r"collected twice, as .*/test_waiting.* and as .*/test_o"
        ):
            collection._collected([Item(config, A), Item(config, other)])  # type: ignore[list-item]
        more = Item(config, "t.py::test_cell[x-1]", callspec=SimpleNamespace(params={"cell": "x"}))
        with pytest.raises(pytest.UsageError, match="has no parameters of its own"):
            collection._collected([more])  # type: ignore[list-item]
        unmarked = Item(
            config, "t.py::test_x[x-1]", False, callspec=SimpleNamespace(params={"cell": "x"})
        )
        foreign = Item(config, "t.py::test_cell[x-1]", callspec=SimpleNamespace(params={"cell": 5}))
        assert collection._collected([unmarked, foreign]) == {}  # type: ignore[list-item]

    @pytest.mark.parametrize(
        ("profile", "mark", "marks"),
        [
            ("quick", True, {"quick"}),
            ("ci", True, {"ci"}),
            ("paper", True, set()),
            ("quick", False, set()),
        ],
    )
    def test_cells_bear_the_mark_of_a_small_profile(
        self, tmp_path: Path, profile: str, mark: bool, marks: set[str]
    ) -> None:
        """So that -m quick selects them; other tests bear none."""
        item: Any = Item(self.config(tmp_path, profile=profile), A, mark)
        collection.pytest_itemcollected(item)
        assert item.marks - {"cells"} == marks

    def test_the_header_warns_of_foreign_code(self, tmp_path: Path) -> None:
        """And says nothing else."""
        assert collection.pytest_report_header(Config(tmp_path, limit=3)) == []  # type: ignore[arg-type]
        (line,) = collection.pytest_report_header(Config(tmp_path, trust_remote_code=True))  # type: ignore[arg-type]
        assert "--trust-remote-code" in line

    def test_workers_inherit_how_text_is_scored(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """By environment, and only what was given."""
        names = ("PBCORE_LANGUAGETOOL_URL", "PBCORE_NO_DOWNLOAD")
        for settings, values in (
            ({"limit": 3}, [None, None]),
            ({"no_download": True}, [None, "1"]),
            ({"languagetool_url": "http://x"}, ["http://x", None]),
        ):
            environment: dict[str, str] = {}
            monkeypatch.setattr(collection, "os", SimpleNamespace(environ=environment))
            config: Any = Config(tmp_path, **settings)
            config.addinivalue_line = lambda kind, line: None
            collection.pytest_configure(config)
            assert [environment.get(name) for name in names] == values


class TestPublish:
    def publish(self, config: Config, run: Any = None, **facts: Any) -> None:
        gate.publish(Ruling(**facts), run, config)  # type: ignore[arg-type]

    def test_a_summary_is_appended(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """After what other steps of the CI wrote; the run has its own copy. Nothing to say, nothing
        is written.
        """
        summary = tmp_path / "summary.md"
        summary.write_text("before\n")
        monkeypatch.setenv(gate.STEP_SUMMARY, str(summary))
        self.publish(Config(tmp_path), SimpleNamespace(path=tmp_path))
        assert not (tmp_path / "gate.md").exists()
        self.publish(Config(tmp_path), SimpleNamespace(path=tmp_path), markdown=["a\n", "b\n"])
        assert summary.read_text() == "before\na\n\nb\n"
        assert (tmp_path / "gate.md").read_text() == "a\n\nb\n"

    def test_a_failure_has_no_dot(self, tmp_path: Path) -> None:
        """It is counted by itself, so that no reason is shown twice; the report of its teardown
        counts for nothing, and other tests' are pytest's.
        """
        config = Config(tmp_path)
        self.publish(config, failures=[("cell", "worse")])
        statuses = [gate.pytest_report_teststatus(one) for one in config.reports]
        assert statuses == [("failed the gate", "", ""), ("", "", "")]
        assert gate.pytest_report_teststatus(report(A, "call", "failed")) is None
