"""Engines of diffusion models: the requests that say a sampler, what the server says of its own, and the forwards that
it reports.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pbcore.integrations.servers.check_sampler import check_sampler
from pbcore.integrations.servers.model import ServerModel
from pbcore.integrations.servers.reported import settings, version
from pbcore.integrations.servers.spec import ServerSpec
from pbcore.models import load_model, resolve_model
from pbcore.models.errors import ModelError
from pbcore.names import parse
from pbcore.tasks import load_task
from pbcore.theory.distributions import answer_distribution
from pbcore.theory.lost import bits_lost
from tests.integrations.servers import engines
from tests.integrations.servers.fake import Act, FakeServer, serving
from tests.integrations.servers.served import FIVE, MINE, declare, right, stored
from tests.plugin.conftest import Run

NEMO = (
    "{threshold: {number: threshold, b: block_length, dual: use_dual_cache, prefix: use_cache}, "
    "factor: {number: factor, b: block_length}}"
)
DLMSERVE = "{confidence: {steps: num_denoising_steps, b: block_length}}"


def bodies(server: FakeServer, *fields: str) -> list[tuple[Any, ...]]:
    return [tuple(one.body.get(name) for name in fields) for one in server.asked]


class TestSamplerFields:
    def test_one_server_runs_several_samplers(self, project: pytest.Pytester, run: Run, server: FakeServer) -> None:
        """As NeMo-RL's: threshold, factor and block length of each name are sent, and recorded as sent; other samplers
        are left out. Without +b8 the block is the whole answer, and a cache that the name lacks is off.
        """
        declare(project, server, sampler="threshold-0.9+b32", sampler_fields=NEMO, max_tokens=64)
        names = "--sampler threshold-0.7+b16+dual --sampler factor-1.0 --sampler random-k2"
        output = run(f"{MINE} --task copy --limit 1 --out out {names}")
        output.assert_outcomes(passed=2)
        sent = ("threshold", "factor", "block_length", "use_cache", "use_dual_cache")
        assert bodies(server, *sent) == [(0.7, None, 16, False, True), (None, 1.0, 64, None, None)]
        output.stdout.fnmatch_lines(["left out: 1 cell, *sampler_fields have threshold, factor, and no random"])
        cell = stored(project, "mine/copy/threshold-0.7+b16+dual").cell
        assert cell.served.sent == {
            "threshold": [0.7], "block_length": [16], "use_dual_cache": [True], "use_cache": [False]
        }  # fmt: skip

    def test_without_an_option_the_declared_one_runs(
        self, project: pytest.Pytester, run: Run, server: FakeServer
    ) -> None:
        declare(project, server, sampler="threshold-0.9+b32", sampler_fields=NEMO)
        run(f"{MINE} --task copy --limit 1 --out out").assert_outcomes(passed=1)
        assert bodies(server, "threshold", "block_length") == [(0.9, 32)]

    @pytest.mark.parametrize(
        ("sampler", "steps", "block"),
        [
            ("confidence-k2", 16, 32),
            ("confidence-k2+b8", 16, 8),
            ("confidence-k1", 32, 32),
            ("confidence+linear4+b8", 16, 8),
        ],
    )
    def test_steps_of_dlmserve(self, server: FakeServer, sampler: str, steps: int, block: int) -> None:
        """`steps` are those of the whole answer, by the tokens of each step or the schedule in every block."""
        spec = dlmserve(server)
        ServerModel(spec).generate(
            load_task("waiting_line/copy", limit=1).samples, parse(sampler), max_new_tokens=32, seed=0
        )
        assert bodies(server, "num_denoising_steps", "block_length", "max_tokens") == [(steps, block, 32)]

    def test_steps_that_do_not_come_out_even(self, project: pytest.Pytester, run: Run, server: FakeServer) -> None:
        """Are an error before the first request."""
        declare(project, server, sampler="confidence-k1", sampler_fields=DLMSERVE, max_tokens=32)
        output = run(f"{MINE} --task copy --limit 1 --sampler confidence-k3+b8")
        output.stderr.fnmatch_lines(
            ["*an answer of 32 tokens has no whole number of blocks of 8, or these none of steps of 3*"]
        )
        assert server.asked == []

    def test_places_within_fields(self, server: FakeServer) -> None:
        """Such as vLLM's `vllm_xargs`, beside what extra_body has there."""
        fields = {"eb": {"number": "vllm_xargs.bound"}}
        spec = ServerSpec("mine", "the-model", f"{server.url}/v1", sampler="eb-0.1", sampler_fields=fields,
                          extra_body={"vllm_xargs": {"diffusion_max_steps": 9}})  # fmt: skip
        ServerModel(spec).generate(["a"], parse("eb-0.3"), max_new_tokens=None, seed=0)
        assert server.asked[0].body["vllm_xargs"] == {"diffusion_max_steps": 9, "bound": 0.3}

    def test_each_sampler_is_a_question_of_its_own(self, server: FakeServer) -> None:
        """So an answer that is kept is never taken for another sampler's; without the fields digests are as before."""
        model = ServerModel(dlmserve(server))
        asks = [model.request("a", parse(name), 32, 0, 0) for name in ("confidence-k1", "confidence-k2")]
        assert len({ask.digest(model.spec) for ask in asks}) == 2


