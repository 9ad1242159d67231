"""Everything that a sampler can answer, with its probability: the loop itself, driven through every
draw.

At each step each row is decoded once for every way in which its tokens can be drawn and its ties
can fall. Rows that come to the same canvas and the same state of the policy go on as one.

R rows, L canvas positions, C slots of the active block, V tokens.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, permutations, product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pbcore.base.errors import InputError
from pbcore.ceilings.table import TableDenoiser
from pbcore.decoding.block_rules import Equal
from pbcore.decoding.checks import check_needs
from pbcore.decoding.engine import _advance, _step
from pbcore.decoding.forward import slots_of
from pbcore.decoding.job import Job, decoding_of
from pbcore.decoding.policies.places import Origin
from pbcore.decoding.promise import counted
from pbcore.decoding.protocol import traits
from pbcore.decoding.rows import Log, Rows, initial_rows
from pbcore.decoding.samplers import of_name
from pbcore.models.base import Query, Request, complete
from pbcore.names import SamplerName, parse
from pbcore.theory.bounds import EntropyOf, answers_entropy
from pbcore.theory.canvas import AnswerDistribution
from pbcore.theory.problems import prediction_chances

MOST_ROWS = 50_000  # of one step
NUDGE = 1e-9  # moves a logit to decide a tie
BIG_NUDGE = 1e-4  # for entropies, which a nudge of equal chances moves by its square alone
BY_ENTROPY = ("entropy", "eb")
BY_DISTRIBUTION = ("margin", *BY_ENTROPY)  # policies whose ties the drawn tokens don't touch
REFUSED = ("credit",)  # draws again from logits of its own
AnswerTokens = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Outcomes:
    """The whole distribution of a sampler's answers. `answers` are the valid ones, equally likely
    in the data, `bits` is E[L_T], the mean bound of the partitions that were taken, in bits (None
    for samplers that mask or replace tokens again), and `steps` the mean number of steps.
    """

    chances: dict[AnswerTokens, float]
    answers: frozenset[AnswerTokens]
    bits: float | None
    steps: float

    @property
    def accuracy(self) -> float:
        return sum(chance for answer, chance in self.chances.items() if answer in self.answers)

    @property
    def divergence(self) -> float:
        """KL(data ‖ sampler) in bits; infinite if a valid answer never comes."""
        share = 1 / len(self.answers)
        chances = [self.chances.get(answer, 0.0) for answer in self.answers]
        return (
            sum(share * math.log2(share / chance) for chance in chances)
            if all(chances)
            else math.inf
        )

    @property
    def total_variation(self) -> float:
        """Half the sum of the differences between the probabilities of data and sampler."""
        share = 1 / len(self.answers)
        missing = sum(abs(self.chances.get(answer, 0.0) - share) for answer in self.answers)
        return 0.5 * (missing + 1 - self.accuracy)


def outcomes(distribution: AnswerDistribution, sampler: str | SamplerName) -> Outcomes:
    """The distribution of the answers of the ideal model under a sampler, exactly, for few answers
    and positions.

    Tokens are drawn as the temperature says; greedy ties between tokens, and ties between
    positions, fall each way equally often. Where a confidence equals a threshold it counts as
    reaching it. Raises InputError for too many ways, and for samplers that the ideal model can't
    run or that draw tokens anew.
    """
    name = sampler if isinstance(sampler, SamplerName) else parse(sampler)
    return _Enumeration(distribution, name).run()


class _Every(TableDenoiser):
    """The model and the draws of one step: every row with the tokens and the order that it was
    given.
    """

    column = draws = token = nudge = order = torch.empty(0, device="cpu")  # (R, C) each

    def logits(self, query: Query) -> Tensor:
        logits = self.marginals(query.canvas).log()  # (R, L, V)
        rows = torch.arange(len(logits))[:, None].expand_as(self.column)
        logits.index_put_((rows, self.column, self.token), self.nudge, accumulate=True)
        return logits[query.want]

    def draw(self, seed: int, key: Tensor, nfe: Tensor, position: Tensor, salt: int = 0) -> Tensor:
        return self.order if salt else self.draws


# One way in which a step of one row can go: its probability, and for each slot the number that
# draws its token, the token whose logit is nudged, by how much, and the policy's random number.
_Way = tuple[float, list[tuple[float, int, float, float]]]


class _Enumeration:
    def __init__(self, distribution: AnswerDistribution, name: SamplerName) -> None:
        self._table = _Every(distribution, noise=0.0)
        self._name = name
        self._policy = of_name(name).policy
        model = complete(self._table)
        declared = traits(self._policy)
        check_needs(model, declared, name)
        if name.policy in REFUSED and name.temperature:
            raise InputError(
                f"sampler {name}: {name.policy} draws from logits of its own; only its greedy form"
                " is enumerated"
            )
        if name.adaptive:
            raise InputError(
                f"sampler {name}: blocks chosen while decoding aren't enumerated; decode with the"
                " model `ideal`"
            )
        if name.cuts and name.temperature:
            raise InputError(
                f"sampler {name}: draws that +p and +top cut aren't enumerated; decode with the"
                " model `ideal`"
            )
        if "probe" in declared.needs or name.together:
            raise InputError(
                f"sampler {name}: tokens checked by what-if rows or chosen together aren't"
                " enumerated; decode with the model `ideal`"
            )
        request = Request((), self._table.canvas, 0)
        self._rows = initial_rows(model, [request], [len(self._table.canvas)])
        size = name.block or max(1, int(self._rows.n_targets.max()))
        decoding = decoding_of(model, declared, name, 0, self._table.draw)
        self._job = Job(
            model,
            counted(self._policy, name.policy),
            declared,
            name,
            size,
            Equal(size),
            decoding,
            Log(None),
            [request.label],
        )
        rows = np.array(sorted(self._table.answers))
        self._entropy: EntropyOf = answers_entropy(rows)
        self._all_bits = math.log2(len(rows))
        partitions = name.remask is None and (
            declared.chooses or not (declared.review or declared.cap)
        )
        self._bits = bool(partitions) and not name.eos_stop

    def run(self) -> Outcomes:
        weights = np.ones(1)
        bits = np.zeros(1)
        chances: dict[AnswerTokens, float] = {}
        total_bits = total_steps = 0.0
        taken = 0
        rows = _advance(self._job, self._rows, self._table)
        while len(rows.origin):
            rows, weights, bits = self._stepped(rows, weights, bits)
            taken += 1
            done = (~(rows.canvas == self._table.mask_id).any(-1) & ~rows.hold).numpy()
            for canvas, weight in zip(
                rows.canvas[torch.from_numpy(done)].tolist(), weights[done], strict=True
            ):
                chances[tuple(canvas)] = chances.get(tuple(canvas), 0.0) + float(weight)
            total_bits += float((weights * bits)[done].sum())
            total_steps += taken * float(weights[done].sum())
            weights = weights[~done]
            bits = bits[~done]
            rows = _advance(self._job, rows, self._table)
        lost = max(0.0, total_bits - self._all_bits) if self._bits else None
        return Outcomes(chances, self._table.answers, lost, total_steps)

    def _stepped(
        self, rows: Rows, weights: np.ndarray, bits: np.ndarray
    ) -> tuple[Rows, np.ndarray, np.ndarray]:
        """All rows after one step in every way, those that came to the same merged."""
        ways = ((row, way) for row in range(len(rows.origin)) for way in self._ways(rows, row))
        found = list(islice(ways, MOST_ROWS + 1))
        self._check(len(found))
        repeat = [row for row, _ in found]
        rows = rows.select(torch.tensor(repeat))
        every = self._table
        _, every.column, *_ = slots_of(self._job, rows)
        given = torch.tensor([slots for _, (_, slots) in found], dtype=torch.double)  # (R, C, 4)
        every.draws, token, every.nudge, every.order = given.unbind(-1)
        every.token = token.long()
        before = (rows.canvas == every.mask_id).numpy()
        _step(self._job, rows, every)
        after = (rows.canvas == every.mask_id).numpy()
        weights = weights[repeat] * np.array([chance for _, (chance, _) in found])
        bits = bits[repeat] + np.array(
            [self._new_bits(*pair) for pair in zip(before, after, strict=True)]
        )
        place: dict[Any, int] = {}
        into = np.array(
            [place.setdefault(_key(rows, row), len(place)) for row in range(len(rows.origin))]
        )
        total = np.bincount(into, weights)
        first = torch.from_numpy(np.unique(into, return_index=True)[1])
        return rows.select(first), total, np.bincount(into, weights * bits) / total

    def _check(self, ways: int) -> None:
        if ways > MOST_ROWS:
            raise InputError(
                f"sampler {self._name}: a step can go in more than {MOST_ROWS} ways; give fewer"
                " positions"
            )

    def _new_bits(self, before: np.ndarray, after: np.ndarray) -> float:
        if not self._bits:
            return 0.0
        known = frozenset((~before).nonzero()[0].tolist())
        new = (before & ~after).nonzero()[0].tolist()
        return sum(self._entropy(known | {position}) - self._entropy(known) for position in new)

    def _ways(self, rows: Rows, row: int) -> Iterator[_Way]:
        """Every way in which the next step of a row can go."""
        row_alone = rows.select(torch.tensor([row]))
        _, where, _, masked = slots_of(self._job, row_alone)  # (1, C) each
        slots = masked[0].nonzero()[:, 0].tolist()
        policy = self._name.policy
        size = BIG_NUDGE if self._name.policy in BY_ENTROPY else NUDGE
        marginals = self._table.marginals(row_alone.canvas)[0][where[0]].tolist()  # (C, V)
        choices = []
        for slot in slots:
            ids = [token for token, p in enumerate(marginals[slot]) if p]
            likely = prediction_chances(
                [marginals[slot][token] for token in ids], self._name.temperature
            )
            ends = np.cumsum(likely)
            options = []
            for token, probability, end in zip(ids, likely, ends.tolist(), strict=True):
                if probability:
                    options.append((token, probability, end - probability / 2))
            choices.append(options)
        self._check(math.prod(map(len, choices)))
        for picks in product(*choices):
            chance = math.prod(probability for _, probability, _ in picks)
            tokens = [token for token, _, _ in picks]
            for order, share in self._orders(marginals, slots, tokens, int(row_alone.index[0])):
                way = [(0.5, 0, 0.0, 0.5)] * len(masked[0])
                for slot, (token, _, middle), number in zip(slots, picks, order, strict=True):
                    if policy in BY_DISTRIBUTION and self._name.temperature:
                        token = max(range(len(marginals[slot])), key=marginals[slot].__getitem__)
                    way[slot] = middle, token, size * (1 + number), number
                yield chance * share, way

    def _orders(
        self,
        marginals: Sequence[Sequence[float]],
        slots: Sequence[int],
        tokens: Sequence[int],
        index: int,
    ) -> Iterator[tuple[list[float], float]]:
        """Numbers in (0, 1) for the slots, whose order decides ties and random choices, with their
        probability.
        """
        count = len(slots)
        if isinstance(self._policy, Origin):
            rate = (1 - 1e-3) / self._policy.steps
            rate /= 1 - index * rate
            for revealed in product((True, False), repeat=count):
                share = math.prod(rate if goes else 1 - rate for goes in revealed)
                yield [rate / 2 if goes else (1 + rate) / 2 for goes in revealed], share
            return
        groups = defaultdict(list)
        for i, (slot, token) in enumerate(zip(slots, tokens, strict=True)):
            groups[self._tied(marginals[slot], token, slot)].append(i)
        share = 1 / math.prod(math.factorial(len(group)) for group in groups.values())
        for arranged in product(*(permutations(group) for group in groups.values())):
            rank = {}
            for group in arranged:
                for place, i in enumerate(group, 1):
                    rank[i] = place
            yield [rank[i] / (count + 1) for i in range(count)], share

    def _tied(self, chances: Sequence[float], token: int, slot: int) -> float:
        """A number that slots share whose order only noise, or chance, decides."""
        policy = self._name.policy
        if policy == "random":
            return 0.0
        if chances[token] == 1:
            return 2.0 + slot  # noise can't raise it: the leftmost goes first
        if policy == "margin":
            first, second, *_ = sorted(chances, reverse=True)
            return round(first - second, 9)
        if policy in BY_DISTRIBUTION:
            return round(sum(p * math.log(p) for p in chances if p), 9)
        return round(chances[token], 9)


def _key(rows: Rows, row: int) -> Any:
    """What decides how a row goes on."""
    states = tuple(
        (name, (state.value[row].double() * 1e6).round().numpy().tobytes())
        for name, state in sorted(rows.states.items())
    )
    return (
        rows.canvas[row].numpy().tobytes(),
        int(rows.block[row]),
        int(rows.index[row]),
        bool(rows.hold[row]),
        states,
    )
