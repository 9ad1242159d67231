"""`pbcore figures`: those of any runs, and of theory."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pbcore.cli import main
from pbcore.report import frontier_figure
from pbcore.report.figure_sets import OfRuns
from pbcore.results import create
from pbcore.theory.bounds import optimal_bound
from pbcore.theory.tables import report
from tests.results import factory


class TestFigures:
    @pytest.mark.parametrize("which", OfRuns.names)
    def test_what_a_run_lacks(
        self, which: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A run that lacks what the figure needs gets its own message, any other the figure."""
        run = factory.write(
            create(tmp_path, "run"), [factory.cell(task="waiting_line/sort", sampler="ar")]
        )
        code = main(["figures", which, str(run.path), "-o", str(tmp_path / "out")])
        if which == "curves":
            assert code == 0
            return
        assert code == 2
        needed = {
            "length": "two canvas lengths",
            "questions": "one question and several",
            "film": "broke; measure with",
        }
        assert needed[which] in capsys.readouterr().err

    def test_an_option_of_the_film(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Is refused with another figure."""
        given = ["figures", "curves", "RUN", "--cell", "a", "-o", str(tmp_path)]
        assert main(given) == 2
        assert "--cell goes with film, not with curves" in capsys.readouterr().err

    def test_curves_of_any_tasks(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """In several formats; a file that was there is marked."""
        cells = factory.grid(tasks=("list_ops/copy", "list_ops/shuffle"))
        run = factory.write(create(tmp_path, "run"), cells)
        given = ["figures", "curves", str(run.path), "-o", str(tmp_path / "out")]
        assert main([*given, "--format", "svg,pdf"]) == 0
        names = sorted(path.name for path in (tmp_path / "out").iterdir())
        assert {"curves.csv", "curves.svg", "curves.pdf"} <= set(names)
        assert "(rewritten)" not in capsys.readouterr().out
        before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
        assert main([*given, "--format", "svg"]) == 0
        said = capsys.readouterr().out
        assert f"{tmp_path / 'out' / 'curves.svg'} (rewritten)" in said
        assert (tmp_path / "out" / "curves.svg").read_bytes() == before["curves.svg"]

    def test_an_unknown_format(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Is refused with those that there are."""
        with pytest.raises(SystemExit):
            main(["figures", "curves", "--format", "gif"])
        assert "'gif': formats are png, svg, pdf" in capsys.readouterr().err

    def test_canvas_length_from_two_runs(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """PNG and CSV with a point per run."""
        paths = []
        for tokens in (16, 64):
            cell, samples = factory.cell(task="waiting_line/copy", sampler="random-k2")
            cell = replace(
                cell, conditions=replace(cell.conditions, options={"max_new_tokens": tokens})
            )
            paths.append(
                str(factory.write(create(tmp_path, f"run{tokens}"), [(cell, samples)]).path)
            )
        assert main(["figures", "length", *paths, "-o", str(tmp_path / "out")]) == 0
        assert "2 points" in capsys.readouterr().out
        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
            "length.csv",
            "length.png",
        ]
        lines = (tmp_path / "out" / "length.csv").read_text(encoding="utf-8").splitlines()
        assert lines[0] == "model,task,sampler,canvas length,score,low,high,samples"
        assert [line.split(",")[3] for line in lines[1:]] == ["16", "64"]


class TestTheory:
    def test_the_frontier_without_a_folder(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Tables alone: nothing is written. Without the square, which takes longest."""
        monkeypatch.chdir(tmp_path)
        lists = frontier_figure.tasks(2)[:-1]
        monkeypatch.setattr(frontier_figure, "tasks", lambda n: lists)
        words = [
            "--frontier",
            "--n",
            "2",
            "--samples",
            "2",
            "--sampler",
            "random-k2",
            "--seed",
            "1",
        ]
        assert main(["figures", "theory", *words]) == 0
        assert capsys.readouterr().out.endswith(
            " intervals reach down to the frontier of the sampler's kind\n"
        )
        assert not list(tmp_path.iterdir())

    def test_without_frontier_it_is_the_closed_forms(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """As before."""
        assert main(["figures", "theory", "--n", "4"]) == 0
        assert capsys.readouterr().out == report(4) + "\n"

    def test_the_least_bits_as_a_picture(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A point for each number of steps, as `optimal_bound` has them."""
        assert main(["figures", "theory", "--n", "5", "-o", str(tmp_path)]) == 0
        assert capsys.readouterr().out.startswith(report(5))
        lines = (tmp_path / "bits.csv").read_text(encoding="utf-8").splitlines()
        assert len(lines) == 1 + 4 * 5
        op, n, steps, bits = lines[2].split(",")
        assert (op, n, steps) == ("shuffle", "5", "2")
        assert float(bits) == pytest.approx(optimal_bound("shuffle", 5, 2), abs=1e-4)
        assert (tmp_path / "bits.png").is_file()

    @pytest.mark.slow
    def test_frontier(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Tables on the terminal; with a folder the figure and its data."""
        assert (
            main(
                [
                    "figures",
                    "theory",
                    "--frontier",
                    "--n",
                    "2",
                    "--samples",
                    "4",
                    "--sampler",
                    "random-k1",
                    "-o",
                    str(tmp_path),
                ]
            )
            == 0
        )
        said = capsys.readouterr().out
        table = {tuple(line.split()[:3]): line.split()[6:] for line in said.splitlines()[1:13]}
        heading = said.splitlines()[1]
        assert re.split("  +", heading)[-4:] == [
            "τ=1",
            "τ=1, tokens first",
            "greedy",
            "greedy, tokens first",
        ]
        assert table["insert_random", "2", "1"] == ["0.2963", "0.2963", "0.3333", "0.3333"]
        assert table["latin_square", "3", "2"] == ["0.6771", "0.9999", "0.6771", "0.9999"]
        regret = said.splitlines()
        start = regret.index(
            "shuffle, n = 2, greedy: regret in percentage points at each sampler's mean number of steps"
        )
        columns, values = (re.split("  +", regret[start + at]) for at in (1, 3))
        assert dict(zip(columns, values, strict=True)) == {
            "sampler": "random-k1",
            "chooses": "positions first",
            "steps": "2.00",
            "accuracy": "100.0",
            "95 %": "51.0–100.0",
            "frontier": "100.0",
            "tokens first": "100.0",
            "fewest steps": "2.00",
            "regret": "+0.0",
        }
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "frontier.csv",
            "frontier.png",
            "frontier_bits.csv",
        ]
        assert len((tmp_path / "frontier.csv").read_text(encoding="utf-8").splitlines()) == 11
        assert main(["figures", "theory", "--frontier", "--n", "30"]) == 2
        assert "n = 2 to 12" in capsys.readouterr().err
