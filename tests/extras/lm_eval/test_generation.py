"""What a harness task asks of a generation, against what the sampler's name says."""

from __future__ import annotations

from typing import Any

import pytest

from pbcore.base.errors import InputError
from pbcore.extras.lm_eval.tasks import GenerationRequest, asked, cut_at_stop, harness_scored
from pbcore.names import parse

GREEDY = parse("confidence-k2")
SAMPLED = parse("confidence-k2+t0.7")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, GenerationRequest(256)),
        ({"until": "\n", "max_gen_toks": 32}, GenerationRequest(32, ("\n",))),
        ({"max_gen_toks": 1}, GenerationRequest(1)),
        ({"max_completion_tokens": 7}, GenerationRequest(7)),
        (
            {"until": ["a", "b"], "max_new_tokens": 8, "max_tokens": 9},
            GenerationRequest(8, ("a", "b")),
        ),
        (
            {"do_sample": False, "temperature": 0.7},
            GenerationRequest(256),
        ),  # transformers ignores the temperature then
        ({"temperature": 0.0, "top_p": 0.9, "top_k": 5}, GenerationRequest(256)),
    ],
)
def test_greedy_requests(arguments: dict[str, Any], expected: GenerationRequest) -> None:
    """Length, stop strings, and settings that change nothing where the most probable token is
    taken.
    """
    assert asked(arguments, GREEDY, 256) == expected


def test_what_is_a_score() -> None:
    """Numbers from 0 to 1; what else a metric gives is absent, with the reason."""
    right = harness_scored({"acc": True, "part": 0.25, "none": 0}, {"filtered": "x"})
    assert (right.scores, right.details) == (
        {"acc": 1.0, "part": 0.25, "none": 0.0},
        {"filtered": "x"},
    )
    odd = harness_scored(
        {"acc": 1, "bleu": (1, 2), "perplexity": 1.5, "loss": -0.5, "nothing": float("nan")}, {}
    )
    assert odd.scores == {"acc": 1.0}
    why = "the harness's value of a document is not a number from 0 to 1"
    assert odd.details == {"absent": dict.fromkeys(("bleu", "perplexity", "loss", "nothing"), why)}


def test_a_request_with_the_samplers_temperature() -> None:
    """The sampler's own temperature is allowed, and no word on it too."""
    assert (
        asked({"do_sample": True, "temperature": 0.7}, SAMPLED, 8)
        == asked({}, SAMPLED, 8)
        == GenerationRequest(8)
    )


@pytest.mark.parametrize(
    ("name", "neutral", "others"),
    [
        ("num_beams", [None, 1], [0, 2]),
        ("num_return_sequences", [None, 1], [0, 2]),
        ("repetition_penalty", [None, 1, 1.0], [0, 1.1, 2]),
        ("use_cache", [None, True, False], ["yes", 2]),
        ("top_p", [None, 1, 1.0], [0, 0.9, 2]),
        ("top_k", [None, 0, -1], [-2, 1, 50]),
        ("min_p", [None, 0, 0.0], [0.1, 1]),
    ],
)
def test_settings_of_other_decoders(name: str, neutral: list[Any], others: list[Any]) -> None:
    """They pass at the values at which they change nothing, and at no other."""
    assert all(asked({name: value}, SAMPLED, 8) == GenerationRequest(8) for value in neutral)
    for value in others:
        with pytest.raises(InputError, match=f"generation setting '{name}' = "):
            asked({name: value}, SAMPLED, 8)


@pytest.mark.parametrize(
    ("arguments", "sampler", "message"),
    [
        ({"do_sample": False}, SAMPLED, r"drop \+t0.7"),
        ({"temperature": 0}, SAMPLED, "greedy decoding"),
        ({"do_sample": True}, GREEDY, r"add \+t1.0"),
        ({"temperature": 0.2}, GREEDY, r"add \+t0.2"),
        ({"do_sample": True, "temperature": 0.2}, SAMPLED, "has temperature 0.7"),
        ({"top_p": 0.9}, SAMPLED, "'top_p' = 0.9"),
        ({"num_beams": 4}, GREEDY, "'num_beams' = 4"),
        ({"max_length": 100}, GREEDY, "'max_length' = 100"),
        ({"max_gen_toks": 0}, GREEDY, "max_gen_toks 0"),
        ({"until": [1]}, GREEDY, "until"),
        ({"temperature": "hot"}, GREEDY, "temperature 'hot'"),
    ],
)
def test_contradictions_are_errors(arguments: dict[str, Any], sampler: Any, message: str) -> None:
    """A request that asks for something else than the sampler does is refused, with what to do."""
    with pytest.raises(InputError, match=message):
        asked(arguments, sampler, 256)


def test_cut_ends_at_the_earliest_stop_string() -> None:
    assert cut_at_stop("one two three", ["three", "two", "", "four"]) == "one "
    assert cut_at_stop("one two", ["three"]) == "one two"
