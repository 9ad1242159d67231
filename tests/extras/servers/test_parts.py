"""Small parts behind models on servers: money, failures, replies, what a server tells of itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pbcore.extras.servers import engines
from pbcore.extras.servers.keys import NO_KEY, failure, imported, key_of, masked
from pbcore.extras.servers.money import Budget, CostLimitError, Estimate, estimate, most
from pbcore.extras.servers.reply import (
    Ask,
    LeftOutWarning,
    body_field,
    reply_outcomes,
)
from pbcore.extras.servers.spec import ServerSpec
from pbcore.extras.servers.values import TokenPrices
from pbcore.models.errors import ModelError
from tests.extras.servers.wire import Wire

SPEC = ServerSpec("mine", "m", "http://h/v1", key="SOME_KEY", retries=2, timeout=9.0)
PRICED = replace(SPEC, prices=TokenPrices(2.0, 10.0))


def ask(*texts: str, **facts: Any) -> Ask:
    known = {"max_tokens": 100, "temperature": 0.0, "seed": 0, "place": 0, **facts}
    return Ask(tuple({"role": "user", "content": text} for text in texts), **known)


class TestMoney:
    def test_an_estimate_in_words(self) -> None:
        """Thousands are marked, cents are shown."""
        assert (
            str(Estimate(1200, 34000, 56000, 1.5))
            == "1,200 requests, about 34,000 prompt tokens, at most 56,000 answer tokens: at most"
            " about 1.50 USD"
        )

    @pytest.mark.parametrize(
        ("usd", "text"),
        [
            (1.5, "1.50"),
            (0.052, "0.05"),
            (0.0096, "0.0096"),
            (0.000123, "0.00012"),
            (0.0, "0.00"),
            (1234.0, "1234.00"),
        ],
    )
    def test_small_amounts_are_not_nothing(self, usd: float, text: str) -> None:
        """What costs something never reads 0.00 USD."""
        assert str(Estimate(1, 1, 1, usd)).endswith(f": at most about {text} USD")

    def test_prompts_count_whole(self) -> None:
        """All messages of a request together, then rounded down."""
        assert estimate(SPEC, [ask("xxx", "xxxxx"), ask("xxx")]) == Estimate(2, 2, 200, None)

    def test_an_answers_cost(self) -> None:
        """By both counts; without one of them or without prices it is not known."""
        assert PRICED.usd(1_000_000, 100_000) == 3.0
        assert SPEC.usd(1_000_000, 100_000) is None
        assert PRICED.usd(None, 100_000) is None
        assert PRICED.usd(1_000_000, None) is None
        assert PRICED.usd(0, 0) == 0.0

    def test_at_most(self) -> None:
        """Each message has its part of the template; what has no price reserves nothing."""
        assert most(PRICED, ask("x", "yy")) == pytest.approx((1 + 16 + 2 + 16) * 2e-6 + 100 * 1e-5)
        assert most(SPEC, ask("x")) == 0.0

    @pytest.mark.parametrize("shared", [True, False])
    def test_a_limit_may_be_reached(self, tmp_path: Path, shared: bool) -> None:
        """But not exceeded; what a request did not need is free again, and a new run begins with
        what was spent.
        """
        budget = Budget(1.0, tmp_path / "ledger" if shared else None)
        budget.reserve(0.75, SPEC)
        budget.reserve(0.25, SPEC)
        budget.settle(0.75, None)
        budget.settle(0.25, None)
        with pytest.raises(
            CostLimitError,
            match=r"1: 1\.0000 USD are spent .* 0\.0000 USD are left, .* of mine may cost 0\.1250",
        ):
            budget.reserve(0.125, SPEC)
        budget.begin(0.25)
        budget.reserve(0.75, SPEC)
        budget.settle(0.75, 0.25)
        budget.reserve(0.5, SPEC)
        budget.settle(0.5, None)
        with pytest.raises(CostLimitError):
            budget.reserve(0.125, SPEC)


class Error(Exception):
    """An SDK's."""

    def __init__(
        self, status: int | None = None, body: Any = None, text: str = "it said so"
    ) -> None:
        super().__init__(text)
        self.status_code = status
        self.body = body


