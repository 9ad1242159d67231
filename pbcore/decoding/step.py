"""What a policy gets at each step (Step), what it may return (Move), and how many tokens a schedule
reveals (quota).

R rows, C slots of the active block, M candidates, V tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from pbcore.decoding.prediction import NUMBERS, Prediction, predict, rowwise, scattered
from pbcore.decoding.what_if import Answers
from pbcore.errors import InputError
from pbcore.lazy_torch import Tensor, torch
from pbcore.links import docs
from pbcore.models.base import Attention
from pbcore.models.counter_rng import RandomSource, uniform
from pbcore.models.transfer import gather_entries, on_device, places
from pbcore.names import SamplerName


@dataclass(slots=True)
class State:
    """What a policy keeps of each row from step to step. `over` is its lifetime: `block` (set back
    to `fill` when the row enters a block) or `answer`.
    """

    value: Tensor  # (R, …)
    fill: float
    over: str


@dataclass(frozen=True, slots=True)
class Move:
    """What a policy returns to do more than reveal predicted tokens.

    `reveal` marks the masked slots to reveal and `remask` the slots to mask again; a slot in both
    ends up masked. `token` replaces the model's predictions as the tokens to write, and
    `confidence` is recorded for them. `revise` marks revealed slots to overwrite with `token`.
    `hold` keeps a row in its block for one more step after its last mask there is filled. `take`
    names the what-if row, by its place in `step.answers`, whose answers the next step reads instead
    of a forward of its own (−1: none); all its tokens must stand in the canvas then.
    """

    reveal: Tensor  # (R, C) bool
    remask: Tensor | None = None  # (R, C) bool
    token: Tensor | None = None  # (R, C) long
    confidence: Tensor | None = None  # (R, C) float
    revise: Tensor | None = None  # (R, C) bool
    hold: Tensor | None = None  # (R,) bool
    take: Tensor | None = None  # (R,) long


@dataclass(frozen=True, slots=True)
class Review:
    """The model's new predictions for the active block's revealed tokens; 0 in all other slots.
    `token` is the prediction, `confidence` its probability, and `support` the probability of the
    token that stands there. `mask` is the probability of the mask token, if the policy needs it.
    """

    token: Tensor  # (R, C) long
    confidence: Tensor  # (R, C) float
    support: Tensor  # (R, C) float
    mask: Tensor | None = None  # (R, C) float


_ABSENT: Any = None  # in place of what only a policy that declares it has


@dataclass(slots=True, kw_only=True)
class Step:
    """The result of one forward for the rows still being decoded, and of the what-if rows asked
    about since. A row's slots are its target positions (those masked at the start) in the active
    block, in canvas order. Rows with fewer slots are padded on the right, where `inside` is False.
    With `reach = "prefix"` the slots of all earlier blocks come first. The candidates are the
    masked slots.
    """

    inside: Tensor  # (R, C) bool: False at padding
    position: Tensor  # (R, C) long: index among the row's target positions
    column: Tensor  # (R, C) long: index in the canvas
    masked: Tensor  # (R, C) bool: the candidates
    # (R, C) bool: slots that hold a token; `~masked` also has masks that are no candidates now
    visible: Tensor = _ABSENT
    token: Tensor  # (R, C) long: predicted token of a candidate, present token of a revealed slot
    # (R, C) float: probability of a candidate's `token` (softmax at temperature 1), else 0
    confidence: Tensor
    key: Tensor  # (R,) long: identifies the row in random draws
    index: Tensor  # (R,) long: earlier steps of the row in this block
    nfe: Tensor  # (R,) long: earlier forwards of the row
    slots: Tensor  # (R,) long: number of slots in the active block
    size: Tensor  # (R,) long: block length; of a single block, the row's target positions
    requested: Tensor  # (R,) long: tokens asked for
    targets: Tensor  # (R,) long: positions to predict in the whole canvas
    left: Tensor  # (R,) long: those still masked
    stale: Tensor  # (R,) bool: the canvas has tokens that the forward read here didn't see
    asked: int  # A: largest number of target positions in the batch
    seed: int = 0  # of the decoding
    mask_id: int = -1  # the mask token
    temperature: float = 0.0
    frequencies: Tensor | None = None  # (V,) float: the tokens' background probabilities, if known
    reach: str = "block"  # the policy's `reach`
    reads: str = "distributions"  # the policy's `reads`
    quota: Tensor | None = None  # (R,) long: tokens to reveal now, if a schedule says
    attention: Attention = _ABSENT  # weights of the slots, if the policy needs them, else None
    mask: Tensor | None = (
        None  # (R, C) float: probability of the mask token at a candidate, if the policy needs it
    )
    review: Review = _ABSENT  # if the policy declares `review`, else None
    answers: Answers | None = None  # of the policy's last Probe in this step
    notes: dict[str, Any] = field(
        default_factory=dict
    )  # the policy's own, for its next call in this step
    _logits: Tensor | None = None  # (M, V) float; None if a store answered
    _numbers: Mapping[str, Tensor] = field(default_factory=dict)  # (R, C) each, if a store answered
    _states: dict[str, State] = field(default_factory=dict)
    _walk: Tensor | None = None  # (R, C) long: the candidates' order, in place of any score's
    _wanted: tuple[int, ...] | None = None  # each row's candidates, as far as the host knows them
    _shown: int | None = None  # the number of revealed slots, for policies that review them
    _at: Tensor | None = None  # (M,) the candidates' places among all slots
    _draw: RandomSource = uniform

    @classmethod
    def without_model(
        cls,
        confidence: Tensor,
        numbers: Mapping[str, Tensor],
        index: int,
        size: int,
        temperature: float = 0.0,
        quota: Tensor | None = None,
    ) -> Step:
        """A step of which only numbers are known, for policies that read nothing else.

        Args:
            confidence: (R, C), of slots that all are candidates; each predicts token 0.
            numbers: `margin` and `entropy`, (R, C) each.
            index: earlier steps in this block.
            size: the block's length.
            temperature: of the sampler.
            quota: (R,) tokens to reveal now, if a schedule says.
        """
        rows, slots = confidence.shape
        places = torch.arange(slots).expand(rows, slots)
        every = torch.ones(rows, slots, dtype=torch.bool)
        zeros = torch.zeros(rows, dtype=torch.long)
        return cls(
            inside=every,
            position=places,
            column=places,
            masked=every,
            token=torch.zeros_like(places),
            confidence=confidence,
            key=zeros,
            index=zeros + index,
            nfe=zeros + index,
            slots=zeros + size,
            size=zeros + size,
            requested=zeros + size,
            targets=zeros + size,
            left=zeros + slots,
            stale=zeros.bool(),
            asked=slots,
            temperature=temperature,
            quota=quota,
            _numbers=numbers,
        )

    @property
    def logits(self) -> Tensor:
        """Logits (M, V) of the candidates, in row-major order; -inf for the mask token. Raises
        InputError for a policy that declares to read numbers alone.
        """
        if self.reads == "numbers" or self._logits is None:
            raise InputError(
                "this policy declares reads = 'numbers' and so has no step.logits, step.log_probs()"
                " or step.rowwise(); use step.confidence, step.margin() and step.entropy(), or"
                " leave the declaration out"
            )
        return self._logits

    def margin(self) -> Tensor:
        """The gap (R, C) between the probabilities of the two likeliest tokens of each candidate; 0
        elsewhere.
        """
        return self._number("margin")

    def entropy(self) -> Tensor:
        """The entropy −Σ p ln(p + 1e-10) (R, C) of each candidate's distribution, in nats; 0
        elsewhere.
        """
        return self._number("entropy")

    def _hide(self, slots: Tensor) -> None:
        """Takes these slots (R, C) from the candidates."""
        if self._logits is not None:
            self._logits = self._logits[~self.of_candidates(slots)]
        self.masked = self.masked & ~slots
        self._wanted = self._at = None

    def _number(self, name: str) -> Tensor:
        if self._logits is None:
            return self._numbers[name].where(self.masked, 0.0)
        return self.scatter(rowwise(NUMBERS[name], self._logits))

    def of_candidates(self, values: Tensor) -> Tensor:
        """The candidates' part (M, …) of values (R, C, …), in row-major order, as `values[masked]`;
        on a GPU that makes the host wait, and this doesn't.
        """
        return gather_entries(values, self._places())

    def to_candidates(self, values: Tensor, part: Tensor) -> None:
        """Writes the candidates' part (M, …) of values (R, C, …), in place."""
        values.view(-1, *values.shape[2:])[self._places()] = part

    def candidates(self) -> tuple[int, ...]:
        """Each row's number of candidates, on the host."""
        if self._wanted is None:
            self._wanted = tuple(self.masked.sum(-1).tolist())
        return self._wanted

    def _places(self) -> Tensor:
        if self._at is None:
            count = None if self._wanted is None else sum(self._wanted)
            self._at = places(self.masked, count)
        return self._at

    def scatter(self, values: Tensor, fill: float = 0.0) -> Tensor:
        """Puts values (M,) of the candidates into their slots: (R, C), `fill` elsewhere."""
        return scattered(self.masked, values, fill)

    def rowwise(self, function: Callable[[Tensor], Tensor]) -> Tensor:
        """`function`, log-probabilities (m, V) → (m,), of the candidates (R, C), in chunks of
        bounded memory.
        """
        return self.scatter(rowwise(function, self.logits))

    def log_probs(self) -> Tensor:
        """Log-probabilities of the candidates (M, V)."""
        return torch.log_softmax(self.logits, dim=-1)

    def predict(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Token and confidence (R, C) from changed logits (M, V), with the random draws of the
        step's own.
        """
        seen = self._predicted(logits)
        return self.token.masked_scatter(self.masked, seen.token), self.scatter(seen.confidence)

    def _predicted(self, logits: Tensor) -> Prediction:
        draws = self.of_candidates(self.uniform(-1)) if self.temperature else None
        return Prediction(*predict(logits, self.temperature, draws), logits)

    def _see(self, seen: Prediction) -> None:
        """Takes what a forward says of the candidates."""
        self.token = self.token.masked_scatter(self.masked, seen.token)
        self.confidence = scattered(self.masked, seen.confidence)
        self._logits = seen.logits
        self._numbers = {
            name: scattered(self.masked, values) for name, values in seen.numbers.items()
        }

    def uniform(self, salt: int = 0) -> Tensor:
        """A uniform number in (0, 1) for each slot (R, C), new at each step, whatever the batch;
        `salt` ≥ 0 gives further draws.
        """
        return self._draw(self.seed, self.key, self.nfe, self.position, salt + 1)

    def best(self, score: Tensor, k: int | Tensor | None) -> Tensor:
        """The k candidates of highest `score` (R, C) in each row, ties to the lowest position; with
        a schedule its count instead of k. Raises ValueError without both.
        """
        count = self.quota if self.quota is not None else k
        if count is None:
            raise ValueError(
                "this policy needs k (e.g. -k2) or a schedule (+s2_1_1, +linear8, +cosine8)"
            )
        limit = count[:, None] if isinstance(count, Tensor) else count
        return self.masked & (self.rank(score) < limit)

    def rank(self, score: Tensor, among: Tensor | None = None) -> Tensor:
        """Rank (R, C) of each slot, from 0, by falling `score` (R, C) among the slots `among` (R,
        C), by default the candidates; slots outside come last, ties go to the lowest position.
        """
        order = self.order(score, self.masked if among is None else among)
        places = torch.arange(order.shape[-1], device=order.device).expand_as(order)
        return torch.empty_like(order).scatter_(-1, order, places)

    def order(self, score: Tensor, among: Tensor) -> Tensor:
        """Slot indices (R, C) by falling `score` of those `among` (R, C), others last; ties to the
        lowest position.
        """
        if self._walk is not None and among is self.masked:
            return self._walk
        return score.masked_fill(~among, -torch.inf).argsort(dim=-1, descending=True, stable=True)

    def at_least_best(self, reveal: Tensor, score: Tensor) -> Tensor:
        """The candidates in `reveal` (R, C); in a row without any, the best candidate by
        `score`.
        """
        reveal = reveal & self.masked
        return torch.where(reveal.any(-1, keepdim=True), reveal, self.best_one(score))

    def ordered(self, score: Tensor, values: Tensor) -> Tensor:
        """`values` (R, C) sorted by falling `score`, the candidates' first; ignore what follows the
        last candidate.
        """
        return values.gather(-1, self.order(score, self.masked))

    def first(self, score: Tensor, count: Tensor) -> Tensor:
        """The best `count` (R,) candidates by `score` (R, C), at least one in each row that has
        candidates.
        """
        return self.masked & (self.rank(score) < count.clamp(min=1)[:, None])

    def prefix(self, score: Tensor, good: Tensor) -> Tensor:
        """The candidates that come before the first one, by falling `score`, that isn't `good` (R,
        C); at least one.
        """
        return self.first(score, self.ordered(score, good & self.masked).long().cumprod(-1).sum(-1))

    def best_one(self, score: Tensor) -> Tensor:
        """The best candidate of each row by `score` (R, C)."""
        return self.masked & (self.rank(score) < 1)

    def state(
        self,
        name: str,
        fill: float = 0.0,
        *,
        per: str = "slot",
        shape: tuple[int, ...] = (),
        over: str = "block",
        dtype: torch.dtype | None = None,
    ) -> Tensor:
        """A tensor that the loop keeps for the policy from step to step; change it in place.

        `per` slot: (R, C, *shape); `per` row: (R, *shape). It starts as `fill`, and the loop sets a
        row's part back to `fill` when the row enters a new block. With `over` answer it is kept
        until the row ends; slots then need `reach = "prefix"`, since other policies get new slots
        in each block. `dtype` defaults to bool for a bool `fill`, else to that of the confidences.
        Raises ValueError for values that aren't allowed, and for a name in use for a state of
        another shape.
        """
        if per not in ("slot", "row") or over not in ("block", "answer"):
            raise ValueError(
                f"state {name!r}: per is slot or row and over is block or answer, not {per!r} and"
                f" {over!r}"
            )
        if per == "slot" and over == "answer" and self.reach == "block":
            raise ValueError(
                f"state {name!r}: each block has new slots; keep a number per row (per='row'), or"
                " declare reach = 'prefix'"
            )
        rows, slots = self.masked.shape
        expected = (rows, slots, *shape) if per == "slot" else (rows, *shape)
        if name not in self._states:
            sizes = (
                (rows, self.asked, *shape) if per == "slot" and self.reach == "prefix" else expected
            )
            kind = dtype or (torch.bool if isinstance(fill, bool) else self.confidence.dtype)
            self._states[name] = State(
                torch.full(sizes, fill, dtype=kind, device=self.masked.device), fill, over
            )
        value = self._states[name].value
        value = value[:, :slots] if per == "slot" else value
        if tuple(value.shape) != expected:
            raise ValueError(
                f"state {name!r} has shape {tuple(value.shape)} already, not {expected}; use"
                " another name"
            )
        return value

    if not TYPE_CHECKING:  # so that type checkers still find unknown names

        def __getattr__(self, name: str) -> NoReturn:
            if name in ("memory", "store", "remember", "kept"):
                raise AttributeError(
                    f"step.{name} no longer exists; keep state with step.state(name, fill,"
                    " per='slot' or 'row') and change it in place"
                )
            raise AttributeError(
                f"a step has no {name!r}; {docs('own-sampler.md')} lists what it has"
            )


def quota(name: SamplerName, total: Tensor, index: Tensor, left: Tensor) -> Tensor | None:
    """Tokens to reveal now, per row (R,), or None without a schedule. `total` (R,) is m, the number
    of slots in the block, `index` (R,) is i, the steps taken in it, `left` (R,) the masks left in
    it.

    `counts` are used as given, zeros included. `linear` over S steps gives ⌊m/S⌋ + [i < m mod S]
    (the reference's static schedule), `cosine` leaves ⌊m·cos(π/2·(i+1)/S)⌋ masks after step i
    (MaskGIT, arXiv 2202.04200). The last step of every schedule reveals all that is left.
    """
    if name.counts is not None:
        counts = on_device(name.counts, total.device)  # (S,)
        now = counts[index.clamp(max=len(name.counts) - 1)]
        last = index >= len(name.counts) - 1
    elif name.schedule == "linear":
        steps = name.schedule_steps
        now = share(total, steps, index)
        last = index >= steps - 1
    elif name.schedule == "cosine":
        progress = ((index + 1).double() / name.schedule_steps).clamp(max=1)
        keep = (total * torch.cos(torch.pi / 2 * progress) + 1e-9).floor().long()
        now = (left - keep).clamp(min=0)
        last = index >= name.schedule_steps - 1
    else:
        return None
    return torch.where(last, left, torch.minimum(now, left))


def share(total: int | Tensor, steps: int | Tensor, index: Tensor) -> Tensor:
    """The part (R,) of `total` that step `index` (R,) of `steps` gets, earlier steps more."""
    return total // steps + (index < total % steps)
