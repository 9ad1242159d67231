"""`step.state`: what a policy keeps from step to step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from pbcore.decoding import Move, Step, denoise
from pbcore.models.base import Generation
from pbcore.names import parse
from tests.decoding.toys import Toy, scrambled


@dataclass
class Reader:
    """Reveals the best slot and passes each step to `read`."""

    read: Callable[[Step], None]

    def select(self, step: Step) -> Tensor:
        self.read(step)
        return step.best_one(step.confidence)


@dataclass
class PrefixReader(Reader):
    """The same with the slots of all blocks up to the active one."""

    reach: str = "prefix"


def run(
    policy: object, sampler: str, lengths: list[int], toy: Toy | None = None
) -> list[Generation]:
    toy = toy or Toy()
    requests = [toy.encode([5], length, key) for key, length in enumerate(lengths)]
    return denoise(toy, requests, policy, parse(sampler))  # type: ignore[arg-type]


class TestLifetime:
    @pytest.mark.parametrize("cache", ["", "+prefix"])
    def test_a_block_starts_with_the_fill(self, cache: str) -> None:
        """State per slot and per row counts the steps of its block, then starts again, in rows of
        different length alike.
        """
        seen: list[tuple[list[int], list[float], list[float]]] = []

        def read(step: Step) -> None:
            slots = step.state("reads", 7.0)
            rows = step.state("rows", 7.0, per="row")
            seen.append((step.index.tolist(), slots[:, 0].tolist(), rows.tolist()))
            slots += 1
            rows += 1

        run(Reader(read), f"one+b4{cache}", [8, 8] if cache else [8, 4])
        assert [len(rows) for _, _, rows in seen] == (
            [2] * 8 if cache else [2, 2, 2, 2, 1, 1, 1, 1]
        )
        for index, slots, rows in seen:
            assert slots == rows == [7.0 + i for i in index]

    def test_rows_enter_blocks_at_their_own_pace(self) -> None:
        """A row that is in its second block has been cleared, its neighbour in the first has
        not.
        """
        rule = lambda canvas, position, key: [0.0] * 3 + [20.0 if key else 0.1] + [0.0] * 8
        seen: list[tuple[list[int], list[float]]] = []

        class Threshold:
            def select(self, step: Step) -> Tensor:
                steps = step.state("steps", per="row")
                seen.append((step.index.tolist(), steps.tolist()))
                steps += 1
                return step.at_least_best(step.confidence >= 0.9, step.confidence)

        run(Threshold(), "one+b4", [8, 8], Toy(rule))
        assert seen[:3] == [([0, 0], [0.0, 0.0]), ([1, 0], [1.0, 0.0]), ([2], [2.0])]
        assert all(index == [int(step) for step in steps] for index, steps in seen)

    @pytest.mark.parametrize("cache", ["", "+dual"])
    def test_over_the_answer(self, cache: str) -> None:
        """A number per row that is kept over blocks counts all the row's steps."""
        seen: list[tuple[list[int], list[float]]] = []

        def read(step: Step) -> None:
            steps = step.state("steps", per="row", over="answer")
            seen.append((step.nfe.tolist(), steps.tolist()))
            steps += 1

        run(Reader(read), f"one+b4{cache}", [8, 8])
        assert len(seen) == 8
        assert all(nfe == [int(step) for step in steps] for nfe, steps in seen)

    def test_slots_in_reach_keep_theirs(self) -> None:
        """With reach `prefix` state per slot follows the position over blocks, and later slots
        start with the fill.
        """
        seen: list[list[list[float]]] = []

        def read(step: Step) -> None:
            steps = step.state("steps", over="answer")
            seen.append(steps.tolist())
            steps += 1

        run(PrefixReader(read), "one+b2", [4])
        assert seen == [[[0, 0]], [[1, 1]], [[2, 2, 0, 0]], [[3, 3, 1, 1]]]

    def test_a_state_made_late_in_a_cached_block(self) -> None:
        """A row that finished before the others made a state has it as its fill."""
        rule = lambda canvas, position, key: [0.0] * 3 + [20.0 if key else 0.1] + [0.0] * 8
        seen: list[list[float]] = []

        class Late:
            def select(self, step: Step) -> Tensor:
                if int(step.nfe[0]) >= 2:
                    steps = step.state("steps", 5.0, per="row", over="answer")
                    seen.append(steps.tolist())
                    steps += 1
                return step.at_least_best(step.confidence >= 0.9, step.confidence)

        run(Late(), "one+b4+prefix", [8, 8], Toy(rule))
        assert seen[:3] == [[5.0], [6.0], [7.0, 5.0]]

    @pytest.mark.parametrize("sampler", ["one", "one+b4", "one+b4+prefix"])
    def test_no_influence_of_the_batch(self, sampler: str) -> None:
        """A policy that decides by its state alone decodes each row as it would alone."""

        class Ages:
            def select(self, step: Step) -> Tensor:
                age = step.state("age")
                age += step.uniform()
                return step.best_one(age)

        toy = Toy(scrambled())
        together = run(Ages(), sampler, [8] * 4, toy)
        alone = [
            denoise(toy, [toy.encode([5], 8, key)], Ages(), parse(sampler))[0] for key in range(4)
        ]
        assert together == alone


