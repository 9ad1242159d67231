"""docs/own.md describes the whole interface between the loop and a policy, and its example
runs.
"""

from __future__ import annotations

import inspect
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import torch

from pbcore.decoding import Move, Probe, Step, decode, denoise
from pbcore.decoding.predicted import Review
from pbcore.decoding.protocol import Traits
from pbcore.decoding.what_if import Answers
from pbcore.models.ideal import Ideal
from pbcore.names import parse
from pbcore.tasks import load_task
from tests.decoding.toys import Toy

PAGE = (Path(__file__).parents[2] / "docs" / "own.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    """The page from a heading to the next one."""
    (text,) = re.findall(rf"^## {re.escape(title)}\n(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return str(text)


def rows(text: str) -> dict[str, str]:
    """First cell → the rest of the row, of every table row whose first cell is code; a method by
    its name.
    """
    return dict(re.findall(r"^\| `(\w+)(?:\([^`]*\))?` \| (.*) \|$", text, re.MULTILINE))


def methods(cls: type) -> dict[str, Any]:
    return {
        name: value
        for name, value in inspect.getmembers(cls, inspect.isfunction)
        if not name.startswith("_")
    }


def public_fields(cls: Any) -> set[str]:
    members = inspect.getmembers(cls)
    properties = {name for name, value in members if isinstance(value, property)}
    return {field.name for field in fields(cls) if not field.name.startswith("_")} | properties


class TestInterface:
    def test_every_part_of_a_step(self) -> None:
        """Every field and method, and nothing that a step hasn't."""
        assert set(rows(section("What a `Step` offers"))) == public_fields(Step) | set(
            methods(Step)
        ) | public_fields(Review)

    def test_every_part_of_a_probe(self) -> None:
        """Every field of a Probe, and every part of its answers."""
        page = section("Asking what if")
        assert set(rows(page)) == public_fields(Probe)
        assert all(
            f"`{name}" in page
            for name in public_fields(Answers) | set(methods(Answers)) - {"taken"}
        )

    def test_every_field_of_a_move(self) -> None:
        """Every field, and nothing else."""
        assert set(rows(section("What a policy may return"))) == public_fields(Move)

    def test_everything_a_policy_may_declare(self) -> None:
        """Every member of Traits with its default, and nothing else."""
        shown = rows(section("What a policy may declare"))
        assert set(shown) == public_fields(Traits)
        assert shown["review"].startswith("None |")
        assert shown["rewrites"].startswith("False |")
        assert shown["reach"].startswith(f'`"{Traits().reach}"` |')
        assert shown["reads"].startswith(f'`"{Traits().reads}"` |')

    @pytest.mark.parametrize("name", methods(Step))
    def test_arguments_of_methods(self, name: str) -> None:
        """A method's parameters stand in the page as in the code, in order and with their
        defaults.
        """
        (shown,) = re.findall(rf"^\| `{name}\(([^`]*)\)` \|", PAGE, re.MULTILINE)
        parameters = list(inspect.signature(methods(Step)[name]).parameters.values())[1:]
        expected = [
            p.name if p.default is p.empty else f"{p.name}={p.default!r}".replace("'", '"')
            for p in parameters
        ]
        assert re.findall(r"[^,(]+(?:\(\))?", shown.replace(" ", "")) == [
            text.replace(" ", "") for text in expected
        ]

    @pytest.mark.parametrize("field", sorted(public_fields(Step)))
    def test_shapes_of_fields(self, field: str) -> None:
        """The shape and type that the page gives a tensor are those of a real step."""
        letters = {"R": 3, "C": 4, "M": 12, "V": 12}
        shown = rows(section("What a `Step` offers"))[field]
        kinds = {"bool": torch.bool, "long": torch.int64, "float": torch.float32}
        match = re.match(r"\(([\w, ]*?),?\) (bool|long|float)", shown)
        value = getattr(one_step("confidence+linear2+b4"), field)
        assert (match is not None) == (isinstance(value, torch.Tensor)), shown
        if match is not None:
            assert tuple(value.shape) == tuple(letters[letter] for letter in match[1].split(", "))
            assert value.dtype == kinds[match[2]]


def one_step(sampler: str) -> Step:
    """The first step of three rows of 8 tokens."""
    seen: list[Step] = []

    class Watcher:
        def select(self, step: Step) -> torch.Tensor:
            seen.append(step)
            return step.best_one(step.confidence)

    toy = Toy()
    denoise(toy, [toy.encode([5], 8, key) for key in range(3)], Watcher(), parse(sampler))
    return seen[0]


class TestExamples:
    def test_run_and_follow_their_rules(self, registries: None) -> None:
        """The page's policies register and decode; where nothing is certain each reveals one token
        a step.
        """
        code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
        exec(compile(code, "own.md", "exec", dont_inherit=True), {"__name__": "example"})
        toy = Toy(lambda canvas, position, key: [0.0, *[1.0] * 11])
        assert decode(toy, [[5]], "sure_or_left-0.8+b8")[0].steps == tuple(range(8))
        assert decode(toy, [[5]], "twice-0.8")[0].steps == tuple(range(8))
        assert decode(toy, [[5]], "twice-0.05")[0].steps == (0,) * 8
        (pairs,) = decode(toy, [[5]], "pairwise")
        assert (pairs.steps, pairs.nfe, pairs.rows) == ((0, 0, 1, 1, 2, 2, 3, 3), 5, 8)
        assert decode(Toy(), [[5]] * 3, "pairwise-1.1")[1].steps.count(0) == 1


def test_spec_errs_where_it_is_told_to() -> None:
    """docs/samplers.md says how many of 40 answers `sure` leaves right."""
    page = (Path(__file__).parents[2] / "docs" / "samplers.md").read_text(encoding="utf-8")
    task = load_task("list_ops/shuffle", limit=40)
    right = []
    for sampler in ("spec-8-sure0.5", "spec-8"):
        answers = decode(Ideal(), task.samples, sampler)
        pairs = zip(answers, task.samples, strict=True)
        right.append(sum(task.score(answer.text, sample)["accuracy"] for answer, sample in pairs))
    assert right == [33, 40]
    assert "has 33 of 40 answers right with `sure0.5`, and all 40 without" in page
