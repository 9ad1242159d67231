"""What a whole run is judged by, and what that says on the screen, in JUnit and in Markdown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pbcore.analysis.run_verdict import (
    Ruling,
    _rule_on_gate,
    check_gates,
    judge_run,
    missing_scores,
    nothing_to_judge,
)
from pbcore.analysis.verdict import judge
from pbcore.base.errors import InputError
from pbcore.grid.plan import make_plan
from pbcore.grid.settings import Settings
from pbcore.results import RunDir, create
from pbcore.results.baseline import write_baseline
from pbcore.results.rundir import StoredCell
from tests.analysis.toys import rerun_command
from tests.results import factory

NAME = "tiny/shuffle/confidence-k2"
BELOW = "* accuracy>=0.98"


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    """A run of one cell, 18 of 20 right."""
    made = factory.write(create(tmp_path, "run"), [factory.cell()])
    made.write_run({"machine": {"cpu": "x"}})
    return made


def ruled(run: RunDir, complete: bool = True, **settings: Any) -> Ruling:
    plan = make_plan(Settings(model=("ideal",), task=("copy",), **settings))
    return judge_run(plan, run.read(), complete, rerun_command, print)


def baseline(path: Path, **facts: Any) -> Path:
    run = factory.write(create(path.parent, f"run of {path.stem}"), [factory.cell(**facts)])
    return write_baseline(path, run.read_cells())


class TestGates:
    def test_a_score_that_is_not_judged_reaches_junit(self, tmp_path: Path) -> None:
        """A case that passed, with the score that fell; a baseline file keeps it, too."""
        before = factory.with_score(factory.cell(right=1.0), "accuracy_strict", [1.0] * 20)
        after = factory.with_score(factory.cell(right=1.0), "accuracy_strict", [0.0] * 20)
        base = factory.write(create(tmp_path, "base"), [before])
        path = write_baseline(tmp_path / "b.json", base.read_cells())
        ruling = ruled(factory.write(create(tmp_path, "run"), [after]), gate=(path,))
        fell = "also lower: accuracy_strict 100.0 → 0.0 %"
        assert ruling.failures == []
        assert ruling.kept == [(f"{path}::{NAME}", f"passed: {fell}")]
        assert fell in ruling.text[0]

    def test_each_baseline_is_judged_and_names_its_failures(
        self, run: RunDir, tmp_path: Path
    ) -> None:
        """The same cell passes against the one and fails against the other; both stand in text and
        Markdown.
        """
        same = baseline(tmp_path / "same.json")
        faster = baseline(tmp_path / "faster.json", nfe=8)
        ruling = ruled(run, gate=(same, faster))
        assert [text.split(":")[0] for text in ruling.text] == [
            "gate PASSED",
            "gate FAILED",
        ]
        assert ruling.text[0].startswith(f"gate PASSED: no worse than {same} (same weights): ")
        assert ruling.text[1].startswith(f"gate FAILED: slower than {faster} (same weights): ")
        assert ruling.last == [f"gate FAILED: slower than {faster}"]
        assert len(ruling.markdown) == 2
        ((name, reason),) = ruling.failures
        assert name == f"{faster}::{NAME}"
        assert reason.startswith("slower: forwards 8 → 16 in all 20 answers")

    def test_floors_are_judged_once_beside_several_baselines(
        self, run: RunDir, tmp_path: Path
    ) -> None:
        """With the first of them."""
        both = (baseline(tmp_path / "a.json"), baseline(tmp_path / "b.json"))
        assert [name for name, _ in ruled(run, gate=both, floor=(BELOW,)).failures] == [
            f"{both[0]}::{NAME}"
        ]

    def test_floors_alone_say_nothing_of_comparisons(self, run: RunDir) -> None:
        """Title and broken cells on the screen, in Markdown and in JUnit."""
        ruling = ruled(run, floor=(BELOW, "* nfe<=16"))
        assert ruling.text[0] == "floors BROKEN: 2 asked for, 1 cell below"
        assert ruling.text[1].startswith(f"  FLOOR    {NAME}: accuracy is 0.9")
        assert [name for name, _ in ruling.failures] == [f"floors::{NAME}"]
        assert ruling.markdown == [
            f"### {ruling.text[0]}\n\n- `{NAME}`: accuracy is 0.9 (floor '* accuracy>=0.98')\n"
        ]
        kept = ruled(run, floor=("* nfe<=16",))
        assert (kept.text, kept.failures) == (["floors kept: 1 asked for, 0 cells below"], [])

    def test_a_floor_without_a_cell_is_not_counted_as_a_cell_below(self, run: RunDir) -> None:
        """A misspelt pattern is told from a score that is too low."""
        ruling = ruled(run, floor=(BELOW, "tny/* accuracy>=0.5"))
        assert ruling.text[0] == "floors BROKEN: 2 asked for, 1 cell below, 1 without a cell"

    def test_a_baseline_of_other_cells_fails(self, run: RunDir, tmp_path: Path) -> None:
        """Its rows are missing, the run's are new: nothing passed."""
        other = baseline(tmp_path / "other.json", sampler="random-k1")
        assert [reason.split(":")[0] for _, reason in ruled(run, gate=(other,)).failures] == [
            "missing"
        ]

    def test_a_run_without_settings_to_judge_by_passes(self, run: RunDir) -> None:
        """Nothing is said."""
        assert ruled(run) == Ruling()


