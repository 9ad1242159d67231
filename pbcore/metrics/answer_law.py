"""How many answers of one task are distributed, against the law of its valid answers: what accuracy
hides.

A sampler that gives the same valid answer every time is accurate and wrong as a sampler (arXiv
2602.19619, 2606.22976).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pbcore.metrics.answers import lenient_list
from pbcore.tasks.base import Sample, Task
from pbcore.tasks.puzzles import kernel, walked
from pbcore.tasks.registry import task_spec
from pbcore.theory.answers import RANDOM_LISTS, TooManyAnswers, answer_table
from pbcore.theory.canvas import Probabilities
from pbcore.theory.chains import law_entropy, stationary
from pbcore.theory.distributions import SCORERS


def answer_law(task: Task, answers: Iterable[tuple[Sample, str]]) -> dict[str, dict[str, float]]:
    """`law` of `CellRecord.decoding`, from all answers of a cell; empty for tasks with one answer,
    or unknown ones.

    Total variations (TV) are between 0 and 1; `…_by_chance` is the mean TV of as many exact draws,
    which is not 0: of few answers it is large (one draw from four equal items is .75 off), so a TV
    near it says nothing against the sampler.

    Walks: `kernel` (of the transitions, weighted by the stationary law), `stationary` (of the
    visits), `entropy` and `entropy_exact`, bits per transition. Lists of up to 8 items: `places`
    (which item stands where, of the right answers; mean over the places), `entropy` of the right
    answers and `entropy_exact`, that of exact draws, at most the bits of that many answers. Lists
    of several n are averaged, weighted by their answers.
    """
    found = list(answers)
    scorer = task_spec(task.name).scorer
    if scorer == "walk":
        return {"law": _of_walks(found)} if found else {}
    operation = SCORERS.get(scorer)
    if operation not in RANDOM_LISTS:
        return {}
    groups: defaultdict[int, list[list[int]]] = defaultdict(list)
    for sample, text in found:
        numbers = _numbered(sample, text)
        if numbers is not None:
            groups[sample.length or 0].append(numbers)
    parts = []
    for n, lists in groups.items():
        try:
            table = answer_table(operation, n)
        except TooManyAnswers:
            continue
        if len(table) < 2:
            continue  # one answer, such as the other order of two items
        valid = set(map(tuple, table.tolist()))
        right = [numbers for numbers in lists if tuple(numbers) in valid]
        if right:
            parts.append((_of_lists(np.array(right), table), len(right)))
    if not parts:
        return {}
    total = sum(count for _, count in parts)
    means = {}
    for name in parts[0][0]:
        means[name] = sum(law[name] * count for law, count in parts) / total
    return {"law": means}


def _numbered(sample: Sample, text: str) -> list[int] | None:
    """The items of a list as their numbers in the question, the new item last; None for a list with
    another item.
    """
    label = sample.label
    if sample.length is None or not isinstance(label, Mapping) or "input" not in label:
        return None
    items = [*label["input"], label.get("word")]
    number_of = {item: number for number, item in enumerate(items)}
    numbers = []
    for item in lenient_list(text):
        if item not in number_of:
            return None
        numbers.append(number_of[item])
    return numbers


def _of_lists(rows: NDArray[np.int64], table: NDArray[np.int64]) -> dict[str, float]:
    """The law of right answers (N, P) against uniform ones (A, P)."""
    tokens = int(table.max()) + 1
    seen = _shares(rows, tokens)  # (P, t)
    exact = _shares(table, tokens)  # (P, t)
    open_ = (table != table[0]).any(0)  # places that differ between answers
    by_chance = _chance(exact, np.full(len(exact), len(rows)))  # (P,)
    repeats = Counter(map(tuple, rows.tolist()))
    counts = np.array(list(repeats.values()))
    uniform = np.full(len(table), 1 / len(table))
    return {
        "places": float(_tv(seen, exact)[open_].mean()),
        "places_by_chance": float(by_chance[open_].mean()),
        "entropy": law_entropy(counts / len(rows)),
        "entropy_exact": _drawn_entropy(uniform, len(rows)),
    }


def _shares(rows: NDArray[np.int64], tokens: int) -> NDArray[np.float64]:
    """The share (P, t) of rows (N, P) that have each of `tokens` tokens at each place."""
    return np.stack([np.bincount(column, minlength=tokens) / len(rows) for column in rows.T])


def _of_walks(answers: Sequence[tuple[Sample, str]]) -> dict[str, float]:
    """The kernel and visits of all walks against those of the graph; steps to signs that name no
    node are left out.
    """
    label = answers[0][0].label
    exact = np.array(kernel(label["edges"], len(label["nodes"])))
    law = stationary(exact)
    counts = np.zeros_like(exact)
    visits = np.zeros(len(exact))
    for sample, text in answers:
        nodes = walked(sample.label, text)
        for node in nodes:
            visits[node] += node >= 0
        for node, following in pairwise(nodes):
            counts[node, following] += min(node, following) >= 0
    left = counts.sum(-1)
    seen = counts / np.maximum(left, 1)[:, None]
    visited = law * (left > 0)
    weights = visited / max(1e-12, float(visited.sum()))
    return {
        "kernel": float(weights @ _tv(seen, exact)),
        "kernel_by_chance": float(weights @ _chance(exact, np.maximum(left, 1))),
        "stationary": float(_tv(visits / max(1.0, float(visits.sum())), law)),
        "entropy": _mean_entropy(weights, seen),
        "entropy_exact": _mean_entropy(law, exact),
    }


def _mean_entropy(weights: Probabilities, rows: Probabilities) -> float:
    """The mean entropy in bits of rows (N, t) by weights (N,)."""
    return float(sum(weight * law_entropy(row) for weight, row in zip(weights, rows, strict=True)))


def _tv(one: Probabilities, other: Probabilities) -> Probabilities:
    return np.asarray(np.abs(one - other).sum(-1) / 2)


def _chance(law: Probabilities, counts: NDArray[np.float64] | NDArray[np.int64]) -> Probabilities:
    """The mean TV between a law (…, t) and the shares of `counts` (…) exact draws, each at least 1:
    ½ Σ E|X/N − p| with X binomial, which is Σ p(1 − p) P(X' = ⌊Np⌋) for X' of N − 1 draws (De
    Moivre). Exact for few draws, too: of one draw it is 1 − Σ p².
    """
    from scipy.stats import binom

    draws = np.asarray(counts)[..., None]
    return np.asarray((law * (1 - law) * binom.pmf(np.floor(draws * law), draws - 1, law)).sum(-1))


def _drawn_entropy(law: Probabilities, draws: int) -> float:
    """The mean entropy in bits of the shares of so many exact draws from a law, by the binomial law
    of each count.
    """
    from scipy.stats import binom

    counts = np.arange(1, draws + 1)
    bits = -counts / draws * np.log2(counts / draws)
    values, repeats = np.unique(law, return_counts=True)
    entropies = [binom.pmf(counts, draws, p) @ bits for p in values]
    return float(sum(many * entropy for many, entropy in zip(repeats, entropies, strict=True)))
