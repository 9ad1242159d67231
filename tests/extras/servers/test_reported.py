"""What engines of diffusion models report of an answer: its forwards, step maps, and Mercury's
canvases.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pbcore.extras.servers.engines import counters, server_settings, version
from pbcore.extras.servers.reply import LeftOutWarning
from pbcore.models import load_model, resolve_model
from pbcore.tasks import load_task
from pbcore.theory.distributions import answer_distribution
from pbcore.theory.lost import bits_lost
from tests.extras.servers import engines
from tests.extras.servers.fake import Act, FakeServer, serving
from tests.extras.servers.served import FIVE, MINE, bodies, declare, right, stored
from tests.extras.servers.wire import Wire, spec_of
from tests.plugin.conftest import Run


class TestForwards:
    @pytest.mark.parametrize("engine", ["sglang", "lmdeploy"])
    def test_step_maps(self, project: pytest.Pytester, run: Run, engine: str) -> None:
        """NFE is the sum over blocks of the largest step; tokens, their order and the bits lost are
        recorded as for local models: here each block in one step but its last token.
        """
        tokenizer = load_model("tiny").tokenizer
        samples = load_task("waiting_line/shuffle", limit=3).samples
        ids = {sample.prompt: tokenizer.piece(sample.answer) for sample in samples}
        texts = {sample.prompt: sample.answer for sample in samples}

        def steps(count: int) -> list[int]:
            return [1 if place % 4 < 3 else 2 for place in range(count)]

        def script(number: int, body: dict[str, Any]) -> Act:
            asked = body["messages"][-1]["content"]
            add = engines.sglang_choice if engine == "sglang" else engines.lmdeploy_choice
            assert body["return_token_ids"]
            return Act(
                text=texts[asked],
                tokens_out=len(ids[asked]),
                choice=add(steps(len(ids[asked])), ids[asked]),
            )

        place = {
            "sglang": ("meta_info.step_maps", "response_token_ids"),
            "lmdeploy": ("step_map", "output_ids"),
        }[engine]
        with serving(script) as server:
            declare(
                project, server, kind=engine, sampler="threshold-0.95+b4", stream="false",
                extra_body="{return_token_ids: true}", tokenizer=resolve_model("tiny").folder,
                step_map_field=f"choices.0.{place[0]}", tokens_field=f"choices.0.{place[1]}",
            )  # fmt: skip
            run(f"{MINE} --task shuffle --limit 3 --out out").assert_outcomes(passed=1)
        entry = stored(project, "mine/shuffle/threshold-0.95+b4")
        expected = []
        for sample, record in zip(samples, entry.samples, strict=True):
            count = len(ids[sample.prompt])
            full, rest = divmod(count, 4)
            assert record.nfe == 2 * full + (rest > 0)
            order = [2 * (at // 4) + (at % 4 == 3) for at in range(count)]
            assert record.steps == order + [-1] * (sample.max_new_tokens - count)
            assert "".join(record.tokens[:count]) == sample.answer
            assert record.tokens[count] == "<eos>"
            assert (record.answer_tokens, record.canvas_tokens) == (count, None)
            expected.append(bits_lost(answer_distribution(sample), record.steps))
        assert entry.cell.bits_lost == pytest.approx(sum(expected) / 3)
        assert entry.cell.bits_lost > 0
        assert 0 < entry.cell.decoding["kendall"] <= 1
        assert entry.cell.nfe_mean == pytest.approx(sum(one.nfe for one in entry.samples) / 3)

    def test_none_reported_is_none(
        self, project: pytest.Pytester, run: Run, server: FakeServer
    ) -> None:
        """The released SGLang returns no steps: NFE and order are unknown."""
        declare(
            project,
            server,
            sampler="threshold-0.95+b4",
            stream="false",
            step_map_field="choices.0.meta_info.step_maps",
        )
        run(f"{FIVE} --out out").assert_outcomes(passed=1)
        entry = stored(project, "mine/copy/threshold-0.95+b4")
        assert (entry.cell.nfe_mean, entry.samples[0].nfe, entry.samples[0].steps) == (
            None,
            None,
            [],
        )

    def test_one_answer_without_forwards(self, project: pytest.Pytester, run: Run) -> None:
        """Such as a filtered one, leaves the cell without, and the answers that were paid for in
        place.
        """

        def script(number: int, body: dict[str, Any]) -> Act:
            return replace(right(number, body), extra={"steps": 4} if number else {})

        with serving(script) as server:
            declare(project, server, nfe_field="steps", concurrency=1)
            run(f"{FIVE} --out out").assert_outcomes(passed=1)
        assert stored(project).cell.nfe_mean is None

    @pytest.mark.parametrize("steps", ["soon", [1] * 2000])
    def test_a_step_map_that_cannot_be_read(
        self, project: pytest.Pytester, run: Run, steps: Any
    ) -> None:
        """Fails the cell with a line; the answers are kept, and a resumed run scores them without
        asking again and says why they have no steps.
        """
        with serving(lambda number, body: Act(choice={"steps": steps})) as server:
            declare(
                project,
                server,
                sampler="threshold-0.95+b4",
                stream="false",
                step_map_field="choices.0.steps",
            )
            output = run(f"{MINE} --task copy --limit 1 --out out")
            output.assert_outcomes(failed=1)
            output.stdout.fnmatch_lines([f"*model mine at {server.url}/v1: its step*--resume*"])
            again = run(f"{MINE} --task copy --limit 1 --resume out")
            again.assert_outcomes(passed=1, warnings=1)
            again.stdout.fnmatch_lines(["*LeftOutWarning: model mine at *, sample 0: its step*"])
            assert len(server.asked) == 1
        cell = stored(project, "mine/copy/threshold-0.95+b4").cell
        assert cell.nfe_mean is None
        assert cell.absent["nfe"].startswith("its step")

    def test_more_forwards_than_an_answer_can_take(
        self, project: pytest.Pytester, run: Run
    ) -> None:
        """Are not the answer's: no NFE, with the reason."""

        def script(number: int, body: dict[str, Any]) -> Act:
            return replace(right(number, body), extra={"steps": 4097 if number else 4096})

        with serving(script) as server:
            declare(project, server, nfe_field="steps", concurrency=1, max_tokens=64)
            run(f"{FIVE} --out out").assert_outcomes(passed=1)
        cell = stored(project).cell
        assert cell.nfe_mean is None
        assert cell.absent["nfe"].startswith("steps is 4,097, and an answer of 256 tokens")

    def test_tokens_that_contradict_the_text(self, project: pytest.Pytester, run: Run) -> None:
        """Are said, and left out: no film of another answer. The steps stay."""

        def script(number: int, body: dict[str, Any]) -> Act:
            act = right(number, body)
            tokens = [*act.text[:-1], "!"] if number else [*act.text]
            return replace(act, choice={"steps": [1] * len(tokens), "tokens": tokens})

        with serving(script) as server:
            declare(
                project,
                server,
                sampler="threshold-0.95",
                stream="false",
                concurrency=1,
                step_map_field="choices.0.steps",
                tokens_field="choices.0.tokens",
            )
            output = run(f"{MINE} --task copy --limit 2 --out out")
        output.assert_outcomes(passed=1, warnings=1)
        output.stdout.fnmatch_lines(["*sample 1: its tokens read *so it has no film*"])
        samples = stored(project, "mine/copy/threshold-0.95").samples
        assert [bool(sample.tokens) for sample in samples] == [True, False]
        assert {sample.nfe for sample in samples} == {1}
        assert all(sample.steps for sample in samples)

    def test_vllm_counters(self, project: pytest.Pytester, run: Run) -> None:
        """By difference over the cell's requests, with as many at once as declared; single answers
        have none.
        """
        counted = {"steps": 100}

        def script(number: int, body: dict[str, Any]) -> Act:
            with server.lock:
                counted["steps"] += 6
                server.metrics = engines.vllm_metrics(counted["steps"], 3 * counted["steps"])
            return right(number, body)

        with serving(script, metrics=engines.vllm_metrics(100, 300)) as server:
            server.pages["/server_info?config_format=json"] = engines.vllm_config(32)
            declare(project, server, kind="vllm", sampler="eb-0.1+b32", concurrency=2)
            run(f"{FIVE} --out out").assert_outcomes(passed=1)
        entry = stored(project, "mine/copy/eb-0.1+b32")
        assert (entry.cell.nfe_mean, entry.cell.tokens_per_forward) == (6.0, 3.0)
        assert {sample.nfe for sample in entry.samples} == {None}
        assert entry.cell.served.settings == {
            "canvas_length": 32,
            "max_denoising_steps": 48,
            "max_num_seqs": 8,
        }


