"""The harness itself over local tasks, with `--model pbcore`."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import pbcore
from pbcore.base.errors import InputError
from tests.extras.lm_eval.harness import copy_task, needs_harness, write_task
from tests.models.checkpoints import llama_checkpoint

needs_harness()

from pbcore.extras.lm_eval.likelihood import bounds
from pbcore.extras.lm_eval.model import (
    PbcoreLM,
    register,
)

CHOICES: dict[str, Any] = {
    "output_type": "multiple_choice",
    "doc_to_text": "{{question}}",
    "doc_to_choice": "{{choices}}",
    "doc_to_target": "label",
    "target_delimiter": "",
    "metric_list": [{"metric": "acc"}],
}
ROWS = [
    {"question": "Alice Smith, Bob", "choices": [" Jones", " Smith", " Alice Jones"], "label": 0},
    {"question": "Copy this list:", "choices": [" abcd", " ABCD", " Bob"], "label": 1},
]


def evaluate(folder: Path, task: str, lm: PbcoreLM, **options: Any) -> dict[str, Any]:
    """The harness's results for one local task."""
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager

    manager = TaskManager(include_path=str(folder), include_defaults=False)
    results: dict[str, Any] = simple_evaluate(
        lm, tasks=[task], task_manager=manager, bootstrap_iters=0, **options
    )
    return results


@pytest.fixture(scope="module")
def tiny() -> PbcoreLM:
    return PbcoreLM("tiny", "threshold-0.9", device="cpu")