class TestTime:
    def test_cells_that_are_slower_fail_and_are_named(self, run: RunDir, tmp_path: Path) -> None:
        """A time gate that could judge no cell fails as a whole: here a run has one round only."""
        earlier = factory.write(create(tmp_path, "earlier"), [factory.cell()])
        earlier.write_run({"machine": {"cpu": "x"}})
        ruling = ruled(run, gate=(earlier.path,), gate_time=0.1)
        assert ruling.failures == [
            ("time", "no cell's time could be judged, for the reasons given with each base")
        ]
        assert "1 and 1 rounds" in "\n".join(ruling.text)
        assert ruling.text[-1].startswith("timing FAILED: ")
        assert ruling.markdown[-1].startswith(f"### timing against {earlier.path}:")

    def test_a_slower_cell_fails_by_name(self, run: RunDir, tmp_path: Path) -> None:
        """A time gate that judged some cell has no failure of its own; the base that each failure
        is against is named, on the screen and in Markdown, too.
        """
        runs = []
        for name, seconds in (("head", 2.0), ("fast", 1.0), ("slow", 3.0)):
            record, samples = factory.cell()
            one = factory.write(
                create(tmp_path, name), [(replace(record, rounds=(seconds,) * 3), samples)]
            )
            one.write_run({"machine": {"cpu": "x"}})
            runs.append(one)
        head, fast, slow = runs
        ruling = ruled(head, gate=(fast.path, slow.path), gate_time=0.1)
        ((name, reason),) = ruling.failures
        assert name == f"time against {fast.path}::{NAME}"
        assert reason.startswith("slower by more than 10 %")
        titles = [f"timing FAILED against {fast.path}:", f"timing passed against {slow.path}:"]
        for title in titles:
            assert len([line for line in ruling.text if line.startswith(title)]) == 1
            assert len([text for text in ruling.markdown if text.startswith(f"### {title}")]) == 1

    def test_only_gated_cells_are_timed_again(
        self, run: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Against code: those that a baseline has, or all without one."""
        asked: list[Any] = []
        monkeypatch.setattr(
            "pbcore.analysis.run_verdict.judge_time",
            lambda plan, run, complete, gated, say: asked.append(gated) or [],
        )
        ruled(
            run,
            gate=(
                baseline(tmp_path / "a.json"),
                baseline(tmp_path / "b.json", sampler="random-k1"),
            ),
            gate_time=0.1,
        )
        ruled(run, against="main", gate_time=0.1)
        assert asked == [{NAME, "tiny/shuffle/random-k1"}, None]


class TestUpdate:
    def test_a_complete_run_becomes_the_baseline(self, run: RunDir, tmp_path: Path) -> None:
        """The screen says where it is, and which fall a gate against it can see."""
        file = tmp_path / "new.json"
        ruling = ruled(run, update_baseline=file)
        first, second = ruling.text
        assert (first, ruling.failures) == (f"baseline written: {file} (1 cell)", [])
        assert second.startswith("with other weights a gate against it sees a fall of 32 points in")
        assert ruled(run, gate=(file,)).failures == []

    def test_a_baseline_that_is_nearly_all_wrong(self, tmp_path: Path) -> None:
        """It is written, with a line that says so."""
        wrong = factory.write(create(tmp_path, "wrong"), [factory.cell(right=0.0)])
        ruling = ruled(wrong, update_baseline=tmp_path / "new.json")
        assert ruling.text[-1] == (
            "it scores 0.0 %, not shown to exceed 10 %: hardly anything can get worse than this"
            " baseline"
        )
        assert ruling.failures == []

    def test_a_part_of_a_run_does_not(self, run: RunDir, tmp_path: Path) -> None:
        """Rows that are missing would be missing in every later gate; a file that can't be written
        fails, too.
        """
        file = tmp_path / "new.json"
        ruling = ruled(run, complete=False, update_baseline=file)
        assert ruling.text == ["no baseline written: the run is not complete"]
        assert ruling.failures == [(f"update of {file}", ruling.text[0])]
        assert not file.exists()
        assert [name for name, _ in ruled(run, update_baseline=tmp_path).failures] == [
            f"update of {tmp_path}"
        ]


class TestNothingToJudge:
    def test_what_the_command_line_requests_fails(self) -> None:
        """With the options as written."""
        ruling = nothing_to_judge(["--gate", "--floor"], None)
        assert ruling.failures[0][1].startswith("--gate and --floor: the run has no cell")
        assert ruling.markdown == [f"### gate FAILED\n\n{ruling.failures[0][1]}\n"]

    def test_what_the_ini_file_sets_is_told(self) -> None:
        """A project's other tests run under it, too."""
        ruling = nothing_to_judge([], Path("pytest.ini"))
        assert (ruling.failures, ruling.markdown) == ([], [])
        assert "pytest.ini sets were not applied" in ruling.text[0]


class TestLevel:
    def test_a_gates_level_is_the_settings(self, run: RunDir, tmp_path: Path) -> None:
        """Five newly wrong answers of a model with other weights fail at 5 %, not at 1 %."""
        other = {"digest": "w2", "weights": "w2"}
        file = baseline(tmp_path / "a.json", right=1.0, model_identity=other)
        five = factory.cell(right=[0.0] * 5 + [1.0] * 15)
        worse = factory.write(create(tmp_path, "worse"), [five])
        assert ruled(worse, gate=(file,)).failures
        assert not ruled(worse, gate=(file,), gate_level=0.01).failures
        assert ruled(worse, gate=(file,), gate_level=0.01, gate_exact=True).failures

    def test_an_empty_run_against_a_baseline_without_its_cells(self, tmp_path: Path) -> None:
        """Nothing was judged and nothing failed by itself, so the gate fails as a whole."""
        empty = factory.write(create(tmp_path, "run"), [factory.cell("new")])
        verdictless = rule_on(empty, tmp_path)
        assert [name for name, _ in verdictless.failures] == [str(tmp_path / "b.json")]
        assert (
            verdictless.text[-1]
            == f"gate FAILED against {tmp_path / 'b.json'}: the baseline has no row for any cell of"
            " this run, so nothing was judged"
        )


def rule_on(run: RunDir, folder: Path) -> Ruling:
    """Against a baseline without rows, which only another program could write."""
    ruling = Ruling()
    verdict = judge(run.read_cells(), {})
    _rule_on_gate(folder / "b.json", run.path, verdict, rerun_command, ruling)
    return ruling


class TestCheckGates:
    @pytest.mark.parametrize(
        ("settings", "said"),
        [
            ({"gate": (Path("no.json"),)}, "--gate: no baseline at no.json"),
            ({"floor": ("x",)}, "--floor: floor 'x' can't be parsed"),
            ({"against": "no-such-branch"}, "--against: 'no-such-branch' is neither"),
        ],
    )
    def test_what_cannot_be_read_is_named_before_the_run(
        self, settings: dict[str, Any], said: str
    ) -> None:
        """With the option that gave it."""
        with pytest.raises(InputError) as raised:
            check_gates(Settings(**settings))
        assert str(raised.value).startswith(said)

    def test_a_baseline_of_other_models_is_refused(self, tmp_path: Path) -> None:
        """Before the run, with both names."""
        file = baseline(tmp_path / "a.json")
        with pytest.raises(InputError) as raised:
            check_gates(Settings(gate=(file,)), ["ideal", "mine"])
        said = f"--gate: {file} has no row for ideal, mine, only for tiny; make one with"
        assert str(raised.value).startswith(said)
        check_gates(Settings(gate=(file,)), ["ideal", "tiny"])

    def test_a_time_gate_needs_timings(self, tmp_path: Path) -> None:
        """A baseline file has none, nor has a run whose cells shared forwards; a run with seconds
        of three rounds, or code to time, is enough.
        """
        cell, samples = factory.cell()
        runs = {
            name: factory.write(create(tmp_path, name), [(replace(cell, rounds=rounds), samples)])
            for name, rounds in (("timed", [1.0] * 3), ("twice", [1.0] * 2), ("shared", []))
        }
        file = write_baseline(tmp_path / "b.json", runs["timed"].read_cells())
        for gates, said in (
            ((file,), f"--gate-time: {file} holds no timings: give --gate the directory of a run"),
            ((file, runs["shared"].path), "shared has a time of its own: give"),
            ((runs["twice"].path,), "twice has more than 2 rounds: give"),
        ):
            with pytest.raises(InputError) as raised:
                check_gates(Settings(gate=gates, gate_time=0.1, rounds=3))
            assert said in str(raised.value)
        check_gates(Settings(gate=(file,)))
        check_gates(Settings(gate=(file, runs["timed"].path), gate_time=0.1, rounds=3))
        check_gates(Settings(gate=(file,), gate_time=0.1, against=str(Path.cwd())))

    def test_a_time_gate_needs_rounds(self, tmp_path: Path) -> None:
        """Of the run that is judged, too: fewer are refused before it begins."""
        cell, samples = factory.cell()
        run = factory.write(create(tmp_path, "x"), [(replace(cell, rounds=[1.0] * 3), samples)])
        with pytest.raises(InputError, match="--gate-time: 2 rounds a cell, and seconds"):
            check_gates(Settings(gate=(run.path,), gate_time=0.1, rounds=2))


class TestMissingScores:
    def unmeasured(self, name: str = "grammar") -> StoredCell:
        record, samples = factory.cell(task="text_writing/summarization", sampler="ar")
        bare = [replace(sample, scores={}) for sample in samples]
        reason = "no LanguageTool"
        record = replace(
            record, headline=name, scores={}, absent={name: reason, "v1": f"{name}: x"}
        )
        return StoredCell(record, bare)

    def test_the_score_by_which_a_task_is_judged(self, tmp_path: Path) -> None:
        """Is named once, without those that are made from it."""
        missing = missing_scores([self.unmeasured(), self.unmeasured()], tmp_path / "none.json")
        assert missing == {"grammar": "grammar could not be measured in 2 cells (no LanguageTool)"}

    def test_what_is_measured_is_not_missing(self, tmp_path: Path) -> None:
        """Nor a further score that no baseline has."""
        record, samples = factory.cell()
        entry = StoredCell(replace(record, absent={"bertscore": "no model"}), list(samples))
        assert missing_scores([entry], tmp_path / "none.json") == {}
