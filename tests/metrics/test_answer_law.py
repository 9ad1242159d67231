"""The law of answers: exact draws are as far off as chance says, and one answer again and again is
told.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from pbcore.metrics.answer_law import _chance, _drawn_entropy, answer_law
from pbcore.tasks import load_task
from pbcore.tasks.lists import formatted
from pbcore.tasks.puzzles import kernel, walked


def test_exact_shuffles_are_off_by_chance_alone() -> None:
    """2,000 uniform orders of 4 people without their own, against the same order again and
    again.
    """
    task = load_task("waiting_line/shuffle", n=4, limit=1)
    rng = Random(0)
    sample = task.samples[0]
    orders = []
    while len(orders) < 2000:
        order = rng.sample(sample.label["input"], 4)
        orders += [order] if order != sample.label["input"] else []
    law = answer_law(task, [(sample, formatted(order)) for order in orders])["law"]
    assert law["places"] == pytest.approx(law["places_by_chance"], rel=0.6)
    assert law["entropy"] == pytest.approx(law["entropy_exact"], abs=0.01)
    same = answer_law(task, [(sample, formatted(orders[0]))] * 2000)["law"]
    assert same["entropy"] == 0
    assert same["places"] > 0.5


def test_wrong_answers_are_left_out_and_no_right_one_has_no_law() -> None:
    """The law is of right lists; what accuracy counts is not counted again."""
    task = load_task("waiting_line/shuffle", n=3, limit=1)
    sample = task.samples[0]
    assert answer_law(task, [(sample, formatted(sample.label["input"])), (sample, "no list")]) == {}
    assert answer_law(load_task("waiting_line/copy", limit=1), []) == {}


def test_walks_of_other_names_are_one_graph() -> None:
    """Exact walks over 60 renamings have the kernel of the graph; a walk to and fro has not."""
    task = load_task("walk/graph", n=64, limit=60)
    rng = Random(1)
    answers = []
    for sample in task.samples:
        label = sample.label
        laws = kernel(label["edges"], 10)
        nodes = [label["start"]]
        while len(nodes) < 64:
            nodes += rng.choices(range(10), laws[nodes[-1]])
        answers.append((sample, "".join(label["nodes"][node] for node in nodes)))
        assert task.score(answers[-1][1], sample)["accuracy"] == 1
        assert walked(label, answers[-1][1]) == nodes
    law = answer_law(task, answers)["law"]
    assert law["kernel"] == pytest.approx(law["kernel_by_chance"], rel=0.5)
    assert law["entropy"] == pytest.approx(law["entropy_exact"], abs=0.03)
    sample = task.samples[0]
    there = sample.answer[0]
    back = sample.answer[1]
    stuck = answer_law(replace(task, samples=(sample,)), [(sample, (there + back) * 32)])["law"]
    assert stuck["kernel"] > 0.4
    assert stuck["entropy"] == 0


def test_chance_by_simulation() -> None:
    """The mean TV of exact draws and the mean entropy of their shares, against 4,000 simulated
    samples.
    """
    law = np.array([0.5, 0.25, 0.125, 0.125])
    rng = np.random.default_rng(3)
    shares = rng.multinomial(40, law, 4000) / 40
    assert _chance(law[None], np.array([40]))[0] == pytest.approx(
        (np.abs(shares - law).sum(-1) / 2).mean(), rel=0.05
    )
    logs = np.log2(np.where(shares > 0, shares, 1))
    assert _drawn_entropy(law, 40) == pytest.approx(-(shares * logs).sum(-1).mean(), rel=0.01)


@pytest.mark.parametrize("law", [(0.25,) * 4, (0.5, 0.25, 0.125, 0.125), (0.1,) * 10, (0.9, 0.1)])
@pytest.mark.parametrize("draws", [1, 2, 3, 7, 10])
def test_chance_of_few_answers_is_exact(law: tuple[float, ...], draws: int) -> None:
    """The mean TV over every outcome of a token's count, by its probability."""
    expected = 0.0
    for p in law:
        for count in range(draws + 1):
            chance = math.comb(draws, count) * p**count * (1 - p) ** (draws - count)
            expected += chance * abs(count / draws - p) / 2
    assert _chance(np.array([law]), np.array([draws]))[0] == pytest.approx(expected, abs=1e-12)


def test_visits_against_the_stationary_law() -> None:
    """A walk to and fro between two nodes visits each half of the time; signs of no node don't
    count.
    """
    task = load_task("walk/graph", n=64, limit=1)
    sample = task.samples[0]
    label = sample.label
    degrees = Counter(node for edge in label["edges"] for node in edge)
    last = len(label["nodes"]) - 1
    ends = next(edge for edge in label["edges"] if last not in edge)
    expected = 1 - sum(degrees[node] for node in ends) / degrees.total()
    assert all(degrees[node] < degrees.total() / 2 for node in ends)
    walk = "".join(label["nodes"][node] for node in ends) * 32
    for text in (walk, walk + "?"):
        law = answer_law(task, [(sample, text)])["law"]
        assert law["stationary"] == pytest.approx(expected, abs=1e-9)


def test_lists_of_two_have_one_other_order() -> None:
    """Nothing is distributed there."""
    task = load_task("waiting_line/shuffle", n=2, limit=3)
    assert answer_law(task, [(sample, "[]") for sample in task.samples]) == {}
