"""The frontier against the whole distributions of real samplers' answers."""

from __future__ import annotations

from math import log2

import pytest

from pbcore.analysis.frontier_gap import kind
from pbcore.names import parse
from pbcore.theory.answers import answer_table
from pbcore.theory.canvas import EOS
from pbcore.theory.distributions import Listed
from pbcore.theory.frontier import accuracy_hull, value_at
from tests.ceilings.outcomes import outcomes

SAMPLERS = (
    "random-k1",
    "random-k2",
    "left_to_right-k2",
    "confidence-k2",
    "margin-k2",
    "entropy-k2",
    "threshold-0.6",
    "factor-1.1",
    "eb-0.4",
    "frechet-0.2",
    "dus-2",
    "origin-3",
    "hierarchy-0.9",
    "localleap-0.9",
    "klass-0.6",
)


@pytest.mark.parametrize(
    ("op", "n"), [("shuffle", 3), ("replace_random", 3), ("insert_random", 2), ("remove_random", 4)]
)
@pytest.mark.parametrize("sampler", [name + heat for name in SAMPLERS for heat in ("", "+t1.0")])
def test_no_sampler_is_above_its_frontier(op: str, n: int, sampler: str) -> None:
    """At its mean number of steps it is right no more often, and at τ = 1 loses at least −log₂ of
    that in bits.
    """
    rows = answer_table(op, n)
    exact = outcomes(Listed((*map(str, range(int(rows.max()) + 1)), EOS), rows), sampler)
    greedy = parse(sampler).greedy
    best = value_at(accuracy_hull(op, n, greedy=greedy, seen=kind(sampler) == "seen"), exact.steps)
    assert exact.accuracy <= best + 1e-9
    if not greedy:
        assert exact.divergence >= -log2(best) - 1e-9
