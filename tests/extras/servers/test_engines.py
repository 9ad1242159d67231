"""Engines of diffusion models: the requests that say a sampler, what the server says of its own,
and the forwards that it reports.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
import yaml

from pbcore.decoding import decode
from pbcore.extras.servers.declared import read_specs
from pbcore.extras.servers.engines import check_sampler, server_settings, version
from pbcore.extras.servers.model import ServerModel
from pbcore.extras.servers.reply import ask_of
from pbcore.extras.servers.spec import ServerSpec
from pbcore.models.errors import ModelError
from pbcore.names import parse
from pbcore.tasks import load_task
from tests.extras.servers import engines
from tests.extras.servers.fake import FakeServer, serving, vllm_diffusion
from tests.extras.servers.served import FIVE, MINE, bodies, declare, stored
from tests.extras.servers.test_docs import PAGE
from tests.plugin.conftest import Run

NEMO = (
    "{threshold: {number: threshold, b: block_length, dual: use_dual_cache, prefix: use_cache}, "
    "factor: {number: factor, b: block_length}}"
)
DLMSERVE = "{confidence: {steps: num_denoising_steps, b: block_length}}"


class TestSamplerFields:
    def test_one_server_runs_several_samplers(
        self, project: pytest.Pytester, run: Run, server: FakeServer
    ) -> None:
        """As NeMo-RL's: threshold, factor and block length of each name are sent, and recorded as
        sent; other samplers are left out. Without +b8 the block is the whole answer, and a cache
        that the name lacks is off.
        """
        declare(project, server, sampler="threshold-0.9+b32", sampler_fields=NEMO, max_tokens=64)
        names = "--sampler threshold-0.7+b16+dual --sampler factor-1.0 --sampler random-k2"
        output = run(f"{MINE} --task copy --limit 1 --out out {names}")
        output.assert_outcomes(passed=2)
        sent = ("threshold", "factor", "block_length", "use_cache", "use_dual_cache")
        assert bodies(server, *sent) == [(0.7, None, 16, False, True), (None, 1.0, 64, None, None)]
        text = " ".join(output.stdout.str().split())  # lines are folded
        assert "left out: 1 cell, mine" in text
        assert "sampler_fields have threshold, factor, and no random" in text
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
    def test_steps_of_dlmserve(
        self, server: FakeServer, sampler: str, steps: int, block: int
    ) -> None:
        """`steps` are those of the whole answer, by the tokens of each step or the schedule in
        every block.
        """
        spec = dlmserve(server)
        ServerModel(spec).generate(
            load_task("waiting_line/copy", limit=1).samples,
            parse(sampler),
            max_new_tokens=32,
            seed=0,
        )
        assert bodies(server, "num_denoising_steps", "block_length", "max_tokens") == [
            (steps, block, 32)
        ]

    def test_steps_that_do_not_come_out_even(
        self, project: pytest.Pytester, run: Run, server: FakeServer
    ) -> None:
        """Are an error before the first request."""
        declare(project, server, sampler="confidence-k1", sampler_fields=DLMSERVE, max_tokens=32)
        output = run(f"{MINE} --task copy --limit 1 --sampler confidence-k3+b8")
        output.stderr.fnmatch_lines(
            [
                "*an answer of 32 tokens has no whole number of blocks of 8, or these none of steps"
                " of 3*"
            ]
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
        """So an answer that is kept is never taken for another sampler's; without the fields
        digests are as before.
        """
        spec = dlmserve(server)
        asks = [
            ask_of(spec, "a", parse(name), 32, 0) for name in ("confidence-k1", "confidence-k2")
        ]
        assert len({ask.digest(spec) for ask in asks}) == 2


def dlmserve(server: FakeServer, **keys: Any) -> ServerSpec:
    fields = {"confidence": {"steps": "num_denoising_steps", "b": "block_length"}}
    return ServerSpec(
        "mine",
        "the-model",
        f"{server.url}/v1",
        **{"sampler": "confidence-k1", "sampler_fields": fields, **keys},
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
    def test_sglang(
        self, server: FakeServer, sampler: str, algorithm: str, config: str, said: str | None
    ) -> None:
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
        assert server_settings(spec) == {
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
    def test_vllm(
        self, server: FakeServer, sampler: str, canvas: int | None, said: str | None
    ) -> None:
        """By its configuration, which it tells in development mode alone."""
        server.pages["/server_info?config_format=json"] = engines.vllm_config(canvas)
        spec = replace(sglang(server, sampler), kind="vllm")
        if said is None:
            check_sampler(spec)
            return
        with pytest.raises(ModelError, match=said.replace("+", r"\+")):
            check_sampler(spec)

    def test_vllm_counts_denoising_steps(self, server: FakeServer) -> None:
        """So its model is no autoregressive one, also where it keeps its configuration to
        itself.
        """
        server.metrics = engines.vllm_metrics(0, 0)
        check_sampler(replace(sglang(server, "server"), kind="vllm"))
        with pytest.raises(ModelError, match="counts denoising steps"):
            check_sampler(replace(sglang(server, "ar"), kind="vllm"))

    @pytest.mark.parametrize("seed", [{}, {"seed": True}])
    def test_the_row_of_vllm_on_the_page(self, seed: dict[str, bool]) -> None:
        """Its diffusion models refuse any temperature but 1, and a seed: none is sent unless
        declared, and then the refusal is shown.
        """
        row = next(line for line in PAGE.splitlines() if "DiffusionGemma |" in line)
        keys = dict(text.split(": ") for text in re.findall(r"`(\w+: [^`]+)`", row))
        with serving(vllm_diffusion) as server:
            entry = {"base_url": f"{server.url}/v1", "model": "the-model", "retries": 0}
            (spec,) = read_specs(yaml.safe_dump({"m": {**entry, **keys, **seed}}), "page").values()
            model = ServerModel(spec)
            if not seed:
                assert decode(model, ["x"], spec.sampler)[0].text == "hello there"
                return
            with pytest.raises(ModelError, match=r"which sets max_tokens, seed \(400: The temper"):
                decode(model, ["x"], spec.sampler)

    def test_a_contradiction_ends_the_run_before_the_first_request(
        self, project: pytest.Pytester, run: Run, server: FakeServer
    ) -> None:
        server.pages["/server_info"] = engines.sglang_info("JointThreshold")
        declare(project, server, kind="sglang", sampler="threshold-0.95+b4")
        output = run(f"{FIVE} --out out")
        assert output.ret == pytest.ExitCode.USAGE_ERROR
        output.stderr.fnmatch_lines(
            ["ERROR: model mine is declared with sampler threshold-0.95+b4, and * says dllm_*"]
        )
        assert server.asked == []

    def test_it_is_recorded(self, project: pytest.Pytester, run: Run, server: FakeServer) -> None:
        server.pages["/server_info"] = engines.sglang_info("LowConfidence")
        declare(project, server, kind="sglang", sampler="threshold-0.95+b4")
        run(f"{FIVE} --out out").assert_outcomes(passed=1)
        told = stored(project, "mine/copy/threshold-0.95+b4").cell.served
        assert (told.version, told.settings["dllm_algorithm"], told.sent) == (
            "0.5.23",
            "LowConfidence",
            {},
        )


class TestMeasuredAsDeclared:
    @pytest.mark.parametrize("sampler", ["eb-0.1+b256", "threshold-0.90+b7", "confidence-k2+b5"])
    def test_blocks_of_the_servers_own(
        self, project: pytest.Pytester, run: Run, server: FakeServer, sampler: str
    ) -> None:
        """A server's canvas is its own: its blocks needn't divide a task's length. With --sampler
        the same cells run, under the same names.
        """
        declare(project, server, sampler=sampler)
        words = f"{MINE} --task copy --task latin_square --limit 1"
        run(f"{words} --out out").assert_outcomes(passed=2)
        run(f"{words} --sampler {sampler} --resume out").assert_outcomes(passed=2)
        assert len(server.asked) == 2

    def test_so_many_at_once(self, project: pytest.Pytester, run: Run, server: FakeServer) -> None:
        """`+x4` of the declared sampler: the cell has it in its name and its conditions."""
        declare(project, server, sampler="ar+x4")
        run(f"{FIVE} --out out").assert_outcomes(passed=1)
        cell = stored(project, "mine/copy/ar+x4").cell
        assert (cell.conditions.at_once, cell.served.concurrency) == (4, 4)
        run(f"{FIVE} --sampler ar --out other").assert_outcomes(passed=1)
        assert stored(project, run="other").cell.served.concurrency == 8

    def test_another_number_at_once(
        self, project: pytest.Pytester, run: Run, server: FakeServer
    ) -> None:
        """Beside that of the sampler's name is refused, not passed over."""
        declare(project, server, sampler="ar+x4")
        output = run(f"{FIVE} --concurrency 2")
        assert output.ret == 4
        assert "--concurrency 2: mine/copy/ar+x4 has 4 at a time" in output.stderr.str()
        assert not server.asked
        run(f"{FIVE} --concurrency 4").assert_outcomes(passed=1)

    def test_sent_is_what_the_request_has(
        self, project: pytest.Pytester, run: Run, server: FakeServer
    ) -> None:
        """At places within a mapping that extra_body begins."""
        fields = "{threshold: {number: x.t, b: x.b}}"
        declare(
            project,
            server,
            sampler="threshold-0.9+b8",
            sampler_fields=fields,
            extra_body="{x: {c: 1}}",
        )
        run(f"{FIVE} --out out").assert_outcomes(passed=1)
        assert server.asked[0].body["x"] == {"c": 1, "t": 0.9, "b": 8}
        assert stored(project, "mine/copy/threshold-0.9+b8").cell.served.sent == {
            "x.t": [0.9],
            "x.b": [8],
        }
