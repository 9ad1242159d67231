"""What a cell takes from the store of forwards, the rerun command, the conditions of a record."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pbcore.decoding import batch_size
from pbcore.grid.settings import OPTIONS, Settings
from pbcore.plugin import answering, options, rundir, state
from pbcore.plugin.answering import Answerer, Decoded, SharedForwards, scored_text
from pbcore.plugin.cell import Cell
from pbcore.plugin.conditions import conditions
from pbcore.results.rundir import StoredCell
from pbcore.tasks import load_task
from pbcore.tasks.scoring import Scored
from tests.plugin.fakes import A, Config
from tests.results import factory

SHORT = frozenset(option.name for option in OPTIONS)


class TestShared:
    def test_a_cells_part_of_the_store(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """What the store did while the cell decoded; its time is all its forwards at the task's
        speed.
        """
        store: Any = SimpleNamespace(shared=5, computed=7, seconds=2.0)
        config: Any = Config(tmp_path)
        spent: dict[str, tuple[int, float]] = {}
        config.stash[answering._HELD] = store, spent

        def shared(*then: float) -> SharedForwards | None:
            def decode(self: Answerer, samples: Any, batch: int, given: Any) -> Decoded:
                given.shared, given.computed, given.seconds = then
                return Decoded([])

            monkeypatch.setattr(Answerer, "_decode", decode)
            item: Any = SimpleNamespace(config=config)
            model: Any = None
            return Answerer(item, Settings(), A, model)._shared([], store).shared

        assert shared(5, 7, 2.0) == SharedForwards(0, 0, None)
        assert shared(8, 9, 3.0) == SharedForwards(3, 2, 2.5)
        assert spent == {A.task: (2, 1.0)}
        assert shared(8, 13, 7.0) == SharedForwards(0, 4, 20 / 6)
        assert spent[A.task] == (6, 5.0)

    def test_only_runs_and_models_that_can_share(self, tmp_path: Path) -> None:
        """A run that doesn't, or a model that doesn't answer alike twice, has no store; it goes
        with its model.
        """
        model: Any = SimpleNamespace(deterministic=True)
        config: Any = Config(tmp_path)
        item: Any = SimpleNamespace(config=config)
        assert Answerer(item, Settings(), A, model)._store() is None
        model.deterministic = False
        assert Answerer(item, Settings(share_forwards=True), A, model)._store() is None
        answering.release_shared(config)
        config.stash[answering._HELD] = "held"
        answering.release_shared(config)
        assert answering._HELD not in config.stash


class TestRerun:
    def rerun(self, config: Config, *more: Any) -> str:
        return options.rerun(config, state.settings(config), *more)  # type: ignore[arg-type]

    def test_options_that_decide_the_answer(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As they were given; those that select, judge or write, or don't act on the cell, are
        left out, and one seed stands for all.
        """
        (tmp_path / "t.py").touch()
        monkeypatch.chdir(tmp_path)
        config = Config(
            tmp_path,
            seed=(0, 1),
            dtype="float32",
            limit=3,
            rounds=2,
            tasks=(Path("a.yaml"), Path("b.yaml")),
        )
        config.stash[options._SHORT] = SHORT
        words = self.rerun(config, "t.py::test_cell[m/copy/ar]", 5).split(" ")
        assert words[:2] == ["pytest", "'t.py::test_cell[m/copy/ar/5]'"]
        pairs = set(zip(words[2::2], words[3::2], strict=True))
        assert pairs == {
            ("--seed", "0,1"),
            ("--dtype", "float32"),
        }
        assert self.rerun(Config(tmp_path, shots=0), "t.py::test_cell[m/copy/ar]", 5).endswith(
            "-shots 0"
        )
        assert "--seed 1 " in self.rerun(config, "t.py::test_cell[m/copy/ar]", 5, 1) + " "
        assert "--seed" not in self.rerun(Config(tmp_path), "t.py::test_cell[m/copy/ar]", 5, 1)


