"""`--estimate`: a bill, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from pbcore.decoding import decode
from pbcore.models import load_model
from pbcore.plugin.state import say
from pbcore.tasks import load_task
from tests.models.shapes import checkpoint
from tests.plugin.conftest import Run
from tests.plugin.fakes import Config, Terminal

GRID = (
    "--model ideal --task copy --task shuffle --sampler random-k2 --sampler threshold-0.9 --limit 3"
)


def numbers(result: pytest.RunResult, pattern: str) -> list[int]:
    """The numbers of the pattern's groups in the output."""
    found = re.search(pattern, result.stdout.str())
    assert found is not None, result.stdout.str()
    return [int(text.replace(",", "")) for text in found.groups()]


class TestEstimate:
    def test_says_what_the_run_would_take(self, run: Run, project: pytest.Pytester) -> None:
        """Fixed schedules exactly, adaptive samplers by a probe within their bounds; nothing is run
        or written.
        """
        result = run(GRID, "--estimate", "--seed", "0-1")
        assert result.ret == 0
        assert numbers(result, r"ideal\n  ([\d,]+) cells, ([\d,]+) answers") == [4, 24]
        (fixed,) = numbers(result, r"fixed schedules: ([\d,]+), exact")
        expected, least, most = numbers(
            result, r"about ([\d,]+) \(a probe\), bounds ([\d,]+) to ([\d,]+)"
        )
        assert (fixed, least, most) == (2 * 2 * 3 * 16, 2 * 2 * 3, 2 * 2 * 3 * 32)
        assert least <= expected < most
        assert re.search(
            r"a forward takes [\d.]+ to [\d.]+ ms a row \(cpu, \d+ threads?, batches of 64\)",
            result.stdout.str(),
        )
        (tokens,) = numbers(result, r"tokens forwarded: about ([\d,]+)")
        assert abs(tokens - 32 * (fixed + expected)) <= 32  # ideal runs whole canvases
        assert "nothing was written" in result.stdout.str()
        assert not (project.path / "reports").exists()

    def test_with_sharing(self, run: Run) -> None:
        """Four samplers that take the same first steps need fewer forwards than they ask for."""
        samplers = (
            "--sampler confidence-k1 --sampler margin-k1 --sampler entropy-k1 --sampler"
            " left_to_right-k1"
        )
        result = run("--model tiny --task copy --limit 1 --share-forwards --estimate", samplers)
        (asked,) = numbers(result, r"fixed schedules: ([\d,]+), exact")
        expected, share = numbers(result, r"with sharing: about ([\d,]+), (\d+) % of those asked")
        assert asked == 4 * 32
        assert 32 <= expected < asked
        assert share == round(100 * expected / asked)

    def test_models_that_decode_by_themselves(self, run: Run) -> None:
        """Their forwards are their own affair."""
        result = run("--model tiny-ar --task copy --limit 1 --estimate")
        assert result.ret == 0
        result.stdout.fnmatch_lines(["tiny-ar", "  1 cell; it decodes by itself*"])

    def test_without_weights_and_without_a_gpu(self, run: Run) -> None:
        """Of a model that isn't here, on a device that isn't here."""
        result = run("--model llada-1.5 --task copy --limit 1 --gpu --price h200 --estimate")
        assert result.ret == 0
        result.stdout.fnmatch_lines(
            [
                "llada-1.5",
                "  8.02 billion parameters, 16.0 GB to download",
                "  device  memory  weights  decoding (bounds)",
                "  h200    141 GB  16.0 GB *",
            ]
        )

    def test_a_model_that_cannot_be_had(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        """The others have their bills, then one line says what to do; no internal error."""

        def unreachable(*args: object, **kwargs: object) -> None:
            raise LocalEntryNotFoundError("no network")

        monkeypatch.setattr("pbcore.models.hub.hf_hub_download", unreachable)
        result = run("--model no/body --model tiny-ar --task copy --limit 1 --estimate")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stdout.fnmatch_lines(["tiny-ar", "  1 cell; it decodes by itself*"])
        assert "--estimate: model no/body: no/body@main is not in the cache" in result.stderr.str()
        assert "INTERNALERROR" not in result.stdout.str()

    @pytest.mark.parametrize(
        ("options", "near"),
        [
            ("--model llada-8", "did you mean llada-8b"),
            ("--model llada-8b --price h10", "did you mean h100"),
        ],
    )
    def test_unknown_names_list_near_ones(self, run: Run, options: str, near: str) -> None:
        result = run(f"{options} --task copy --estimate")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert near in result.stderr.str()

    @pytest.mark.parametrize(
        "options", ["-x", "--floor '*/*/* accuracy>=1'", "--sample 1", "--per-sample"]
    )
    def test_what_does_not_go_with_it(self, run: Run, options: str) -> None:
        """An estimate judges nothing."""
        result = run(GRID, "--estimate", options)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert "--estimate measures no answers" in result.stderr.str()

    def test_what_if_rows(self, run: Run) -> None:
        """Samplers that ask are probed: forwards and rows as decoding takes them, and all rows
        count as time.
        """
        [answer] = decode(
            load_model("ideal"), load_task("waiting_line/shuffle", limit=1).samples, "spec-8"
        )
        result = run(
            "--model ideal --task shuffle --sampler spec-8 --limit 1 --estimate --seed 0-1"
        )
        calls, rows = numbers(result, r"about ([\d,]+) forwards in sequence, of ([\d,]+) rows")
        assert (calls, rows) == (2 * (answer.nfe or 0), 2 * (answer.rows or 0))
        assert rows > calls
        (tokens,) = numbers(result, r"tokens forwarded: about ([\d,]+)")
        assert tokens == 2 * (answer.tokens_forwarded or 0)
        assert "fixed schedules: 0, exact\n" in result.stdout.str()
        assert "not probed" not in result.stdout.str()

    def test_what_a_model_cannot_run_is_left_out(self, run: Run) -> None:
        """With its reason, in an estimate as in a run, also where node ids name the cells: no
        internal error.
        """
        why = "ideal × saber-2: saber needs predictions for visible tokens"
        names = ("ideal/shuffle/saber", "ideal/waiting_line/shuffle/confidence-k2")
        result = run("--limit 2 --estimate", *names)
        assert result.ret == 0
        assert numbers(result, r"fixed schedules: ([\d,]+), exact") == [32]
        measured = run("--limit 2", *names)
        measured.assert_outcomes(passed=1)
        measured.stdout.fnmatch_lines([f"left out: 1 cell, {why}*"])
        for option in ("--estimate", ""):
            alone = run(f"--limit 2 {option}", names[0])
            assert alone.ret == pytest.ExitCode.USAGE_ERROR
            assert why in alone.stderr.str()

    def test_runs_that_ask_nothing_have_no_line_of_rows(self, run: Run) -> None:
        """Their forwards are their rows."""
        assert "what-if" not in run(GRID, "--estimate").stdout.str()


def test_a_run_says_what_it_takes_before_loading(run: Run, project: pytest.Pytester) -> None:
    """In a line of its head, of a model that isn't part of the package."""
    checkpoint(project.path / "m", "llada")
    cells = "--model m --model ideal --task list_ops/shuffle --sampler random-k8 --limit 2"
    result = run(cells)
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(
        ["m: * million parameters, on this machine; * of weights in memory and*"]
    )
    assert "1 cell, about 2 forwards" in " ".join(result.stdout.str().split())
    result.stdout.no_fnmatch_line("ideal: *")


def test_lines_go_to_the_terminal(tmp_path: Path) -> None:
    """Where there is one."""
    terminal = Terminal()
    say(Config(tmp_path, plugins={"terminalreporter": terminal}), "a", "b")  # type: ignore[arg-type]
    say(Config(tmp_path), "a")  # type: ignore[arg-type]
    assert terminal.lines == ["a", "b"]
