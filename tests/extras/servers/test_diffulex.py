"""Diffulex: what is sent to `/generate`, and forwards, steps and films from its canvases."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

import pbcore
from pbcore.base.errors import InputError
from pbcore.extras.servers.canvases import Canvases
from pbcore.extras.servers.clients import client_of
from pbcore.extras.servers.declared import read_specs
from pbcore.extras.servers.model import ServerModel
from pbcore.extras.servers.reply import Ask, Reply, ask_of, ended
from pbcore.extras.servers.spec import ServerSpec
from pbcore.extras.servers.steps import most_forwards, most_tokens
from pbcore.extras.servers.tokenizers import without_template
from pbcore.models.errors import ModelError
from pbcore.models.registry import resolve_model
from pbcore.names import parse
from tests.extras.servers.diffulex import decoding, final, snapshot
from tests.extras.servers.fake import Act, FakeServer, Script, serving
from tests.extras.servers.served import declare, stored
from tests.extras.servers.wire import Wire, sse
from tests.fuzz.damage import damaged_value
from tests.plugin.conftest import Run

TINY = str(resolve_model("tiny").folder)
SAMPLER = "threshold-0.9+b8"
MASK = 9
ASK = Ask(({"role": "user", "content": "Say hello."},), 8, 0.0, 5, 0)


def spec_of(server: FakeServer, **keys: Any) -> ServerSpec:
    values = {"retries": 0, "timeout": 5.0, "sampler": SAMPLER, **keys}
    return ServerSpec("mine", "the-model", f"{server.url}/v1", "diffulex", **values)


def reply_of(*events: dict[str, Any], **keys: Any) -> Reply:
    """What is read of an answer that comes in these events."""
    with serving(lambda number, body: Act(events=events)) as server:
        return client_of(spec_of(server, **keys)).ask(ASK)


class TestCanvases:
    def steps(
        self, canvases: dict[int, list[int]], answer: list[int], forwards: int
    ) -> tuple[int, ...]:
        known = Canvases()
        for number, ids in canvases.items():
            known.add(0, ids, number)
        return known.steps(answer, forwards)

    @pytest.mark.parametrize(
        ("canvases", "answer", "steps"),
        [
            ({1: [MASK, 5, MASK], 2: [4, 5, MASK], 3: [4, 5, 6]}, [4, 5, 6], (2, 1, 3)),
            ({1: [4, 5], 3: [7, 5, 6]}, [7, 5, 6], (3, 1, 3)),  # an edit, and one not told
            ({1: [4, MASK], 2: [4, 1], 3: [4, 1, MASK]}, [4, 1], (1, 2)),  # ends before the canvas
            ({1: [4, MASK], 2: [4, MASK, 6]}, [4, 6], (1, 2)),  # cut off: its masks are left out
            ({1: [4, MASK]}, [4, 5], (1, 4)),  # the last canvas isn't told
            ({1: [MASK]}, [], ()),
        ],
    )
    def test_steps(
        self, canvases: dict[int, list[int]], answer: list[int], steps: tuple[int, ...]
    ) -> None:
        """A token's step is the forward since which its place has it, whatever the mask is."""
        assert self.steps(canvases, answer, 4) == steps

    def test_a_later_part(self) -> None:
        """A canvas may begin later in the answer, but not beyond what is known."""
        known = Canvases()
        known.add(0, [1, 2], 1)
        known.add(2, [3], 2)
        assert known.steps([1, 2, 3], 2) == (1, 1, 2)
        with pytest.raises(ValueError, match="begins at place 5, and only 3"):
            known.add(5, [1], 3)

    def test_forwards_that_fall(self) -> None:
        """Neither canvases nor the answer may count fewer than before."""
        with pytest.raises(ValueError, match="after 1 forwards follows one after 2"):
            self.steps({2: [1], 1: [1]}, [1], 2)
        with pytest.raises(ValueError, match="after 1 forwards follows one after 2"):
            self.steps({2: [1]}, [3], 1)


