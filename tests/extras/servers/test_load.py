"""Models at several numbers of requests at a time: cells of their own, in resume, compare and
gates, and beside local models.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

import pbcore
from pbcore.cli import main
from pbcore.extras.servers.record import served_part as part_of
from pbcore.report import markdown
from pbcore.report.plots import write_plots
from pbcore.results import SampleRecord
from tests.extras.servers.fake import Act, FakeServer, serving
from tests.extras.servers.served import FIVE, MINE, declare, right, stored
from tests.plugin.conftest import Run

LEVELS = f"{MINE} --task copy --limit 8 --concurrency 1,2,8"


class TestLevels:
    def test_each_is_a_cell(self, project: pytest.Pytester, run: Run) -> None:
        """With so many requests under way and never more; every level asks for all answers, so that
        it has a time.
        """
        most: Counter[int] = Counter()

        def script(number: int, body: dict[str, Any]) -> Act:
            most[number // 8] = max(most[number // 8], server.at_once)
            return replace(right(number, body), pause=0.01)

        with serving(script) as server:
            declare(project, server)
            run(f"{LEVELS} --out out").assert_outcomes(passed=3)
        assert len(server.asked) == 24
        assert most[0] == 1
        assert most[1] <= 2
        for level in (1, 2, 8):
            cell = stored(project, f"mine/copy/ar+x{level}").cell
            assert (cell.conditions.at_once, cell.served.concurrency, cell.served.kept) == (
                level,
                level,
                0,
            )
            assert cell.seconds is not None
            assert (
                set(cell.served.requests) == set(cell.served.first_tokens) == {"p50", "p90", "p99"}
            )
        table = pbcore.results.load(project.path / "out")
        assert table.set_index("sampler")["at_once"].to_dict() == {
            "ar+x1": 1,
            "ar+x2": 2,
            "ar+x8": 8,
        }

    def test_one_number_is_no_axis(self, project: pytest.Pytester, run: Run) -> None:
        """It stands in for the declared one; ids and keys are those without the option."""
        together = threading.Barrier(3)

        def script(number: int, body: dict[str, Any]) -> Act:
            if number < 3:
                together.wait(timeout=20)  # only goes on when so many have come
            return right(number, body)

        with serving(script) as server:
            declare(project, server, concurrency=1)
            run(f"{FIVE} --concurrency 3 --out out").assert_outcomes(passed=1)
            run(f"{FIVE} --resume out").assert_outcomes(passed=1)
            assert len(server.asked) == 5
        cell = stored(project).cell
        assert (cell.id, cell.served.concurrency, cell.conditions.at_once) == (
            "mine/copy/ar",
            3,
            None,
        )

    def test_resume_asks_nothing_twice(self, project: pytest.Pytester, run: Run) -> None:
        """A failure at one level keeps its answers and the other levels as they are."""
        ill = {11}

        def script(number: int, body: dict[str, Any]) -> Act:
            return Act(status=503, body={"error": "ill"}) if number in ill else right(number, body)

        with serving(script) as server:
            declare(project, server)
            run(f"{LEVELS} --out out").assert_outcomes(passed=2, failed=1)
            before = len(server.asked)
            ill = set()
            came = sum(1 for row in stored_answers(project) if row)
            run(f"{LEVELS} --resume out").assert_outcomes(passed=3)
            assert len(server.asked) - before == 24 - came
            before = len(server.asked)
            run(f"{LEVELS} --resume out").assert_outcomes(passed=3)
            assert len(server.asked) == before
        assert stored(project, "mine/copy/ar+x2").cell.seconds is None
        assert stored(project, "mine/copy/ar+x8").cell.seconds is not None

    def test_gates_and_comparisons_keep_them_apart(
        self,
        project: pytest.Pytester,
        run: Run,
        server: FakeServer,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """A level is judged against its own row; the names compare two levels of a run."""
        declare(project, server)
        run(f"{LEVELS} --out out").assert_outcomes(passed=3)
        server.script = lambda number, body: (
            Act(text="nothing") if 32 <= number < 40 else right(number, body)
        )
        result = run(f"{LEVELS} --gate out --out again")
        assert result.ret == 1
        broke = [line.split()[:2] for line in result.stdout.lines if " broke: " in line]
        assert broke == [["copy", "ar+x2"]]
        out = str(project.path / "again")
        main(["compare", out, out, "--sampler", "ar+x2=ar+x8"])
        assert "ar+x8→ar+x2" in capsys.readouterr().out

    def test_a_limit_on_the_cost_holds_over_all_levels(
        self, project: pytest.Pytester, run: Run, server: FakeServer
    ) -> None:
        """Each level pays for its own answers. A run that stops in the second one resumes there,
        and pays for nothing twice.
        """
        server.script = lambda number, body: replace(right(number, body), tokens_out=32)
        declare(project, server, prices="{input: 0.0, output: 10000.0}", max_tokens=32)
        stopped = run(f"{LEVELS} --max-cost 4.2 --out out")
        stopped.assert_outcomes(passed=1, failed=1)
        stopped.stdout.fnmatch_lines(["*at most about 7.68 USD", "*4.1600 USD spent, 0.0000 res*"])
        assert len(server.asked) == 13
        run(f"{LEVELS} --max-cost 7.68 --resume out").assert_outcomes(passed=3)
        assert len(server.asked) == 24
        cells = [stored(project, f"mine/copy/ar+x{level}").cell for level in (1, 2, 8)]
        assert sum(cell.served.cost for cell in cells) == pytest.approx(7.68)


def stored_answers(project: pytest.Pytester) -> list[str]:
    return [
        row
        for file in (project.path / "out" / "cells").glob("*.answers.jsonl")
        for row in file.read_text().split("\n")
    ]


class TestSideBySide:
    def test_local_served_and_autoregressive(
        self, project: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One page with a local model by rows, a diffusion server and an autoregressive one by
        requests at a time.
        """
        monkeypatch.setattr(markdown, "write_plots", write_plots)

        def script(number: int, body: dict[str, Any]) -> Act:
            time.sleep(0.002)
            return right(number, body)

        with serving(script) as server:
            entry = f"{{base_url: {server.url}/v1, model: the-model, retries: 0"
            (project.path / "models.yaml").write_text(
                f"auto: {entry}}}\nfast: {entry}, sampler: threshold-0.9+b8}}\n"
            )
            levels = "--limit 4 --batch-size 1,4 --concurrency 1,2,4"
            run(
                f"--models models.yaml --model ideal --model auto --model fast --task copy {levels}"
                " --out out --sampler confidence-k4 --sampler ar --sampler threshold-0.9+b8"
            ).assert_outcomes(passed=2 + 2 + 3 + 3)
        report = (project.path / "out" / "report.md").read_text()
        section = report.split("## Speed under load")[1].split("\n## ")[0]
        rows = [
            [part.strip(" `") for part in line.split("|")[1:4]]
            for line in section.splitlines()
            if line[:3] != "|--"
        ]
        assert ["ideal", "confidence-k4", "4"] in rows
        assert ["auto", "ar", "4"] in rows
        assert ["fast", "threshold-0.9+b8", "2"] in rows
        assert "p90 s" in section
        assert (project.path / "out" / "under_load.png").stat().st_size > 10_000
        page = (project.path / "out" / "report.html").read_text()
        assert all(name in page for name in ("confidence-k4+x4", "ar+x4", "threshold-0.9+b8+x2"))


def test_percentiles() -> None:
    """By the nearest rank: of a hundred answers that took 1 to 100 s, 50, 90 and 99 s."""
    rows = [
        SampleRecord(i, "", {}, None, None, None, served={"seconds": float(i + 1)})
        for i in range(100)
    ]
    facts: dict[str, Any] = {key: {} for key in ("counters", "settings", "sent")}
    told = part_of(
        rows, provider="h", kind="openai", concurrency=1, asked=100, kept=0, version=None, **facts
    )
    assert told.requests == {"p50": 50.0, "p90": 90.0, "p99": 99.0}
    assert told.first_tokens == {}