class TestFailures:
    @pytest.mark.parametrize(
        ("status", "said"),
        [
            (401, "it refuses the key in SOME_KEY (401: it said so)"),
            (403, "it refuses the key in SOME_KEY (403: "),
            (404, "it has no such address, or no model 'm'; check base_url and model (404: "),
            (
                429,
                (
                    "it limits the rate or the quota in 3 tries; lower concurrency, or wait and use"
                    " --resume (429: "
                ),
            ),
            (400, "it refuses the request, which sets max_tokens, temperature (400: "),
            (413, "it refuses the request, which sets"),
            (422, "it refuses the request, which sets"),
            (500, "it failed in 3 tries (500: "),
        ],
    )
    def test_by_status(self, status: int, said: str) -> None:
        """What to do, and the server's own words."""
        text = str(failure(Error(status), replace(SPEC, temperature=True, seed=False)))
        assert text.startswith(f"model mine at http://h/v1: {said}")

    def test_what_was_sent_is_named(self) -> None:
        """With the keys of extra_body."""
        spec = replace(SPEC, temperature=False, seed=True, extra_body={"steps": 3})
        assert "which sets max_tokens, seed, steps (400" in str(failure(Error(400), spec))
        bare = replace(SPEC, key=None, retries=0)
        assert "it refuses requests without a key; name its variable under key" in str(
            failure(Error(401), bare)
        )
        assert "it failed (500" in str(failure(Error(500), bare))

    @pytest.mark.parametrize(
        ("name", "done", "said"),
        [
            (
                "ReadTimeout",
                "",
                "no whole answer within 9 s in 3 tries; raise timeout, or lower concurrency",
            ),
            ("APITimeoutError", " so far", "no whole answer within 9 s in 3 tries so far; raise"),
            ("APIConnectionError", "", "no connection in 3 tries; is the server running there?"),
            ("ConnectError", " after 3", "the connection broke after 3"),
            ("ReadError", "", "the connection broke"),
            ("RemoteProtocolError", " after 3", "the connection broke after 3"),
            ("ValueError", " after 3", "its reply can't be read after 3 (it said so)"),
        ],
    )
    def test_by_kind(self, name: str, done: str, said: str) -> None:
        """Without a status the exception's name tells."""
        error = type(name, (Error,), {})()
        assert str(failure(error, SPEC, done)).startswith(f"model mine at http://h/v1: {said}")

    @pytest.mark.parametrize(
        ("body", "said"),
        [
            ({"error": {"message": "a"}}, "a"),
            ({"error": "b"}, "b"),
            ({"detail": "c"}, "c"),
            ({"message": "d"}, "d"),
            ({"other": 1}, "{'other': 1}"),
            ("", "''"),
            (None, "it said so"),
        ],
    )
    def test_the_servers_own_words(self, body: Any, said: str) -> None:
        """Wherever they stand in its answer."""
        assert f"(500: {said.strip(chr(39)) if not body else said})" in str(
            failure(Error(500, body), SPEC)
        )

    def test_an_exception_without_words(self) -> None:
        """Goes by its name."""
        assert str(failure(KeyError(), SPEC)).endswith("its reply can't be read (KeyError)")

    def test_keys(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """From the environment, without the spaces around; one that is missing or can't be sent is
        named.
        """
        assert key_of(replace(SPEC, key=None)) == NO_KEY
        monkeypatch.setenv("SOME_KEY", " a+b ")
        assert key_of(SPEC) == "a+b"
        assert masked("a+b, a%2Bb, ab", SPEC) == "[key], [key], ab"
        assert masked("a+b", replace(SPEC, key=None)) == "a+b"
        for value, said in (
            ("  ", "set the environment variable SOME_KEY"),
            ("é", "no header can"),
            ("a\tb", "no header"),
        ):
            monkeypatch.setenv("SOME_KEY", value)
            with pytest.raises(ModelError, match=said):
                key_of(SPEC)
        assert masked("x\ty", SPEC) == "x\ty"

    def test_a_missing_package(self) -> None:
        """The extra has its name."""
        assert imported("json", SPEC).__name__ == "json"
        with pytest.raises(
            ModelError,
            match=r"no_such_package, which is not installed: pip install .* -e '\.\[no_such_p",
        ):
            imported("no_such_package", SPEC)


class TestReplies:
    def test_outcomes_in_one_order(self) -> None:
        """Words of the server's that mean nothing here are left out."""
        assert reply_outcomes(" \n", "content_filter", "stop", "length", None) == (
            "empty",
            "length",
            "content_filter",
        )
        assert reply_outcomes("x", "stop") == ()

    def test_fields(self) -> None:
        """What stands under a path."""
        body = {"usage": {"forwards": 3}, "n": 1}
        assert [body_field(body, path) for path in ("usage.forwards", "n", "usage.x.y", "n.x")] == [
            3,
            1,
            None,
            None,
        ]

    def test_a_digest_is_of_all_that_decides(self) -> None:
        """32 signs; any change of the request or of the server is another. What was answered before
        requests had fields and ids is found: without any the digest is as it was.
        """
        assert ask("x").digest(SPEC) == "b5d481b52f9358c7974ac3bd45957295"
        requests = [
            ask("x"),
            ask("y"),
            ask("x", seed=1),
            ask("x", place=1),
            ask("x", temperature=1.0),
            ask("x", max_tokens=9),
        ]
        specs = [replace(SPEC, kind="vllm"), replace(SPEC, base_url="b"), replace(SPEC, model="n")]
        specs += [
            replace(SPEC, extra_body={"a": 1}),
            replace(SPEC, temperature=not SPEC.temperature),
        ]
        digests = [one.digest(SPEC) for one in requests] + [
            requests[0].digest(spec) for spec in specs
        ]
        assert len(set(digests)) == len(digests)
        assert {len(digest) for digest in digests} == {32}
        assert ask("x").digest(SPEC) == ask("x").digest(
            replace(SPEC, name="other", retries=0, prices=TokenPrices(1.0, 1.0))
        )


class TestReported:
    def test_counters_are_summed_over_labels(self, wire: Wire) -> None:
        """Of the kinds that have some; the address has no /v1."""
        name = "vllm:diffusion_num_denoising_steps_total"
        pages = {"/metrics": f'# HELP x\n{name}{{a="1"}} 3\n{name} 4.5\n'}
        wire.pages = lambda path: (200, {}, pages[path].encode())
        assert engines.counters(replace(SPEC, kind="vllm")) == {"denoising_steps": 7.5}
        assert engines.counters(replace(SPEC, kind="openai")) == {}
        pages["/metrics"] = ""
        assert engines.counters(replace(SPEC, kind="vllm")) == {}

    @pytest.mark.parametrize(
        "value", ["+Inf", "-Inf", "NaN", "1e999", "1e300", "-1", "soon", "1..2", "++1"]
    )
    def test_values_that_no_record_can_hold(self, wire: Wire, value: str) -> None:
        """Histograms have them in any page; a counter with one is left out with a warning."""
        name = "vllm:diffusion_num_"
        page = (
            f'x{{le="+Inf"}} {value}\n{name}denoising_steps_total'
            f" {value}\n{name}canvas_positions 5\n"
        )
        wire.pages = lambda path: (200, {}, page.encode())
        with pytest.warns(LeftOutWarning, match="diffusion_num_denoising_steps is .* left out"):
            assert engines.counters(replace(SPEC, kind="vllm")) == {"canvas_positions": 5.0}

    @pytest.mark.parametrize(
        ("page", "version"),
        [
            ('{"version": "9.9"}', "9.9"),
            ("{}", None),
            ("{", None),
            ("[1]", None),
            ('{"version": ""}', None),
            ('{"version": 9}', None),
            ('{"version": "9 sk-0123456789"}', "9 [key]"),
        ],
    )
    def test_a_version_that_cannot_be_read_is_none(
        self, wire: Wire, monkeypatch: pytest.MonkeyPatch, page: str, version: str | None
    ) -> None:
        """So is that of a kind that tells none; one with the key is masked."""
        monkeypatch.setenv("SOME_KEY", "sk-0123456789")
        wire.pages = lambda path: (200, {}, page.encode())
        assert engines.version(replace(SPEC, kind="vllm")) == version
        assert engines.version(replace(SPEC, kind="openai")) is None