class TestRequest:
    def body(self, script: Script | None = None, ask: Ask = ASK, **keys: Any) -> dict[str, Any]:
        answer = Act(events=(final("a", [1], 1),))
        with serving(script or (lambda number, body: answer)) as server:
            client_of(spec_of(server, **keys)).ask(ask)
        assert server.asked[0].path == "/generate"
        return server.asked[0].body

    def test_what_is_sent(self) -> None:
        """Its own fields, and a limit of forwards above all that an answer takes."""
        assert self.body() == {
            "prompt": "Say hello.",
            "max_tokens": 8,
            "max_nfe": most_forwards(most_tokens(8, None)),
            "temperature": 0.0,
            "stream": True,
            "stream_mode": "denoise",
        }
        whole = self.body(stream=False, extra_body={"max_nfe": 3, "ignore_eos": True})
        assert (whole["max_nfe"], whole["ignore_eos"]) == (3, True)
        assert not {"stream", "stream_mode"} & whole.keys()

    def test_a_tokenizer_makes_ids(self) -> None:
        """With the model's chat template; another tokenizer is another request."""
        sample = pbcore.load_task("waiting_line/copy", limit=1).samples[0]
        with serving() as server:
            plain = spec_of(server)
            known = replace(plain, tokenizer=TINY)
        asks = [ask_of(spec, sample, parse(SAMPLER), 8, 0) for spec in (plain, known)]
        tiny: Any = pbcore.load_model("tiny")
        assert self.body(ask=asks[1])["prompt"] == tiny.tokenizer.chat(sample.messages)
        assert self.body(ask=asks[0])["prompt"] == "\n\n".join(
            message["content"] for message in sample.messages
        )
        assert asks[0].digest(plain) != asks[1].digest(known)

    def test_ids_are_sent_as_they_are(self) -> None:
        """Which other servers don't take."""
        with serving() as server:
            ask = ask_of(spec_of(server), [3, 4], parse(SAMPLER), 8, 0)
        assert self.body(ask=ask)["prompt"] == [3, 4]

    def test_no_template_is_said(self) -> None:
        """A line before the run, where prompts are sent as plain text."""
        with serving() as server:
            spec = spec_of(server)
        assert "without the model's chat template" in str(without_template(spec))
        assert without_template(replace(spec, tokenizer=TINY)) is None
        assert without_template(replace(spec, kind="openai")) is None

    @pytest.mark.parametrize("path", ["", "/v1"])
    def test_its_model_is_found(self, path: str) -> None:
        """With or without the path of its OpenAI-compatible part."""
        with serving() as server:
            known = replace(spec_of(server), base_url=server.url + path)
            assert client_of(known).check() is None
            with pytest.raises(ModelError, match="doesn't know 'other'"):
                client_of(replace(known, model="other")).check()

    @pytest.mark.parametrize(
        ("line", "said"),
        [
            ("nfe_field: nfe", "nfe_field: kind diffulex tells forwards and tokens itself"),
            ("extra_body: {prompt: hi}", "extra_body sets 'prompt'"),
        ],
    )
    def test_what_it_has_itself_is_refused(self, line: str, said: str) -> None:
        """In one line."""
        text = f"a: {{base_url: http://h, model: x, kind: diffulex, {line}}}"
        with pytest.raises(InputError, match=said):
            read_specs(text, "file")
        known = read_specs("a: {base_url: http://h, model: x, kind: diffulex, tokenizer: t}", "f")
        assert known["a"].tokenizer == "t"


