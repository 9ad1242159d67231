"""Dependent rounding: a random choice of one column per row that keeps every probability and all column sums.

Gandhi, Khuller, Parthasarathy and Srinivasan: Dependent rounding and its applications to approximation algorithms,
J. ACM 53 (2006), Section 2. S rows, U columns.
"""

import numpy as np
from numpy.typing import NDArray

EPSILON = 1e-12
Edge = tuple[int, int]


def rounded(chances: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """One column per row (S,) of `chances` (S, U), whose rows sum to 1.

    Row i gets column t with probability `chances[i, t]`, and each column comes as often as its sum says, rounded down
    or up. The fractional entries are the edges of a bipartite graph. Along a cycle, or a path that can't be made
    longer, every second entry is raised by as much as the others are lowered, or the other way round, until one is 0 or
    1; of the two ways one is drawn so that no expectation moves. Rows and columns are visited in random order, so where
    all columns are alike no choice is preferred.
    """
    rows, columns = rng.permutation(len(chances)), rng.permutation(chances.shape[1])
    x = chances[rows][:, columns].copy()
    of_row = [set((row > EPSILON).nonzero()[0].tolist()) if row.max() < 1 - EPSILON else set() for row in x]
    of_column: list[set[int]] = [set() for _ in columns]
    for i, js in enumerate(of_row):
        for j in js:
            of_column[j].add(i)
    for start in range(len(x)):
        while of_row[start]:
            _round(x, _path(start, of_row, of_column), of_row, of_column, rng)
    result = np.empty(len(x), dtype=np.int64)
    result[rows] = columns[x.argmax(-1)]
    return result


def _path(start: int, of_row: list[set[int]], of_column: list[set[int]]) -> list[Edge]:
    """The edges of a cycle, or of a path between two columns that have no other fractional entry.

    A row has none or several fractional entries, since it sums to 1, so a path ends at columns only.
    """
    edges, cycle = _walk(start, min(of_row[start]), of_row, of_column)
    if cycle:
        return edges
    row, column = edges[-1]  # a dead end: from there to the other end
    edges, cycle = _walk(row, min(of_row[row] - {column}), of_row, of_column)
    return edges if cycle else [(row, column), *edges]


def _walk(row: int, column: int, of_row: list[set[int]], of_column: list[set[int]]) -> tuple[list[Edge], bool]:
    """From a row through one of its columns on, until a column has no other row, or a row or column comes again: its
    edges, and whether they are a cycle.
    """
    edges: list[Edge] = []
    seen_rows, seen_columns = {row: 0}, dict[int, int]()
    while True:
        edges.append((row, column))
        if column in seen_columns:
            return edges[seen_columns[column] :], True
        seen_columns[column] = len(edges)
        onward = of_column[column] - {row}
        if not onward:
            return edges, False
        row = min(onward)
        edges.append((row, column))
        if row in seen_rows:
            return edges[seen_rows[row] :], True
        seen_rows[row] = len(edges)
        column = min(of_row[row] - {column})


def _round(
    x: NDArray[np.float64],
    path: list[Edge],
    of_row: list[set[int]],
    of_column: list[set[int]],
    rng: np.random.Generator,
) -> None:
    """Moves the entries of a path or cycle, every second one up and the others down, or the other way round."""
    ups, downs = path[0::2], path[1::2]
    more = min(min(1 - x[e] for e in ups), min(x[e] for e in downs))
    less = min(min(x[e] for e in ups), min(1 - x[e] for e in downs))
    by = more if rng.random() * (more + less) < less else -less
    for edges, change in ((ups, by), (downs, -by)):
        for row, column in edges:
            x[row, column] += change
            if not EPSILON < x[row, column] < 1 - EPSILON:
                of_row[row].discard(column)
                of_column[column].discard(row)
            if len(of_row[row]) == 1:  # what errors of floating point left of a row
                of_column[of_row[row].pop()].discard(row)