def dlmserve(server: FakeServer, **keys: Any) -> ServerSpec:
    fields = {"confidence": {"steps": "num_denoising_steps", "b": "block_length"}}
    return ServerSpec(
        "mine", "the-model", f"{server.url}/v1", **{"sampler": "confidence-k1", "sampler_fields": fields, **keys}
    )


def sglang(server: FakeServer, sampler: str) -> ServerSpec:
    return ServerSpec("mine", "the-model", f"{server.url}/v1", "sglang", sampler=sampler)


class TestSaid:
    """What a server says of its sampler, against what is declared."""

    @pytest.mark.parametrize(
        ("sampler", "algorithm", "config", "said"),
        [
            ("threshold-0.95+b4", "LowConfidence", None, None),
            ("threshold-0.9+b4", "LowConfidence", "low.yaml", None),
            ("joint-0.5+b32", "JointThreshold", None, None),
            ("ar", None, None, None),
            ("server", "LowConfidence", None, None),
            ("server", None, None, None),
            ("own-3", "Unheard", None, None),
            ("threshold-0.9+b4", "LowConfidence", None, "without dllm_algorithm_config, whose number is 0.95; declare"),
            ("threshold-0.9+b4", "JointThreshold", "j.yaml", "algorithm JointThreshold; declare sampler: joint-0.5"),
            ("threshold-0.9+b4", None, None, "None: it decodes one token at a time; declare sampler: ar"),
            ("ar", "LowConfidence", None, "says dllm_algorithm LowConfidence; declare sampler: threshold-0.95"),
            ("ar", "Unheard", None, "says dllm_algorithm Unheard; declare sampler: server"),
        ],
    )  # fmt: skip
    def test_sglang(self, server: FakeServer, sampler: str, algorithm: str, config: str, said: str | None) -> None:
        server.pages["/server_info"] = engines.sglang_info(algorithm, config)
        spec = sglang(server, sampler)
        if said is None:
            check_sampler(spec)
            return
        with pytest.raises(ModelError) as caught:
            check_sampler(spec)
        assert f"declared with sampler {sampler}, and {server.url}/v1 says" in str(caught.value)
        assert said in str(caught.value)

    @pytest.mark.parametrize("path", ["/server_info", "/get_server_info"])
    def test_sglang_of_before(self, server: FakeServer, path: str) -> None:
        """The deprecated address is asked only where the other isn't there."""
        server.pages[path] = engines.sglang_info("LowConfidence")
        spec = sglang(server, "threshold-0.95+b4")
        assert version(spec) == "0.5.23"
        assert settings(spec) == {
            "dllm_algorithm": "LowConfidence", "dllm_algorithm_config": None, "max_running_requests": None
        }  # fmt: skip
        assert ("/get_server_info" in server.other) == (path == "/get_server_info")

    @pytest.mark.parametrize(
        ("sampler", "canvas", "said"),
        [
            ("eb-0.1+b256", 256, None),
            ("eb-0.1", 256, None),
            ("ar", None, None),
            ("eb-0.1+b32", 256, "says canvas_length 256; declare +b256"),
            ("ar", 256, "says canvas_length 256; declare the sampler of the diffusion model"),
        ],
    )
    def test_vllm(self, server: FakeServer, sampler: str, canvas: int | None, said: str | None) -> None:
        """By its configuration, which it tells in development mode alone."""
        server.pages["/server_info?config_format=json"] = engines.vllm_config(canvas)
        spec = replace(sglang(server, sampler), kind="vllm")
        if said is None:
            check_sampler(spec)
            return
        with pytest.raises(ModelError, match=said.replace("+", r"\+")):
            check_sampler(spec)

    def test_vllm_counts_denoising_steps(self, server: FakeServer) -> None:
        """So its model is no autoregressive one, also where it keeps its configuration to itself."""
        server.metrics = engines.vllm_metrics(0, 0)
        check_sampler(replace(sglang(server, "server"), kind="vllm"))
        with pytest.raises(ModelError, match="counts denoising steps"):
            check_sampler(replace(sglang(server, "ar"), kind="vllm"))

    def test_a_contradiction_ends_the_run_before_the_first_request(
        self, project: pytest.Pytester, run: Run, server: FakeServer
    ) -> None:
        server.pages["/server_info"] = engines.sglang_info("JointThreshold")
        declare(project, server, kind="sglang", sampler="threshold-0.95+b4")
        output = run(f"{FIVE} --out out")
        assert output.ret == pytest.ExitCode.USAGE_ERROR
        output.stderr.fnmatch_lines(["ERROR: model mine is declared with sampler threshold-0.95+b4, and * says dllm_*"])
        assert server.asked == []

    def test_it_is_recorded(self, project: pytest.Pytester, run: Run, server: FakeServer) -> None:
        server.pages["/server_info"] = engines.sglang_info("LowConfidence")
        declare(project, server, kind="sglang", sampler="threshold-0.95+b4")
        run(f"{FIVE} --out out").assert_outcomes(passed=1)
        told = stored(project, "mine/copy/threshold-0.95+b4").cell.served
        assert (told.version, told.settings["dllm_algorithm"], told.sent) == ("0.5.23", "LowConfidence", {})


