"""--blame, and `pbcore blame` of a finished run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pbcore
from pbcore.cli import main
from pbcore.results.rundir import RunDir, StoredCell
from tests.plugin.conftest import Run

WRONG = ("--model", "ideal", "--task", "shuffle", "--limit", "4")
ONE = ("--sampler", "confidence-k1")
TWO = ("--sampler", "confidence-k2")


def cells(project: pytest.Pytester, name: str = "out") -> dict[str, StoredCell]:
    """The cells of a run, by sampler."""
    return {entry.cell.sampler: entry for entry in RunDir(project.path / name).read_cells()}


def verdicts(entry: StoredCell) -> list[Any]:
    return [None if one.blame is None else one.blame.verdict for one in entry.samples]


def files_of(project: pytest.Pytester, name: str = "out") -> Iterator[tuple[Path, dict[str, Any]]]:
    """The cell files of a run with what they hold."""
    for path in (project.path / name / "cells").glob("*.json"):
        yield path, json.loads(path.read_text(encoding="utf-8"))


class TestRun:
    def test_each_wrong_answer_has_a_verdict(
        self, in_process: Run, project: pytest.Pytester
    ) -> None:
        """Its cost is not the cell's; a cell of one token at a time serves as the reference."""
        in_process(*WRONG, *TWO, "--out", "plain", "benches").assert_outcomes(passed=1)
        result = in_process(*WRONG, *ONE, *TWO, "--blame", "--out", "out", "benches")
        result.stdout.fnmatch_lines(["Why answers are wrong*", "*0 = 0 together + 0 token*"])
        result.assert_outcomes(passed=2)
        plain = cells(project, "plain")["confidence-k2"]
        blamed = cells(project)
        two = blamed["confidence-k2"]
        assert plain.cell.blame is None
        assert two.cell.nfe_mean == plain.cell.nfe_mean
        wrong = [one.scores["accuracy"] < 1 for one in two.samples]
        assert any(wrong)
        assert verdicts(two) == ["together" if one else None for one in wrong]
        one = blamed["confidence-k1"]
        assert one.cell.blame is not None
        assert one.cell.blame.forwards == 0
        assert two.cell.blame is not None
        assert two.cell.blame.forwards > 0
        assert two.cell.blame.net_loss == sum(wrong) / len(wrong)
        table = pbcore.results.load(project.path / "out").set_index("sampler")
        assert table.loc["confidence-k2", "net_loss"] == sum(wrong) / len(wrong)
        assert table.loc["confidence-k2", "blame_forwards"] == two.cell.blame.forwards
        report = (project.path / "out" / "report.md").read_text(encoding="utf-8")
        assert "## Why answers are wrong" in report

    def test_the_reference_is_decoded_where_no_cell_has_it(
        self, in_process: Run, project: pytest.Pytester
    ) -> None:
        """Then it costs the forwards of its answers, once for all samplers that it serves."""
        sampler = ("--sampler", "random-k2")
        in_process(*WRONG, *TWO, *sampler, "--blame", "--out", "out", "benches")
        found = cells(project)
        in_process(*WRONG, *ONE, *TWO, *sampler, "--blame", "--out", "kept", "benches")
        kept = cells(project, "kept")
        differences = []
        for name in ("confidence-k2", "random-k2"):
            assert verdicts(found[name]) == verdicts(kept[name])
            ours, theirs = found[name].cell.blame, kept[name].cell.blame
            assert ours is not None
            assert theirs is not None
            differences.append(ours.forwards - theirs.forwards)
        assert sorted(differences) == [0, 4 * 32]

    def test_a_resumed_run_adds_it(self, in_process: Run, project: pytest.Pytester) -> None:
        """Finished cells are kept as they are and traced."""
        in_process(*WRONG, *TWO, "--out", "out", "benches")
        before = cells(project)["confidence-k2"]
        result = in_process(*WRONG, *TWO, "--blame", "--resume", "out", "benches")
        result.stdout.fnmatch_lines(["resumed: 1 cell kept, 0 measured"])
        after = cells(project)["confidence-k2"]
        assert after.cell.seconds == before.cell.seconds
        assert "together" in verdicts(after)

    def test_graded_scores_are_refused(self, in_process: Run) -> None:
        """They have no wrong answers to trace."""
        result = in_process("--model tiny --task summarization --limit 1 --blame", "benches")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines(["*--blame: no cell of this run has answers that are right*"])

    def test_a_model_that_decodes_by_itself_is_undecided(
        self, in_process: Run, project: pytest.Pytester
    ) -> None:
        """Its wrong answers say why, and what it loses to one at a time isn't known."""
        in_process("--model tiny-ar --task shuffle --limit 3 --blame --out out", "benches")
        entry = cells(project)["ar"]
        assert entry.cell.blame is not None
        assert entry.cell.blame.net_loss is None
        for one in entry.samples:
            assert (one.blame is not None) == (one.scores["accuracy"] < 1)
            assert one.blame is None or "decodes by itself" in one.blame.reason

    def test_the_drill_down_says_it(self, in_process: Run) -> None:
        """Without the option, too: which step broke the answer that is shown."""
        result = in_process(*WRONG, *TWO, "-x", "benches")
        result.stdout.fnmatch_lines(
            [
                "     blame  Step * revealed * together. Each alone would still have ended right.",
                "            One at a time from *: right.",
                "rerun this sample:*",
            ]
        )


