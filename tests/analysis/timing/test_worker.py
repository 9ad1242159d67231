"""What a timing process holds between jobs, and what it decodes before its clock starts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import pbcore
from pbcore.analysis.timing.interleaved import HEAD
from pbcore.analysis.timing.worker import WARM, WarmCell, _load_task, main

JOB: dict[str, Any] = {
    "model": {"name": "m"},
    "task": {"files": [], "name": "t"},
    "sampler": "random-k1",
    "seed": 3,
    "batch_size": None,
}


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is loaded and decoded, in order, of tasks of 40 samples."""
    calls: list[Any] = []

    def load_model(name: str) -> Any:
        calls.append(name)
        return SimpleNamespace(name=name)

    def load_task(name: str) -> Any:
        calls.append(name)
        return SimpleNamespace(samples=tuple(range(40)))

    def decode(
        model: Any, samples: tuple[int, ...], sampler: str, *, seed: int, batch_size: int | None
    ) -> None:
        calls.append((model.name, len(samples), sampler, seed, batch_size))

    for name, function in (
        ("load_model", load_model),
        ("load_task", load_task),
        ("decode", decode),
    ):
        monkeypatch.setattr(pbcore, name, function)
    return calls


class TestBench:
    def test_a_cells_first_round_comes_after_a_batch_that_is_not_timed(
        self, log: list[Any]
    ) -> None:
        """Then the cell is warm; another cell of the same model and task is warmed for itself,
        without loading.
        """
        cell = WarmCell()
        other = {**JOB, "sampler": "random-k2"}
        for job in (JOB, JOB, other):
            assert cell.seconds(job) >= 0
        assert log == [
            "m",
            "t",
            ("m", WARM, "random-k1", 3, None),
            ("m", 40, "random-k1", 3, None),
            ("m", 40, "random-k1", 3, None),
            ("m", WARM, "random-k2", 3, None),
            ("m", 40, "random-k2", 3, None),
        ]

    def test_the_warming_batch_is_as_large_as_the_timed_ones(self, log: list[Any]) -> None:
        """Memory is then reserved before the clock starts."""
        WarmCell().seconds({**JOB, "batch_size": 5})
        assert log[2:] == [("m", 5, "random-k1", 3, 5), ("m", 40, "random-k1", 3, 5)]

    def test_the_seconds_are_those_between(
        self, log: list[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The clock after decoding less the clock before."""
        clock = iter([100.0, 102.5])
        monkeypatch.setattr(
            "pbcore.analysis.timing.worker.time", SimpleNamespace(perf_counter=lambda: next(clock))
        )
        assert WarmCell().seconds(JOB) == 2.5

    def test_two_models_never_share_the_memory(
        self, log: list[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The one before is let go before the next is loaded."""
        cell = WarmCell()
        cell.seconds(JOB)

        def load(name: str) -> Any:
            assert "model" not in cell.held
            return SimpleNamespace(name=name)

        monkeypatch.setattr(pbcore, "load_model", load)
        cell.seconds({**JOB, "model": {"name": "n"}})
        assert log[-1][0] == "n"


class TestGpu:
    def test_the_clock_waits_for_the_device(
        self, log: list[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Before and after the decoding that is timed; on the CPU there is nothing to wait for."""
        device = SimpleNamespace(type="cuda")
        monkeypatch.setattr(
            "torch.cuda.synchronize", lambda device: log.append(("waited", device.type))
        )
        monkeypatch.setattr(
            pbcore, "load_model", lambda name: SimpleNamespace(name=name, device=device)
        )
        WarmCell().seconds(JOB)
        assert [call[0] for call in log[1:]] == ["m", "waited", "m", "waited"]
        device.type = "cpu"
        WarmCell().seconds(JOB)
        assert len(log) == 8


class TestOwnTasks:
    def test_files_are_read_before_the_task_is_looked_for(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A cell of --tasks FILE can be timed, too."""
        file = tmp_path / "own.yaml"
        file.write_text(
            "desk/turn:\n  generator: reverse\n  scorer: list_match\n  lengths: [3]\n  samples: 4\n"
            "  max_new_tokens: 32\n  prompt: 'Turn round: {context}'\n"
        )
        assert len(_load_task([str(file)], name="desk/turn", limit=2).samples) == 2


def test_the_head_is_the_code_that_runs() -> None:
    """Its folder is the one that holds this pbcore."""
    assert Path(pbcore.__file__).resolve().parent == HEAD / "pbcore"


class TestMain:
    def test_answers_stand_alone_on_stdout(
        self, log: list[Any], capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Which pbcore, then an answer a job, whatever a library prints; an error is an answer, and
        the next job works.
        """
        broken = {**JOB, "seed": None, "task": {"files": [], "nonsense": 1}}
        lines = [json.dumps(job) + "\n" for job in (JOB, broken, JOB)] + ["{\n"]
        monkeypatch.setattr("sys.stdin", lines)
        monkeypatch.setattr(pbcore, "decode", lambda *parts, **options: os.write(1, b"noise\n"))
        kept = os.dup(1)
        try:
            main()
        finally:
            os.dup2(kept, 1)
            os.close(kept)
        out, err = capfd.readouterr()
        first, *answers = map(json.loads, out.splitlines())
        assert first == {"pbcore": pbcore.__file__}
        assert [list(answer) for answer in answers] == [
            ["seconds"],
            ["error"],
            ["seconds"],
            ["error"],
        ]
        assert answers[1]["error"].startswith("TypeError: ")
        assert err.count("noise") == 3

    def test_options_in_another_order_are_the_same_model(
        self, log: list[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It is loaded once, and its cell stays warm."""
        monkeypatch.setattr(
            pbcore, "load_model", lambda **options: log.append("load") or SimpleNamespace(name="m")
        )
        cell = WarmCell()
        for model in ({"name": "m", "dtype": "x"}, {"dtype": "x", "name": "m"}):
            cell.seconds({**JOB, "model": model})
        assert [call for call in log if call == "load"] == ["load"]
        assert [call[1] for call in log if isinstance(call, tuple)] == [WARM, 40, 40]
