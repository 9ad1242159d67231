"""Random walks on a graph: every sample has the same graph under other node names (arXiv 2606.22976)."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import combinations
from random import Random
from typing import Any

from pbcore.tasks.files import wrong
from pbcore.tasks.generators import Generator, Item, Settings, drawn, power_of_two
from pbcore.tasks.lists import MASK

NAMES = "0123456789"  # single digits are one token in most vocabularies, and neighbours in a text stay apart

Edges = Sequence[Sequence[int]]


@lru_cache(maxsize=16)
def graph(nodes: int, edges: int, seed: int) -> tuple[tuple[int, int], ...]:
    """A connected graph by seed, as pairs of node numbers: a random tree, then random further edges."""
    rng = Random(f"graph/{nodes}/{edges}/{seed}")
    tree = {(rng.randrange(node), node) for node in range(1, nodes)}
    free = sorted(set(combinations(range(nodes), 2)) - tree)
    return tuple(sorted([*tree, *rng.sample(free, edges - len(tree))]))


def kernel(edges: Edges, nodes: int) -> list[list[float]]:
    """P(next node | node) of the walk that goes to a random neighbour, (nodes, nodes)."""
    table = [[0.0] * nodes for _ in range(nodes)]
    for one, other in edges:
        table[one][other] = table[other][one] = 1.0
    return [[entry / sum(row) for entry in row] for row in table]


def walked(label: Mapping[str, Any], text: str) -> list[int]:
    """The node numbers of a walk in an answer, −1 for a sign that names no node; blanks and commas are left out."""
    return [label["nodes"].find(sign) for sign in text if not sign.isspace() and sign != ","]


def _draw(rng: Random, n: int, settings: Settings) -> Item:
    nodes = settings["nodes"]
    edges = graph(nodes, settings["edges"], settings["graph"])
    names = "".join(rng.sample(NAMES, nodes))
    laws = kernel(edges, nodes)
    walk = [rng.choice([end for edge in edges for end in edge])]  # the stationary law: by degree
    while len(walk) < n:
        walk += rng.choices(range(nodes), laws[walk[-1]])
    pairs = [sorted((names[one], names[other])) for one, other in edges]
    shown = ", ".join("-".join(pair) for pair in sorted(pairs))
    start = names[walk[0]]
    label = {"nodes": names, "edges": [list(edge) for edge in edges], "start": walk[0], "length": n}
    canvas = start + MASK * (n - 1) if settings["infill"] else None
    values = {"edges": shown, "start": start, "length": n}
    return Item(values, label | {"example": "".join(names[node] for node in walk)}, f"{shown}/{start}", n, canvas)


def _check(settings: Settings) -> None:
    nodes, edges = settings["nodes"], settings["edges"]
    least, most = nodes - 1, nodes * (nodes - 1) // 2
    if type(edges) is not int or not least <= edges <= most:
        raise wrong("settings.edges", edges, f"an integer from {least} to {most} for {nodes} nodes")


WALK_GENERATORS = {
    "walk": Generator(
        drawn(_draw),
        {"nodes": 10, "edges": 15, "graph": 0, "infill": True},
        range(2, 1025),
        "nodes of the walk",
        lambda n: max(32, power_of_two(n + 1)),
        {"nodes": range(2, len(NAMES) + 1), "graph": int, "infill": bool},
        _check,
    )
}
