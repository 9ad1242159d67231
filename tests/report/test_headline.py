"""pbcore.report.headline: the sentences, and that terminal, report.md, page and `pbcore report`
have the same ones.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pbcore.cli import main
from pbcore.report.answers import answers_alone, read_report_cells
from pbcore.report.headline import headline_text, headlines, ratio_text
from pbcore.report.markdown import write_report
from pbcore.report.page import write_page
from pbcore.report.summary import answer
from pbcore.results import RunDir, create
from pbcore.results.rundir import StoredCell
from pbcore.results.table_row import frame
from tests.results import factory

BASE = factory.cell(sampler="confidence-k1", right=1.0, nfe=32, n=200)


def told(*entries: Any, **facts: Any) -> list[tuple[str, str]]:
    stored = [StoredCell(record, tuple(samples)) for record, samples in entries]
    return headlines(frame(one.cell for one in stored), map(answers_alone, stored), facts)


class TestSentences:
    def test_chosen(self) -> None:
        """Speed, both scores, the difference, its bound, and what it rests on; a faster sampler
        that may lose more.
        """
        entries = [
            BASE,
            factory.cell(sampler="eb-0.1", right=0.995, nfe=4, n=200),
            factory.cell(sampler="random-k16", right=0.3, nfe=2, n=200),
        ]
        assert told(*entries) == [
            (
                "tiny",
                "tiny: eb-0.1 is the fastest in this run that is shown to lose at most 5 points to"
                " confidence-k1: 8.0 times fewer forwards, as much time; 99.5 % against 100.0 %,"
                " −0.5 points, at most 2.4 lower, at 95 % one-sided (200 questions); random-k16 is"
                " faster (16.0 times fewer forwards, as much time) and may lose more: 30.0 %"
                " against 100.0 %, −70.0 points, at most 75.4 lower",
            )
        ]

    def test_none(self) -> None:
        """The fastest, its bound, and how many questions would settle it."""
        entries = [
            factory.cell(sampler="confidence-k1", right=1.0, nfe=32, n=20),
            factory.cell(sampler="eb-0.1", right=1.0, nfe=4, n=20),
        ]
        ((_, sentence),) = told(*entries)
        assert sentence == (
            "tiny: no sampler in this run is shown to lose at most 5 points to confidence-k1; the"
            " fastest, eb-0.1: 8.0 times fewer forwards, as much time; 100.0 % against 100.0 %, 0.0"
            " points, at most 14.0 lower, at 95 % one-sided (20 questions); about 59 questions"
            " would settle it"
        )

    def test_the_nearest_is_named_before_the_fastest(self) -> None:
        """Whoever reads the first words takes the sampler that more questions could show."""
        entries = [
            factory.cell(sampler="confidence-k1", right=1.0, nfe=32, n=20),
            factory.cell(sampler="confidence-k4", right=0.2, nfe=8, n=20),
            factory.cell(sampler="eb-0.1", right=1.0, nfe=16, n=20),
        ]
        ((_, sentence),) = told(*entries)
        parts = sentence.split("; ")
        assert parts[1].startswith("eb-0.1: 2.0 times fewer forwards")
        settled = next(i for i, part in enumerate(parts) if part.endswith("would settle it"))
        assert parts[settled + 1].startswith("the fastest, confidence-k4: 4.0 times fewer forwards")

    def test_more_questions_would_not_help(self) -> None:
        """A loss of more than the limit."""
        ((_, sentence),) = told(BASE, factory.cell(sampler="eb-0.1", right=0.5, nfe=4, n=200))
        assert sentence.endswith(
            "more questions would hardly help, since it loses 5 points or more here"
        )

    def test_better(self) -> None:
        """100 % beside 71.4 % is better, not `not clearly below`."""
        base = factory.cell(sampler="confidence-k1", right=0.714, nfe=32, n=14)
        ((_, sentence),) = told(base, factory.cell(sampler="eb-0.1", right=1.0, nfe=4, n=14))
        assert "100.0 % against 71.4 %, +28.6 points, at least 2.4 higher (better)" in sentence
        assert "not clearly" not in sentence

    def test_limit(self) -> None:
        """The loss that the run allowed; `1 point`."""
        ((_, sentence),) = told(BASE, factory.cell(sampler="eb-0.1", nfe=4, n=200), max_loss=1.0)
        assert "shown to lose at most 1 point to" in sentence

    def test_rows(self) -> None:
        """Calls and rows that differ are both said."""
        ((_, sentence),) = told(
            BASE, factory.cell(sampler="spec-8", right=1.0, nfe=4, rows=16, n=200)
        )
        assert "8.0 times fewer forwards, 2.0 times fewer rows, as much time" in sentence

    def test_own_sampler(self) -> None:
        """Named also where another is chosen, and where its cells failed on a task."""
        own = factory.cell(sampler="mine-2", right=0.9, nfe=8, n=200)
        eb = factory.cell(sampler="eb-0.1", right=1.0, nfe=4, n=200)
        ((_, sentence),) = told(BASE, eb, own)
        assert (
            "; mine-2: 4.0 times fewer forwards, as much time; 90.0 % against 100.0 %" in sentence
        )

    def test_correction(self) -> None:
        """A bound inside the limit that Holm's correction doesn't let pass says so."""
        noise = [
            factory.cell(sampler=f"random-k{k}", right=0.3, nfe=32 // k, n=200) for k in (2, 4)
        ]
        close = factory.cell(sampler="eb-0.1", right=0.98, nfe=4, n=200)
        ((_, sentence),) = told(BASE, close, *noise)
        assert "at most 4.6 lower" in sentence
        assert "(not shown with Holm's correction for 3 samplers)" in sentence

    def test_several_models(self) -> None:
        """A sentence each, and one for all that have no verdict for the same cause."""
        entries = [BASE, factory.cell(sampler="eb-0.1", nfe=4, n=200)]
        entries += [factory.cell(model=f"m{i}") for i in range(7)]
        (first, _), (model, sentence) = told(*entries)
        assert first == "tiny"
        assert model == ""
        assert sentence == (
            "no verdict on m0, m1, m2, m3, m4 … (7): only one sampler has scores, and a verdict"
            " compares two"
        )

    @pytest.mark.parametrize(
        ("ratio", "text"),
        [
            (7.46, "7.5 times fewer"),
            (1.2, "1.20 times fewer"),
            (0.5, "2.0 times more"),
            (1, "as many"),
        ],
    )
    def test_times(self, ratio: float, text: str) -> None:
        """Ratios below 1 are turned around."""
        assert ratio_text(ratio, "rows") == f"{text} rows"


class TestSameEverywhere:
    @pytest.fixture
    def run(self, tmp_path: Path) -> RunDir:
        entries = [BASE, factory.cell(sampler="eb-0.1", right=0.995, nfe=4, n=200)]
        return factory.write(create(tmp_path, "a"), entries)

    def test_all_four(self, run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
        """Terminal, report.md, page and `pbcore report` say the same."""
        ((_, sentence),) = headlines(*read_report_cells(run.path), run.read_run())
        stored = run.read_cells()
        ended = answer([one.cell for one in stored], map(answers_alone, stored), 4000)
        assert ended.splitlines()[-1] == sentence
        report = write_report(run.path)[0].read_text(encoding="utf-8")
        assert f"**{sentence}.**" in report
        html = write_page(run.path).read_text(encoding="utf-8")
        assert f'<p class="finding">{sentence}.</p>' in html
        assert main(["report", str(run.path), "--width", "4000"]) == 0
        assert sentence in capsys.readouterr().out.splitlines()

    def test_max_loss(self, run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
        """`--max-loss` of `pbcore report` goes before the run's own, which goes before 5."""
        run.write_run({"max_loss": 3.0})
        assert main(["report", str(run.path), "--width", "4000"]) == 0
        assert "at most 3 points" in capsys.readouterr().out
        out = run.path.parent / "out"
        assert main(["report", str(run.path), "--max-loss", "2.4", "-o", str(out)]) == 0
        assert "at most 2.4 points" in capsys.readouterr().out
        assert "at most 2.4 points" in (out / "report.md").read_text(encoding="utf-8")
        assert "at most 2.4 points" in (out / "report.html").read_text(encoding="utf-8")

    def test_without_answers(self, run: RunDir, capsys: pytest.CaptureFixture[str]) -> None:
        """results.json alone has no answers, and says that the verdict needs them."""
        results, _ = run.assemble()
        assert main(["report", str(results), "--width", "4000"]) == 0
        assert re.search(
            "no verdict on tiny: the verdict compares answers question by question, and none are"
            " here; give the run directory",
            capsys.readouterr().out,
        )

    def test_width(self, run: RunDir) -> None:
        """Lines of a terminal fit."""
        lines = headline_text(headlines(*read_report_cells(run.path), {}), 60)
        assert max(map(len, lines)) <= 60
        assert len(lines) > 2
