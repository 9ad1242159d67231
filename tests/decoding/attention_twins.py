"""The selection rules of samplers that read attention, restated in plain Python over all columns of
one row.

They follow the authors' code: `get_transfer_index_dawn` and `select_parallel_tokens_conflict_mis`
(DAWN), `filter_transfer_index_with_clad` and `get_transfer_index_dapd` (CLAD's repository),
`select_axon_adaptive_gate_anchors` and the gate before it (AXON).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tests.decoding.test_policies import probabilities
from tests.decoding.toys import MASK

SLOTS = 6
TOKENS = 4
Graph = list[list[float]]
Chosen = Callable[["State"], set[int]]


class State:
    """One row before a step: all its columns, the first `prompt` of them given, probabilities and
    attention of each, what is masked, and the blocks of which a twin took note.
    """

    def __init__(
        self,
        canvas: list[int],
        probs: list[list[float]],
        graph: Graph,
        block: range,
        noted: set[range],
        prompt: int = 0,
        mask: int = MASK,
    ) -> None:
        self.canvas = canvas
        self.probs = probs
        self.graph = graph
        self.block = block
        self.noted = noted
        self.columns = range(len(canvas))
        self.prompt = prompt
        self.masks = [i for i in block if canvas[i] == mask]
        self.seen = [i for i in self.columns if canvas[i] != mask]
        self.progress = 1 - canvas.count(mask) / (len(canvas) - prompt)

    def sure(self, i: int) -> float:
        return max(self.probs[i])

    def best(self) -> set[int]:
        return {min(self.masks, key=lambda i: (-self.sure(i), i))}

    def sunk(self, bound: float) -> set[int]:
        """Columns that receive more than `bound` on average."""
        received = {j: sum(row[j] for row in self.graph) / len(self.graph) for j in self.columns}
        return {j for j in self.columns if received[j] > bound}

    def both(self, i: int, j: int) -> float:
        """Attention of two masks, symmetric."""
        return (self.graph[i][j] + self.graph[j][i]) / 2 if i != j else 0.0


def replay(rule: Any, graph: Any, choose: Chosen, block: int) -> tuple[list[int], int]:
    canvas = [MASK] * SLOTS
    nfe = 0
    noted = set[range]()
    for start in range(0, SLOTS, block):
        while MASK in canvas[start : start + block]:
            probs = probabilities(rule, tuple(canvas), range(SLOTS))
            state = State(canvas, probs, graph(tuple(canvas)), range(start, start + block), noted)
            for i in choose(state):
                canvas[i] = probs[i].index(state.sure(i))
            nfe += 1
    return canvas, nfe


def dapd_set(state: State, among: list[int], low: float, high: float) -> set[int]:
    norm = {i: max(max(state.both(i, k) for k in state.masks), 1e-8) for i in state.masks}
    degree = {i: sum(state.both(i, k) for k in state.masks) * state.sure(i) for i in among}
    bound = low + (high - low) * state.progress
    taken = list[int]()
    for i in sorted(among, key=lambda i: (-degree[i], i)):
        if all(state.both(i, j) / norm[i] <= bound for j in taken):
            taken.append(i)
    return set(taken)


def staged(low: float, high: float, sure: float) -> Chosen:
    def choose(state: State) -> set[int]:
        late = {i for i in state.masks if state.sure(i) >= sure} if state.progress >= 0.5 else set()
        return dapd_set(state, state.masks, low, high) | late

    return choose


def direct(low: float, high: float, sure: float) -> Chosen:
    def choose(state: State) -> set[int]:
        certain = {i for i in state.masks if state.sure(i) >= sure}
        rest = [i for i in state.masks if i not in certain]
        return certain | dapd_set(state, rest, low, high) or state.best()

    return choose


def of_clad(low: float, high: float, sure: float) -> Chosen:
    def choose(state: State) -> set[int]:
        progress = 1 - len(state.masks) / len(state.block)
        if progress > 0.5:
            return {i for i in state.masks if state.sure(i) > sure} or state.best()
        bound = low + (high - low) * progress
        taken = list[int]()
        degree = {
            i: sum(state.both(i, k) for k in state.masks) * state.sure(i) for i in state.masks
        }
        for i in sorted(state.masks, key=lambda i: (-degree[i], i)):
            if all(state.both(i, j) <= bound for j in taken):
                taken.append(i)
        return set(taken)

    return choose


def dawn(gamma: float, edge: float, induce: float, least: float, sink: float) -> Chosen:
    def choose(state: State) -> set[int]:
        columns = state.columns
        sunk = state.sunk(sink)
        edges = {
            (i, j)
            for i in columns
            for j in columns
            if i != j and j not in sunk and state.graph[i][j] >= edge
        }
        anchors = [j for j in state.seen if j < state.prompt or state.sure(j) >= gamma]
        certain = {i for i in state.masks if state.sure(i) >= gamma}
        induced = {
            i
            for i in state.masks
            if state.sure(i) >= induce and any((i, j) in edges for j in anchors)
        }
        joined = lambda i, j: (i, j) in edges or (j, i) in edges
        rest = [i for i in state.masks if state.sure(i) >= least and i not in certain | induced]
        rest = [i for i in rest if not any((i, j) in edges for j in certain & induced)]
        taken: list[int] = []
        for i in sorted(rest, key=lambda i: (-state.sure(i), i)):
            if not any(joined(i, j) for j in taken):
                taken.append(i)
        return certain | induced | set(taken) or state.best()

    return choose


def axon(dawn: Chosen, sink: float, cover: bool) -> Chosen:
    def choose(state: State) -> set[int]:
        base = dawn(state)
        rest = [i for i in state.masks if i not in base]
        given = [
            min(
                1,
                sum(state.graph[i][j] for j in base) / sum(state.graph[i][j] for j in state.block),
            )
            for i in rest
        ]
        doubt = [1 - state.sure(i) for i in rest]
        gap = rest and sum(given) / len(rest) < max(
            len(base) / len(state.masks), sum(doubt) / len(rest)
        )
        if not gap or state.block in state.noted:
            return base
        state.noted.add(state.block)
        sunk = state.sunk(sink)
        unsure = lambda i, j: state.graph[i][j] * (1 - state.sure(i)) * state.sure(j)
        weight = lambda i, j: 0.0 if i == j or j in sunk else unsure(i, j)
        covers = lambda anchors: sum(
            max((weight(i, j) for j in anchors), default=0.0) for i in state.masks
        )
        target = sum(max(unsure(i, j) for j in base) for i in rest)
        anchors = list[int]()
        while len(anchors) < (math.ceil(math.log2(len(state.masks) + 1)) if cover else 1):
            left = [j for j in state.masks if j not in anchors]
            gain = {j: covers([*anchors, j]) - covers(anchors) for j in left}
            best = max(left, key=lambda j: (gain[j] + 1e-6 * state.sure(j), -j))
            if anchors and (gain[best] <= 0 or covers(anchors) >= target):
                break
            anchors.append(best)
        return set(anchors)

    return choose


def clad(gamma: float) -> Chosen:
    def choose(state: State) -> set[int]:
        chosen = sorted({i for i in state.masks if state.sure(i) >= gamma} or state.best())
        runs: list[list[int]] = []
        for i in chosen:
            if runs and runs[-1][-1] == i - 1:
                runs[-1].append(i)
            else:
                runs.append([i])
        strong = lambda i, j: max(state.graph[i][j], state.graph[j][i])
        one_way = lambda a, b: max(sum(strong(i, j) for j in b) / len(b) for i in a)
        count = len(runs)
        rel = [
            [max(one_way(a, b), one_way(b, a)) if a is not b else 0.0 for b in runs] for a in runs
        ]
        gone: set[int] = set()
        for a in range(count):
            for b in range(a + 1, count):
                mutual = max(rel[a]) == rel[a][b] == max(rel[b])
                means = [sum(rel[k]) / (count - 1) for k in (a, b)]
                if mutual and rel[a][b] >= (1.2 / len(state.block) if count == 2 else max(means)):
                    gone |= set(runs[b] if len(runs[a]) >= len(runs[b]) else runs[a])
        return set(chosen) - gone

    return choose
