"""A model behind a server: concurrent requests, answers kept as they come, a limit on their
cost.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from pbcore.decoding import decode
from pbcore.extras.servers.model import ServerModel
from pbcore.extras.servers.money import Budget, CostLimitError, Estimate, estimate, most
from pbcore.extras.servers.reply import AnswerStore, Ask, read_answers
from pbcore.extras.servers.spec import ServerSpec
from pbcore.extras.servers.values import TokenPrices
from pbcore.models.errors import ModelError
from pbcore.tasks import load_task
from tests.extras.servers.fake import CANARY, Act, FakeServer, serving

PROMPTS = [f"Say {word}." for word in ("one", "two", "three", "four", "five", "six")]


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with serving(lambda number, body: Act(text=body["messages"][-1]["content"])) as found:
        yield found


def model_of(server: FakeServer, **changes: Any) -> ServerModel:
    values: dict[str, Any] = {"retries": 0, "timeout": 10.0, **changes}
    return ServerModel(ServerSpec("mine", "the-model", f"{server.url}/v1", **values))


class TestAnswers:
    def test_in_order_of_the_prompts(self, server: FakeServer) -> None:
        """Each prompt gets its own answer; forwards and canvas are not reported, so they are
        absent.
        """
        answers = decode(model_of(server), PROMPTS, "ar")
        assert [answer.text for answer in answers] == PROMPTS
        assert {(answer.nfe, answer.token_ids, answer.answer_tokens) for answer in answers} == {
            (None, (), 3)
        }

    def test_samples_take_the_declared_length(self, server: FakeServer) -> None:
        """A task's canvas length is for canvases: a server's answers have the declared limit."""
        decode(
            model_of(server, max_tokens=99), load_task("waiting_line/copy", limit=1).samples, "ar"
        )
        assert server.asked[0].body["max_tokens"] == 99
        assert server.asked[0].body["messages"][0]["role"] == "user"

    def test_a_length_that_was_asked_for_is_sent(self, server: FakeServer) -> None:
        """By the run, shorter than what is declared; or by steps (256 tokens), longer. The answers
        tell which.
        """
        model = model_of(server, max_tokens=99)
        for asked in ({"max_new_tokens": 16}, {"cot": True}, {"cot": True, "max_new_tokens": 40}):
            samples = load_task("waiting_line/copy", limit=1, **asked).samples
            (answer,) = decode(model, samples, "ar")
            assert answer.extra["max_new_tokens"] == server.asked[-1].body["max_tokens"]
        assert [one.body["max_tokens"] for one in server.asked] == [16, 256, 40]

    @pytest.mark.parametrize("at_once", [1, 3])
    def test_requests_at_once(self, at_once: int) -> None:
        """As many requests as declared are under way together, and never more."""
        together = threading.Barrier(at_once)

        def script(number: int, body: dict[str, Any]) -> Act:
            together.wait(timeout=20)  # only goes on when so many have come
            return Act()

        with serving(script) as server:
            decode(model_of(server, concurrency=at_once), PROMPTS, "ar")
        assert server.most_at_once == at_once

    def test_infilling_is_refused(self, server: FakeServer) -> None:
        with pytest.raises(ModelError, match="can't do infilling"):
            decode(model_of(server), load_task("list_ops/copy", limit=1).samples, "ar")

    def test_other_samplers_are_refused(self, server: FakeServer) -> None:
        with pytest.raises(ValueError, match="decodes behind its server; its sampler is ar"):
            decode(model_of(server), PROMPTS, "confidence-k2")


class TestKeeping:
    def run(
        self, model: ServerModel, path: Path, seed: int = 0, sampler: str = "ar"
    ) -> tuple[int, int]:
        with model.session(AnswerStore(path)) as session:
            answers = decode(model, PROMPTS, sampler, seed=seed)
        assert [answer.text for answer in answers] == PROMPTS
        return session.asked, session.kept

    def test_nothing_is_asked_twice(self, server: FakeServer, tmp_path: Path) -> None:
        """Answers on disk are taken from there, and have no time; other seeds and settings are
        other questions.
        """
        path = tmp_path / "answers.jsonl"
        model = model_of(server)
        assert self.run(model, path) == (6, 0)
        assert self.run(model, path) == (0, 6)
        assert self.run(model, path, seed=1) == (6, 0)
        assert self.run(model, path, sampler="ar+t1.0") == (6, 0)
        assert self.run(model_of(server, max_tokens=7), path) == (6, 0)
        assert len(server.asked) == 24
        with model.session(AnswerStore(path)):
            told = decode(model, PROMPTS, "ar")[0].extra["served"]
        assert (told["kept"], told["seconds"], told["tokens_out"]) == (True, None, 3)

    def test_a_failure_keeps_what_came(self, tmp_path: Path) -> None:
        """The request that fails names itself and the count; the next try asks only for what is
        missing.
        """
        path = tmp_path / "answers.jsonl"
        broken = {2}

        def script(number: int, body: dict[str, Any]) -> Act:
            return (
                Act(status=500, body={})
                if number in broken
                else Act(text=body["messages"][-1]["content"])
            )

        with serving(script) as server:
            model = model_of(server, concurrency=1)
            with (
                model.session(AnswerStore(path)),
                pytest.raises(ModelError, match="2 of 6 answers came and are kept"),
            ):
                decode(model, PROMPTS, "ar")
            assert len(server.asked) == 3
            broken.clear()
            assert self.run(model, path) == (4, 2)
            assert len(server.asked) == 7

    def test_a_torn_line_is_not_an_answer(self, server: FakeServer, tmp_path: Path) -> None:
        """After a crash in the middle of a line the answers before it count, and new ones begin on
        a line of their own.
        """
        path = tmp_path / "answers.jsonl"
        self.run(model_of(server), path)
        path.write_bytes(path.read_bytes()[:-25])
        assert self.run(model_of(server), path) == (1, 5)
        assert len(read_answers(path).replies) == 6
        assert self.run(model_of(server), path) == (0, 6)

    def test_every_answer_is_on_disk_before_the_next(self, tmp_path: Path) -> None:
        """When a request comes, the answers before it are in the file."""
        path = tmp_path / "answers.jsonl"
        seen = []

        def script(number: int, body: dict[str, Any]) -> Act:
            seen.append(len(read_answers(path).replies))
            return Act(text=body["messages"][-1]["content"])

        with serving(script) as server:
            self.run(model_of(server, concurrency=1), path)
        assert seen == [0, 1, 2, 3, 4, 5]

    def test_a_repeated_key_is_not_kept(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A server that repeats the key in its model id or its finish reason brings it nowhere."""
        monkeypatch.setenv("CANARY_KEY", CANARY)
        path = tmp_path / "answers.jsonl"
        with serving(lambda number, body: Act(model=CANARY, finish="x" * 190 + CANARY)) as server:
            model = model_of(server, key="CANARY_KEY")
            with model.session(AnswerStore(path)), pytest.raises(ModelError) as caught:
                decode(model, PROMPTS[:1], "ar")
        assert "canary" not in path.read_text() + str(caught.value)
        assert "sk-" not in path.read_text()
        assert json.loads(path.read_text())["model"] == "[key]"

    @pytest.mark.parametrize(
        "written", [str, lambda key: json.dumps(key)[1:-1], lambda key: quote(key, safe="")]
    )
    def test_an_answer_with_the_key_is_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: Callable[[str], str]
    ) -> None:
        """It is neither altered nor kept; what it cost counts."""
        monkeypatch.setenv("CANARY_KEY", 'sk-"canary"/0123')
        path = tmp_path / "answers.jsonl"
        with serving(
            lambda number, body: Act(text=f"key: {written(os.environ['CANARY_KEY'])}")
        ) as server:
            model = model_of(server, key="CANARY_KEY", prices=TokenPrices(0.0, 1e6))
            budget = Budget(5000.0)
            with (
                model.session(AnswerStore(path), budget),
                pytest.raises(
                    ModelError, match="its answer repeats the key in CANARY_KEY"
                ) as caught,
            ):
                decode(model, PROMPTS[:1], "ar")
        assert "canary" not in str(caught.value)
        assert not path.exists()
        assert budget.balance().spent == 3.0

    @pytest.mark.parametrize("key", ["a", "n", "EMPTY", "Say"])
    def test_a_short_key_alters_no_answer(
        self, server: FakeServer, monkeypatch: pytest.MonkeyPatch, key: str
    ) -> None:
        """Such as those that local servers are given: answers, model and finish reason are as they
        came.
        """
        monkeypatch.setenv("LOCAL_KEY", key)
        answers = decode(model_of(server, key="LOCAL_KEY"), PROMPTS, "ar")
        assert [answer.text for answer in answers] == PROMPTS
        told = answers[0].extra["served"]
        assert (told["model"], told["finish"]) == ("the-model-2026", "stop")


