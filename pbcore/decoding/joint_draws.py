"""Tokens of several positions chosen together, so that each token occurs as often as the marginals
say.

N_t = Σᵢ pᵢ(t) over the positions is the exact expected number of tokens t among them, however they
depend on each other (linearity of expectation). Tokens chosen independently keep it only on
average: where a shuffle has every item once, they repeat some and lose others.

S positions of a row, K likeliest tokens of each, U different ones among these, M candidates of all
rows, V tokens.
"""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from pbcore.base.lazy_torch import Tensor, torch
from pbcore.decoding.predicted import Predicted
from pbcore.decoding.prediction import chunk_pairs, running_numbers
from pbcore.decoding.step import Step
from pbcore.models.counter_rng import categorical
from pbcore.models.transfer import on_device, places

KEPT = 32  # likeliest tokens of a position that are told apart
SURE = 0.999  # a position of this confidence keeps its token
EPSILON = 1e-12  # an entry this near to 0 or 1 is rounded
IMPOSSIBLE = -1e4  # the score of a token that a position can't have
FLOOR = 100.0  # added to the score of a copy of a token that must come
SEED, REST = 3, 4  # salts of random numbers
Edge = tuple[int, int]  # row, and column counted from the end
Matrix = NDArray[np.float64]
# (S,) a token's place among the K likeliest of its position, -1 for another token.
Places = NDArray[np.int64]


def together(step: Predicted, slots: Tensor, how: str) -> tuple[Tensor, Tensor]:
    """Token and its probability (R, C), chosen together in the marked slots of each row, else the
    step's own.

    Slots of confidence 0.999 and rows with a single other slot keep their tokens.

    Args:
        step: of a policy that reads distributions.
        slots: (R, C) bool.
        how: `counts`, an assignment of tokens to positions, or at a temperature `rounding`, which
            keeps every marginal.
    """
    open_ = slots & step.masked & (step.confidence < SURE)
    open_ &= (open_.sum(-1) > 1)[:, None]
    at = places(open_, None)  # (M',)
    if not len(at):
        return step.token, step.confidence
    ids, heated, own = _likeliest(step, at)
    row = at // open_.shape[1]
    seeds = step.uniform(SEED)[:, 0][row]  # (M',)
    # The host chooses, from one copy; whole numbers below 2^53 stay exact in it.
    told = torch.cat([row[:, None].double(), seeds[:, None], ids.double(), heated.double()], -1)
    packed = told.cpu().numpy()
    choose = {"counts": by_counts, "rounding": by_rounding}[how]
    ends = np.flatnonzero(np.diff(packed[:, 0])) + 1  # of each row's slots
    chosen_places = []
    for part in np.split(packed, ends):
        tokens, chances = np.split(part[:, 2:], 2, axis=1)
        rng = np.random.default_rng(int(part[0, 1] * (1 << 53))) if step.temperature else None
        chosen_places.append(choose(tokens.astype(np.int64), chances, rng))
    place = np.concatenate(chosen_places)  # (M',)
    among = on_device(torch.from_numpy(place).clamp(min=0), at.device)[:, None]  # (M', 1)
    token = ids.gather(1, among)[:, 0]
    confidence = own.gather(1, among)[:, 0]
    others = np.flatnonzero(place < 0)  # get another token than the K likeliest
    if len(others):
        index = on_device(others.tolist(), at.device)
        kept = at[index]
        if how == "rounding":
            logits = step.logits[running_numbers(step.masked).flatten()[kept]]  # (M″, V)
            log_probs = torch.log_softmax(logits.double(), -1)
            rest = step.decoding.law.drawn(log_probs).scatter(1, ids[index], -torch.inf)
            drawn = categorical(rest, step.uniform(REST).flatten()[kept])
            token[index] = drawn
            likely = log_probs.gather(1, drawn[:, None])[:, 0].exp()
            confidence[index] = likely.to(confidence.dtype)
        else:
            token[index] = step.token.flatten()[kept]
            confidence[index] = step.confidence.flatten()[kept]
    return step.token.masked_scatter(open_, token), step.confidence.masked_scatter(
        open_, confidence
    )