@pytest.fixture(scope="module")
def llada(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LLaDA-shaped checkpoint with random weights."""
    return llama_checkpoint(tmp_path_factory.mktemp("llada"))


def test_what_is_not_given(tmp_path: Path, tiny: PbcoreLM) -> None:
    """The defaults are those of docs/lm-eval.md: seed 0, 128 draws per likelihood, answers of 256
    tokens.
    """
    info = tiny.get_model_info()["pbcore"]
    assert {name: info[name] for name in ("seed", "mc", "batch_size", "device")} == {
        "seed": 0,
        "mc": 128,
        "batch_size": 8,
        "device": "cpu",
    }
    evaluate(copy_task(tmp_path, "toy_long", 1, generation_kwargs={}), "toy_long", tiny)
    [request] = told(tiny, "toy_long")["requests"]
    assert request["canvas_tokens"] == 256


def test_what_is_told_of_the_model_can_be_written(
    tiny: PbcoreLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts, numbers, switches and nothing; the harness can't write objects as JSON."""
    plain = {"family": "llada", "layers": 4, "share": 0.5, "dummy": False, "revision": None}
    monkeypatch.setattr(
        tiny,
        "_model",
        SimpleNamespace(name="x", info={**plain, "dtype": torch.float32, "sizes": [4]}),
    )
    assert tiny.get_model_info()["pbcore"]["model_info"] == plain


def told(lm: PbcoreLM, task: str) -> dict[str, Any]:
    """What the harness's results say of a task."""
    result: dict[str, Any] = lm.get_model_info()["pbcore"]["tasks"][task]
    return result


def test_the_entry_point_names_the_model() -> None:
    """The group that the harness reads has `pbcore`."""
    [found] = [one for one in entry_points(group="lm_eval.models") if one.name == "pbcore"]
    assert found.load() is PbcoreLM


def test_a_task_is_answered_as_decode_answers(tmp_path: Path) -> None:
    """The harness's responses are those of `decode`, and its scores follow; forwards and tokens are
    told.
    """
    lm = PbcoreLM("tiny", "threshold-0.9", device="cpu")
    results = evaluate(
        copy_task(tmp_path), "toy_copy", lm, apply_chat_template=True, fewshot_as_multiturn=True
    )
    rows = results["samples"]["toy_copy"]
    answers = pbcore.decode(
        pbcore.load_model("tiny"), [row["arguments"][0][0] for row in rows], "threshold-0.9", 32
    )
    assert [row["resps"][0][0] for row in rows] == [answer.text for answer in answers]
    assert results["results"]["toy_copy"]["exact_match,none"] == 1
    requests = results["config"]["pbcore"]["tasks"]["toy_copy"]["requests"]
    assert [one["nfe"] for one in requests] == [answer.nfe for answer in answers]
    assert [one["answer_tokens"] for one in requests] == [
        answer.answer_tokens for answer in answers
    ]
    total = sum(answer.answer_tokens or 0 for answer in answers) / sum(
        answer.nfe or 0 for answer in answers
    )
    assert results["config"]["pbcore"]["tasks"]["toy_copy"]["tokens_per_forward"] == pytest.approx(
        total
    )


def test_text_ends_before_the_first_stop_string(tmp_path: Path, tiny: PbcoreLM) -> None:
    """Stop strings of the task are cut off, with what follows."""
    settings = {"until": ["never", '", "'], "max_gen_toks": 32}
    results = evaluate(
        copy_task(tmp_path, "toy_stop", 2, generation_kwargs=settings),
        "toy_stop",
        tiny,
        apply_chat_template=True,
    )
    for row in results["samples"]["toy_stop"]:
        assert row["resps"][0][0] == row["target"].split('", "')[0]


def test_max_gen_toks_is_the_length(tmp_path: Path, tiny: PbcoreLM) -> None:
    """The canvas has as many tokens as the task asks for."""
    evaluate(
        copy_task(tmp_path, "toy_short", 2, generation_kwargs={"max_gen_toks": 8}),
        "toy_short",
        tiny,
    )
    assert [one["canvas_tokens"] for one in told(tiny, "toy_short")["requests"]] == [8, 8]


def test_the_harness_applies_the_models_chat_template(tmp_path: Path, llada: Path) -> None:
    """The prompt is the tokenizer's template of the chat, and the tokenizer's name changes with the
    template.
    """
    lm = PbcoreLM(str(llada), "confidence-k4", device="cpu")
    folder = write_task(
        tmp_path, "chat", [{"question": "Copy this list", "answer": "abcd"}], **generation()
    )
    row = evaluate(folder, "chat", lm, apply_chat_template=True)["samples"]["chat"][0]
    assert row["arguments"][0][0] == "[BOS][USER]Copy this list[ASSISTANT]"
    assert lm.tokenizer_name.startswith(llada.name)


def test_a_model_without_template_says_so(tmp_path: Path, llada: Path) -> None:
    """Asked for a chat, a model without a template is an error."""
    folder = write_task(tmp_path, "chat", [{"question": "abcd", "answer": "abcd"}], **generation())
    with pytest.raises(InputError, match="no chat template"):
        evaluate(
            folder,
            "chat",
            PbcoreLM(str(llada), "confidence-k4", device="cpu", chat="plain"),
            apply_chat_template=True,
        )


def test_a_repeated_request_has_a_seed_for_each_turn(tmp_path: Path, llada: Path) -> None:
    """With `repeats` a sampler with temperature answers differently each time, and again the same
    in another run.
    """
    settings = {"do_sample": True, "temperature": 1.0, "max_gen_toks": 8}
    config = generation() | {"generation_kwargs": settings, "repeats": 3}
    folder = write_task(
        tmp_path, "again", [{"question": "Copy this list", "answer": "abcd"}], **config
    )

    def answers() -> list[str]:
        lm = PbcoreLM(str(llada), "confidence-k4+t1.0", device="cpu")
        responses: list[str] = evaluate(folder, "again", lm)["samples"]["again"][0]["resps"][0]
        assert [one["turn"] for one in told(lm, "again")["requests"]] == [0, 1, 2]
        return responses

    first = answers()
    assert len(set(first)) == 3
    assert answers() == first


def test_choices_are_ranked_by_the_bound(tmp_path: Path, llada: Path) -> None:
    """Multiple choice gets a likelihood per choice, with its standard error in the results."""
    lm = PbcoreLM(str(llada), "confidence-k1", device="cpu")
    results = evaluate(write_task(tmp_path, "choose", ROWS, **CHOICES), "choose", lm)
    requests = told(lm, "choose")["requests"]
    likelihoods = [row["resps"][i][0][0] for row in results["samples"]["choose"] for i in range(3)]
    assert [one["log_likelihood"] for one in requests] == likelihoods
    assert all(
        one["standard_error"] == 0 for one in requests
    )  # few tokens: all patterns are computed
    best = [
        max(range(3), key=lambda i, row=row: row["resps"][i][0][0])
        for row in results["samples"]["choose"]
    ]
    assert [row["acc"] for row in results["samples"]["choose"]] == [best[0] == 0, best[1] == 1]


@pytest.mark.parametrize("start", [[], [7]])
def test_an_empty_context_is_the_start_of_a_text(
    start: list[int], llada: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the tokenizer puts before every text, and EOS where that is nothing; blanks belong to
    the continuation.
    """
    lm = PbcoreLM(str(llada), "confidence-k1", device="cpu", mc=4)
    model = lm._model
    monkeypatch.setattr(type(model.tokenizer), "text", lambda tokenizer, text: start)
    answers = [("", " Bob"), ("  ", "Bob")]
    asked: Any = [SimpleNamespace(args=given, task_name="t", doc_id=0, idx=0) for given in answers]
    pairs = [
        (start or [model.eos_id], model.tokenizer.piece(given + answer))
        for given, answer in answers
    ]
    expected = bounds(model, pairs, 4, [0, 0], 8)
    assert [value for value, _ in lm.loglikelihood(asked)] == pytest.approx(
        [one.value for one in expected]
    )


@pytest.mark.parametrize(
    ("given", "gpu", "place"),
    [
        (None, False, "cpu"),
        ("cuda:1", False, "cpu"),
        (None, True, "cuda"),
        ("cuda:1", True, "cuda:1"),
        ("cpu", True, "cpu"),
    ],
)
def test_the_device(
    given: str | None, gpu: bool, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A GPU where there is one, unless another device is named; the harness's own default is a
    GPU.
    """
    places: list[str] = []

    def load(name: str, device: str, dtype: str | None) -> Any:
        places.append(device)
        return SimpleNamespace(name=name, info={}, batch_size=1)

    monkeypatch.setattr("pbcore.extras.lm_eval.model.load_model", load)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    told = PbcoreLM("x", "confidence-k1", device=given).get_model_info()["pbcore"]
    assert (places, told["device"]) == ([place], place)


def test_a_server_is_measured_as_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    """The harness would ask it one request after the other."""
    far = SimpleNamespace(name="far", info={"family": "server"})
    monkeypatch.setattr("pbcore.extras.lm_eval.model.load_model", lambda *given, **options: far)
    with pytest.raises(InputError) as error:
        PbcoreLM("far", "confidence-k1", device="cpu")
    assert str(error.value).startswith(
        "far answers behind a server: measure it as cells, with pytest benches"
    )


def test_models_without_the_bound_say_why(tmp_path: Path) -> None:
    """A model that decodes by itself gives no likelihoods."""
    with pytest.raises(InputError, match="tiny-ar gives no likelihoods"):
        evaluate(
            write_task(tmp_path, "choose", ROWS, **CHOICES),
            "choose",
            PbcoreLM("tiny-ar", "ar", device="cpu"),
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"pretrained": "tiny"}, "needs a model and a sampler"),
        ({"pretrained": "tiny", "sampler": "treshold-0.9"}, "threshold"),
        (
            {"pretrained": "tiny", "sampler": "threshold-0.9", "speed": 3},
            "unknown model option speed",
        ),
        ({"pretrained": "tiny", "sampler": "threshold-0.9", "batch_size": 0}, "batch_size"),
    ],
)
def test_unusable_arguments_name_what_is_allowed(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(pbcore.PbcoreError, match=message):
        PbcoreLM(**arguments, device="cpu")


def generation() -> dict[str, Any]:
    """A generate_until task over question and answer."""
    return {
        "output_type": "generate_until",
        "doc_to_text": "{{question}}",
        "doc_to_target": "{{answer}}",
        "generation_kwargs": {"max_gen_toks": 8},
        "metric_list": [{"metric": "exact_match"}],
    }


def test_it_is_registered_once() -> None:
    """Also where the harness read the entry point, and at a second call."""
    from lm_eval.api.registry import model_registry

    for _ in range(2):
        register()
        assert model_registry.get("pbcore") is PbcoreLM