class TestReply:
    def test_a_stream(self) -> None:
        """Forwards, steps, and the seconds that the server counted; ids need a tokenizer."""
        sent = (snapshot([MASK, 5], 1), snapshot([4, 5], 2), final("a b", [4, 5], 3))
        reply = reply_of(*sent)
        assert (reply.text, reply.nfe, reply.step_map, reply.tokens) == ("a b", 3, (2, 1), None)
        assert (reply.tokens_out, reply.engine_seconds, reply.outcomes) == (2, 0.25, ())
        assert reply.first_token is not None
        assert reply_of(*sent, tokenizer=TINY).tokens == (4, 5)

    def test_a_whole_reply(self) -> None:
        """Has forwards, and no steps."""
        reply = reply_of(final("a", [4], 3), stream=False)
        assert (reply.nfe, reply.step_map, reply.finish) == (3, None, "eos_token_generated")

    @pytest.mark.parametrize(
        ("word", "outcomes", "whole"),
        [
            ("eos_token_generated", (), True),
            ("max_new_tokens_reached", ("length",), True),
            ("max_model_len_reached", ("length",), True),
            ("max_nfe_reached", ("length",), True),
            ("max_repetition_run_reached", ("length",), True),
            ("unknown_postprocess_deactivate", (), False),
            ("completed_without_reason", (), False),
            (None, (), True),
        ],
    )
    def test_finish_words(self, word: str | None, outcomes: tuple[str, ...], whole: bool) -> None:
        """What it calls unknown is none that the model gave."""
        reply = reply_of(final("a", [4], 1, word))
        assert (reply.outcomes, ended(reply)) == (outcomes, whole)

    def test_an_error_in_the_stream(self) -> None:
        """Is the server's word."""
        error = {"event": "error", "id": "x", "message": "prompt is too long"}
        with pytest.raises(ModelError, match=r"reports an error .*prompt is too long"):
            reply_of(error)

    @pytest.mark.parametrize(
        ("events", "said"),
        [
            ((snapshot([4], 1),), "the answer broke off"),
            ((snapshot([4], 2), snapshot([4], 1), final("a", [4], 2)), "can't be read"),
            (({"event": "final", "token_ids": [1]},), "an answer without a text"),
            (({**final("a", [4], 1), "token_ids": [-1]},), "can't be read"),
            (({**final("a", [4], 1), "nfe": "three"},), "can't be read"),
        ],
    )
    def test_what_cannot_be_read(self, events: tuple[dict[str, Any], ...], said: str) -> None:
        """Is refused in one line."""
        with pytest.raises(ModelError, match=said):
            reply_of(*events)

    def test_more_forwards_than_it_can_take(self) -> None:
        """Are left out, and with them the steps that count them."""
        reply = reply_of(snapshot([4], 10**6), final("a", [4], 10**6))
        with serving() as server:
            model = ServerModel(spec_of(server))
        answer, faults = model.generations.of(reply, False, ASK, "a", parse(SAMPLER))
        assert (answer.nfe, answer.steps, answer.token_ids) == (None, (), ())
        assert "1,000,000" in faults[0]


class TestCell:
    def test_it_equals_the_model_decoded_here(self, project: pytest.Pytester, run: Run) -> None:
        """Answers, forwards, steps and tokens of a served model are those of the same model."""
        with serving(decoding("tiny", SAMPLER)) as server:
            declare(project, server, kind="diffulex", sampler=SAMPLER, tokenizer=TINY)
            served = "--models models.yaml --model mine --task copy --limit 3 --max-new-tokens 32"
            run(f"{served} --out far").assert_outcomes(passed=1)
        far = stored(project, f"mine/copy/{SAMPLER}", "far")
        task = pbcore.load_task("waiting_line/copy", limit=3)
        model = pbcore.load_model("tiny")
        near = pbcore.decode(model, task.samples, SAMPLER, max_new_tokens=32)
        for record, answer in zip(far.samples, near, strict=True):
            ends = record.tokens.index("<eos>")
            assert (record.text, record.nfe) == (answer.text, answer.nfe)
            assert record.steps[: ends + 1] == list(answer.steps[: ends + 1])
            assert ends == record.answer_tokens == answer.answer_tokens
        assert far.cell.served.engine_seconds == 0.25
        assert far.cell.served.finish == {"eos_token_generated": 3}


@pytest.mark.parametrize("seed", range(4))
def test_damaged_replies_are_read_or_refused(wire: Wire, seed: int) -> None:
    """Whatever a server sends, an answer has whole steps, or one line says what is wrong."""
    random = Random(seed)
    spec = ServerSpec("mine", "m", "http://h", "diffulex", retries=0, sampler=SAMPLER)
    model = ServerModel(spec)
    client = client_of(spec)
    read = 0
    refused: list[str] = []
    for _ in range(100):
        events: Any = [snapshot([MASK, 5], 1), snapshot([4, 5], 2), final("a b", [4, 5], 3)]
        damaged = damaged_value(random, events, 2)
        body = sse(damaged if isinstance(damaged, list) else [damaged], "diffulex")
        page = (200, {"content-type": "text/event-stream"}, body)
        wire.pages = lambda path, page=page: page  # type: ignore[misc]
        try:
            answer, _ = model.generations.of(client.ask(ASK), False, ASK, "a", parse(SAMPLER))
        except ModelError as error:
            refused.append(str(error))
            continue
        assert all(0 <= step < (answer.nfe or 0) for step in answer.steps)
        read += 1
    assert read
    assert refused
    assert not any("\n" in line for line in refused)
