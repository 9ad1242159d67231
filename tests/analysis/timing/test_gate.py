"""pbcore.analysis.timing.gate: seconds of a run against those of an earlier run, what is said, and
the job of a cell.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pbcore.analysis.timing.gate import (
    Timings,
    TimingVerdict,
    against_code,
    against_run,
    job,
    judge_time,
)
from pbcore.analysis.timing.interleaved import NotTimed, TimedCheckout
from pbcore.grid.plan import make_plan
from pbcore.grid.settings import Settings
from pbcore.results import CellRecord, RunDir, create
from tests.results import factory

MACHINE = {"cpu": "x"}
SLOWER = TimingVerdict(False, "slower by more than 10 %", 1.5)
FINE = TimingVerdict(True, "median 1 s", 1.1)


def unjudged(reason: str = "other machine") -> TimingVerdict:
    return TimingVerdict(True, reason)


def run_of(folder: Path, name: str, rounds: dict[str, float], **facts: Any) -> RunDir:
    """A run of one cell per sampler, three rounds of so many seconds each."""
    entries = []
    for sampler, seconds in rounds.items():
        record, samples = factory.cell(sampler=sampler, **facts)
        entries.append((replace(record, rounds=(seconds,) * 3), samples))
    run = factory.write(create(folder, name), entries)
    run.write_run({"machine": MACHINE})
    return run


class TestTimings:
    def test_a_slower_cell_is_named(self) -> None:
        """The title counts the judged cells alone; their median change is that of head against
        base.
        """
        timings = Timings("main", {"a": SLOWER, "b": FINE, "c": unjudged()})
        assert timings.slower == [("a", SLOWER.reason)]
        assert list(timings.lines()) == [
            "timing FAILED against main: 2 cells judged, 1 slower, median change +30.0 %",
            "  SLOWER   a: slower by more than 10 %",
            "  1 cell (c): other machine",
        ]

    def test_cells_that_were_not_judged_are_counted_by_reason(self) -> None:
        """The first of each stands for the others."""
        timings = Timings(
            "main", {"a": FINE, "b": unjudged("shared"), "c": unjudged("shared"), "d": unjudged()}
        )
        assert list(timings.lines()) == [
            "timing passed against main: 1 cell judged, 0 slower, median change +10.0 %",
            "  2 cells (b …): shared",
            "  1 cell (d): other machine",
        ]

    def test_without_a_judged_cell_there_is_no_outcome(self) -> None:
        """Neither passed nor failed is claimed."""
        assert list(Timings("main", {"d": unjudged()}).lines()) == [
            "timing against main:",
            "  1 cell (d): other machine",
        ]
        assert list(Timings("main", silent="no timings").lines()) == [
            "timing not judged against main: no timings"
        ]

    def test_markdown_is_a_section(self) -> None:
        """A heading, then a list."""
        assert Timings("main", {"a": SLOWER}).markdown().splitlines() == [
            "### timing FAILED against main: 1 cell judged, 1 slower, median change +50.0 %",
            "",
            "- SLOWER   a: slower by more than 10 %",
        ]
        assert Timings("main", silent="x").markdown() == "### timing not judged against main: x\n"


class TestAgainstRun:
    def test_cells_of_both_runs_are_judged(self, tmp_path: Path) -> None:
        """Twice the seconds fail, the same pass, and a cell that the earlier run lacks has no
        verdict.
        """
        base = run_of(tmp_path, "base", {"random-k1": 1.0, "random-k2": 1.0})
        head = run_of(tmp_path, "head", {"random-k1": 2.0, "random-k2": 1.0, "random-k4": 9.0})
        timings = against_run(Settings(gate_time=0.1), head.read(), base.path)
        assert {name.split("/")[2]: verdict.ok for name, verdict in timings.verdicts.items()} == {
            "random-k1": False,
            "random-k2": True,
        }
        assert timings.base == str(base.path)

    @pytest.mark.parametrize("sides", [(True, False), (False, True)])
    def test_a_shared_device_on_either_side_is_not_judged(
        self, tmp_path: Path, sides: tuple[bool, bool]
    ) -> None:
        """Workers that wait for one another say nothing about the code."""
        head, base = (
            run_of(tmp_path, name, {"random-k1": 1.0}, shared_device=on)
            for name, on in zip("ab", sides, strict=True)
        )
        (verdict,) = against_run(Settings(gate_time=0.1), head.read(), base.path).verdicts.values()
        assert not verdict.judged
        assert "shared a device" in verdict.reason

    @pytest.mark.parametrize(
        ("facts", "why"),
        [
            ({"dtype": "bfloat16"}, "dtype is 'bfloat16', the baseline's 'float32'"),
            ({"batch_size": 1}, "batch_size is 1, the baseline's 8"),
            ({"threads": 7}, "threads is 7, the baseline's None"),
            ({"n": 8}, "n_samples is 8, the baseline's 20"),
        ],
    )
    def test_seconds_taken_otherwise_are_not_judged(
        self, tmp_path: Path, facts: dict[str, Any], why: str
    ) -> None:
        """Three times as long under other conditions is no slow-down of the code."""
        base = run_of(tmp_path, "base", {"random-k1": 1.0})
        head = run_of(tmp_path, "head", {"random-k1": 3.0}, **facts)
        (verdict,) = against_run(Settings(gate_time=0.1), head.read(), base.path).verdicts.values()
        assert (verdict.ok, verdict.ratio) == (True, None)
        assert verdict.reason == f"timing not judged: timed under other conditions: {why}"

    def test_a_file_has_no_timings(self, tmp_path: Path) -> None:
        """Seconds hold on one machine only, so baseline files have none."""
        head = run_of(tmp_path, "head", {"random-k1": 1.0})
        timings = against_run(Settings(gate_time=0.1), head.read(), tmp_path / "b.json")
        assert (timings.verdicts, "it holds no timings" in timings.silent) == ({}, True)

    def test_cells_that_failed_have_no_time(self, tmp_path: Path) -> None:
        """On either side."""
        base, head = (
            run_of(tmp_path, name, {"random-k1": 1.0, "random-k2": 1.0})
            for name in ("base", "head")
        )
        for run, sampler in ((base, "random-k1"), (head, "random-k2")):
            run.write_cell(replace(factory.cell(sampler=sampler)[0], status="error"), [])
        assert against_run(Settings(gate_time=0.1), head.read(), base.path).verdicts == {}

    def test_machines_are_told_apart(self, tmp_path: Path) -> None:
        """Head's is the run's own."""
        base, head = (run_of(tmp_path, name, {"random-k1": 1.0}) for name in ("base", "head"))
        head.write_run({"machine": {"cpu": "new"}})
        (verdict,) = against_run(Settings(gate_time=0.1), head.read(), base.path).verdicts.values()
        assert (
            verdict.reason
            == "timing not judged: different machines: cpu is 'new', the baseline's 'x'"
        )
        head.write_run({})
        (verdict,) = against_run(Settings(gate_time=0.1), head.read(), base.path).verdicts.values()
        assert "no record of the machine" in verdict.reason


class TestAgainstCode:
    def test_without_a_gated_cell_it_says_so(self, tmp_path: Path) -> None:
        """Nothing is decoded again."""
        head = run_of(tmp_path, "head", {"random-k1": 1.0})
        plan = make_plan(
            Settings(gate_time=0.1, against=str(tmp_path), model=("ideal",), task=("copy",))
        )
        (tmp_path / "pbcore").mkdir()
        (tmp_path / "pbcore" / "__init__.py").touch()
        said: list[str] = []
        timings = against_code(plan, head.read(), [], said.append)
        assert (timings.silent, said) == ("the run has no finished cell that is gated", [])

    def test_no_server_is_asked_again(self, tmp_path: Path) -> None:
        """A cell of a model behind a server is not judged: its answers would be paid for once
        more.
        """
        record, samples = factory.cell("far", sampler="ar")
        told = {"provider": "host", "kind": "openai", "concurrency": 8, "asked": 20, "kept": 0}
        head = factory.write(create(tmp_path, "head"), [(replace(record, served=told), samples)])
        plan = make_plan(
            Settings(gate_time=0.1, against=str(tmp_path), model=("ideal",), task=("copy",))
        )
        (tmp_path / "pbcore").mkdir()
        (tmp_path / "pbcore" / "__init__.py").touch()
        said: list[str] = []
        timings = against_code(plan, head.read(), None, said.append)
        assert [verdict.judged for verdict in timings.verdicts.values()] == [False]
        assert "paid, again" in timings.verdicts[record.id].reason
        assert said == []

    def test_each_gated_cell_is_announced_and_judged(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """At least three rounds a side, by this machine's measure; a cell that a side can't run is
        told with its reason.
        """
        head = run_of(tmp_path, "head", {"random-k1": 1.0, "random-k2": 1.0, "random-k4": 1.0})
        names = [f"tiny/shuffle/random-k{k}" for k in (1, 2, 4)]
        plan = make_plan(
            Settings(gate_time=0.1, against=str(tmp_path), model=("ideal",), task=("copy",))
        )
        (tmp_path / "pbcore").mkdir()
        (tmp_path / "pbcore" / "__init__.py").touch()

        def timed(
            head: Any, base: Any, job: dict[str, Any], rounds: int
        ) -> tuple[list[float], list[float]]:
            if job["sampler"] == "random-k2":
                raise NotTimed("the base could not run it")
            return [2.0] * rounds, [1.0] * rounds

        monkeypatch.setattr("pbcore.analysis.timing.gate.interleaved", timed)
        said: list[str] = []
        timings = against_code(plan, head.read(), names[:2], said.append)
        assert said == [
            f"timing interleaved with {tmp_path}: cell {number} of 2, {name}"
            for number, name in enumerate(names[:2], 1)
        ]
        slower, untimed = (timings.verdicts[name] for name in names[:2])
        assert (slower.judged, slower.ok, slower.ratio) == (True, False, 2.0)
        assert (untimed.judged, untimed.ok) == (False, True)
        assert untimed.reason == "timing not judged: the base could not run it"

    def test_all_cells_of_a_model_are_timed_together(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """So that a side loads it once; without gates all that ran are, in as many rounds as the
        run had.
        """
        entries = [
            factory.cell(model, task) for model, task in (("b", "a/x"), ("a", "a/x"), ("b", "a/y"))
        ]
        failed = replace(factory.cell("a", "a/z")[0], status="error")
        head = factory.write(create(tmp_path, "head"), [*entries, (failed, [])])
        plan = make_plan(
            Settings(
                gate_time=0.1, against=str(tmp_path), rounds=5, model=("ideal",), task=("copy",)
            )
        )
        (tmp_path / "pbcore").mkdir()
        (tmp_path / "pbcore" / "__init__.py").touch()
        asked: list[Any] = []

        def timed(
            head: TimedCheckout, base: TimedCheckout, job: dict[str, Any], rounds: int
        ) -> tuple[list[float], list[float]]:
            asked.append((head.label, base.folder, rounds))
            return [1.0] * rounds, [1.0] * rounds

        monkeypatch.setattr("pbcore.analysis.timing.gate.interleaved", timed)
        monkeypatch.setattr("pbcore.analysis.timing.gate.job", lambda plan, cell: {})
        timings = against_code(plan, head.read(), None, lambda text: None)
        assert [name.partition("/")[0] for name in timings.verdicts] == ["a", "b", "b"]
        assert asked == [("head", tmp_path.resolve(), 5)] * 3
        assert timings.base == f"{tmp_path}, interleaved"
        assert {verdict.reason for verdict in timings.verdicts.values()} == {
            "timing not judged: a run has no record of the machine it was timed on"
        }

    def test_a_base_that_is_gone_judges_nothing(self, tmp_path: Path) -> None:
        """With the reason."""
        head = run_of(tmp_path, "head", {"random-k1": 1.0})
        plan = make_plan(
            Settings(gate_time=0.1, against=str(tmp_path), model=("ideal",), task=("copy",))
        )
        timings = against_code(plan, head.read(), None, print)
        assert timings.verdicts == {}
        assert timings.silent.startswith(f"{tmp_path} holds no pbcore/")

    def test_an_incomplete_run_is_not_timed(self, tmp_path: Path) -> None:
        """Against an earlier run it is: what is there can be compared."""
        head = run_of(tmp_path, "head", {"random-k1": 1.0})
        plan = make_plan(Settings(gate_time=0.1, against="main", model=("ideal",), task=("copy",)))
        (timings,) = judge_time(plan, head.read(), False, None, print)
        assert (timings.base, timings.silent) == ("main", "the run is not complete")
        plan = make_plan(
            Settings(gate_time=0.1, gate=(head.path,), model=("ideal",), task=("copy",))
        )
        (timings,) = judge_time(plan, head.read(), False, None, print)
        assert [verdict.ok for verdict in timings.verdicts.values()] == [True]


class TestJob:
    def cell(self, **settings: Any) -> dict[str, Any]:
        record: CellRecord = factory.cell(
            model="tiny", task="waiting_line/copy", sampler="random-k2"
        )[0]
        return job(make_plan(Settings(model=("tiny",), task=("copy",), **settings)), record)

    def test_what_decides_the_work_is_in_it(self, tmp_path: Path) -> None:
        """The model with its loading options, the task with its samples, the first seed."""
        asked = self.cell(
            seed=(4, 5),
            n=(5,),
            limit=3,
            data_seed=2,
            dtype="float32",
            batch_size=(6,),
            revision="main",
        )
        assert asked == {
            "model": {"name": "tiny", "device": "cpu", "dtype": "float32", "revision": "main"},
            "task": {
                "files": [],
                "name": "waiting_line/copy",
                "data_dir": None,
                "n": (5,),
                "limit": 3,
                "seed": 2,
            },
            "sampler": "random-k2",
            "seed": 4,
            "batch_size": 6,
        }

    def test_the_profiles_limit_holds(self) -> None:
        """Without --limit the quick profile's samples for the model are timed."""
        assert self.cell()["task"]["limit"] == 8