class TestCell:
    @pytest.mark.parametrize(("whole", "text"), [(False, "a"), (True, "a b")])
    def test_what_is_scored(self, whole: bool, text: str) -> None:
        """The answer up to its end, or the whole canvas; an answer without text after its end has
        one text alone.
        """
        requested = Settings(official_text=whole)
        longer: Any = SimpleNamespace(text="a", official_text="a b")
        ended: Any = SimpleNamespace(text="a", official_text=None)
        assert scored_text(requested, longer) == text
        assert scored_text(requested, ended) == "a"

    def test_conditions_of_a_cell_without_a_model(self, tmp_path: Path) -> None:
        """What the run knows by itself; xdist's controller runs no cell and knows no worker."""
        known = conditions(Config(tmp_path, seed=(1, 2), limit=3), A, None, None)  # type: ignore[arg-type]
        assert (known.seeds, known.options["limit"], known.worker, known.shared_device) == (
            [1, 2],
            3,
            "",
            False,
        )
        assert (known.device, known.data_hash, known.model_info) == (None, None, None)
        controller: Any = Config(tmp_path, plugins={"dsession": object()})
        assert conditions(controller, A, None, None).worker is None
        controller.workerinput = {"workerid": "gw1", "pbcore_shared": True}
        own = conditions(controller, A, None, None)
        assert (own.worker, own.shared_device) == ("gw1", True)

    def test_conditions_of_a_model(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its device, dtype and batches; a server's are its own and unknown."""
        monkeypatch.setenv("OMP_WAIT_POLICY", "PASSIVE")
        task: Any = SimpleNamespace(source="own", data_hash="d")
        model: Any = SimpleNamespace(
            name="x", info={"dtype": "bfloat16", "dummy": True}, device="cuda:1"
        )
        known = conditions(Config(tmp_path, batch_size=(3,)), A, model, task)  # type: ignore[arg-type]
        assert (known.device, known.dtype, known.batch_size, known.dummy) == (
            "cuda:1",
            "bfloat16",
            3,
            True,
        )
        assert (known.data_source, known.data_hash, known.wait_policy) == ("own", "d", "passive")
        bare: Any = SimpleNamespace(name="x", info={})
        monkeypatch.delenv("OMP_WAIT_POLICY")
        known = conditions(Config(tmp_path, dtype="float32"), A, bare, task)  # type: ignore[arg-type]
        assert (known.device, known.dtype, known.dummy, known.wait_policy) == (
            "cpu",
            "float32",
            False,
            "default",
        )
        assert known.batch_size == batch_size.CPU
        wide: Any = SimpleNamespace(name="x", info={}, batch_size=64)
        assert conditions(Config(tmp_path), A, wide, task).batch_size == 64  # type: ignore[arg-type]
        served: Any = SimpleNamespace(name="x", info={}, served=True)
        known = conditions(Config(tmp_path), A, served, task)  # type: ignore[arg-type]
        assert (known.device, known.dtype, known.batch_size, known.shared_device, known.dummy) == (
            None,
            None,
            None,
            False,
            False,
        )


class TestRescored:
    """Cells whose scores lacked a tool."""

    @pytest.fixture
    def again(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
        """Scores a stored text of `task` again; `here` says whether the tool is."""
        monkeypatch.setattr("pbcore.metrics.grammar.available", lambda: None)

        def go(
            here: bool, name: str = "text_writing/summarization", lacks: bool = True
        ) -> tuple[Any, Any, Any]:
            monkeypatch.setattr("pbcore.plugin.cell.now_measurable", lambda absent, scores: here)
            config: Any = Config(tmp_path, out=tmp_path / "out")
            record, samples = factory.cell(task=name, n=2, headline="rouge_l", right=1.0)
            stored = StoredCell(
                replace(record, absent={"grammar": "no Java"} if lacks else {}), tuple(samples)
            )
            task = load_task(name, limit=2)
            scored = [Scored({"rouge_l": 0.5}, {}) for _ in samples]
            monkeypatch.setattr(type(task), "score_many", lambda task, texts, samples: scored)
            item: Any = SimpleNamespace(config=config)
            return (
                stored,
                Cell(A, item, config.settings).rescored(task, stored),
                rundir.run_dir(config),
            )

        return go

    def test_a_tool_that_is_here_now(self, again: Any) -> None:
        """The cell is scored again and written; its answers and seconds stay."""
        stored, found, run = again(True)
        assert (stored.cell.scores["rouge_l"].mean, found.cell.scores["rouge_l"].mean) == (1.0, 0.5)
        assert found.cell.seconds == stored.cell.seconds
        (entry,) = run.read_cells()
        assert entry.cell.scores["rouge_l"].mean == 0.5

    @pytest.mark.parametrize(
        "how",
        [(False,), (True, "text_writing/summarization", False), (True, "waiting_line/copy", True)],
    )
    def test_all_others_stay(self, again: Any, how: tuple[Any, ...]) -> None:
        """The tool is still missing, nothing is, or the task needs none."""
        stored, found, run = again(*how)
        assert found is stored
        assert not run.cells_dir.exists()
