"""What a policy gets at each step (Step) and what it may return (Move).

R rows, C slots of the active block, M candidates, V tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NoReturn

from pbcore.base.lazy_torch import Tensor, torch
from pbcore.base.links import docs
from pbcore.base.registry import hint
from pbcore.decoding.predicted import Decoding, Predicted, see
from pbcore.decoding.prediction import Law, Prediction
from pbcore.decoding.what_if import Answers


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
    of a forward of its own (−1: none); all its tokens must stand in the canvas then. `finish` ends
    a row: every mask of its answer gets its likeliest token, for policies that declare `gaps`.
    """

    reveal: Tensor  # (R, C) bool
    remask: Tensor | None = None  # (R, C) bool
    token: Tensor | None = None  # (R, C) long
    confidence: Tensor | None = None  # (R, C) float
    revise: Tensor | None = None  # (R, C) bool
    hold: Tensor | None = None  # (R,) bool
    take: Tensor | None = None  # (R,) long
    finish: Tensor | None = None  # (R,) bool


@dataclass(slots=True, kw_only=True)
class Step(Predicted):
    """The result of one forward for the rows still being decoded, and of the what-if rows asked
    about since.

    `Candidates` has the slots and ranks them, `Predicted` adds what the model says of them, and
    this class what is known of each row and what a policy keeps.
    """

    index: Tensor  # (R,) long: earlier steps of the row in this block
    slots: Tensor  # (R,) long: number of slots in the active block
    size: Tensor  # (R,) long: block length; of a single block, the row's target positions
    requested: Tensor  # (R,) long: tokens asked for
    targets: Tensor  # (R,) long: positions to predict in the whole canvas
    left: Tensor  # (R,) long: those still masked
    stale: Tensor  # (R,) bool: the canvas has tokens that the forward read here didn't see
    asked: int  # A: largest number of target positions in the batch
    quota: Tensor | None = None  # (R,) long: tokens to reveal now, if a schedule says
    states: dict[str, State] = field(default_factory=dict)  # by name, what `state` returns
    answers: Answers | None = None  # of the policy's last Probe in this step
    notes: dict[str, Any] = field(default_factory=dict)  # the policy's, for its next call here

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
        token = torch.zeros_like(places)
        step = cls(
            inside=every,
            position=places,
            column=places,
            masked=every,
            token=token,
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
            decoding=Decoding(law=Law(temperature)),
            quota=quota,
        )
        others = {name: values.flatten() for name, values in numbers.items()}
        see(step, Prediction(token.flatten(), confidence.flatten(), numbers=others))
        return step

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

        The loop sets a row's part back to `fill` when the row enters a new block.

        Args:
            name: of the state; policies that wrap others share the names.
            fill: what it holds at first.
            per: `slot` gives (R, C, *shape), `row` gives (R, *shape).
            shape: of the part of a slot or a row.
            over: `block`, or `answer` to keep it until the row ends; slots then need `reach =
                "prefix"`, since other policies get new slots in each block.
            dtype: by default bool for a bool `fill`, else that of the confidences.

        Raises:
            ValueError: for values that aren't allowed, and for a name in use for a state of another
                shape.
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
        if name not in self.states:
            sizes = (
                (rows, self.asked, *shape) if per == "slot" and self.reach == "prefix" else expected
            )
            kind = dtype or (torch.bool if isinstance(fill, bool) else self.confidence.dtype)
            self.states[name] = State(
                torch.full(sizes, fill, dtype=kind, device=self.masked.device), fill, over
            )
        value = self.states[name].value
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
            known = [each for each in dir(type(self)) if not each.startswith("_")]
            raise AttributeError(
                f"a step has no {name!r}; {hint(name, known)} {docs('own.md')} says what each is"
            )


# The tensors (R, …) that every step has.
BY_ROW = (
    *("inside", "position", "column", "masked", "visible", "token", "confidence"),
    *("key", "nfe", "index", "slots", "size", "requested", "targets", "left", "stale"),
)
