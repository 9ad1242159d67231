"""Runs with models behind servers, against a local one: records, resume, answers that outlive a
run.
"""

from __future__ import annotations

import signal
import subprocess
import time
from dataclasses import replace
from typing import Any

import pytest

import pbcore
from pbcore.extras.servers.reply import read_answers
from tests.extras.servers.fake import Act, FakeServer, serving
from tests.extras.servers.served import COPY, FIVE, MINE, declare, right, stored
from tests.plugin.conftest import Run
from tests.warm_python import warm_python


class TestRecord:
    def test_a_row_with_what_is_known(
        self, project: pytest.Pytester, run: Run, server: FakeServer
    ) -> None:
        """Score, tokens, cost, times, server and model as returned are recorded; what it doesn't
        report is absent, in the record, the table of results and the one on the screen.
        """
        declare(project, server, prices="{input: 1.0, output: 10.0}")
        result = run(f"{FIVE} --model ideal --sampler ar --sampler confidence-k2 --out out")
        result.assert_outcomes(passed=2)
        cell = stored(project).cell
        samples = stored(project).samples
        assert cell.scores["accuracy"].mean == 1
        assert (
            cell.nfe_mean,
            cell.tokens_per_step,
            cell.peak_memory_bytes,
            cell.conditions.device,
        ) == (None,) * 4
        told = cell.served
        assert (told.asked, told.kept, told.concurrency, told.provider) == (5, 0, 8, server.url[7:])
        assert (told.models, told.tokens_in, told.tokens_out) == ({"the-model-2026": 5}, 35, 15)
        assert told.cost == pytest.approx(35e-6 + 150e-6)
        assert cell.samples_per_second == pytest.approx(5 / cell.seconds)
        assert {(one.nfe, one.canvas_tokens, one.answer_tokens) for one in samples} == {
            (None, None, 3)
        }
        row = pbcore.results.load(project.path / "out").set_index("id").loc["mine/copy/ar"]
        assert row["cost"] == pytest.approx(told.cost)
        assert row[["nfe", "tokens_per_step", "device"]].isna().all()
        result.stdout.fnmatch_lines(
            [
                (
                    "pbcore: mine: 5 requests, about * prompt tokens, at most 5,120 answer tokens:"
                    " at most about 0.05 USD"
                ),
                "mine  *ar",
                "copy *100",
                "tokens/step *–",
                "*– tokens per step: not reported by mine",
                "mine: the-model-2026 at 127.0.0.1:* (openai); 20*; 5 requests, up to*",
                "  8 at once; tokens 35 in, 15 *",
                "*5 answers of servers kept in *, 0.0002 USD by the declared prices",
            ]
        )
        assert "mine: the-model-2026" in (project.path / "out" / "report.md").read_text()

    def test_no_estimate_by_forwards(
        self, project: pytest.Pytester, run: Run, server: FakeServer
    ) -> None:
        """`--estimate` times forwards; what a server's answers can cost is said elsewhere, and
        nothing is asked.
        """
        declare(project, server)
        result = run(f"{FIVE} --estimate")
        assert result.ret == 0
        said = "1 cell behind a server; `--collect-only` says what they can cost"
        assert said in " ".join(result.stdout.str().split())
        assert not (project.path / "reports").exists()
        assert not server.asked

    def test_endings_are_counted_by_kind(self, project: pytest.Pytester, run: Run) -> None:
        """Empty, cut-off, refused and filtered answers stand beside the score; prose around a list
        is read by the official rules.
        """
        acts = [
            Act(text=""),
            Act(text="[", finish="length"),
            Act(text="", refusal="No."),
            Act(text="", finish="content_filter"),
        ]

        def script(number: int, body: dict[str, Any]) -> Act:
            chatty = f"Sure! Here it is: {COPY[body['messages'][-1]['content']]} Anything else?"
            return acts[number] if number < 4 else Act(text=chatty)

        with serving(script) as server:
            declare(project, server, concurrency=1)
            result = run(f"{FIVE} --out out")
        cell = stored(project).cell
        assert cell.served.outcomes == {"content_filter": 1, "empty": 2, "length": 1, "refusal": 1}
        assert cell.scores["accuracy"].mean == pytest.approx(1 / 5)
        said = " ".join(result.stdout.str().split())
        assert "empty 2; cut off 1; refused 1; filtered 1" in said

    def test_answers_that_the_engine_ended_are_asked_for_again(
        self, project: pytest.Pytester, run: Run
    ) -> None:
        """The cell's error counts them by the server's words; what was answered is kept."""
        words = ["abort", "stop", "error", "abort", "stop"]

        def script(number: int, body: dict[str, Any]) -> Act:
            whole = right(number, body)
            return replace(whole, finish=words[number]) if number < len(words) else whole

        with serving(script) as server:
            declare(project, server, concurrency=1)
            run(f"{FIVE} --out out").assert_outcomes(failed=1)
            assert "ended 3 answers before the model did (2 abort, 1 error); 2 of 5 answers" in (
                stored(project).cell.error
            )
            again = run(f"{FIVE} --resume out")
        again.assert_outcomes(passed=1)
        assert len(server.asked) == 8
        assert stored(project).cell.served.finish == {"stop": 5}
        assert stored(project).cell.scores["accuracy"].mean == 1

    def test_profile_tasks_and_left_out(
        self, project: pytest.Pytester, run: Run, server: FakeServer
    ) -> None:
        """Without --sampler a server's model runs its own; infilling and other samplers are left
        out with the reason; more rounds than one would pay twice, and are refused.
        """
        declare(project, server, sampler="server")
        refused = run(f"{MINE} --task copy --limit 2 --rounds 3")
        assert "--rounds 3: no cell of this run is timed several times" in refused.stderr.str()
        result = run(f"{MINE} --task copy --task list_ops/copy --limit 2 --out out")
        result.assert_outcomes(passed=1)
        assert stored(project, "mine/copy/server").cell.rounds == [
            stored(project, "mine/copy/server").cell.seconds
        ]
        assert len(server.asked) == 2
        result.stdout.fnmatch_lines(["left out: 1 cell, mine × list_ops: infilling*"])
        again = run(f"{MINE} --task copy --limit 2 --sampler ar --out other")
        again.stdout.fnmatch_lines(
            ["left out: 1 cell, mine × samplers other than server: mine decodes behind its server*"]
        )

    def test_temperature_and_seeds(
        self, project: pytest.Pytester, run: Run, server: FakeServer
    ) -> None:
        """`ar+t1.0` sends its temperature; each seed is a question of its own."""
        declare(project, server, seed="true")
        run(f"{FIVE} --sampler ar+t1.0 --seed 3-4 --out out").assert_outcomes(passed=1)
        assert {(one.body["temperature"], one.body["seed"]) for one in server.asked} == {
            (1.0, 3),
            (1.0, 4),
        }
        assert len(server.asked) == 10


