"""Slow twins of the policies: one row, plain Python, each rule as its paper or code states it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

Probabilities = list[list[float]]  # of each slot of the block over the tokens


@dataclass
class Block:
    """One row's block at one step.

    `tokens` has None for a mask; `memory` is the twin's own, empty at the block's first step.
    """

    probs: Probabilities
    tokens: list[int | None]
    step: int
    memory: dict[str, list[list[float]]] = field(default_factory=dict)
    history: list[Probabilities] = field(default_factory=list)  # of the steps before

    @property
    def masks(self) -> list[int]:
        return [i for i, token in enumerate(self.tokens) if token is None]

    def confidence(self, slot: int) -> float:
        return max(self.probs[slot])

    def surest(self, slots: list[int] | None = None) -> list[int]:
        """Masked slots, most confident first, ties to the left."""
        return sorted(
            self.masks if slots is None else slots, key=lambda i: (-self.confidence(i), i)
        )


Twin = Callable[[Block], set[int]]


def threshold(gamma: float) -> Twin:
    return lambda block: (
        {i for i in block.masks if block.confidence(i) >= gamma} or {block.surest()[0]}
    )


def factor(f: float) -> Twin:
    def reveal(block: Block) -> set[int]:
        order = block.surest()
        largest = 0
        for n in range(1, len(order) + 1):
            if (n + 1) * (1 - block.confidence(order[n - 1])) < f:
                largest = n
        return set(order[: max(1, largest)])

    return reveal


def factor_ref(f: float) -> Twin:
    def reveal(block: Block) -> set[int]:
        order = block.surest()
        rank = 0
        bounds = [-1.0, *(1 - f / (n + 1) for n in range(2, len(order) + 1))]
        while rank < len(order) - 1 and block.confidence(order[rank]) >= bounds[rank]:
            rank += 1
        return set(order[: rank + 1 if rank in (0, len(order) - 1) else rank])

    return reveal


def entropy(p: list[float]) -> float:
    return -sum(x * math.log(x + 1e-10) for x in p)


def eb(gamma: float) -> Twin:
    def reveal(block: Block) -> set[int]:
        order = sorted(block.masks, key=lambda i: (entropy(block.probs[i]), i))
        chosen: list[int] = []
        for slot in order:
            entropies = [entropy(block.probs[i]) for i in [*chosen, slot]]
            if chosen and sum(entropies) - max(entropies) > gamma:
                break
            chosen.append(slot)
        return set(chosen)

    return reveal


def frechet(delta: float) -> Twin:
    def reveal(block: Block) -> set[int]:
        order = block.surest()
        largest = 1
        for n in range(1, len(order) + 1):
            c = [block.confidence(i) for i in order[:n]]
            if sum(c) - (n - 1) - (1 - c[-1]) > delta:
                largest = n
        return set(order[:largest])

    return reveal


def dus(base: int) -> Twin:
    def reveal(block: Block) -> set[int]:
        stride = max(1, len(block.tokens) // base ** (block.step + 1))
        return {i for i in block.masks if i % stride == 0} or {block.masks[0]}

    return reveal


def divergence(p: list[float], q: list[float]) -> float:
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def klass(gamma: float, kl: float, history: int) -> Twin:
    def reveal(block: Block) -> set[int]:
        stable = []
        for i in block.masks:
            drifts = [
                divergence(now[i], before[i])
                for before, now in pairwise([*block.history[-history:], block.probs])
            ]
            if len(drifts) == history and max(drifts) < kl and block.confidence(i) > gamma:
                stable.append(i)
        return set(stable) or {block.surest()[0]}

    return reveal


def less(gamma: float, jsd: float, history: int, top: int) -> Twin:
    def lumped(p: list[float], tokens: list[int]) -> list[float]:
        return [*(p[t] for t in tokens), max(0.0, 1 - sum(p[t] for t in tokens))]

    def reveal(block: Block) -> set[int]:
        stable = []
        for i in block.masks:
            seen = [probs[i] for probs in [*block.history, block.probs][-history:]]
            tokens = sorted(range(len(seen[-1])), key=lambda t: -seen[-1][t])[:top]
            if (
                len(seen) < history
                or len({p.index(max(p)) for p in seen}) > 1
                or block.confidence(i) < gamma
            ):
                continue
            p = lumped(seen[-1], tokens)
            q = lumped(seen[-2], tokens)
            middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
            if (part(p, middle) + part(q, middle)) / 2 <= jsd:
                stable.append(i)
        return set(stable) or {block.surest()[0]}

    def part(p: list[float], middle: list[float]) -> float:
        return sum(a * math.log(a / b) for a, b in zip(p, middle, strict=True) if a > 0)

    return reveal


def localleap(gamma: float, relaxed: float, radius: int) -> Twin:
    def reveal(block: Block) -> set[int]:
        anchors = [i for i in block.masks if block.confidence(i) >= gamma]
        near = {
            i
            for i in block.masks
            if block.confidence(i) >= relaxed and any(abs(i - a) <= radius for a in anchors)
        }
        return set(anchors) | near or {block.surest()[0]}

    return reveal


def hierarchy(gamma: float, low: float) -> Twin:
    def reveal(block: Block) -> set[int]:
        runs: list[list[int]] = []
        for i in block.masks:
            if runs and runs[-1][-1] == i - 1:
                runs[-1].append(i)
            else:
                runs.append([i])
        best = {i for i in (block.surest(run)[0] for run in runs) if block.confidence(i) > low}
        return best | {i for i in block.masks if block.confidence(i) > gamma} | {block.surest()[0]}

    return reveal


def pc(k: int, lam: float, alpha: float, frequencies: list[float]) -> Twin:
    def score(block: Block, i: int) -> float:
        p = block.confidence(i)
        return math.exp(-lam * i) * min(
            -p * math.log(frequencies[block.probs[i].index(p)] + 1e-9), alpha
        )

    return lambda block: set(sorted(block.masks, key=lambda i: (-score(block, i), i))[:k])


def slowfast(gamma: float, low: float, steps: int) -> Twin:
    def reveal(block: Block) -> set[int]:
        (start,), (end,), estimates = block.memory.setdefault("cycle", [[0], [0], []])
        if end and not any(i < end for i in block.masks):
            start = end
            end = 0
            estimates = []
        scope = [i for i in block.masks if i >= start and (not end or i < end)]
        if not end:
            likely = [i + 1 for i in scope if block.confidence(i) >= low]
            estimates = [*estimates, max(likely, default=start + 1)]
            if len(estimates) > 1:
                mean = sum(estimates[-2:]) / 2
                spread = math.sqrt(sum((x - mean) ** 2 for x in estimates[-2:]) / 2)
                end = estimates[-1] if spread < 1 else int(mean) if len(estimates) == steps else 0
        block.memory["cycle"] = [[start], [end], estimates]
        return {i for i in scope if block.confidence(i) >= gamma} or {block.surest(scope)[0]}

    return reveal


def credit(
    gamma: float, alpha: float, power: float, beta: float
) -> Callable[[Block], dict[int, int]]:
    """Slot → token, since credits may change the token."""

    def reveal(block: Block) -> dict[int, int]:
        vocabulary = len(block.probs[0])
        matrix = block.memory.setdefault("credit", [[0.0] * vocabulary for _ in block.tokens])
        fused: Probabilities = []
        for i, p in enumerate(block.probs):
            matrix[i] = [beta * m for m in matrix[i]]
            if block.tokens[i] is None:
                matrix[i][p.index(max(p))] += max(p) ** power
            raised = [q * (m + 1) ** alpha for q, m in zip(p, matrix[i], strict=True)]
            fused.append([x / sum(raised) for x in raised])
        later = Block(fused, block.tokens, block.step)
        return {i: fused[i].index(max(fused[i])) for i in threshold(gamma)(later)}

    return reveal


def wino(
    block: Block, support: list[float], drafted_before: int, gamma: float, back: float
) -> tuple[set[int], set[int]]:
    """What is drafted and what is taken back."""
    most = min(max(int(len(block.masks) * 0.7), 5), 20)
    draft = [i for i in block.surest() if block.confidence(i) > gamma][:most] or block.surest()[:1]
    doubtful = sorted(
        (i for i, token in enumerate(block.tokens) if token is not None and support[i] < back),
        key=lambda i: (support[i], i),
    )
    if len(draft) == 1:
        return set(draft), set()
    return set(draft), set(
        doubtful if len(doubtful) < drafted_before else doubtful[: drafted_before - 1]
    )


def entropy_threshold(epsilon: float) -> Twin:
    def reveal(block: Block) -> set[int]:
        order = sorted(block.masks, key=lambda i: (entropy(block.probs[i]), i))
        return {i for i in order if entropy(block.probs[i]) <= epsilon} | {order[0]}

    return reveal


def bisection() -> Twin:
    def reveal(block: Block) -> set[int]:
        chosen = set()
        gap = []
        for i in [*range(len(block.tokens)), None]:
            if i is not None and block.tokens[i] is None:
                gap.append(i)
            elif gap:
                chosen.add(gap[(len(gap) - 1) // 2])
                gap = []
        return chosen

    return reveal


def meanfield(gamma: float, rounds: int) -> Twin:
    def similarity(p: list[float], q: list[float]) -> float:
        middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
        return 1 - (divergence(p, middle) + divergence(q, middle)) / 2 / math.log(2)

    def reveal(block: Block) -> set[int]:
        masks = block.masks
        probs = block.probs
        conflict = {(i, j): similarity(probs[i], probs[j]) for i in masks for j in masks if i != j}
        largest = max(conflict.values(), default=1.0)
        odds = {i: math.log(sorted(probs[i])[-1] / sorted(probs[i])[-2]) for i in masks}
        q = {i: 1 / (1 + math.exp(-odds[i])) for i in masks}
        for _ in range(rounds):
            push = {
                i: odds[i] - sum(conflict[i, j] / largest * q[j] for j in masks if j != i)
                for i in masks
            }
            q = {i: 1 / (1 + math.exp(-push[i])) for i in masks}
        return {i for i in masks if q[i] >= gamma} or {max(masks, key=lambda i: (q[i], -i))}

    return reveal


FREQUENCIES = [0.1, 0.5, 0.3, 0.1]
# Samplers that are held against their twins.
TWINS: list[tuple[str, Twin]] = [
    ("threshold-0.7", threshold(0.7)),
    ("factor-1.0", factor(1.0)),
    ("factor-0.6", factor(0.6)),
    ("factor-1.0-ref", factor_ref(1.0)),
    ("factor-1.9-ref", factor_ref(1.9)),
    ("eb-0.3", eb(0.3)),
    ("eb-1.5", eb(1.5)),
    ("frechet-0.1", frechet(0.1)),
    ("frechet-0.6", frechet(0.6)),
    ("entropy_threshold-0.5", entropy_threshold(0.5)),
    ("entropy_threshold-1.0", entropy_threshold(1.0)),
    ("bisection", bisection()),
    ("meanfield-0.7", meanfield(0.7, 2)),
    ("meanfield-0.5-rounds1", meanfield(0.5, 1)),
    ("dus", dus(2)),
    ("dus-3", dus(3)),
    ("klass-0.6-kl0.1", klass(0.6, 0.1, 2)),
    ("klass-0.5-kl0.3-history1", klass(0.5, 0.3, 1)),
    ("less-0.6-jsd0.01", less(0.6, 0.01, 2, 10)),
    ("less-0.5-jsd0.1-history3-top1", less(0.5, 0.1, 3, 1)),
    ("less-0.5-jsd0.02-top2", less(0.5, 0.02, 2, 2)),
    ("localleap-0.8-relaxed0.5-radius2", localleap(0.8, 0.5, 2)),
    ("hierarchy-0.9-low0.5", hierarchy(0.9, 0.5)),
    ("hierarchy-1.0-low0.0", hierarchy(1.0, 0.0)),
    ("pc-k1", pc(1, 0.25, 10.0, FREQUENCIES)),
    ("pc-k3-lam0.0-alpha1.0", pc(3, 0.0, 1.0, FREQUENCIES)),
    ("slowfast-0.8-low0.5", slowfast(0.8, 0.5, 6)),
    ("slowfast-0.95-low0.7-steps2", slowfast(0.95, 0.7, 2)),
    ("credit-0.9", credit(0.9, 0.7, 0.2, 0.8)),
    ("credit-0.8-alpha2.0-power0.5-beta0.5", credit(0.8, 2.0, 0.5, 0.5)),
]
# Policies with a twin, a replay or reference decodings of their own → the tests that have it.
ELSEWHERE: dict[str, str] = {
    **dict.fromkeys(
        ("confidence", "entropy", "left_to_right", "margin", "origin", "random"),
        "decoding/test_engine.py",
    ),
    **dict.fromkeys(
        ("axon", "clad", "dapd_clad", "dapd_direct", "dapd_staged", "dawn"),
        "decoding/test_attention.py",
    ),
    **dict.fromkeys(
        ("freedave", "punt", "recheck", "recheck_shadow"), "decoding/test_look_ahead.py"
    ),
    **dict.fromkeys(
        (
            "fast_dllm_v2",
            "llada2",
            "sdar_dynamic",
            "sdar_sequential",
            "sdar_static",
            "stable_diffcoder",
            "stable_diffcoder_threshold",
        ),
        "decoding/test_blocks.py",
    ),
    **dict.fromkeys(("saber", "t2m"), "decoding/test_editors.py"),
    **dict.fromkeys(("joint", "wino"), "decoding/test_remasking.py"),
    "lopa": "decoding/test_lopa.py",
    "s2d2": "decoding/test_s2d2.py",
    "spec": "decoding/test_spec.py",
}
