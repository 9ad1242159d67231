"""Runs with models behind servers that are refused or stopped, with the reason; and keys, which
appear nowhere.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from pbcore.extras.servers.clients import client_of
from pbcore.extras.servers.reply import read_answers
from pbcore.extras.servers.spec import ServerSpec
from pbcore.models.errors import ModelError
from tests.extras.servers.fake import CANARY, FAILURES, Act, FakeServer, failing, serving
from tests.extras.servers.served import FIVE, MINE, declare, right, stored
from tests.plugin.conftest import Run


class TestBeforeTheFirstCell:
    def refused(self, result: pytest.RunResult, said: str) -> None:
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert said in result.stderr.str() + result.stdout.str()
        assert "passed" not in result.stdout.str()
        assert "not finished" not in result.stdout.str()

    def test_server_down(self, project: pytest.Pytester, run: Run) -> None:
        """Told with its address; a dry run doesn't ask."""
        with serving() as server:
            declare(project, server)
        self.refused(
            run(f"{FIVE} --out out"),
            f"model mine at {server.url}/v1: no connection; is the server running",
        )
        assert not (project.path / "out").exists()
        dry = run(f"{FIVE} --co -q")
        assert dry.ret == 0
        dry.stdout.fnmatch_lines(
            ["*test_cell[[]mine/copy/ar]", "pbcore: mine: 5 requests, *: price unknown"]
        )

    def test_missing_key(
        self, project: pytest.Pytester, run: Run, server: FakeServer, monkeypatch: Any
    ) -> None:
        """Told with the variable, before anything is sent."""
        monkeypatch.delenv("MY_KEY", raising=False)
        declare(project, server, key="MY_KEY")
        self.refused(run(f"{FIVE} --out out"), "set the environment variable MY_KEY")
        assert server.other == []

    @pytest.mark.parametrize("workers", ["0", pytest.param("2", marks=pytest.mark.slow)])
    def test_unknown_model(
        self, project: pytest.Pytester, run: Run, server: FakeServer, workers: str
    ) -> None:
        """Told with close matches; with workers the server is asked once."""
        declare(project, server, model="the-modal")
        self.refused(
            run(f"{FIVE} --out out -n {workers}"),
            "doesn't know 'the-modal'; did you mean the-model?",
        )
        assert server.other == ["/v1/models", "/v1/models/the-modal"]
        assert server.asked == []

    def test_missing_package(
        self, project: pytest.Pytester, run: Run, server: FakeServer, monkeypatch: Any
    ) -> None:
        """The extra that brings it is named."""
        monkeypatch.setitem(__import__("sys").modules, "openai", None)
        declare(project, server)
        self.refused(run(f"{FIVE} --out out"), "pip install -c constraints.txt -e '.[openai]'")

    def test_wrong_yaml(self, project: pytest.Pytester, run: Run) -> None:
        """File, model, key and what is allowed."""
        (project.path / "models.yaml").write_text("mine: {base_url: http://h/v1}")
        self.refused(run(FIVE), "--models: models.yaml, model mine: field model is missing")

    def test_unknown_name(self, project: pytest.Pytester, run: Run, server: FakeServer) -> None:
        declare(project, server)
        self.refused(
            run("--models models.yaml --model mime"), "unknown model 'mime'; did you mean mine"
        )

    def test_a_tokenizer_that_is_not_there(
        self, project: pytest.Pytester, run: Run, server: FakeServer
    ) -> None:
        """It is refused before the first request, with model and folder."""
        declare(
            project, server, step_map_field="step_map", stream="false", tokenizer="/nonexistent"
        )
        result = run(FIVE)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        (line,) = result.stderr.str().strip().splitlines()
        assert "model mine: tokenizer /nonexistent: " in line
        assert "is no folder with tokenizer.json" in line
        assert server.asked == []

    def test_ini(self, project: pytest.Pytester, in_process: Run, server: FakeServer) -> None:
        """`pbcore_models` names the file, too."""
        declare(project, server)
        project.makeini(
            "[pytest]\nmarkers = quick: x\npbcore_models =\n  models.yaml\npbcore_model =\n  mine\n"
        )
        in_process("benches", "--task copy --co -q").stdout.fnmatch_lines(
            ["*test_cell[[]mine/copy/ar]"]
        )