class TestResume:
    def test_a_failed_cell_asks_only_for_what_is_missing(
        self, project: pytest.Pytester, run: Run
    ) -> None:
        """The error names the server and what is kept; --resume asks for the rest, and the cell,
        some of whose answers were kept, has no time.
        """
        ill = {3}

        def script(number: int, body: dict[str, Any]) -> Act:
            return Act(status=503, body={"error": "ill"}) if number in ill else right(number, body)

        with serving(script) as server:
            declare(project, server, concurrency=1)
            first = run(f"{FIVE} --out out")
            first.assert_outcomes(failed=1)
            first.stdout.fnmatch_lines(
                [f"*model mine at {server.url}/v1: it failed (503: ill); 3 of 5 answers came*"]
            )
            assert len(server.asked) == 4
            second = run(f"{FIVE} --resume out")
            second.assert_outcomes(passed=1)
            assert len(server.asked) == 6
        cell = stored(project).cell
        assert (cell.served.asked, cell.served.kept, cell.seconds, cell.samples_per_second) == (
            2,
            3,
            None,
            None,
        )
        assert cell.absent["seconds"] == "3 of 5 answers were kept from an earlier run"
        assert cell.scores["accuracy"].mean == 1
        second.stdout.fnmatch_lines(
            ["pbcore: mine: 2 requests, *", "*(1 without a time of their own)*"]
        )

    def test_a_finished_run_asks_nothing(self, project: pytest.Pytester, run: Run) -> None:
        """Not even whether the server is there."""
        with serving(right) as server:
            declare(project, server)
            run(f"{FIVE} --out out").assert_outcomes(passed=1)
        run(f"{FIVE} --resume out").assert_outcomes(passed=1)

    def test_more_samples_keep_those_that_came(
        self, project: pytest.Pytester, run: Run, server: FakeServer
    ) -> None:
        """A higher limit asks for the samples that are new."""
        declare(project, server)
        run(f"{MINE} --task copy --limit 5 --out out")
        run(f"{MINE} --task copy --limit 8 --resume out --resume-anyway").assert_outcomes(passed=1)
        assert len(server.asked) == 8

    def test_drilling_down_takes_kept_answers(
        self, project: pytest.Pytester, run: Run, server: FakeServer
    ) -> None:
        """A single sample of a run that is resumed costs nothing."""
        declare(project, server)
        run(f"{FIVE} --out out")
        before = (project.path / "out").stat().st_mtime_ns, len(server.asked)
        run(f"{FIVE} --resume out --sample 3").assert_outcomes(passed=1)
        assert before == ((project.path / "out").stat().st_mtime_ns, len(server.asked))


@pytest.mark.posix
class TestEnds:
    @pytest.mark.slow
    @pytest.mark.parametrize(
        "end", [pytest.param("SIGKILL", id="killed"), pytest.param("SIGINT", id="interrupted")]
    )
    def test_what_was_paid_for_is_kept(self, project: pytest.Pytester, run: Run, end: str) -> None:
        """A run that is killed, or interrupted, in the middle of a cell has its answers on disk: of
        those that the server gave no more are asked again than were under way.
        """
        process: subprocess.Popen[bytes] | None = None

        def slow(number: int, body: dict[str, Any]) -> Act:
            running = process is None or process.poll() is None
            return replace(right(number, body), pause=0.03 if running else 0)

        with serving(slow) as server:
            declare(project, server, concurrency=2)
            words = f"{MINE} --task copy --limit 20 --out out -q".split()
            before = signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                process = subprocess.Popen(
                    [warm_python(), "-m", "pytest", "benches", *words],
                    cwd=project.path,
                    stdout=subprocess.PIPE,
                )
            finally:
                signal.signal(signal.SIGINT, before)
            while len(server.asked) < 6:
                assert process.poll() is None, process.communicate()[0]
                time.sleep(0.01)
            process.send_signal(signal.Signals[end])
            process.communicate()
            asked = len(server.asked)
            (file,) = (project.path / "out" / "cells").glob("*.answers.jsonl")
            came = len(read_answers(file).replies)
            assert asked - (2 if end == "SIGKILL" else 0) <= came <= asked < 20
            run(f"{MINE} --task copy --limit 20 --resume out").assert_outcomes(passed=1)
            assert len(server.asked) - asked == 20 - came
