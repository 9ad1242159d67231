from pathlib import Path

import pytest

from pbcore.cli import main
from pbcore.extras.paper.figures import FROM_RUNS
from pbcore.results import create
from tests.results import factory


class TestFigures:
    def test_figure_2_from_decoding(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """PNG and CSV, and how many points agree."""
        assert main(["figures", "2a", "--n", "2,3", "--samples", "6", "-o", str(tmp_path)]) == 0
        said = capsys.readouterr().out
        assert "of 5 points have the predicted value within their 95 % interval" in said
        assert sorted(path.name for path in tmp_path.iterdir()) == ["figure2a.csv", "figure2a.png"]

    def test_thresholds_of_figure_2e(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Two operations at as many lengths and thresholds as are given."""
        given = ["--n", "2,3", "--threshold", "0.3,0.75,0.9", "--samples", "4", "-o", str(tmp_path)]
        assert main(["figures", "2e", *given]) == 0
        assert "of 12 points" in capsys.readouterr().out

    def test_figure_3_from_a_run(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """From the run's directory; without one the command says what it needs."""
        run = factory.write(create(tmp_path, "run"), factory.grid(tasks=("waiting_line/copy",)))
        assert main(["figures", "3", str(run.path), "-o", str(tmp_path / "out")]) == 0
        assert (tmp_path / "out" / "figure3_tiny.csv").exists()
        assert main(["figures", "3", "-o", str(tmp_path)]) == 2
        assert "give their directories" in capsys.readouterr().err
        assert main(["figures", "2a", str(run.path), "-o", str(tmp_path)]) == 2
        assert "takes no run directory" in capsys.readouterr().err

    @pytest.mark.parametrize("which", FROM_RUNS)
    def test_each_figure_of_runs(
        self, which: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """A run that lacks what the figure needs gets its own message."""
        run = factory.write(
            create(tmp_path, "run"), [factory.cell(task="waiting_line/sort", sampler="ar")]
        )
        assert main(["figures", which, str(run.path), "-o", str(tmp_path / "out")]) == 2
        needed = {"3": "Figure 3's tasks", "7": "Figure 7's tasks"}
        needed |= {n: f"Figure {n} needs" for n in "456"}
        assert needed[which] in capsys.readouterr().err

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            (["film", "RUN", "--as", "a=b"], "--as goes with published, not with film"),
            (["film", "RUN", "--model", "tiny"], "--model goes with table1, 2a"),
            (["published", "--as", "a=b"], "--as goes with a run"),
            (["published", "RUN", "--as", "ab"], "--as ab: give OURS=PUBLISHED"),
        ],
    )
    def test_options_of_other_figures(
        self, given: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Are refused in a line."""
        run = factory.write(create(tmp_path, "run"), factory.grid(tasks=("waiting_line/copy",)))
        words = [str(run.path) if word == "RUN" else word for word in given]
        assert main(["figures", *words, "-o", str(tmp_path)]) == 2
        assert said in capsys.readouterr().err

    def test_table_1(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A row per operation and n; a file that was there is marked."""
        given = ["figures", "table1", "--n", "3,4", "--samples", "4", "-o", str(tmp_path)]
        for mark in ("", " (rewritten)"):
            assert main(given) == 0
            said = capsys.readouterr().out
            assert "of 40 points" in said
            assert said.splitlines()[-1] == f"{tmp_path / 'table1.csv'}{mark}"
        assert len((tmp_path / "table1.csv").read_text(encoding="utf-8").splitlines()) == 9
