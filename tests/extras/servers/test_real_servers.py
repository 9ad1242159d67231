"""Runs against real servers: `transformers serve` and llama.cpp's, on random models made here."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pbcore.cli import main
from pbcore.extras.servers.clients import client_of
from pbcore.extras.servers.reply import Ask, read_answers
from pbcore.extras.servers.spec import ServerSpec
from pbcore.models.errors import ModelError
from tests.extras.servers.real import (
    RealServer,
    dlmserve_server,
    llama_cpp_server,
    transformers_server,
)
from tests.extras.servers.served import stored
from tests.plugin.conftest import Run

ASK = Ask(({"role": "user", "content": "Copy this list"},), 8, 0.0, 0, 0)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """`transformers serve`; a test that kills it starts it again."""
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    yield from running(transformers_server(tmp_path_factory.mktemp("serve")))


@pytest.fixture(scope="module")
def llama_cpp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    pytest.importorskip("xllamacpp")
    pytest.importorskip("gguf")
    yield from running(llama_cpp_server(tmp_path_factory.mktemp("llama-cpp")))


@pytest.fixture(scope="module")
def dlmserve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """A server of diffusion models that is no dependency: it asks for an older transformers than
    the package's.
    """
    pytest.importorskip("dlmserve")
    yield from running(dlmserve_server(tmp_path_factory.mktemp("dlmserve")))


def running(server: RealServer) -> Iterator[RealServer]:
    server.start()
    yield server
    server.kill()


def declare(project: pytest.Pytester, server: RealServer, kind: str, **keys: Any) -> None:
    entry = {"kind": kind, "base_url": server.url, "model": server.model, "retries": 0, **keys}
    text = "".join(f"  {name}: {value}\n" for name, value in entry.items())
    (project.path / "models.yaml").write_text(f"mine:\n{text}")


RUN = "--models models.yaml --model mine --task copy"


@pytest.mark.slow
class TestTransformers:
    def spec(self, server: RealServer, **keys: Any) -> ServerSpec:
        return ServerSpec(
            "mine", server.model, server.url, "transformers", **{"retries": 0, **keys}
        )

    def test_streamed_and_whole(self, served: RealServer) -> None:
        """The same greedy answer either way, with the server's counts and its own name of the
        model.
        """
        streamed = client_of(self.spec(served)).ask(ASK)
        whole = client_of(self.spec(served, stream=False)).ask(ASK)
        assert streamed.text == whole.text != ""
        assert (
            (streamed.tokens_out, streamed.outcomes)
            == (whole.tokens_out, whole.outcomes)
            == (8, ("length",))
        )
        assert streamed.tokens_in == whole.tokens_in
        assert streamed.model is not None
        assert streamed.model.startswith(served.model)
        assert streamed.first_token is not None
        assert whole.first_token is None

    def test_unknown_field(self, served: RealServer) -> None:
        """The server's 422 names the field, and so does the error."""
        with pytest.raises(
            ModelError,
            match=r"refuses the request, which sets .*flavour \(422: Unexpected fields.*flavour",
        ):
            client_of(self.spec(served, extra_body={"flavour": 1})).ask(ASK)

    def test_unknown_model(self, served: RealServer) -> None:
        """The server is made to load the model before the first cell, and says why it can't."""
        client_of(self.spec(served)).check()
        other = ServerSpec("mine", f"{served.model}-not", served.url, "transformers", retries=0)
        with pytest.raises(ModelError, match=r"can't load '.*-not'"):
            client_of(other).check()

    def test_killed_in_mid_run(
        self, project: pytest.Pytester, run: Run, served: RealServer
    ) -> None:
        """The cell's error names the server; --resume asks for the answers that are missing alone,
        by the server's own count, and the answers are those of a straight run.
        """
        declare(project, served, "transformers", max_tokens=24)
        before = served.answered
        run(f"{RUN} --limit 24 --out straight").assert_outcomes(passed=1)
        assert served.answered - before == 24
        kept = killed_after(4, project.path / "out", served)
        first = run(f"{RUN} --limit 24 --out out")
        kept.join()
        first.assert_outcomes(failed=1)
        first.stdout.fnmatch_lines(
            [f"*model mine at {served.url}: *of 24 answers came and are kept for --resume*"]
        )
        (file,) = (project.path / "out" / "cells").glob("*.answers.jsonl")
        came = len(read_answers(file).replies)
        assert 4 <= came < 24
        served.start()
        before = served.answered
        run(f"{RUN} --limit 24 --resume out").assert_outcomes(passed=1)
        assert served.answered - before == 24 - came
        cell = stored(project).cell
        assert (cell.served.asked, cell.served.kept, cell.seconds) == (24 - came, came, None)
        texts = [
            [one.text for one in stored(project, run=folder).samples]
            for folder in ("out", "straight")
        ]
        assert texts[0] == texts[1]


def killed_after(answers: int, folder: Path, server: RealServer) -> threading.Thread:
    """Kills the server as soon as so many answers are on disk."""

    def watch() -> None:
        while (
            sum(len(read_answers(file).replies) for file in folder.glob("cells/*.answers.jsonl"))
            < answers
        ):
            time.sleep(0.01)
        server.kill()

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    return thread


class TestLlamaCpp:
    def test_a_cell(self, project: pytest.Pytester, run: Run, llama_cpp: RealServer) -> None:
        """A cell of llama.cpp's server: answers with its counts, its version, and eight requests at
        once.
        """
        declare(project, llama_cpp, "llamacpp", max_tokens=16, seed="true")
        run(f"{RUN} --limit 12 --out out").assert_outcomes(passed=1)
        told = stored(project).cell.served
        assert (told.asked, told.kind, told.concurrency) == (12, "llamacpp", 8)
        assert told.version
        assert 12 <= told.tokens_out <= 12 * 32
        assert told.first_token > 0


@pytest.mark.slow
class TestDlmserve:
    def test_it_decodes_what_is_expected(
        self, dlmserve: RealServer, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """In bfloat16, by a checkpoint's own code: for one client, and for three at once, whose
        requests it batches.
        """
        fields = "{confidence: {steps: num_denoising_steps, b: block_length}}"
        check = ["check", "engine", dlmserve.model, "--url", dlmserve.url, "--kind", "dlmserve"]
        row = [f"--set={one}" for one in ("stream=false", f"sampler_fields={fields}")]
        row += ["--set=sampler=confidence-k4+b8", "--model", dlmserve.model]
        assert main([*check, *row]) == 0
        printed = capsys.readouterr().out.splitlines()
        equal = [line.split(":")[0] for line in printed if " equal" in line and "✓" in line]
        assert equal == [f"✓ engine/llada/confidence-k4+b8/{name}" for name in ("single", "batch")]
