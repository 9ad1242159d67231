"""Two runs side by side and gates, whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from pbcore.analysis.compare import compare_runs
from pbcore.analysis.floors import broken_floors, parse_floor
from pbcore.analysis.verdict import judge
from pbcore.analysis.verdict_text import gate_markdown, gate_text
from pbcore.cli import main
from pbcore.report.comparison import comparison_markdown, comparison_text
from pbcore.report.page.compare import comparison_page
from pbcore.results import RunDir
from pbcore.results.baseline import rows_by_id
from pbcore.results.load import load_stored
from tests.analysis.toys import rerun_command
from tests.outputs.entries import Check, failed, readable, under, written
from tests.results import factory


def two_runs(root: Path) -> list[RunDir]:
    """B, and A with answers that got worse and better, a slower cell, one in fewer forwards with
    other answers, one dropped, one failed, one new.
    """
    base = [
        factory.cell("tiny", "waiting_line/shuffle", "confidence-k2", [1.0] * 19 + [0.0]),
        factory.cell("tiny", "waiting_line/copy", "confidence-k2", 1.0),
        factory.cell("tiny", "waiting_line/sort", "random-k2+t1.0", 0.9, nfe=16, tokens=2976),
        factory.cell("tiny", "waiting_line/reverse", "random-k2", 1.0, nfe=16),
        factory.cell("tiny", "waiting_line/replace_index", "threshold-0.9", 1.0, nfe=16),
        factory.cell("tiny", "puzzle/sudoku", "random-k2", 1.0),
        factory.cell(
            "tiny", "text_writing/summarization", "random-k2", [0.5] * 20, headline="rouge_l"
        ),
        factory.cell("tiny", "puzzle/latin_square", "random-k2", 1.0),
    ]
    head = [
        factory.cell("tiny", "waiting_line/shuffle", "confidence-k2", [0.0] * 9 + [1.0] * 11),
        under(factory.cell("tiny", "waiting_line/copy", "confidence-k2", 1.0), dtype="bfloat16"),
        factory.cell(
            "tiny", "waiting_line/sort", "random-k2+t1.0", 0.85, nfe=20, rows=33, tokens=6138
        ),
        factory.cell("tiny", "waiting_line/reverse", "random-k2", 1.0, nfe=[16] * 19 + [18]),
        factory.cell("tiny", "waiting_line/replace_index", "threshold-0.9", 0.8, nfe=12),
        failed("tiny", "puzzle/sudoku", "random-k2"),
        factory.cell(
            "tiny", "text_writing/summarization", "random-k2", [0.5, 0.25] * 10, headline="rouge_l"
        ),
        factory.cell("tiny", "waiting_line/insert_index", "random-k2", 1.0),
    ]
    return [written(root, entries, name) for name, entries in (("a", head), ("b", base))]


class TestComparison:
    def test_text_and_markdown(self, same: Check, tmp_path: Path) -> None:
        """`pbcore compare`."""
        head, base = (load_stored(run.path) for run in two_runs(tmp_path))
        comparison = compare_runs(head, base)
        shown = [comparison_text(comparison, "a", "b", width, 40) for width in (160, 60)]
        same("\n\n".join([*shown, comparison_markdown(comparison, "a", "b")]))

    def test_other_names(
        self, same: Check, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Two samplers of one run."""
        right = {"random-k2": 0.5, "confidence-k2": 0.9, "ar": 1.0}
        entries = [
            factory.cell("tiny", f"waiting_line/{task}", sampler, share)
            for task in ("copy", "shuffle")
            for sampler, share in right.items()
        ]
        path = str(written(tmp_path, entries).path)
        status = main(
            ["compare", path, path, "--sampler", "random-k2=confidence-k2", "--width", "140"]
        )
        same(f"{status}\n{capsys.readouterr().out.replace(str(tmp_path), '')}")

    @pytest.mark.parametrize("names", [(), ("--sampler", "random-k2=confidence-k2")], ids=str)
    def test_a_score_that_is_not_judged(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], names: tuple[str, ...]
    ) -> None:
        """Named on the terminal, in Markdown and on the page, where its cell is not among those
        without a change.
        """
        sampler = "random-k2" if names else "confidence-k2"
        before = factory.with_score(factory.cell(right=1.0), "accuracy_strict", [1.0] * 20)
        after = factory.with_score(
            factory.cell(sampler=sampler, right=1.0), "accuracy_strict", [0.0] * 20
        )
        head = str(written(tmp_path, [after], "head").path)
        base = str(written(tmp_path, [before], "base").path)
        files = ("--html", f"{tmp_path}/c.html", "--markdown", f"{tmp_path}/c.md")
        assert main(["compare", head, base, *names, *files, "--width", "400"]) == 0
        page = readable((tmp_path / "c.html").read_text(encoding="utf-8"))
        markdown = (tmp_path / "c.md").read_text(encoding="utf-8").replace("\\", "")
        fell = "also lower: accuracy_strict 100.0 → 0.0 %"
        told = capsys.readouterr().out
        assert all(fell in text for text in (told, markdown, page))
        assert "without any change" not in told
        assert "with the same score of every answer" not in page

    def test_page(self, same: Check, tmp_path: Path) -> None:
        """`pbcore compare --html`."""
        paths = [run.path for run in two_runs(tmp_path)]
        head, base = map(load_stored, paths)
        page = comparison_page(compare_runs(head, base), head, base, (paths[0], paths[1]))
        same(readable(page).replace(str(tmp_path), ""))

    def test_gate(self, same: Check, tmp_path: Path) -> None:
        """The gate's text and Markdown, with a broken floor."""
        head, base = (load_stored(run.path) for run in two_runs(tmp_path))
        broken = broken_floors(
            [parse_floor("tiny/shuffle/* accuracy>=0.9")], [entry.cell for entry in head]
        )
        verdict = judge(head, rows_by_id(base)).with_floors(broken)
        same(
            "\n\n".join(
                [
                    gate_text(verdict, "b"),
                    gate_text(verdict, "b", limit=2),
                    gate_markdown(verdict, rerun_command, "b"),
                ]
            )
        )