class TestForwards:
    @pytest.mark.parametrize("engine", ["sglang", "lmdeploy"])
    def test_step_maps(self, project: pytest.Pytester, run: Run, engine: str) -> None:
        """NFE is the sum over blocks of the largest step; tokens, their order and the bits lost are recorded as for
        local models: here each block in one step but its last token.
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
            return Act(text=texts[asked], tokens_out=len(ids[asked]), choice=add(steps(len(ids[asked])), ids[asked]))

        place = {"sglang": ("meta_info.step_maps", "response_token_ids"), "lmdeploy": ("step_map", "output_ids")}[
            engine
        ]
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

    def test_none_reported_is_none(self, project: pytest.Pytester, run: Run, server: FakeServer) -> None:
        """The released SGLang returns no steps: NFE and order are unknown."""
        declare(
            project, server, sampler="threshold-0.95+b4", stream="false", step_map_field="choices.0.meta_info.step_maps"
        )
        run(f"{FIVE} --out out").assert_outcomes(passed=1)
        entry = stored(project, "mine/copy/threshold-0.95+b4")
        assert (entry.cell.nfe_mean, entry.samples[0].nfe, entry.samples[0].steps) == (None, None, [])

    def test_one_answer_without_forwards(self, project: pytest.Pytester, run: Run) -> None:
        """Such as a filtered one, leaves the cell without, and the answers that were paid for in place."""

        def script(number: int, body: dict[str, Any]) -> Act:
            return replace(right(number, body), extra={"steps": 4} if number else {})

        with serving(script) as server:
            declare(project, server, nfe_field="steps", concurrency=1)
            run(f"{FIVE} --out out").assert_outcomes(passed=1)
        assert stored(project).cell.nfe_mean is None

    @pytest.mark.parametrize("steps", ["soon", [0, 1], [1.5], [2, 2, 2, 2, 2, 2, 2, 2]])
    def test_a_step_map_that_cannot_be_read(self, project: pytest.Pytester, run: Run, steps: Any) -> None:
        """Fails the cell with a line; the answers are kept."""
        with serving(lambda number, body: Act(choice={"steps": steps})) as server:
            declare(project, server, sampler="threshold-0.95+b4", stream="false", step_map_field="choices.0.steps")
            output = run(f"{MINE} --task copy --limit 1 --out out")
        output.assert_outcomes(failed=1)
        output.stdout.fnmatch_lines([f"*model mine at {server.url}/v1: *step*"])

    def test_vllm_counters(self, project: pytest.Pytester, run: Run) -> None:
        """By difference over the cell's requests, with as many at once as declared; single answers have none."""
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
        assert entry.cell.served.settings == {"canvas_length": 32, "max_denoising_steps": 48, "max_num_seqs": 8}


