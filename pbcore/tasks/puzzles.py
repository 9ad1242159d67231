"""Latin squares of any symbols, 4×4 sudokus with one solution, and random walks on a graph that
every sample has under other node names (arXiv 2606.22976).
"""

import string
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import combinations, islice
from operator import eq
from random import Random
from typing import Any

from pbcore.base.check import wrong
from pbcore.base.errors import InputError
from pbcore.tasks.generators import Generator, GeneratorSettings, Question, drawn, power_of_two
from pbcore.tasks.lists import MASK

SYMBOLS = string.ascii_uppercase + string.digits
SIDE = 4
CELLS = SIDE * SIDE
BLANK = "0"
DIGITS = "1234"
# of nodes: single digits are one token in most vocabularies, and neighbours in a text stay apart
NAMES = "0123456789"
# Row, column and box of each cell.
_UNITS = [
    (cell // SIDE, cell % SIDE, (cell // SIDE // 2, cell % SIDE // 2)) for cell in range(CELLS)
]


def _peers(cell: int) -> list[int]:
    """The other cells of its row, column and box."""
    return [
        other
        for other in range(CELLS)
        if other != cell and any(map(eq, _UNITS[cell], _UNITS[other]))
    ]


_PEERS = [_peers(cell) for cell in range(CELLS)]


def latin_square(symbols: Sequence[str], rng: Random) -> list[list[str]]:
    """A random Latin square, row by row: each row is a random order that repeats no symbol of a
    column. A Latin rectangle can always be completed (Hall), so backtracking stays within the
    current row.
    """
    rows: list[list[str]] = []
    while len(rows) < len(symbols):
        used = [{row[column] for row in rows} for column in range(len(symbols))]
        rows.append(_row([], symbols, used, rng) or [])
    return rows


def _row(
    start: list[str], symbols: Sequence[str], used: Sequence[set[str]], rng: Random
) -> list[str] | None:
    if len(start) == len(symbols):
        return start
    free = [symbol for symbol in symbols if symbol not in start and symbol not in used[len(start)]]
    for symbol in rng.sample(free, len(free)):
        row = _row([*start, symbol], symbols, used, rng)
        if row is not None:
            return row
    return None


def _draw_latin(rng: Random, n: int, settings: GeneratorSettings) -> Question:
    symbols = rng.sample(SYMBOLS, n)
    listed = f"[{', '.join(symbols)}]"
    example = "\n".join(",".join(row) for row in latin_square(symbols, rng))
    return Question(
        {"size": n, "symbols": listed}, {"symbols": symbols, "example": example}, listed, n
    )


def allowed(grid: str, cell: int) -> list[str]:
    """The digits allowed in a cell, given the filled cells of its row, column and 2×2 box."""
    return [digit for digit in DIGITS if all(grid[other] != digit for other in _PEERS[cell])]


def solutions(grid: str) -> Iterator[str]:
    """All solutions, in increasing order, of a sudoku given as 16 digits in reading order with 0
    for a blank. Raises InputError for a text that is not such a grid.
    """
    if len(grid) != CELLS or set(grid) - set(BLANK + DIGITS):
        raise InputError(f"sudoku {grid!r}: give 16 digits from 0 to 4, row by row, 0 for a blank")
    if all(grid[cell] == BLANK or grid[cell] in allowed(grid, cell) for cell in range(CELLS)):
        yield from _completions(grid)


def _completions(grid: str) -> Iterator[str]:
    cell = grid.find(BLANK)
    if cell < 0:
        yield grid
        return
    for digit in allowed(grid, cell):
        yield from _completions(grid[:cell] + digit + grid[cell + 1 :])


@lru_cache(maxsize=1)
def all_sudokus() -> tuple[str, ...]:
    """The 288 solved 4×4 sudokus."""
    return tuple(solutions(BLANK * CELLS))


def has_one_solution(grid: str) -> bool:
    return len(list(islice(solutions(grid), 2))) == 1


def rows(grid: str) -> str:
    """A grid of 16 cells as four lines of four."""
    return "\n".join(grid[start : start + SIDE] for start in range(0, CELLS, SIDE))


def _draw_sudoku(rng: Random, n: int, settings: GeneratorSettings) -> Question:
    """A sudoku with one solution. The key is the solved grid, so no solution of a test puzzle
    occurs in training.
    """
    solved = rng.choice(all_sudokus())
    while True:
        blanks = set(rng.sample(range(CELLS), settings["blanks"]))
        grid = "".join(BLANK if cell in blanks else digit for cell, digit in enumerate(solved))
        if has_one_solution(grid):
            return Question({"sudoku": rows(grid)}, rows(solved), solved, CELLS - len(blanks))


@lru_cache(maxsize=16)
def graph(nodes: int, edges: int, seed: int) -> tuple[tuple[int, int], ...]:
    """A connected graph by seed: a random tree, then random further edges.

    Args:
        nodes: how many nodes it has.
        edges: how many edges.
        seed: decides both.

    Returns:
        Its edges as pairs of node numbers.
    """
    rng = Random(f"graph/{nodes}/{edges}/{seed}")
    tree = {(rng.randrange(node), node) for node in range(1, nodes)}
    free = sorted(set(combinations(range(nodes), 2)) - tree)
    return tuple(sorted([*tree, *rng.sample(free, edges - len(tree))]))


def kernel(edges: Sequence[Sequence[int]], nodes: int) -> list[list[float]]:
    """P(next node | node) of the walk that goes to a random neighbour, (nodes, nodes)."""
    table = [[0.0] * nodes for _ in range(nodes)]
    for one, other in edges:
        table[one][other] = table[other][one] = 1.0
    return [[entry / sum(row) for entry in row] for row in table]


def walked(label: Mapping[str, Any], text: str) -> list[int]:
    """The node numbers of a walk in an answer, −1 for a sign that names no node; blanks and commas
    are left out.
    """
    return [label["nodes"].find(sign) for sign in text if not sign.isspace() and sign != ","]


def _draw_walk(rng: Random, n: int, settings: GeneratorSettings) -> Question:
    nodes = settings["nodes"]
    edges = graph(nodes, settings["edges"], settings["graph"])
    names = "".join(rng.sample(NAMES, nodes))
    laws = kernel(edges, nodes)
    ends = [end for edge in edges for end in edge]
    walk = [rng.choice(ends)]  # the stationary law: by degree
    while len(walk) < n:
        walk += rng.choices(range(nodes), laws[walk[-1]])
    pairs = [sorted((names[one], names[other])) for one, other in edges]
    shown = ", ".join("-".join(pair) for pair in sorted(pairs))
    start = names[walk[0]]
    label = {"nodes": names, "edges": [list(edge) for edge in edges], "start": walk[0], "length": n}
    canvas = start + MASK * (n - 1) if settings["infill"] else None
    values = {"edges": shown, "start": start, "length": n}
    return Question(
        values,
        label | {"example": "".join(names[node] for node in walk)},
        f"{shown}/{start}",
        n,
        canvas,
    )


def _check_walk(settings: GeneratorSettings) -> None:
    nodes = settings["nodes"]
    edges = settings["edges"]
    least = nodes - 1
    most = nodes * (nodes - 1) // 2
    if type(edges) is not int or not least <= edges <= most:
        raise wrong("settings.edges", edges, f"an integer from {least} to {most} for {nodes} nodes")


PUZZLE_GENERATORS = {
    "latin_square": Generator(
        drawn(_draw_latin),
        {},
        range(2, 10),
        "the side of the square",
        lambda n: max(64, power_of_two(4 * n * n)),
    ),
    "sudoku": Generator(drawn(_draw_sudoku), {"blanks": 4}, allowed={"blanks": range(1, 11)}),
}
WALK_GENERATORS = {
    "walk": Generator(
        drawn(_draw_walk),
        {"nodes": 10, "edges": 15, "graph": 0, "infill": True},
        range(2, 1025),
        "nodes of the walk",
        lambda n: max(32, power_of_two(n + 1)),
        {"nodes": range(2, len(NAMES) + 1), "graph": int, "infill": bool},
        _check_walk,
    )
}