class TestUntold:
    def test_a_key_that_only_the_answers_refuse(
        self, project: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A forbidden list of models is told and no reason to stop; the first refused answer is."""
        monkeypatch.setenv("MY_KEY", "sk-wrong-key")
        with serving(failing(FAILURES["401"])) as server:
            server.raw["/v1/models"] = "application/json", b'{"error": "missing scope"}'
            server.status["/v1/models"] = 403
            declare(project, server, key="MY_KEY", concurrency=1)
            result = run(f"{FIVE} --out out")
        result.assert_outcomes(failed=1)
        result.stdout.fnmatch_lines(
            [
                "pbcore: model mine: * doesn't tell whether it has 'the-model' (403: missing*",
                "*it refuses the key in MY_KEY (401*",
            ]
        )
        assert len(server.asked) == 1


class TestMoney:
    def test_the_limit_stops_the_run(
        self, project: pytest.Pytester, run: Run, server: FakeServer
    ) -> None:
        """The run ends before the limit, says what was spent and how to go on; a higher limit asks
        for the rest.
        """
        declare(
            project, server, prices="{input: 0.0, output: 10000.0}", max_tokens=32, concurrency=1
        )
        first = run(f"{MINE} --task copy --task reverse --limit 5 --max-cost 0.4 --out out")
        assert first.ret == pytest.ExitCode.INTERRUPTED
        first.stdout.fnmatch_lines(
            [
                (
                    "*--max-cost 0.4: 0.0900 USD are spent in this run, no request is under way,"
                    " 0.3100 USD are left, and the next answer of mine may cost 0.3200*"
                ),
                "not finished: 1 of 2 cells (mine/reverse/ar); resume with: *pytest* * --resume *",
                (
                    "3 answers of servers kept in *, 0.0900 USD by the declared prices; --max-cost"
                    " 0.4: 0.0900 USD spent, 0.0000 reserved, 0.3100 left"
                ),
            ]
        )
        run(
            f"{MINE} --task copy --task reverse --limit 5 --max-cost 1 --resume out"
        ).assert_outcomes(passed=2)
        assert len(server.asked) == 10

    @pytest.mark.nightly
    def test_workers_share_the_limit(
        self, project: pytest.Pytester, run: Run, server: FakeServer
    ) -> None:
        """With -n 2 no more is spent than without."""
        declare(project, server, prices="{input: 0.0, output: 10000.0}", max_tokens=10)
        run(f"{MINE} --task waiting_line/* --limit 5 --max-cost 0.5 --out out -n 2")
        assert 0 < 0.03 * len(server.asked) <= 0.5

    def test_no_price_no_limit(
        self, project: pytest.Pytester, run: Run, server: FakeServer, monkeypatch: Any
    ) -> None:
        """A limit on a keyed model without prices can't be kept, so it is refused with what to
        declare.
        """
        monkeypatch.setenv("MY_KEY", "x")
        declare(project, server, key="MY_KEY")
        result = run(f"{FIVE} --max-cost 1")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        assert "--max-cost: mine has no prices" in result.stderr.str()


class TestKeys:
    def test_a_key_appears_nowhere(
        self, project: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whatever goes wrong, and with every log, local variable and traceback shown, the key
        stands in no file of the run, not in JUnit's, and not on the screen.
        """
        monkeypatch.setenv("CANARY_KEY", CANARY)
        failures = {**FAILURES, "none": None, "anthropic": FAILURES["401"]}
        servers = {}
        entries = []
        with ExitStack() as stack:
            for name, failure in failures.items():
                script = right if failure is None else failing(failure, first=1)
                servers[name] = stack.enter_context(serving(script))
                kind = "anthropic" if name == "anthropic" else "openai"
                declare(
                    project, servers[name], kind=kind, key="CANARY_KEY", timeout=2, concurrency=1
                )
                entries.append(
                    (project.path / "models.yaml").read_text().replace("mine:", f"mine-{name}:")
                )
            (project.path / "models.yaml").write_text("".join(entries))
            models = " ".join(f"--model mine-{name}" for name in failures)
            result = run(
                f"--models models.yaml {models} --task copy --limit 5 --out out --junitxml"
                " junit.xml",
                "-rA -l --full-trace --log-level=DEBUG --log-file=log.txt",
            )
        result.assert_outcomes(passed=1, failed=len(failures) - 1)
        found = [
            path for path in project.path.rglob("*") if path.is_file() and "canary" in read(path)
        ]
        assert found == []
        assert "canary" not in result.stdout.str() + result.stderr.str()
        for name, failure in failures.items():
            sent = servers[name].asked[0].headers.values()
            assert any(CANARY in value for value in sent), f"{name}: the key was not even sent"
            (kept,) = (project.path / "out" / "cells").glob(f"mine-{name}*.answers.jsonl")
            assert len(read_answers(kept).replies) == (5 if failure is None else 1), name

    @pytest.mark.parametrize("failure", ["malformed", "500", "answer"])
    def test_a_key_with_quotes_appears_nowhere(
        self, project: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch, failure: str
    ) -> None:
        """A server repeats it escaped for JSON: in an error, in a reply that breaks off, in an
        answer. The cell fails, and neither its file nor the page nor JUnit's file nor the screen
        shows it.
        """
        key = 'sk-"canary"/01\\23'
        monkeypatch.setenv("CANARY_KEY", key)
        said = json.dumps(key)
        act = {
            "malformed": Act(raw='{"choices": [' + said),
            "500": Act(status=500, raw=said),
            "answer": Act(text=f"it is {said}"),
        }[failure]
        with serving(failing(act)) as server:
            declare(project, server, key="CANARY_KEY", timeout=5, concurrency=1)
            result = run(
                f"{FIVE} --out out --junitxml junit.xml -rA -l --full-trace --log-level=DEBUG"
            )
        result.assert_outcomes(failed=1)
        assert [
            path for path in project.path.rglob("*") if path.is_file() and "canary" in read(path)
        ] == []
        assert "canary" not in result.stdout.str() + result.stderr.str()

    def test_a_short_key_is_told_and_alters_nothing(
        self,
        project: pytest.Pytester,
        run: Run,
        server: FakeServer,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Right answers stay right."""
        monkeypatch.setenv("LOCAL_KEY", "a")
        declare(project, server, key="LOCAL_KEY")
        result = run(f"{FIVE} --out out")
        result.assert_outcomes(passed=1)
        result.stdout.fnmatch_lines(
            ["pbcore: model mine: the key in LOCAL_KEY has fewer than 8 characters, *"]
        )
        assert stored(project).cell.scores["accuracy"].mean == 1.0


def read(path: Path) -> str:
    """A file's text without the variable's name."""
    return path.read_bytes().decode("utf-8", "replace").replace("CANARY_KEY", "")


class TestNoClient:
    """What no HTTP client can be made with is said in one line, before the first request."""

    @pytest.mark.parametrize(
        ("variable", "value"),
        [
            ("ALL_PROXY", "://odd"),
            ("HTTPS_PROXY", "ftp://127.0.0.1:1"),
            ("ALL_PROXY", "socks5h://[::1"),
        ],
    )
    def test_of_the_environment(
        self, monkeypatch: pytest.MonkeyPatch, variable: str, value: str
    ) -> None:
        monkeypatch.setenv(variable, value)
        with pytest.raises(ModelError, match="model mine: no client for http") as caught:
            client_of(ServerSpec("mine", "m", "http://h/v1"))
        assert "\n" not in str(caught.value)

    def test_of_the_address(self, project: pytest.Pytester, run: Run, server: FakeServer) -> None:
        declare(project, server)
        file = project.path / "models.yaml"
        file.write_text(file.read_text().replace("127.0.0.1", "localho\u00b2st"))
        output = run(f"{FIVE} --out out")
        assert output.ret == 4
        (line,) = output.stderr.str().strip().splitlines()
        assert "model mine: no client for http" in line
        assert not server.asked
