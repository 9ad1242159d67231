"""The protocol of policies: `select`, which each policy has, and what it may declare beside it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, is_dataclass, replace
from inspect import isdatadescriptor
from itertools import chain
from typing import Any, Literal, Protocol, cast, get_args, get_origin

from pbcore.base.lazy_torch import Tensor
from pbcore.decoding.step import Move, Step
from pbcore.decoding.what_if import Probe
from pbcore.models.base import Attending, Denoiser

NEEDS = frozenset({"attention", "causal", "frequencies", "mask", "probe"})


class Policy(Protocol):
    """Chooses the masked slots to reveal. Beside `select` it may declare any of the members of
    `Traits` under the same names.
    """

    def select(self, step: Step) -> Tensor | Move | Probe:
        """A bool tensor (R, C) of slots to reveal (those not masked are ignored), a Move, or with
        `needs = {"probe"}` canvases to ask about first.
        """
        ...


def _not_allowed(declared: Any) -> Iterator[tuple[str, Any, tuple[Any, ...]]]:
    """The fields whose value isn't one of their type's: name, value, allowed ones."""
    for member in fields(declared):
        value = getattr(declared, member.name)
        if get_origin(member.type) is Literal and value not in get_args(member.type):
            yield member.name, value, get_args(member.type)


@dataclass(frozen=True, slots=True)
class Course:
    """How a policy goes through the blocks of a block model.

    - `fill`: what is decoded: `grid`, all of the last block; `length`, exactly the requested
      tokens, so that the last block may be short; `blocks`, length // block blocks from the one
      that holds the prompt's end, and one token more.
    - `cut`: whether the answer is cut to the requested length.
    - `stop`: when a stop token ends a row: `block`, once its block is finished; `token`, as soon as
      no mask stands before it; `step`, the same, but only after a move of the policy; `revealed`,
      in the step that reveals one if no mask stands before the first, else as `block`; `never`.
    - `ends_at_stop`: whether the answer ends with its first stop token. Else it goes to the end of
      the last block.
    - `pads`: whether everything after the first stop token of a finished block becomes EOS.
    - `store`: the last block's storing forward: `needed`, none, since nothing follows; `unstopped`,
      except after a stop token; `all`.
    """

    fill: Literal["grid", "length", "blocks"] = "grid"
    cut: bool = True
    stop: Literal["block", "token", "step", "revealed", "never"] = "block"
    ends_at_stop: bool = False
    pads: bool = False
    store: Literal["needed", "unstopped", "all"] = "needed"

    def __post_init__(self) -> None:
        for name, value, allowed in _not_allowed(self):
            raise ValueError(f"course.{name} is {value!r}; allowed: {', '.join(allowed)}")


@dataclass(frozen=True, slots=True)
class Traits:
    """What a policy declares, as class attributes or methods, and the defaults for what it leaves
    out.

    - `cap(slots)`: the most steps it takes in a block of so many slots. For a policy that may
      reveal nothing, remasks tokens or holds rows.
    - `review`: new predictions for revealed tokens, `seen` (visible to the model) or `hidden`
      (hidden from it).
    - `rewrites`: whether it may write tokens other than the predicted ones.
    - `reach`: whose slots it gets: the active `block`'s, or with `prefix` those of all blocks up to
      the active one. That block then ends when none of them is masked.
    - `reads`: what it reads of a position: the model's `distributions` (`step.logits`), or only
      `numbers`: token, confidence, `step.margin()`, `step.entropy()`. A store can answer for
      numbers without a forward.
    - `chooses`: how it chooses, if it writes only predicted tokens and keeps each: `positions`,
      before it looks at any predicted token, its confidence or noise that tells it; `tokens`,
      after. Only such policies are bound by the optimal frontier (`theory.frontier`).
    - `part`: the length of the parts of a block that it goes through from left to right: its
      candidates are the masks of the first part that has any.
    - `course`: how it goes through the blocks of a block model.
    - `reveals`: `k`, if each of its steps reveals exactly `k` (a parameter of that name) of the
      candidates, or what a schedule gives, all where fewer are left, and takes nothing back. Only
      such policies have fixed schedules; the loop checks it.
    - `needs`: what a step must have: `frequencies`, the tokens' background probabilities, which the
      model must know; `mask`, the probability of the mask token itself; `probe`, what-if rows:
      `select` may return a Probe; `attention`, attention weights; `causal`, what-if rows that a
      block model reads token by token.
    - `attends`: which weights: of which layers, with or without those of the prompt's columns.
    - `gaps`: the region of the answer, first place and number of places (0: to its end), in which
      the loop works out `step.gap`. Such a policy may return `Move.finish`, and each forward
      predicts all masks of the answer.
    - `what_if_rows`: the most what-if rows that it asks about at once for each row. A GPU's batches
      leave room for so many.
    """

    cap: Callable[[int], int] | None = None
    review: Literal[None, "seen", "hidden"] = None
    rewrites: Literal[False, True] = False
    reach: Literal["block", "prefix"] = "block"
    reads: Literal["distributions", "numbers"] = "distributions"
    chooses: Literal[None, "positions", "tokens"] = None
    part: int | None = None
    course: Course = Course()
    reveals: Literal[None, "k"] = None
    needs: frozenset[str] = frozenset()
    attends: Attending = field(default_factory=Attending)
    gaps: tuple[int, int] | None = None
    what_if_rows: int = 8


def traits(policy: Any) -> Traits:
    """What a policy, or its class, declares, or the `declared` traits that one around another has.
    Raises ValueError for a value that isn't allowed.
    """
    if isinstance(getattr(policy, "declared", None), Traits):
        return cast(Traits, policy.declared)
    given: dict[str, Any] = {
        member.name: getattr(policy, member.name, None) for member in fields(Traits)
    }
    # What is a field or a property of the instances, a class leaves open.
    declared = Traits(
        **{
            name: value
            for name, value in given.items()
            if value is not None and not isdatadescriptor(value)
        }
    )
    for wrong in chain(_wrong(declared), _without_k(policy, declared)):
        raise ValueError(f"policy {getattr(policy, '__name__', type(policy).__name__)}: {wrong}")
    return declared


def fixed_count(policy: Any) -> int | None:
    """The `k` of a policy that declares `reveals = "k"`; None for others, and where a schedule says
    how many tokens a step reveals.
    """
    return policy.k if traits(policy).reveals == "k" else None


def _without_k(policy: Any, declared: Traits) -> Iterator[str]:
    """What a policy that declares `reveals` lacks."""
    names = {item.name for item in fields(policy)} if is_dataclass(policy) else set()
    if declared.reveals and "k" not in names and not hasattr(policy, "k"):
        yield "reveals is 'k', but it has no parameter k; add k: int | None = None"


def on_course(declared: Traits, model: Denoiser) -> Traits:
    """What a policy declares, with the model's own course if it has none."""
    if declared.course == Course() and model.grid.course:
        return replace(declared, course=Course(**model.grid.course))
    return declared


