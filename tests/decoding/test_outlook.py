"""What the host reads at a step's end, and the writes that don't wait."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pbcore.decoding import DecodingError, denoise, resolve
from pbcore.decoding.outlook import Alarms, marked, written
from pbcore.decoding.what_if import Probe
from pbcore.models.transfer import gather_entries, on_device, places
from tests.decoding.toys import MASK, Toy


class TestAlarms:
    def test_columns_come_back_and_the_first_error_is_raised(self) -> None:
        """Errors keep the order in which they were noted; once raised they are gone."""
        alarms = Alarms()
        alarms.ring(torch.tensor([False, False]), lambda: ValueError("none"))
        assert alarms.read([torch.tensor([3, 4]), torch.tensor([True, False])]) == [[3, 4], [1, 0]]
        alarms.ring(torch.tensor([False]), lambda: ValueError("none"))
        alarms.ring(torch.tensor([[False, True]]), lambda: ValueError("first"))
        alarms.ring(torch.tensor([True]), lambda: ValueError("second"))
        with pytest.raises(ValueError, match="first"):
            alarms.check()
        alarms.check()

    def test_an_error_of_the_policy_comes_after_those_of_the_model(self) -> None:
        """A policy that fails on NaN isn't blamed: the model's logits come first."""

        class Fails:
            def select(self, step: Any) -> Any:
                raise KeyError("the policy's own")

        toy = Toy(lambda canvas, position, key: [float("nan")] * 12)
        request = toy.encode([3, -1, MASK, MASK], None, 0)
        with pytest.raises(DecodingError, match="NaN"):
            denoise(toy, [request], Fails(), resolve("confidence-k1").name)

    def test_what_was_probed_must_exist(self) -> None:
        """A token outside the vocabulary is named; the forward before that never sees it."""

        class Wrong:
            needs = frozenset({"probe"})

            def select(self, step: Any) -> Any:
                if step.answers is not None:
                    return step.masked
                rows = torch.arange(len(step.masked))
                return Probe(rows, step.masked, torch.full_like(step.token, 99))

        toy = Toy()
        request = toy.encode([3, -1, MASK, MASK], None, 0)
        with pytest.raises(DecodingError, match=r"Probe.token has 99 .* from 0 to 11"):
            denoise(toy, [request], Wrong(), resolve("confidence-k1").name)


@given(st.data())
def test_writing_equals_a_loop(data: st.DataObject) -> None:
    """Padded slots, which repeat the last column, write nothing."""
    length = data.draw(st.integers(1, 6))
    slots = data.draw(st.integers(1, length))
    rows = data.draw(st.integers(1, 3))
    canvas = torch.arange(rows * length).view(rows, length)
    sizes = [data.draw(st.integers(1, slots)) for _ in range(rows)]
    where = torch.tensor([[min(i, size - 1) for i in range(slots)] for size in sizes])
    inside = torch.tensor([[i < size for i in range(slots)] for size in sizes])
    picked = inside & torch.tensor(
        data.draw(
            st.lists(
                st.lists(st.booleans(), min_size=slots, max_size=slots),
                min_size=rows,
                max_size=rows,
            )
        )
    )
    values = torch.arange(rows * slots).view(rows, slots) + 100
    expected = canvas.clone()
    marks = torch.zeros_like(canvas, dtype=torch.bool)
    for row in range(rows):
        for slot in range(slots):
            if picked[row, slot]:
                expected[row, where[row, slot]] = values[row, slot]
                marks[row, where[row, slot]] = True
    assert torch.equal(written(canvas, where, picked, values), expected)
    assert torch.equal(marked(canvas, where, picked), marks)
    at = places(picked, int(picked.sum()))
    assert torch.equal(at, places(picked, None))
    assert torch.equal(gather_entries(values, at), values[picked])


def test_lists_come_to_the_device() -> None:
    """Numbers, pairs and nothing at all."""
    cpu = torch.device("cpu")
    assert on_device([[1, 2], [3, 4]], cpu).tolist() == [[1, 2], [3, 4]]
    assert on_device([], cpu).dtype == torch.long
    assert on_device([True], cpu).dtype == torch.bool