class TestShape:
    def test_shapes_and_dtypes(self) -> None:
        """Per slot or row with further axes; bool for a bool fill, the confidences' dtype by
        default.
        """
        seen: list[tuple[tuple[int, ...], torch.dtype]] = []

        def read(step: Step) -> None:
            for state in (
                step.state("a", shape=(3, 2)),
                step.state("b", per="row", shape=(3,)),
                step.state("c", True, per="row"),
                step.state("d", 0, dtype=torch.int64),
            ):
                seen.append((tuple(state.shape), state.dtype))

        run(Reader(read), "one+b4", [8, 8])
        assert seen[:4] == [
            ((2, 4, 3, 2), torch.float32),
            ((2, 3), torch.float32),
            ((2,), torch.bool),
            ((2, 4), torch.int64),
        ]


class TestErrors:
    @pytest.mark.parametrize(
        ("settings", "complaint"),
        [
            ({"per": "token"}, "per is slot or row and over is block or answer, not 'token'"),
            ({"over": "run"}, "not 'slot' and 'run'"),
            ({"over": "answer"}, "each block has new slots; .* declare reach = 'prefix'"),
        ],
    )
    def test_settings(self, settings: dict[str, str], complaint: str) -> None:
        """Values that aren't allowed, and state of slots that end with their block."""
        with pytest.raises(ValueError, match=complaint):
            run(Reader(lambda step: (step.state("x", **settings), None)[1]), "one", [4])  # type: ignore[arg-type]

    def test_a_name_in_use(self) -> None:
        """Two states of one name and different shape are refused."""

        def read(step: Step) -> None:
            step.state("x")
            step.state("x", per="row")

        with pytest.raises(
            ValueError, match=r"state 'x' has shape \(1, 4\) already, not \(1,\); use another name"
        ):
            run(Reader(read), "one", [4])

    @pytest.mark.parametrize("name", ["memory", "store", "remember", "kept"])
    def test_former_names(self, name: str) -> None:
        """What policies used before names what to use now."""
        with pytest.raises(
            AttributeError, match=rf"step\.{name} no longer exists; keep state with step\.state\("
        ):
            run(Reader(lambda step: getattr(step, name)), "one", [4])

    def test_unknown_names(self) -> None:
        """An attribute that never was is not there; near ones are named."""
        with pytest.raises(AttributeError, match="no 'confidences'; did you mean confidence"):
            run(Reader(lambda step: step.confidences), "one", [4])  # type: ignore[attr-defined]


@dataclass
class Wrapped:
    """A policy around another shares its states by name."""

    inner: Reader
    seen: list[float] = field(default_factory=list)

    def select(self, step: Step) -> Move:
        answer = self.inner.select(step)
        self.seen += step.state("steps", per="row").tolist()
        return Move(answer)


class TestWrapping:
    def test_a_wrapper_reads_the_inner_state(self) -> None:
        """Both have the same tensor under the same name."""

        def count(step: Step) -> None:
            steps = step.state("steps", per="row")
            steps += 1

        wrapper = Wrapped(Reader(count))
        run(wrapper, "one", [3])
        assert wrapper.seen == [1.0, 2.0, 3.0]
