"""What differs between two records' settings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pbcore.analysis.differences import differences, sampler_changes, setting_of, with_parts
from pbcore.results.record import CellRecord
from tests.results import factory


def record(**facts: object) -> CellRecord:
    cell, _ = factory.cell(task="waiting_line/copy", sampler="confidence-k2")
    return replace(cell, conditions=replace(cell.conditions, **facts))  # type: ignore[arg-type]


def test_options_that_vary_and_facts_that_do_not() -> None:
    """The options that acted, the dtype and the threads; versions and weights are named."""
    first = record(
        options={"shots": 1, "cot": True},
        dtype="float32",
        device="cpu",
        threads=1,
        versions={"torch": "2.11"},
        model_identity={"weights": "aa"},
    )
    second = record(
        options={"quantization": "torchao-int8"},
        dtype="bfloat16",
        device="cpu",
        threads=2,
        versions={"torch": "2.13"},
        model_identity={"weights": "bb"},
    )
    found = differences(setting_of(first), setting_of(second))
    # one solved example is the task's own number
    assert {str(change) for change in found.varied} == {
        "dtype float32 → bfloat16",
        "quantization default → torchao-int8",
        "threads 1 → 2",
        "cot on → off",
    }
    assert {str(change) for change in found.fixed} == {
        "torch 2.11 → 2.13",
        "weights aa → bb",
    }
    assert not len(differences(setting_of(first), setting_of(first)))


@pytest.mark.parametrize(
    ("first", "second", "parts"),
    [
        ("confidence-k2", "confidence-k2", []),
        ("confidence-k2", "margin-k2", ["confidence-k2 → margin-k2"]),
        ("entropy-k1+t0.1+p0.9", "entropy-k1", ["+t0.1+p0.9 → greedy"]),
        ("threshold-0.9+b8+ada0.3", "threshold-0.9+b16", ["+b8+ada0.3 → +b16"]),
        ("ar-draft5", "confidence-k1+prefix", ["ar-draft5 → confidence-k1", "no cache → +prefix"]),
    ],
)
def test_a_sampler_differs_in_parts(first: str, second: str, parts: list[str]) -> None:
    """Policy and parameters, and each kind of modifier; all parts together are the other one."""
    changes = sampler_changes(first, second)
    assert [str(change) for change in changes] == parts
    fields = frozenset(field for change in changes for field in change.fields)
    assert with_parts(first, second, fields) == second