class TestCommand:
    @pytest.fixture
    def run(self, in_process: Run, project: pytest.Pytester) -> Path:
        """A run without blame."""
        in_process(*WRONG, *ONE, *TWO, "--out", "out", "benches").assert_outcomes(passed=2)
        return project.path / "out"

    def test_it_traces_a_finished_run(
        self,
        run: Path,
        in_process: Run,
        project: pytest.Pytester,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """The same verdicts as of `--blame`, written into the run and its report."""
        assert main(["blame", str(run)]) == 0
        table = capsys.readouterr().out.partition("\n\nNet loss")[0]
        assert "together" in table
        assert main(["report", str(run), "--width", "120"]) == 0
        assert table in capsys.readouterr().out
        in_process(*WRONG, *ONE, *TWO, "--blame", "--out", "other", "benches")
        for name, entry in cells(project, "other").items():
            ours = cells(project)[name]
            assert [one.blame for one in ours.samples] == [one.blame for one in entry.samples]
            assert ours.cell.blame is not None
            assert entry.cell.blame is not None
            assert ours.cell.blame.forwards == entry.cell.blame.forwards
        assert "## Why answers are wrong" in (run / "report.md").read_text(encoding="utf-8")

    def test_a_run_from_before_ids_were_kept(
        self, run: Path, project: pytest.Pytester, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Its wrong answers are decoded again; one that then differs is named and stays open."""
        assert main(["blame", str(run)]) == 0
        expected = verdicts(cells(project)["confidence-k2"])
        for path, data in files_of(project):
            data["cell"]["blame"] = None
            wrong = [one for one in data["samples"] if one["scores"]["accuracy"] < 1]
            for sample in data["samples"]:
                del sample["token_ids"]
                sample["blame"] = None
            for sample in wrong[:1]:
                sample["text"] += " "
                expected[sample["index"]] = "undecided"
            path.write_text(json.dumps(data), encoding="utf-8")
        capsys.readouterr()
        assert main(["blame", str(run)]) == 0
        assert "decoded again, the answer differs for samples" in capsys.readouterr().out
        assert verdicts(cells(project)["confidence-k2"]) == expected

    def test_what_is_traced_stays(
        self,
        run: Path,
        project: pytest.Pytester,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """A second time no model is loaded; a cell without its verdicts is traced alone."""
        assert main(["blame", str(run)]) == 0
        expected = verdicts(cells(project)["confidence-k2"])
        with monkeypatch.context() as patch:
            patch.setattr("pbcore.exchange.blame.load_model", None)
            assert main(["blame", str(run)]) == 0
        assert "2 cells with verdicts already" in capsys.readouterr().out
        for path, data in files_of(project):
            if data["cell"]["sampler"] == "confidence-k2":
                data["cell"]["blame"] = None
                for sample in data["samples"]:
                    sample["blame"] = None
                path.write_text(json.dumps(data), encoding="utf-8")
        assert main(["blame", str(run)]) == 0
        assert "1 cell with verdicts already" in capsys.readouterr().out
        assert verdicts(cells(project)["confidence-k2"]) == expected

    def test_other_weights_are_refused(
        self, run: Path, project: pytest.Pytester, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """In one line, and the run stays as it was."""
        for path, data in files_of(project):
            data["cell"]["conditions"]["model_identity"] = {"digest": "0" * 64, "weights": "x"}
            path.write_text(json.dumps(data), encoding="utf-8")
        assert main(["blame", str(run)]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "other weights" in line
        assert verdicts(cells(project)["confidence-k2"]) == [None] * 4

    def test_the_first_and_the_last_step(self, run: Path, project: pytest.Pytester) -> None:
        """Both name a step that broke the answer; the first is never behind the last."""
        steps = {}
        for which in ("first", "last"):
            assert main(["blame", str(run), "--step", which]) == 0
            found = cells(project)["confidence-k2"].samples
            steps[which] = [one.blame.step for one in found if one.blame is not None]
        pairs = list(zip(steps["first"], steps["last"], strict=True))
        assert pairs
        assert all(first <= last for first, last in pairs)