class TestCounters:
    def test_what_vllm_counts(self) -> None:
        """The rise of vLLM's counters during the requests, summed over labels; its version."""
        page = '# TYPE x counter\nvllm:diffusion_num_denoising_steps_total{{m="a"}} {}\n' * 2

        def script(number: int, body: dict[str, Any]) -> Act:
            server.metrics = page.format(10.0 * (number + 2), 5.0)
            return Act()

        with serving(script, metrics=page.format(10.0, 5.0)) as server:
            model = model_of(server, kind="vllm", concurrency=1)
            with model.session(AnswerStore(None)) as session:
                decode(model, PROMPTS[:3], "ar")
        assert session.counters == {"denoising_steps": 30.0}
        assert 0 < session.seconds < 600
        assert session.version == "9.9"


PRICED = ServerSpec("mine", "m", "http://h/v1", prices=TokenPrices(2.0, 10.0), max_tokens=100)


def ask(text: str) -> Ask:
    return Ask(({"role": "user", "content": text},), 100, 0.0, 0, 0)


class TestMoney:
    def test_estimate(self) -> None:
        """Four characters a token, answers at their limit, prices per million."""
        assert estimate(PRICED, [ask("x" * 400), ask("y" * 400)]) == Estimate(2, 200, 200, 0.0024)
        unknown = estimate(ServerSpec("mine", "m", "http://h/v1"), [ask("x" * 400)])
        assert unknown.usd is None
        assert "price unknown" in str(unknown)

    def test_most_counts_bytes(self) -> None:
        """What is reserved covers any tokenizer: one that makes a token of each byte."""
        assert most(PRICED, ask("é" * 100)) == pytest.approx((200 + 16) * 2e-6 + 100 * 1e-5)

    def test_the_limit_holds(self, tmp_path: Path) -> None:
        """Requests stop before the limit can be exceeded, and what they really cost is what
        counts.
        """
        with serving() as server:
            model = model_of(
                server, prices=TokenPrices(1000.0, 10_000.0), max_tokens=10, concurrency=4
            )
            one = 7 * 1e-3 + 3 * 1e-2  # an answer's true price
            budget = Budget(1.0, tmp_path / "ledger")
            budget.begin(0.5)
            store = AnswerStore(tmp_path / "a.jsonl")
            with (
                model.session(store, budget),
                pytest.raises(CostLimitError, match=r"--max-cost 1: .* raise --max-cost"),
            ):
                decode(model, PROMPTS * 10, "ar")
        spent = sum(read_answers(tmp_path / "a.jsonl").costs)
        assert spent == pytest.approx(len(server.asked) * one)
        assert 0 < 0.5 + spent <= 1.0
        assert json.loads((tmp_path / "ledger").read_text()) == {
            "spent": pytest.approx(0.5 + spent),
            "reserved": {},
        }

    def test_the_limit_waits_for_requests_under_way(self) -> None:
        """Only what is spent stops a run, not what others reserve: as many answers come as one
        request at a time would bring.
        """
        with serving() as server:
            model = model_of(server, prices=TokenPrices(0.0, 1000.0), max_tokens=100, concurrency=8)
            one = 3 * 1e-3
            reserve = 100 * 1e-3
            budget = Budget(0.25)
            with (
                model.session(AnswerStore(None), budget),
                pytest.raises(
                    CostLimitError, match=r"0\.1530 USD are spent .* 0\.0970 USD are left"
                ),
            ):
                decode(model, PROMPTS * 10, "ar")
        assert len(server.asked) == 51
        assert 51 * one + reserve > 0.25 >= 50 * one + reserve

    def test_two_requests_never_deadlock(self) -> None:
        """One that waits for another's reserve ends when the run stops."""
        budget = Budget(1.0)
        stop = threading.Event()
        assert budget.reserve(0.9, PRICED, stop)
        waiting = threading.Thread(target=lambda: found.append(budget.reserve(0.9, PRICED, stop)))
        found: list[bool] = []
        waiting.start()
        stop.set()
        waiting.join(timeout=20)
        assert found == [False]

    def test_the_reserve_of_a_process_that_is_gone_is_spent(self, tmp_path: Path) -> None:
        """It may have cost that, and nobody waits for it."""
        gone = subprocess.Popen(["true"])
        gone.wait()
        (tmp_path / "ledger").write_text(json.dumps({"spent": 0.1, "reserved": {gone.pid: 0.5}}))
        budget = Budget(1.0, tmp_path / "ledger")
        with pytest.raises(CostLimitError, match=r"0\.6000 USD are spent"):
            budget.reserve(0.6, PRICED)
        assert budget.reserve(0.3, PRICED)

    def test_two_processes_share_a_ledger(self, tmp_path: Path) -> None:
        """What one reserves, another can't."""
        first, second = (Budget(1.0, tmp_path / "ledger") for _ in range(2))
        first.begin(0.0)
        first.reserve(0.6, PRICED)
        stop = threading.Event()
        threading.Timer(0.2, stop.set).start()
        assert not second.reserve(0.6, PRICED, stop)
        first.settle(0.6, 0.1)
        second.reserve(0.6, PRICED)

    def test_an_uncounted_answer_costs_its_reserve(self) -> None:
        """A priced server that reports no tokens can't exceed the limit either."""
        budget = Budget(1.0)
        budget.reserve(0.6, PRICED)
        budget.settle(0.6, None)
        with pytest.raises(CostLimitError):
            budget.reserve(0.6, PRICED)
