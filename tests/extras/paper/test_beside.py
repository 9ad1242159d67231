"""pbcore report --against-published, as a terminal and report.md show it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pbcore.results import RunDir, create
from tests.markdown_tables import unpadded
from tests.reference import bundled
from tests.results import factory
from tests.results.files import run_command

ODD = "x|y\n<b>`\x1b"


def run_of(tmp_path: Path, model: str = "llada-1.5", **facts: object) -> RunDir:
    cells = [
        factory.cell(model, task, "confidence-k2", right=0.5, n=20, **facts)  # type: ignore[arg-type]
        for task in ("waiting_line/copy", "waiting_line/shuffle")
    ]
    return factory.write(create(tmp_path, "run"), cells)


class TestReport:
    def test_our_rows_beside_theirs(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Score, interval, published figure, difference and rates; then what differs, once for all
        rows.
        """
        assert (
            run_command(
                "report", run_of(tmp_path).path, "--against-published", "-o", tmp_path / "out"
            )
            == 0
        )
        told = capsys.readouterr().out
        lines = told[told.index("Beside published figures: paper, Table 5") :].splitlines()
        assert lines[1] == "llada-1.5 confidence-k2 beside LLaDA 1.5"
        assert lines[4].split() == [
            "copy",
            "accuracy",
            "50.0",
            "[30–70]",
            "100.0*",
            "-50.0",
            "2.0",
            "–",
        ]
        assert "  data: ours own, theirs official (all rows)" in lines
        page = (tmp_path / "out" / "report.md").read_text()
        section = unpadded(page[page.index("## Beside published figures") :])
        assert (
            "| llada-1.5 | `confidence-k2` | copy | accuracy | 50.0 | [30–70] | 100.0\\* | -50.0 |"
            " 2.0 | – |" in section
        )
        assert "- data: ours own, theirs official (all rows)" in section

    def test_only_when_asked_for(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """Its options alone are a mistake."""
        run = run_of(tmp_path)
        assert run_command("report", run.path) == 0
        assert "published" not in capsys.readouterr().out
        for words in (["--as", "a=b"], ["--published", "x.csv"]):
            assert run_command("report", run.path, *words) == 2
            assert "--published and --as go with --against-published" in capsys.readouterr().err

    def test_figures_without_samples_and_intervals(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """What a table of means doesn't say is unknown: no interval, so nothing outside it, no
        number of samples.
        """
        assert run_command("report", bundled("parallelbench_v2.csv"), "--against-published") == 0
        told = capsys.readouterr().out
        rows = [line.split()[:5] for line in told.splitlines()]
        assert ["sudoku", "accuracy", "92.0", "–", "93.5"] in rows
        assert "  samples: ours unknown, theirs 108 (2 rows)" in told

    def test_nothing_matches(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """The names on both sides are shown, and how to give one; hostile ones too."""
        run = run_of(tmp_path, model=ODD)
        assert run_command("report", run.path, "--against-published", "-o", tmp_path / "out") == 0
        told = capsys.readouterr().out
        assert "no cell has a published figure of the same model, task and sampler" in told
        assert "  here, models: x|y\\n<b>`\\x1b" in told
        assert "published, models: LLaDA, LLaDA 1.5, Dream 7B" in told
        page = (tmp_path / "out" / "report.md").read_text()
        assert "\x1b" not in page
        _, _, section = page.partition("## Beside published figures\n\n")
        assert section.startswith("no cell has a published figure")

    def test_a_name_that_stands_for_another(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """--as joins a model to a published one; half of it, or an unknown name, is refused."""
        run = run_of(tmp_path, model="mine")
        assert run_command("report", run.path, "--against-published", "--as", "mine=Dream 7B") == 0
        assert "mine confidence-k2 beside Dream 7B" in capsys.readouterr().out
        assert run_command("report", run.path, "--against-published", "--as", "mine") == 2
        assert "--as mine: give OURS=PUBLISHED" in capsys.readouterr().err
        assert run_command("report", run.path, "--against-published", "--as", "mine=GPT") == 2
        assert "no model 'GPT' in the published figures" in capsys.readouterr().err

    def test_figures_from_a_file(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        """A run folder of the rewrite takes the place of the package's figures; a file of another
        kind is refused.
        """
        run = factory.write(
            create(tmp_path, "run"),
            [factory.cell("dream-7b", "waiting_line/copy", "threshold-0.7", n=20)],
        )
        assert (
            run_command(
                "report", run.path, "--against-published", "--published", bundled("rewrite_run")
            )
            == 0
        )
        assert (
            "dream-7b threshold-0.7 beside Dream-org/Dream-v0-Instruct-7B"
            in capsys.readouterr().out
        )
        (tmp_path / "x.json").write_text("{}")
        assert (
            run_command(
                "report", run.path, "--against-published", "--published", tmp_path / "x.json"
            )
            == 2
        )
        assert (
            "has no published figures; give the paper's or the rewrite's CSV"
            in capsys.readouterr().err
        )