def _wrong(declared: Traits) -> Iterator[str]:
    """What isn't allowed of what a policy declares."""
    for member, value, allowed in _not_allowed(declared):
        yield f"{member} is {value!r}; allowed: {', '.join(map(repr, allowed))}"
    if declared.chooses and declared.rewrites:
        yield (
            f"chooses is {declared.chooses!r}, which is for policies that write predicted tokens"
            " and keep them; leave it out, or leave out rewrites"
        )
    if declared.reveals and declared.cap is not None:
        yield (
            "reveals is 'k' and it has a cap, which is for policies that may reveal another number"
            " or take tokens back; leave one of them out"
        )
    if declared.part is not None and (type(declared.part) is not int or declared.part < 1):
        yield f"part is {declared.part!r}; it is a length, a whole number of at least 1"
    if not isinstance(declared.course, Course):
        yield f"course is {declared.course!r}; write Course(fill=…, stop=…)"
    if type(declared.what_if_rows) is not int or declared.what_if_rows < 1:
        yield (
            f"what_if_rows is {declared.what_if_rows!r}; it is a number of rows, a whole number of"
            " at least 1"
        )
    if declared.cap is not None and not callable(declared.cap):
        yield (
            f"cap is {declared.cap!r}; write a method cap(self, slots) that returns a number of"
            " steps"
        )
    if not isinstance(declared.needs, set | frozenset) or not declared.needs <= NEEDS:
        yield (
            f"needs is {declared.needs!r}; allowed: a set of {', '.join(map(repr, sorted(NEEDS)))}"
        )
    # What a plain forward of a what-if row doesn't give the step that takes it.
    others = [name for name in ("review", "part") if getattr(declared, name)]
    others += [need for need in ("mask", "attention") if need in declared.needs]
    if "probe" in declared.needs and others:
        yield f"what-if rows (needs 'probe') don't go together with {', '.join(others)}"