class TestMercury:
    def test_as_officially_run(self, project: pytest.Pytester, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        """128 tokens for lists, 64 for texts and puzzles, canvases streamed: the last is the answer and their number
        the forwards.
        """

        def script(number: int, body: dict[str, Any]) -> Act:
            answer = right(number, body).text
            return Act(pieces=("noise " * 5, answer[:9], answer))

        monkeypatch.setenv("INCEPTION_API_KEY", "0123456789")
        with serving(script) as server:
            (project.path / "models.yaml").write_text(f"mercury:\n  base_url: {server.url}/v1\n  model: the-model\n")
            tasks = "--task copy --task latin_square --task summarization"
            run(f"--models models.yaml --model mercury {tasks} --limit 2 --no-download --out out")
        assert (
            sorted(bodies(server, "max_tokens", "diffusing", "stream"))
            == [(64, True, True)] * 4 + [(128, True, True)] * 2
        )
        cell, samples = stored(project, "mercury/copy/server").cell, stored(project, "mercury/copy/server").samples
        assert cell.scores["accuracy"].mean == 1
        assert (cell.nfe_mean, [one.nfe for one in samples]) == (3.0, [3, 3])

    def test_limits_of_tasks(self, tmp_path: Path, project: pytest.Pytester, run: Run, server: FakeServer) -> None:
        """By full name, short name or category, the most exact first; one that no task has is an error."""
        limits = "{waiting_line: 99, waiting_line/sort: 55, reverse: 44}"
        declare(project, server, task_max_tokens=limits)
        run(f"{MINE} --task copy --task sort --task reverse --limit 1 --out out").assert_outcomes(passed=3)
        assert bodies(server, "max_tokens") == [(99,), (55,), (44,)]
        declare(project, server, task_max_tokens="{waiting_lin: 3}")
        run(f"{MINE} --task copy").stderr.fnmatch_lines(["*task_max_tokens waiting_lin; did you mean waiting_line*"])


class TestDeclared:
    @pytest.mark.parametrize(
        ("keys", "said"),
        [
            ({"sampler_fields": NEMO}, "sampler ar is what runs unless --sampler says another; its"),
            ({"sampler": "threshold+b8", "sampler_fields": NEMO}, "its field for 'number' has no value in that name"),
            ({"sampler": "threshold-0.9+b8+eos_stop", "sampler_fields": NEMO}, "no field for 'eos_stop' of threshold"),
            ({"sampler": "eb-1", "sampler_fields": "{eb: {number: seed}}"}, "sets 'seed', which has a key"),
            ({"sampler": "eb-1", "sampler_fields": "{eb: {number: a..b}}"}, "sets 'a..b'; give a field's"),
            ({"step_map_field": "steps"}, "declare stream: false, and no nfe_field"),
            ({"tokens_field": "ids"}, "tokens_field is for the steps of the tokens; declare step_map_field"),
            ({"task_max_tokens": "{copy: 0}"}, "task_max_tokens copy 0; give a number from 1"),
        ],
    )  # fmt: skip
    def test_what_cannot_be_meant(
        self, project: pytest.Pytester, run: Run, server: FakeServer, keys: dict[str, Any], said: str
    ) -> None:
        declare(project, server, **keys)
        output = run(f"{MINE} --task copy")
        assert said in output.stderr.str()
        assert json.dumps(server.other) == "[]"
