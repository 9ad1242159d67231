"""pbcore.report.headline: the verdict's lines, the same in terminal, report.md, page and `pbcore
report`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pbcore.cli import main
from pbcore.report.answers import answers_alone
from pbcore.report.files import write_files
from pbcore.report.headline import (
    HeadlineInWords,
    RunVerdicts,
    headline_text,
    ratio_text,
    verdict_lines,
)
from pbcore.report.report import read_report, report_of
from pbcore.report.summary import answer
from pbcore.results import RunDir, create
from pbcore.results.rundir import StoredCell
from tests.results import factory

BASE = factory.cell(sampler="confidence-k1", right=1.0, nfe=32, n=200)


def told(*entries: Any, **facts: Any) -> list[HeadlineInWords]:
    stored = [StoredCell(record, tuple(samples)) for record, samples in entries]
    cells = factory.rows(one.cell for one in stored)
    return RunVerdicts(cells, map(answers_alone, stored), facts).in_words()


class TestLines:
    """Every combination stands whole in tests/outputs/test_verdicts."""

    def test_chosen(self) -> None:
        """Speed, both scores, the bound that was tested and what it rests on; a faster sampler that
        is not shown; on the page the others.
        """
        entries = [
            BASE,
            factory.cell(sampler="eb-0.1", right=0.995, nfe=4, n=200),
            factory.cell(sampler="random-k16", right=0.3, nfe=2, n=200),
            factory.cell(sampler="eb-0.2", right=1.0, nfe=8, n=200),
        ]
        (verdict,) = told(*entries)
        assert (verdict.model, verdict.sampler, verdict.chosen) == ("tiny", "eb-0.1", True)
        assert verdict.lines == (
            "8.0× fewer forwards, as much time as confidence-k1",
            "score 99.5 % against 100.0 %",
            "at worst 2.8 points lower (limit 5; 95 %, Holm over 3 samplers; 200 questions)",
        )
        (faster,) = verdict.notes
        assert faster.startswith("faster, but not shown: random-k16, 16.0× fewer forwards")
        shown, falls = verdict.others
        assert shown.startswith("eb-0.2: ")
        assert falls.startswith("falls first: random-k16, ")

    def test_tokens_are_named_only_where_they_decide(self) -> None:
        """Beside forwards, on their own axis."""
        entries = [
            factory.cell(sampler="confidence-k1", right=1.0, nfe=32, tokens=3200, n=200),
            factory.cell(sampler="eb-0.1", right=1.0, nfe=4, tokens=800, n=200),
        ]
        (by_tokens,) = told(*entries, axis="tokens")
        assert "8.0× fewer forwards, 4.0× fewer tokens forwarded" in by_tokens.lines[0]
        for axis in ("calls", "rows"):
            (verdict,) = told(*entries, axis=axis)
            assert "tokens" not in verdict.lines[0]

    def test_holm_only_where_it_corrects(self) -> None:
        """One sampler alone is tested at 95 %."""
        (verdict,) = told(BASE, factory.cell(sampler="eb-0.1", right=0.995, nfe=4, n=200))
        assert verdict.lines[2] == "at worst 2.4 points lower (limit 5; 95 %; 200 questions)"

    def test_few_answers_are_counts(self) -> None:
        """Below 100 questions; of several tasks the one with the largest loss."""
        tasks = ("waiting_line/copy", "puzzle/sudoku")
        base = [factory.cell("tiny", task, "confidence-k1", [1.0] * 8, nfe=32) for task in tasks]
        fast = [
            factory.cell("tiny", task, "eb-0.1", [0.0] * wrong + [1.0] * (8 - wrong), nfe=4)
            for task, wrong in zip(tasks, (0, 2), strict=True)
        ]
        (verdict,) = told(*base, *fast)
        assert verdict.lines[1] == "score 87.5 % against 100.0 %; largest loss: sudoku, 8 → 6 of 8"
        (alone,) = told(base[1], fast[1])
        assert alone.lines[1] == "score 6 against 8 of 8"

    def test_the_way_out(self) -> None:
        """Without a winner what is known, the option that would show it, and of whom the lines
        are.
        """
        entries = [
            factory.cell(sampler="confidence-k1", right=1.0, nfe=32, n=20),
            factory.cell(sampler="confidence-k4", right=0.2, nfe=8, n=20),
            factory.cell(sampler="eb-0.1", right=1.0, nfe=16, n=20),
        ]
        (verdict,) = told(*entries)
        assert (verdict.sampler, verdict.chosen) == ("eb-0.1", False)
        assert verdict.title == (
            "no winner yet: eb-0.1 looks as good; 53 more questions would show it: --limit 73"
        )

    @pytest.mark.parametrize(
        ("wrong", "sizes", "said"),
        [
            ((0,), (3,), "as good, but it takes 59 questions to show it, and copy has only 3"),
            ((0,), (20,), "as good, but it takes 59 questions to show it, and copy has only"),
            ((0,), (61,), "looks as good; 39 more questions would show it: --limit 59"),
            ((0,), (59,), "looks as good; 39 more questions would show it: --limit 59"),
            ((0,), (58,), "as good, but it takes 59 questions to show it, and copy has only"),
            (
                (0, 0),
                (3, None),
                "takes 30 questions of each task to show it, and copy has only 3 questions; give"
                " data with more",
            ),
            ((0, 0), (30, None), "looks as good; 20 more questions would show it: --limit 30"),
            ((0, 0), (3, 8), "to show it, and copy has only 3, sudoku only 8 questions; give data"),
            (
                (1,),
                (200,),
                "eb-0.1 lost 5.0 of 7 points allowed, but it takes 910 questions to show that it"
                " stays below 7, and copy has only 200 questions",
            ),
        ],
    )
    def test_data_that_ends(
        self, wrong: tuple[int, ...], sizes: tuple[int | None, ...], said: str
    ) -> None:
        """No option is named that the task can't have: what it has is said, and that it takes
        more.
        """
        entries = []
        tasks = ("waiting_line/copy", "puzzle/sudoku")[: len(wrong)]
        for task, lost, size in zip(tasks, wrong, sizes, strict=True):
            n = 20 if size is None else min(size, 20)
            for sampler, bad, nfe in (("confidence-k1", 0, 32), ("eb-0.1", lost, 4)):
                right = [0.0] * bad + [1.0] * (n - bad)
                entries.append(
                    factory.cell("tiny", task, sampler, right, nfe=nfe, n_available=size)
                )
        (verdict,) = told(*entries, max_loss=7.0 if wrong == (1,) else 5.0)
        assert said in verdict.title

    def test_limit(self) -> None:
        """The loss that the run allowed; `1 point`."""
        base = factory.cell(sampler="confidence-k1", right=1.0, nfe=32, n=200)
        (verdict,) = told(base, factory.cell(sampler="eb-0.1", nfe=4, n=200), max_loss=1.0)
        assert (
            verdict.title == "no winner: the only faster sampler loses about 1 point or more here"
        )
        assert "(limit 1; 95 %" in verdict.lines[2]

    def test_rows(self) -> None:
        """Calls and rows that differ are both said."""
        (verdict,) = told(BASE, factory.cell(sampler="spec-8", right=1.0, nfe=4, rows=16, n=200))
        assert "8.0× fewer forwards, 2.0× fewer rows, as much time" in verdict.notes[0]

    def test_own_sampler(self) -> None:
        """Named also where another is chosen."""
        own = factory.cell(sampler="mine-2", right=0.9, nfe=8, n=200)
        eb = factory.cell(sampler="eb-0.1", right=1.0, nfe=4, n=200)
        (verdict,) = told(BASE, eb, own)
        assert verdict.notes[0].startswith(
            "mine-2: 4.0× fewer forwards, as much time; score 90.0 %"
        )

    def test_several_models(self) -> None:
        """A verdict each, and one for all that have none for the same cause."""
        entries = [BASE, factory.cell(sampler="eb-0.1", nfe=4, n=200)]
        entries += [factory.cell(model=f"m{i}") for i in range(7)]
        first, rest = told(*entries)
        assert first.model == "tiny"
        assert verdict_lines(rest) == [
            "m0, m1, m2, m3, m4 … (7)   no verdict: only one sampler has scores, and a verdict"
            " compares two"
        ]

    @pytest.mark.parametrize(
        ("ratio", "text"),
        [
            (7.46, "7.5× fewer"),
            (1.2, "1.20× fewer"),
            (1.04, "about as many"),
            (0.96, "about as many"),
            (0.5, "2.0× more"),
            (1, "as many"),
        ],
    )
    def test_times(self, ratio: float, text: str) -> None:
        """Ratios below 1 are turned around; less than 5 % is no difference."""
        assert ratio_text(ratio, "rows") == f"{text} rows"


class TestSameEverywhere:
    @pytest.fixture
    def run(self, tmp_path: Path) -> RunDir:
        entries = [BASE, factory.cell(sampler="eb-0.1", right=0.995, nfe=4, n=200)]
        return factory.write(create(tmp_path, "a"), entries)

    def test_all_four(self, run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
        """Terminal, report.md, page and `pbcore report` say the same."""
        (verdict,) = read_report([run.path]).verdicts.in_words()
        first, *more = verdict_lines(verdict)
        assert first.startswith("tiny   eb-0.1   8.0× fewer forwards")
        assert len(more) == 2
        terminal = [first, *(f"  {line}" for line in more)]
        ended = answer(report_of(run.read()), 4000)
        assert ended.splitlines()[-3:] == terminal
        report, page, *_ = write_files(run.path)
        assert "  \n".join([f"**{first}**", *more]) in report.read_text(encoding="utf-8")
        html = page.read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")
        assert all(f">{line}</p>" in html for line in verdict.lines)
        assert main(["report", str(run.path), "--width", "4000"]) == 0
        assert "\n".join(terminal) in capsys.readouterr().out

    def test_max_loss(self, run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
        """`--max-loss` of `pbcore report` goes before the run's own, which goes before 5."""
        run.write_run({"max_loss": 3.0})
        assert main(["report", str(run.path), "--width", "4000"]) == 0
        assert "(limit 3; 95 %" in capsys.readouterr().out
        out = run.path.parent / "out"
        assert main(["report", str(run.path), "--max-loss", "2.4", "-o", str(out)]) == 0
        assert "(limit 2.4; 95 %" in capsys.readouterr().out
        assert "(limit 2.4; 95 %" in (out / "report.md").read_text(encoding="utf-8")
        html = (out / "report.html").read_text(encoding="utf-8")
        assert "(limit 2.4; 95 %" in html.replace("\N{NO-BREAK SPACE}", " ")

    def test_without_answers(self, run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
        """results.json alone has no answers, and says that the verdict needs them."""
        results, _ = run.assemble()
        assert main(["report", str(results), "--width", "4000"]) == 0
        assert re.search(
            "tiny   no verdict: the verdict compares answers question by question, and none are"
            " here; give the run directory",
            capsys.readouterr().out,
        )

    def test_width(self, run: RunDir) -> None:
        """Lines of a terminal fit."""
        lines = headline_text(read_report([run.path]).verdicts.in_words(), 60)
        assert max(map(len, lines)) <= 60
        assert len(lines) > 2