class TestCounters:
    """Of a whole server, by difference: where part of that isn't known, none of it is."""

    def cell(self, project: pytest.Pytester, run: Run, pages: list[str | None]) -> Any:
        """A cell whose server's counters are one of these pages after another: the first until the
        first answer, the second until the sixth …
        """

        def script(number: int, body: dict[str, Any]) -> Act:
            with server.lock:
                server.metrics = pages[1 + number // 5]
            return right(number, body)

        with serving(script, metrics=pages[0]) as server:
            server.pages["/server_info?config_format=json"] = engines.vllm_config(32)
            declare(project, server, kind="vllm", sampler="eb-0.1+b32")
            run(f"{FIVE} --out out").assert_outcomes(passed=1)
        return stored(project, "mine/copy/eb-0.1+b32").cell

    @pytest.mark.parametrize(
        ("pages", "reason"),
        [
            ([None, engines.vllm_metrics(333_340, 0)], "could not be read before its requests"),
            ([engines.vllm_metrics(333_340, 0), None], "could not be read after its requests"),
            (["", engines.vllm_metrics(333_340, 0)], "could not be read before its requests"),
            ([engines.vllm_metrics(9, 9), engines.vllm_metrics(8, 10)], "fell during its requests"),
        ],
    )
    def test_a_page_that_fails(
        self, project: pytest.Pytester, run: Run, pages: list[str | None], reason: str
    ) -> None:
        """Leaves no NFE, and no whole history of the server as one; the record says why."""
        cell = self.cell(project, run, pages)
        assert (cell.nfe_mean, cell.tokens_per_forward, cell.served.counters) == (None, None, {})
        assert reason in cell.absent["nfe"]
        assert cell.scores["accuracy"].mean == 1

    @pytest.mark.parametrize("ill", [0, 1, 2])
    def test_of_several_seeds(self, project: pytest.Pytester, run: Run, ill: int) -> None:
        """The forwards of one seed are not divided by the answers of both."""
        pages: list[str | None] = [engines.vllm_metrics(10 * at, 0) for at in range(3)]
        pages[ill] = None
        with (project.path / "tox.ini").open("a") as stream:
            stream.write("\naddopts = --seed 0-1\n")
        cell = self.cell(project, run, pages)
        assert (cell.nfe_mean, cell.served.asked) == (None, 10)
        assert "could not be read" in cell.absent["nfe"]

    def test_a_counter_that_no_record_can_hold(self, project: pytest.Pytester, run: Run) -> None:
        """Is left out with a warning; the cell can be read and resumed."""
        page = engines.vllm_metrics(7, 7).replace(" 7.0", " 1e300")
        cell = self.cell(project, run, [page, page])
        assert cell.nfe_mean is None
        run(f"{FIVE} --resume out").assert_outcomes(passed=1)


class TestPages:
    """What a server tells of itself may be anything; the answers are what was paid for."""

    DEEP = b"[" * 100_000 + b"]" * 100_000

    @pytest.mark.parametrize(
        ("kind", "data"),
        [
            ("application/json", DEEP),
            ("application/json", b'{"vllm_config": ' + DEEP + b"}"),
            ("application/json", b"\xff\xfe"),
            ("application/json; charset=rot13", b"{}"),
            ("application/json; charset=\xe9", b"{}"),
            ("text/plain; charset=hex", b"6a"),
            ("text/plain; charset=idna", b"\x80.a"),
            ("text/plain; charset=utf-16", b"vllm:diffusion_num 3"),
            ("text/plain; charset=undefined", b"a 1"),
        ],
    )
    def test_odd_ones(self, wire: Wire, kind: str, data: bytes) -> None:
        """Say nothing, and raise nothing."""
        wire.pages = lambda path: (200, {"content-type": kind}, data)
        spec = spec_of("vllm", True)
        assert (version(spec), server_settings(spec), counters(spec)) == (None, {}, {})

    @pytest.mark.parametrize("path", ["/metrics", "/server_info?config_format=json", "/v1/models"])
    def test_a_run(self, project: pytest.Pytester, run: Run, server: FakeServer, path: str) -> None:
        """Keeps its answers; that a list of models can't be read is told in one line."""
        server.raw[path] = "application/json; charset=hex", self.DEEP
        declare(project, server, kind="vllm", sampler="eb-0.1+b32")
        output = run(f"{MINE} --task copy --limit 1 --out out")
        assert "INTERNALERROR" not in output.stdout.str() + output.stderr.str()
        output.assert_outcomes(passed=1)
        told = [line for line in output.stdout.lines if "doesn't tell whether it has" in line]
        assert len(told) == (path == "/v1/models")

    @pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e400", "1e300"])
    def test_settings_that_no_record_can_hold(self, wire: Wire, value: str) -> None:
        """Are left out with a warning; the others stay."""
        page = json.dumps(engines.vllm_config(32)).replace("48", value).encode()
        wire.pages = lambda path: (200, {}, page)
        with pytest.warns(LeftOutWarning, match="the setting max_denoising_steps is .* left out"):
            found = server_settings(spec_of("vllm", True))
        assert found == {"canvas_length": 32, "max_num_seqs": 8}

    def test_a_run_goes_on_without_them(
        self, project: pytest.Pytester, run: Run, server: FakeServer
    ) -> None:
        """And can be resumed."""
        text = json.dumps(engines.vllm_config(32)).replace("48", "NaN")
        server.raw["/server_info?config_format=json"] = "application/json", text.encode()
        declare(project, server, kind="vllm", sampler="eb-0.1+b32")
        run(f"{FIVE} --out out").assert_outcomes(passed=1, warnings=2)
        run(f"{FIVE} --resume out").assert_outcomes(passed=1)
        kept = stored(project, "mine/copy/eb-0.1+b32").cell.served.settings
        assert kept == {"canvas_length": 32, "max_num_seqs": 8}


class TestMercury:
    def test_as_officially_run(
        self, project: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """128 tokens for lists, 64 for texts and puzzles, canvases streamed: the last is the answer
        and their number the forwards.
        """

        def script(number: int, body: dict[str, Any]) -> Act:
            answer = right(number, body).text
            return Act(pieces=("noise " * 5, answer[:9], answer))

        monkeypatch.setenv("INCEPTION_API_KEY", "0123456789")
        with serving(script) as server:
            (project.path / "models.yaml").write_text(
                f"mercury:\n  base_url: {server.url}/v1\n  model: the-model\n"
            )
            tasks = "--task copy --task latin_square --task summarization"
            run(f"--models models.yaml --model mercury {tasks} --limit 2 --no-download --out out")
        assert (
            sorted(bodies(server, "max_tokens", "diffusing", "stream"))
            == [(64, True, True)] * 4 + [(128, True, True)] * 2
        )
        cell = stored(project, "mercury/copy/server").cell
        samples = stored(project, "mercury/copy/server").samples
        assert cell.scores["accuracy"].mean == 1
        assert (cell.nfe_mean, [one.nfe for one in samples]) == (3.0, [3, 3])

    def test_limits_of_tasks(
        self, tmp_path: Path, project: pytest.Pytester, run: Run, server: FakeServer
    ) -> None:
        """By full name, short name or category, the most exact first; one that no task has is an
        error.
        """
        limits = "{waiting_line: 99, waiting_line/sort: 55, reverse: 44}"
        declare(project, server, task_max_tokens=limits)
        run(f"{MINE} --task copy --task sort --task reverse --limit 1 --out out").assert_outcomes(
            passed=3
        )
        assert bodies(server, "max_tokens") == [(99,), (55,), (44,)]
        declare(project, server, task_max_tokens="{waiting_lin: 3}")
        run(f"{MINE} --task copy").stderr.fnmatch_lines(
            ["*task_max_tokens waiting_lin; did you mean waiting_line*"]
        )
