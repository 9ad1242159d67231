"""Walks: forward–backward against the enumeration of all walks, and what steps lose."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from pbcore.tasks.puzzles import graph, kernel
from pbcore.theory.canvas import MASKED
from pbcore.theory.chains import Chain, stationary

NODES = 4
STEPS = 6
KERNEL = np.array(kernel(graph(NODES, 5, 1), NODES))
CHAIN = Chain("0123", KERNEL.tolist(), 2, STEPS, STEPS + 2)


def walks() -> tuple[np.ndarray, np.ndarray]:
    """All walks (A, n) from node 2 with their probabilities (A,)."""
    rows = np.array([(2, *rest) for rest in product(range(NODES), repeat=STEPS - 1)])
    weights = np.prod([KERNEL[rows[:, t], rows[:, t + 1]] for t in range(STEPS - 1)], axis=0)
    return rows[weights > 0], weights[weights > 0]


def entropy(labels: np.ndarray, weights: np.ndarray) -> float:
    """Bits of the rows of `labels`."""
    if labels.shape[1] == 0:
        return 0.0
    _, group = np.unique(labels, axis=0, return_inverse=True)
    mass = np.bincount(group.reshape(-1), weights)
    return float(-(mass * np.log2(mass)).sum())


def test_marginals_are_those_of_all_walks() -> None:
    """At every canvas of revealed nodes that some walk has."""
    rows, weights = walks()
    rng = np.random.default_rng(0)
    for _ in range(50):
        canvas = np.full(CHAIN.length, MASKED)
        canvas[:STEPS] = np.where(rng.random(STEPS) < 0.4, rows[rng.integers(len(rows))], MASKED)
        agree = ((rows == canvas[:STEPS]) | (canvas[:STEPS] == MASKED)).all(-1)
        exact = np.array([np.bincount(rows[agree, t], weights[agree], NODES) for t in range(STEPS)])
        found = CHAIN.marginals(canvas)
        assert np.allclose(found[:STEPS, :NODES], exact / weights[agree].sum(), atol=1e-12)
        assert (found[STEPS:, -1] == 1).all()


def test_an_impossible_node_is_left_out() -> None:
    """A node that can't follow those before it doesn't count, as in listed answers."""
    blocked = next(node for node in range(NODES) if KERNEL[2, node] == 0)
    canvas = np.full(CHAIN.length, MASKED)
    free = CHAIN.marginals(canvas)
    canvas[1] = blocked
    assert np.allclose(CHAIN.marginals(canvas), free)


def test_a_canvas_fits_if_some_walk_has_its_nodes() -> None:
    """Random nodes on some of the positions, and an EOS in a walk, which none has."""
    rows, weights = walks()
    possible = rows[weights > 0]
    rng = np.random.default_rng(0)
    for _ in range(200):
        canvas = np.full(CHAIN.length, MASKED)
        shown = rng.random(STEPS) < 0.4
        canvas[:STEPS] = np.where(shown, rng.integers(NODES, size=STEPS), MASKED)
        agree = ((possible == canvas[:STEPS]) | (canvas[:STEPS] == MASKED)).all(-1)
        assert CHAIN.fits(canvas) == agree.any()
    canvas = np.full(CHAIN.length, MASKED)
    canvas[1] = NODES
    assert not CHAIN.fits(canvas)


def test_bits_lost_by_enumeration() -> None:
    """L_T of random partitions, and 0 one at a time and by bisection."""
    rows, weights = walks()
    rng = np.random.default_rng(2)
    for _ in range(12):
        when = rng.integers(0, 3, STEPS)
        known = []
        total = 0.0
        for step in np.unique(when):
            here = (when == step).nonzero()[0].tolist()
            before = entropy(rows[:, known], weights)
            total += sum(entropy(rows[:, [*known, t]], weights) - before for t in here)
            total -= entropy(rows[:, [*known, *here]], weights) - before
            known += here
        assert CHAIN.bits_lost(when) == pytest.approx(total, abs=1e-9)
    assert CHAIN.bits_lost(rng.permutation(STEPS)) == pytest.approx(0, abs=1e-9)
    assert (
        CHAIN.bits_lost(np.array([9, 2, 1, 0, 1, 2])) > 0
    )  # 1 and 5 hang together through 3 only: not by 2 and 4
    assert CHAIN.bits_lost(np.array([9, 1, 2, 0, 2, 1])) == pytest.approx(0, abs=1e-9)


def test_the_stationary_law_of_a_graph_is_by_degree() -> None:
    """π ∝ degree for a walk to random neighbours."""
    degree = (KERNEL > 0).sum(-1)
    assert np.allclose(stationary(KERNEL), degree / degree.sum())
