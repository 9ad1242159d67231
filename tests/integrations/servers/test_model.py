"""A model behind a server: concurrent requests, answers kept as they come, a limit on their cost."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pbcore.decoding import decode
from pbcore.integrations.servers.model import ServerModel
from pbcore.integrations.servers.money import Budget, CostLimitError, Estimate, estimate, most
from pbcore.integrations.servers.reply import Ask
from pbcore.integrations.servers.spec import Prices, ServerSpec
from pbcore.integrations.servers.store import AnswerStore, lines
from pbcore.models.errors import ModelError
from pbcore.tasks import load_task
from tests.integrations.servers.fake import CANARY, Act, FakeServer, serving

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
        """Each prompt gets its own answer; forwards and canvas are not reported, so they are absent."""
        answers = decode(model_of(server), PROMPTS, "ar")
        assert [answer.text for answer in answers] == PROMPTS
        assert {(answer.nfe, answer.token_ids, answer.answer_tokens) for answer in answers} == {(None, (), 3)}

    def test_samples_take_the_declared_length(self, server: FakeServer) -> None:
        """A task's canvas length is for canvases: a server's answers have the declared limit."""
        decode(model_of(server, max_tokens=99), load_task("waiting_line/copy", limit=1).samples, "ar")
        assert server.asked[0].body["max_tokens"] == 99
        assert server.asked[0].body["messages"][0]["role"] == "user"

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
    def run(self, model: ServerModel, path: Path, seed: int = 0, sampler: str = "ar") -> tuple[int, int]:
        with model.session(AnswerStore(path)) as session:
            answers = decode(model, PROMPTS, sampler, seed=seed)
        assert [answer.text for answer in answers] == PROMPTS
        return session.asked, session.kept

    def test_nothing_is_asked_twice(self, server: FakeServer, tmp_path: Path) -> None:
        """Answers on disk are taken from there, and have no time; other seeds and settings are other questions."""
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
        """The request that fails names itself and the count; the next try asks only for what is missing."""
        path = tmp_path / "answers.jsonl"
        broken = {2}

        def script(number: int, body: dict[str, Any]) -> Act:
            return Act(status=500, body={}) if number in broken else Act(text=body["messages"][-1]["content"])

        with serving(script) as server:
            model = model_of(server, concurrency=1)
            with model.session(AnswerStore(path)), pytest.raises(ModelError, match="2 of 6 answers came and are kept"):
                decode(model, PROMPTS, "ar")
            assert len(server.asked) == 3
            broken.clear()
            assert self.run(model, path) == (4, 2)
            assert len(server.asked) == 7

    def test_a_torn_line_is_not_an_answer(self, server: FakeServer, tmp_path: Path) -> None:
        """After a crash in the middle of a line the answers before it count, and new ones begin on a line of their
        own.
        """
        path = tmp_path / "answers.jsonl"
        self.run(model_of(server), path)
        path.write_bytes(path.read_bytes()[:-25])
        assert self.run(model_of(server), path) == (1, 5)
        assert len(lines(path)) == 6
        assert self.run(model_of(server), path) == (0, 6)

    def test_every_answer_is_on_disk_before_the_next(self, tmp_path: Path) -> None:
        """When a request comes, the answers before it are in the file."""
        path, seen = tmp_path / "answers.jsonl", []

        def script(number: int, body: dict[str, Any]) -> Act:
            seen.append(len(lines(path)))
            return Act(text=body["messages"][-1]["content"])

        with serving(script) as server:
            self.run(model_of(server, concurrency=1), path)
        assert seen == [0, 1, 2, 3, 4, 5]

    def test_a_repeated_key_is_not_kept(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A server that repeats the key in its answer, its model id or its finish reason brings it nowhere."""
        monkeypatch.setenv("CANARY_KEY", CANARY)
        path = tmp_path / "answers.jsonl"
        act = Act(text=f"key: {CANARY}", model=CANARY, finish=CANARY)
        with serving(lambda number, body: act) as server:
            model = model_of(server, key="CANARY_KEY")
            with model.session(AnswerStore(path)):
                answers = decode(model, PROMPTS[:1], "ar")
        assert answers[0].text == "key: [key]"
        assert "canary" not in path.read_text() + repr(answers)
        assert json.loads(path.read_text())["model"] == "[key]"


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


PRICED = ServerSpec("mine", "m", "http://h/v1", prices=Prices(2.0, 10.0), max_tokens=100)


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
        """Requests stop before the limit can be exceeded, and what they really cost is what counts."""
        with serving() as server:
            model = model_of(server, prices=Prices(1000.0, 10_000.0), max_tokens=10, concurrency=4)
            one = 7 * 1e-3 + 3 * 1e-2  # an answer's true price
            budget = Budget(1.0, tmp_path / "ledger")
            budget.begin(0.5)
            store = AnswerStore(tmp_path / "a.jsonl")
            with (
                model.session(store, budget),
                pytest.raises(CostLimitError, match=r"--max-cost 1: .* raise --max-cost"),
            ):
                decode(model, PROMPTS * 10, "ar")
        spent = sum(row["cost"] for row in lines(tmp_path / "a.jsonl"))
        assert spent == pytest.approx(len(server.asked) * one)
        assert 0 < 0.5 + spent <= 1.0
        assert float((tmp_path / "ledger").read_text()) == pytest.approx(0.5 + spent)

    def test_two_processes_share_a_ledger(self, tmp_path: Path) -> None:
        """What one reserves, another can't."""
        first, second = (Budget(1.0, tmp_path / "ledger") for _ in range(2))
        first.begin(0.0)
        first.reserve(0.6, PRICED)
        with pytest.raises(CostLimitError):
            second.reserve(0.6, PRICED)
        first.settle(0.6, 0.1)
        second.reserve(0.6, PRICED)

    def test_an_uncounted_answer_costs_its_reserve(self) -> None:
        """A priced server that reports no tokens can't exceed the limit either."""
        budget = Budget(1.0)
        budget.reserve(0.6, PRICED)
        budget.settle(0.6, None)
        with pytest.raises(CostLimitError):
            budget.reserve(0.6, PRICED)