def spaced(step: Step, reveal: Tensor, gap: int) -> Tensor:
    """The slots to reveal (R, C) without the unsure ones that are too near behind an unsure one
    that stays.

    Args:
        step: its confidences say which slots are unsure, below 0.999.
        reveal: (R, C) bool.
        gap: the least distance, in columns of the canvas.
    """
    best = step.confidence  # (R, C): the largest probability of each candidate
    if step.temperature:
        best = step.rowwise(lambda log_probs: log_probs.max(-1).values.exp())
    unsure = reveal & (best < SURE)
    result = reveal.clone()
    last = torch.full_like(step.index, -gap)
    for slot, some in enumerate(unsure.any(0).tolist()):
        if not some:
            continue
        near = unsure[:, slot] & (step.column[:, slot] - last < gap)
        result[:, slot] &= ~near
        last = torch.where(unsure[:, slot] & ~near, step.column[:, slot], last)
    return result


def _likeliest(step: Predicted, at: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The K likeliest tokens (M', K) of the candidates in the slots `at` (M',), places among all
    slots, and their probabilities, when drawn and as places are ranked by them.
    """
    ids = []
    values = []
    heats = []
    entry = running_numbers(step.masked).flatten()[at]  # (M',)
    for part, _ in chunk_pairs(step.logits[entry], entry):
        best = part.topk(min(KEPT, part.shape[-1]), dim=-1)
        ids.append(best.indices)
        values.append(best.values)
        if step.temperature:
            drawn_part = step.decoding.law.drawn(part)
            sums = drawn_part.logsumexp(-1, keepdim=True)
            heats.append(drawn_part.gather(-1, best.indices) - sums)
    logits, token = torch.cat(values), torch.cat(ids)  # (M', K) each
    # The predicted token's logit minus its log-probability is the logarithm of the softmax's sum.
    drawn = step.logits[entry, step.token.flatten()[at]][:, None].to(logits.dtype)  # (M', 1)
    own = logits - (drawn - step.confidence.flatten()[at][:, None].log())
    heated = torch.cat(heats) if heats else own
    return token, heated.exp(), own.exp()


def by_counts(ids: NDArray[np.int64], chances: Matrix, rng: np.random.Generator | None) -> Places:
    """The assignment of tokens to positions with the largest product of probabilities in which each
    token t comes at least ⌊N_t⌋ and at most max(1, ⌊N_t + ½⌋) times.

    Args:
        ids: (S, K) the likeliest tokens of each position.
        chances: (S, K) their probabilities.
        rng: perturbs the probabilities by Gumbel noise; None: no noise.

    Returns:
        The choice (S,) among a position's K tokens. Positions that get no token that they can have
        keep their own (-1), and so do all if there are fewer copies of tokens than positions.
    """
    from scipy.optimize import linear_sum_assignment  # imported at first use: it takes long

    union, of = np.unique(ids, return_inverse=True)  # (U,), (S, K)
    positions = np.arange(len(ids))[:, None]
    expected = np.bincount(of.ravel(), chances.ravel(), minlength=len(union))  # N (U,)
    cap = np.maximum(1, np.floor(expected + 0.5)).astype(np.int64)
    if cap.sum() < len(ids):
        return np.full(len(ids), -1)
    with np.errstate(divide="ignore"):
        noise = 0.0 if rng is None else rng.gumbel(size=chances.shape)
        scores = np.maximum(np.log(chances) + noise, IMPOSSIBLE)
    matrix = np.full((len(ids), len(union)), IMPOSSIBLE)
    matrix[positions, of] = scores
    copies = np.repeat(np.arange(len(union)), cap)  # token of each column
    number = np.arange(len(copies)) - np.repeat(cap.cumsum() - cap, cap)  # which copy it is
    least = np.floor(expected + 1e-3).astype(np.int64)
    columns = matrix[:, copies] + FLOOR * (number < least[copies])
    assigned = copies[linear_sum_assignment(columns, maximize=True)[1]]  # (S,)
    hit = of == assigned[:, None]  # (S, K)
    possible = hit.any(-1) & (matrix[positions[:, 0], assigned] > IMPOSSIBLE)
    return np.where(possible, hit.argmax(-1), -1)


def by_rounding(ids: NDArray[np.int64], chances: Matrix, rng: np.random.Generator | None) -> Places:
    """A draw that keeps every probability, and in which each token t comes ⌊N_t⌋ or ⌈N_t⌉ times
    (dependent rounding).

    Args:
        ids: (S, K) the likeliest tokens of each position.
        chances: (S, K) their probabilities.
        rng: draws; it must be given.

    Returns:
        The choice (S,) among a position's K tokens; -1 for another token, which takes what these
        leave of the probability.
    """
    assert rng is not None, "rounding draws tokens, so it needs a temperature"
    union, of = np.unique(ids, return_inverse=True)
    matrix = np.zeros((len(ids), len(union) + len(ids)))
    positions = np.arange(len(ids))
    matrix[positions[:, None], of] = chances
    matrix[positions, len(union) + positions] = np.maximum(0, 1 - chances.sum(-1))
    matrix /= matrix.sum(-1, keepdims=True)
    hit = of == rounded(matrix, rng)[:, None]
    return np.where(hit.any(-1), hit.argmax(-1), -1)


def rounded(chances: Matrix, rng: np.random.Generator) -> NDArray[np.int64]:
    """Dependent rounding: one column per row (S,) of `chances` (S, U), whose rows sum to 1 (Gandhi,
    Khuller, Parthasarathy and Srinivasan, J. ACM 53, 2006, Section 2). Row i gets column t with
    probability `chances[i, t]`, and each column comes as often as its sum says, rounded down or up.

    The fractional entries are the edges of a bipartite graph. Along a cycle, or a path that can't
    be made longer, every second entry is raised by as much as the others are lowered, or the other
    way round, until one is 0 or 1; of the two ways one is drawn so that no expectation moves. Rows
    and columns are visited in random order, so where all columns are alike no choice is preferred.
    """
    rows = rng.permutation(len(chances))
    columns = rng.permutation(chances.shape[1])
    x = chances[rows][:, columns].copy()
    # The graph: each row's columns with fractional entries, each column's rows. Columns count from
    # the end, so below 0.
    neighbours = defaultdict[int, set[int]](set)
    for i, shares in enumerate(x):
        if shares.max() < 1 - EPSILON:
            for j in ((shares > EPSILON).nonzero()[0] - len(columns)).tolist():
                neighbours[i].add(j)
                neighbours[j].add(i)
    for start in range(len(x)):
        while neighbours[start]:
            edges, cycle = _walk(start, min(neighbours[start]), neighbours)
            # A dead end is a column, since a row has none or several: from there to the other end.
            if not cycle:
                row, column = edges[-1]
                edges, _ = _walk(column, row, neighbours)
            _round(x, edges, neighbours, rng)
    result = np.empty(len(x), dtype=np.int64)
    result[rows] = columns[x.argmax(-1)]
    return result


def _walk(start: int, onward: int, neighbours: Mapping[int, set[int]]) -> tuple[list[Edge], bool]:
    """The edges from `start` through `onward` to a dead end, and False; or those of the cycle met
    first, and True.
    """
    edges: list[Edge] = []
    seen = {start: 0}
    while True:
        edges.append((max(start, onward), min(start, onward)))
        if onward in seen:
            return edges[seen[onward] :], True
        seen[onward] = len(edges)
        further = neighbours[onward] - {start}
        if not further:
            return edges, False
        start = onward
        onward = min(further)


def _round(
    x: Matrix, edges: list[Edge], neighbours: Mapping[int, set[int]], rng: np.random.Generator
) -> None:
    """Moves the entries of a path or cycle, every second one up and the others down, or the other
    way round.
    """
    ups = edges[0::2]
    downs = edges[1::2]
    more = min(min(1 - x[e] for e in ups), min(x[e] for e in downs))
    less = min(min(x[e] for e in ups), min(1 - x[e] for e in downs))
    by = more if rng.random() * (more + less) < less else -less
    for part, change in ((ups, by), (downs, -by)):
        for row, column in part:
            x[row, column] += change
            if not EPSILON < x[row, column] < 1 - EPSILON:
                neighbours[row].discard(column)
                neighbours[column].discard(row)
            if len(neighbours[row]) == 1:  # what errors of floating point left of a row
                neighbours[neighbours[row].pop()].discard(row)
