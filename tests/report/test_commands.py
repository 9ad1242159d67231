"""pbcore report, merge and compare, as a terminal sees them."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pbcore.analysis.compare import compare_runs
from pbcore.base.printable import program
from pbcore.cli import main
from pbcore.report.answers import read_result, side_by_side
from pbcore.results import CellRecord, SampleRecord, create, load
from pbcore.results.load import load_stored
from tests.markdown_tables import unpadded
from tests.reference import bundled
from tests.results import factory

Entry = tuple[CellRecord, list[SampleRecord]]
TWO = ("waiting_line/copy", "waiting_line/shuffle")


def command(*words: object) -> int:
    return main([str(word) for word in words])


def replace_key(entry: Entry) -> Entry:
    return replace(entry[0], conditions=replace(entry[0].conditions, key="other")), entry[1]


class TestCommands:
    def test_report_from_what_a_ci_kept(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A lone results.json or JUnit is enough for the tables; published tables work as well."""
        run = factory.write(create(tmp_path, "a"), factory.grid(("tiny",), TWO, ks=(1,)))
        results, _ = run.assemble()
        assert command("report", results, "--out", tmp_path / "out") == 0
        assert "confidence-k1" in capsys.readouterr().out
        assert (tmp_path / "out" / "report.md").exists()
        assert command("report", run.path) == 0
        assert not (run.path / "report.md").exists()
        assert command("report", tmp_path / "none") == 2
        assert "does not exist" in capsys.readouterr().err

    def test_what_is_rewritten_is_told(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A run that is reported again into its own directory names the files that it replaces."""
        run = factory.write(create(tmp_path, "a"), [factory.cell()])
        marks = []
        for _ in range(2):
            assert command("report", run.path, "--out", run.path) == 0
            told = [
                line
                for line in capsys.readouterr().out.splitlines()
                if line.startswith(str(run.path))
            ]
            marks.append(
                {line.removesuffix(" (rewritten)"): line.endswith(" (rewritten)") for line in told}
            )
        assert {run.path / "report.md", run.path / "report.html"} <= set(map(Path, marks[0]))
        assert marks[0].keys() == marks[1].keys()
        assert (set(marks[0].values()), set(marks[1].values())) == ({False}, {True})

    def test_other_warnings_go_on(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Those of damaged cells are lines on stderr; any other stays a warning."""
        from pbcore.cli import report

        read = report.read_report

        def warned(*given: Any, **how: Any) -> Any:
            warnings.warn("something else", FutureWarning, stacklevel=2)
            return read(*given, **how)

        monkeypatch.setattr(report, "read_report", warned)
        run = factory.write(create(tmp_path, "a"), [factory.cell()])
        with pytest.warns(FutureWarning, match="something else"):
            assert command("report", run.path) == 0

    def test_the_page_of_a_run_has_its_facts(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """With --out every file that is written is named on the screen, and the page says how the
        run was made.
        """
        run = factory.write(create(tmp_path, "a"), factory.grid(("tiny",), TWO, ks=(1, 2)))
        assert command("report", run.path, "--out", tmp_path / "out") == 0
        printed = capsys.readouterr().out.splitlines()
        files = sorted(str(path) for path in (tmp_path / "out").iterdir())
        assert sorted(line for line in printed if line in files) == files
        page = unpadded((tmp_path / "out" / "report.md").read_text())
        assert "| command | `pytest benches` |" in page

    def test_the_same_cells_of_two_runs(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Two runs of the same cells stand side by side, in tables, PBx and curves; runs of other
        cells need no names.
        """
        runs = [
            factory.write(create(tmp_path, name), factory.grid((model,), TWO)).path
            for name, model in (("old", "tiny"), ("new", "tiny"), ("other", "ideal"))
        ]
        assert command("report", *runs[:2], "--out", tmp_path / "both") == 0
        page = (tmp_path / "both" / "report.md").read_text()
        assert "| tiny of old | `confidence-k1`" in page
        assert re.search(r"tiny of new +\| confidence +\|", page)
        assert list((tmp_path / "both").glob("*.png"))
        assert command("report", runs[0], runs[2], "--out", tmp_path / "apart") == 0
        assert " of old" not in (tmp_path / "apart" / "report.md").read_text()

    def test_report_of_published_runs(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The rewrite's table prints as ours: LLaDA 1.5 with threshold 0.9 on shuffle scores 96 at
        3.1 tokens per step.
        """
        pytest.importorskip("pbcore.extras.paper")
        assert command("report", bundled("parallelbench_v2.csv"), "--width", "200") == 0
        lines = capsys.readouterr().out.splitlines()
        at = next(i for i, line in enumerate(lines) if line.split()[:1] == ["threshold-0.9"])
        assert lines[at].split()[4] == "96"
        assert lines[at + 1].split()[6] == "3.1"

    def test_prompts_of_the_rewrite_beside_own(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Tables and PBx with both say so and name the models; the paper's tables, whose prompts
        are ours, say nothing.
        """
        pytest.importorskip("pbcore.extras.paper")
        own = factory.write(create(tmp_path, "own"), factory.grid(("tiny",), TWO)).path
        every = bundled("parallelbench_v2.csv").read_text().splitlines()
        theirs = tmp_path / "parallelbench_v2.csv"
        theirs.write_text(
            "\n".join([every[0], *(line for line in every if ",confidence_threshold,t0." in line)])
        )
        assert command("report", own, theirs, "--out", tmp_path / "both") == 0
        said = "prompts differ: GSAI-ML/LLaDA-1.5, "
        assert said in capsys.readouterr().out
        page = unpadded((tmp_path / "both" / "report.md").read_text())
        assert page.count(said) == 2  # the waiting line, where they stand together, and PBx
        assert "| prompts | rewrite-2026, v1 |" in page
        assert command("report", own, bundled("paper_tables.csv"), "--out", tmp_path / "paper") == 0
        assert "prompts differ" not in (tmp_path / "paper" / "report.md").read_text()

    def test_a_model_with_both_prompts_is_two(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Answers of one model to both are never one model's line, curve or PBx, though no cell
        occurs twice.
        """
        runs = [
            factory.write(
                create(tmp_path, name),
                [factory.cell(task=task, sampler=sampler, data_source=source) for task in TWO],
            ).path
            for name, sampler, source in (
                ("paper", "random-k1", "official"),
                ("new", "random-k2", "rewrite-2026"),
            )
        ]
        assert command("report", *runs) == 0
        printed = capsys.readouterr().out
        assert "prompts differ: tiny of new answered those of the 2026 rewrite" in printed
        assert "tiny of paper" in printed

    def test_merge(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Shards become one run with report and JUnit; conflicts and unusable paths have their own
        exit status.
        """
        entries = factory.grid(("tiny",), TWO, ks=(1,))
        paths = [
            factory.write(create(tmp_path, name), part).path
            for name, part in (
                ("a", entries[::2]),
                ("b", entries[1::2]),
                ("c", [replace_key(entries[0])]),
            )
        ]
        assert command("merge", *paths[:2], "-o", tmp_path / "m") == 0
        assert len(load(tmp_path / "m")) == len(entries)
        assert (tmp_path / "m" / "report.md").exists()
        assert len(list(ElementTree.parse(tmp_path / "m" / "junit.xml").iter("testcase"))) == len(
            entries
        )
        assert command("merge", paths[0], paths[2], "-o", tmp_path / "n") == 1
        assert "keys differ" in capsys.readouterr().err
        assert command("merge", tmp_path / "zzz", "-o", tmp_path / "n") == 2

    def test_compare(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Exit status 0 for no worse, 1 for worse, 2 for what can't be read."""
        good = factory.write(create(tmp_path, "good"), [factory.cell(right=1.0)]).path
        bad = factory.write(create(tmp_path, "bad"), [factory.cell(right=0.5)]).path
        assert [
            command("compare", good, good),
            command("compare", bad, good),
            command("compare", good, tmp_path / "x"),
        ] == [0, 1, 2]
        assert "comparison FAILED" in capsys.readouterr().out

    def test_a_level_is_a_chance(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Without --level it is 5 %; what is none is refused before anything is judged."""
        other = {"digest": "w2", "weights": "w2"}
        five = [0.0] * 5 + [1.0] * 15
        a = factory.write(create(tmp_path, "a"), [factory.cell(right=five)]).path
        b = factory.write(create(tmp_path, "b"), [factory.cell(right=1.0, model_identity=other)])
        assert command("compare", a, b.path) == 1
        assert command("compare", a, b.path, "--level", "0.01") == 0
        assert command("compare", a, b.path, "--level", "0.01", "--exact") == 1
        capsys.readouterr()
        assert command("compare", a, b.path, "--level", "2") == 2
        assert capsys.readouterr().err.startswith("pbcore compare: level 2.0: give the probability")

    def test_compare_within_one_run(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Two samplers of a run: the pooled verdict comes first and decides; each side has its
        name.
        """
        entries = [
            factory.cell(right=1.0, sampler="a", nfe=8),
            factory.cell(right=0.5, sampler="b"),
        ]
        path = factory.write(create(tmp_path, "r"), entries).path
        assert command("compare", path, path, "--sampler", "a=b", "--width", "120") == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == (
            "a against b: better, +50.0 points [+25.8, +70.1] in 2.0× fewer forwards,"
            " 0 newly wrong, 10 newly right (1 cell; one-sided p < .001)"
        )
        assert (
            "A = a of r, B = b of r: 1 cell compared, 0 worse, 1 better; 0 answers worse, 10 better"
            in lines
        )
        assert "better tiny/shuffle/b→a  50.0  100.0" in "\n".join(lines)
        assert "not compared, under other names: 1 cell of A, 1 of B" in lines
        assert not any("comparison PASSED" in line for line in lines)
        assert command("compare", path, path, "--sampler", "b=a", "--markdown", "-") == 1
        page = capsys.readouterr().out
        assert page.startswith(
            "### b against a: worse, -50.0 points [-70.1, -25.8] in 2.0× more forwards, 10 newly"
        )
        assert "20 questions a cell: in a single cell only a drop of about 31 points" in page
        assert "| **worse** `tiny/shuffle/a→b` | 100.0 | 50.0 |" in page

    def test_the_pooled_verdict_of_named_samplers(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A loss that no cell shows alone is worse over all of them, first line and status; it is
        the mean that Python gives.
        """
        tasks = [f"waiting_line/{name}" for name in ("copy", "sort", "shuffle", "reverse")]
        entries = [
            factory.cell(task=task, sampler=sampler, right=[0.0] * wrong + [1.0] * (40 - wrong))
            for task in tasks
            for sampler, wrong in (("a", 4), ("b", 0))
        ]
        path = factory.write(create(tmp_path, "r"), entries).path
        assert command("compare", path, path, "--sampler", "a=b", "--width", "120") == 1
        out = capsys.readouterr().out
        stored = load_stored(path)
        (pair,) = compare_runs(stored, stored, samplers={"a": "b"}).named
        assert (pair.verdict, pair.worse, pair.better) == ("worse", 16, 0)
        assert pair.mean.change == pytest.approx(-0.1)
        low, high = (f"{100 * end:+.1f}" for end in (pair.mean.low, pair.mean.high))
        assert out.splitlines()[0] == (
            f"a against b: worse, -10.0 points [{low}, {high}] in as many forwards, 16 newly wrong,"
            " 0 newly right (mean of 4 cells; one-sided p < .001)"
        )
        assert ": 4 cells compared, no cell worse or better by itself, 4 lost, not shown;" in out
        assert command("compare", path, path, "--sampler", "b=a") == 0
        assert capsys.readouterr().out.startswith("b against a: better, +10.0 points")

    def test_a_base_that_is_nearly_all_wrong(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """One can't be worse than it, so a line says that."""
        entries = [factory.cell(right=right, sampler=name) for name, right in (("a", 1), ("b", 0))]
        path = factory.write(create(tmp_path, "r"), entries).path
        line = "B scores 0.0 %, not shown to exceed 10 %: it has hardly anything to lose"
        for names, said in (("a=b", True), ("b=a", False)):
            command("compare", path, path, "--sampler", names)
            assert (line in capsys.readouterr().out.splitlines()) == said

    def test_a_line_for_each_pair(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Two NEWs are not pooled; both are named, in the terminal and in Markdown."""
        rights = {"a": 0.5, "b": 1.0, "c": 1.0}
        entries = [factory.cell(right=right, sampler=name) for name, right in rights.items()]
        path = factory.write(create(tmp_path, "r"), entries).path
        names = ("--sampler", "a=b", "--sampler", "c=b")
        assert command("compare", path, path, *names) == 1
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith("a against b: worse, -50.0 points")
        assert lines[1].startswith("c against b: no clear difference, +0.0 points")
        assert any(line.startswith("A = NEW of r, B = OLD of r, sampler a ag") for line in lines)
        command("compare", path, path, *names, "--markdown", "-")
        page = capsys.readouterr().out.splitlines()
        assert page[0].startswith("### a against b: worse")
        assert page[2].startswith("c against b: no clear difference")

    def test_graded_scores_of_two_models(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A graded score is not wrong or right, but worse or better."""
        scores = [0.2 + 0.03 * i for i in range(20)]
        entries = [
            factory.cell(model, right=values, headline="rouge_l")
            for model, values in (("new", [value - 0.1 for value in scores]), ("old", scores))
        ]
        path = factory.write(create(tmp_path, "r"), entries).path
        assert command("compare", path, path, "--model", "new=old") == 1
        first = capsys.readouterr().out.splitlines()[0]
        assert first.startswith("new against old: worse, -10.0 points [")
        assert first.endswith(
            "] in as many forwards, 20 answers worse, 0 better (1 cell; one-sided p < .001)"
        )

    @pytest.mark.parametrize("lacks", ["head", "base"])
    @pytest.mark.parametrize("field", ["nfe", "seconds", "score"])
    def test_what_one_side_lacks(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], field: str, lacks: str
    ) -> None:
        """A served model without forwards, a cell without seconds, one without a score: the named
        pair has its verdict where scores are known, and – where a rate is not.
        """
        entries = []
        for sampler, right in (("a", 0.5), ("b", 1.0)):
            cell, samples = factory.cell(sampler=sampler, right=right)
            if (sampler == "a") == (lacks == "head"):
                if field == "nfe":
                    gone = ("nfe_mean", "nfe_median", "nfe_max", "rows_mean", "tokens_per_step")
                    cell = replace(cell, **dict.fromkeys((*gone, "tokens_per_row")))
                    cell = replace(cell, tokens_per_forward=None)
                    samples = [replace(one, nfe=None, rows=None) for one in samples]
                elif field == "seconds":
                    times = ("seconds", "samples_per_second", "tokens_per_second")
                    cell = replace(cell, rounds=[], **dict.fromkeys(times))
                else:
                    cell = replace(cell, scores={}, absent={"accuracy": "scorer off"})
                    samples = [replace(one, scores={}) for one in samples]
            entries.append((cell, samples))
        path = factory.write(create(tmp_path, "r"), entries).path
        assert command("compare", path, path, "--sampler", "a=b", "--width", "140") == 1
        out = capsys.readouterr().out
        if field == "score":
            assert out.startswith("a against b: no cell could be compared\n")
            assert "refused (no score was measured in both runs)" in out
            return
        assert out.startswith("a against b: worse, -50.0 points [")
        (row,) = [line for line in out.splitlines() if line.startswith("worse tiny/shuffle")]
        known = "16" if field == "nfe" else "13.33"
        assert (f"– → {known}" if lacks == "base" else f"{known} → –") in row

    def test_part_of_a_grid(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """What A never ran is counted and doesn't fail, unless all cells are asked for; nothing in
        common fails.
        """
        entries = factory.grid(tasks=("waiting_line/copy",))
        whole = factory.write(create(tmp_path, "whole"), entries).path
        part = factory.write(create(tmp_path, "part"), entries[:3]).path
        other = factory.write(create(tmp_path, "other"), [factory.cell("other")]).path
        total = len(entries)
        assert command("compare", part, whole, "--width", "140") == 0
        out = capsys.readouterr().out
        assert out.startswith(
            f"comparison PASSED: no worse than {whole} (same weights): all 60 answers repeat; 3 of"
            f" {total} cells compared\n"
        )
        assert f"\nA = part, B = whole: 3 of {total} cells compared, 0 worse" in out
        assert "in the baseline but not in the run" not in out
        assert command("compare", part, whole, "--markdown", "-") == 0
        assert capsys.readouterr().out.startswith("### comparison PASSED: no worse than whole ")
        assert command("compare", part, whole, "--all") == 1
        out = capsys.readouterr().out
        assert out.startswith(f"comparison FAILED: cells of {whole} are missing (same weights): ")
        assert "in the baseline but not in the run" in out
        assert command("compare", other, whole) == 1
        assert capsys.readouterr().out.startswith(
            f"comparison FAILED: nothing to compare with {whole}: of 1 cell 1 new; 0 of {total + 1}"
            " cells compared\n"
        )

    def test_runs_of_one_name_have_two(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Folders whose last parts are alike go by their paths."""
        a, b = (
            factory.write(create(tmp_path / name, "run"), [factory.cell()]).path for name in "ab"
        )
        assert command("compare", a, b, "--width", "400") == 0
        assert f"\nA = {a}, B = {b}: 1 cell compared" in capsys.readouterr().out

    def test_compare_writes_files(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """The comment for a pull request, whose name is told, beside the tables on the terminal."""
        path = factory.write(create(tmp_path, "r"), [factory.cell()]).path
        assert command("compare", path, path, "--markdown", tmp_path / "comment.md") == 0
        assert capsys.readouterr().out.splitlines()[-1] == str(tmp_path / "comment.md")
        assert (
            (tmp_path / "comment.md")
            .read_text()
            .startswith("### comparison PASSED: no worse than r ")
        )

    def test_compare_models_of_other_names(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A name may hold `=`; of the ways to divide the value, the one that names models of both
        runs counts.
        """
        new = "ckpt/step=2000"
        old = "ckpt/step=1000"
        a = factory.write(create(tmp_path, "a"), [factory.cell(new)]).path
        b = factory.write(create(tmp_path, "b"), [factory.cell(old)]).path
        assert command("compare", a, b, "--model", f"{new}={old}") == 0
        assert (
            "model ckpt/step=2000 against ckpt/step=1000: 1 cell compared"
            in capsys.readouterr().out
        )

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (
                ("--model", "tiny"),
                "--model tiny: give NEW=OLD, a model of A and one of B, e.g. my-llada-v2=my-llada",
            ),
            (("--sampler", "=ar"), "--sampler =ar: give NEW=OLD, a sampler of A and one of B"),
            (("--sampler", "ar="), "--sampler ar=: give NEW=OLD, a sampler of A and one of B"),
            (
                ("--model", "tiny=a", "--model", "tiny=b"),
                "--model tiny=b: tiny is compared with a already; give one OLD",
            ),
            (("--model", "tinny=tiny"), "no model 'tinny' in A; did you mean tiny? A has tiny"),
        ],
    )
    def test_compare_refuses_names(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
    ) -> None:
        """Status 2 and a line that says what to give."""
        path = factory.write(create(tmp_path, "r"), [factory.cell()]).path
        assert command("compare", path, path, *words) == 2
        assert capsys.readouterr().err.startswith(f"pbcore compare: {said}")

    def test_width(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Tables fit the terminal, or --width; an empty line follows each."""
        monkeypatch.setenv("COLUMNS", "50")
        path = factory.write(create(tmp_path, "a"), factory.grid(("tiny",), ks=(1,))).path
        widths = []
        for words in ((), ("--width", "90")):
            assert command("report", path, *words) == 0
            printed = capsys.readouterr().out
            widths.append(max(len(line) for line in printed.splitlines()[1:]))
            assert printed.endswith("\n\n")
        assert widths[0] <= 50 < widths[1] <= 90

    def test_damaged_cells_are_told_and_the_others_shown(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A line each on stderr; the status is that of a report that was made."""
        run = factory.write(create(tmp_path, "a"), factory.grid(("tiny",), TWO, ks=(1,)))
        next(run.cells_dir.glob("*.json")).write_text("{")
        assert command("report", run.path) == 0
        out, err = capsys.readouterr()
        assert "waiting_line: score" in out
        assert [line.startswith("pbcore report: ") for line in err.splitlines()] == [True]

    def test_runs_of_one_name_go_by_their_paths(self, tmp_path: Path) -> None:
        """Else two lines of a table could not be told apart."""
        runs = [
            factory.write(create(tmp_path / name, "run"), [factory.cell()]).path for name in "ab"
        ]
        rows, answers = side_by_side(list(map(read_result, runs)))
        assert {row["model"] for row in rows} == {f"tiny of {path}" for path in runs}
        assert [answer.model for answer in answers] == [row["model"] for row in rows]
        rows, _ = side_by_side([read_result(runs[0])])
        assert {row["model"] for row in rows} == {"tiny"}

    def test_cells_of_several_runs_keep_their_names_in_ids(self, tmp_path: Path) -> None:
        """The model's part of the id is renamed with the model."""
        runs = [factory.write(create(tmp_path, name), [factory.cell()]).path for name in "ab"]
        rows, answers = side_by_side(list(map(read_result, runs)))
        assert [answer.id for answer in answers] == [row["id"] for row in rows]
        assert sorted(row["id"] for row in rows) == [
            "tiny of a/shuffle/confidence-k2",
            "tiny of b/shuffle/confidence-k2",
        ]

    def test_a_page_of_files_has_no_facts_of_a_run(self, tmp_path: Path) -> None:
        """Several sources are named in its title, and neither's command stands on it."""
        runs = [factory.write(create(tmp_path, name), [factory.cell(name)]).path for name in "ab"]
        assert command("report", *runs, "--out", tmp_path / "out") == 0
        page = (tmp_path / "out" / "report.md").read_text()
        assert page.startswith("# a, b\n")
        assert "| command |" not in page

    def test_a_merge_says_what_it_joined(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Cells, runs, where the report is, then the verdict, and last the page."""
        runs = [factory.write(create(tmp_path, name), [factory.cell(name)]).path for name in "ab"]
        assert command("merge", *runs, "-o", tmp_path / "m") == 0
        merged = tmp_path / "m"
        first, *verdict, page, opens = capsys.readouterr().out.splitlines()
        assert first == f"2 cells from 2 runs: {merged / 'report.md'}"
        assert [line for line in verdict if line] == [
            "a, b   no verdict: only one sampler has scores, and a verdict compares two"
        ]
        assert page == f"page: {merged / 'report.html'}"
        assert opens == f"  or: {program('pbcore')} view {merged}"
