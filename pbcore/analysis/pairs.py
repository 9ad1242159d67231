"""Pairs the cells of two runs: by id, or by the names that the user gives; and which of their
settings differ.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pbcore.errors import InputError
from pbcore.names import SamplerNameError, canonical
from pbcore.printable import printable, some
from pbcore.results.baseline import BaselineCell
from pbcore.results.record import id_order
from pbcore.tasks.naming import short

SETTINGS = (
    "seeds",
    "task",
    "model",
    "sampler",
    "dtype",
    "length",
    "headline",
    "official_text",
    "whole_cot",
    "data_hash",
)
LISTED = 12  # names in an error
Rows = Mapping[str, BaselineCell]


@dataclass(frozen=True, slots=True)
class Pair:
    """A cell of A (`head`) and one of B, None on the side that lacks it. `model` and `sampler` are
    (A's, B's); `level` is that of the run's factors, as ids end with it (`batch-size:8`).
    """

    head: BaselineCell | None
    base: BaselineCell | None
    task: str
    model: tuple[str, str]
    sampler: tuple[str, str]
    level: str = ""

    @property
    def ids(self) -> tuple[str, str]:
        """The ids of both cells, empty for one that isn't there."""
        return self.head.id if self.head else "", self.base.id if self.base else ""

    @property
    def id(self) -> str:
        """A's cell, or B's where A has none."""
        return self.ids[0] or self.ids[1]

    @property
    def renamed(self) -> bool:
        """Whether the two sides have different names."""
        return self.model[0] != self.model[1] or self.sampler[0] != self.sampler[1]

    @property
    def wanted(self) -> str:
        """The id that A's cell has or would have."""
        return self._named(self.model[0], self.sampler[0])

    @property
    def name(self) -> str:
        """What tables call the pair: the cell's id; with `B's→A's` where names differ, such as
        `tiny/shuffle/confidence-k2→random-k2`, models then by the last part of a path or hub id.
        """
        return self._named(_arrow(*self.model), _arrow(*self.sampler)) if self.renamed else self.id

    def _named(self, model: str, sampler: str) -> str:
        """An id of the pair's task and level."""
        level = (self.level,) if self.level else ()
        return "/".join((model, short(self.task), sampler, *level))


def pair_cells(
    head: Rows,
    base: Rows,
    models: Mapping[str, str] | None = None,
    samplers: Mapping[str, str] | None = None,
) -> tuple[list[Pair], tuple[int, int], list[str]]:
    """All pairs of run A (`head`, id → row) and run B (`base`), sorted by id; how many cells of A
    and of B have other names than the given ones; and the ids that A would need for B's cells to
    have a partner, and never had.

    Without names: cells of the same id. `models` and `samplers` map names of A to names of B: then
    only cells of A whose model (and sampler) is named are paired, each with B's cell of the other
    name, the same task and level of factors, and the same model or sampler where only the other is
    named. Samplers may be spelled in any order of their modifiers. A cell of B without its partner
    is a pair without A's; but where A and B have the same cells, or A has no cell at all of that
    model and sampler and only one of the two is named, nothing was dropped, and A never had the id.
    Raises InputError for names that A or B lacks, and if nothing has a partner.
    """
    if not models and not samplers:
        every = sorted({**base, **head}.values(), key=lambda row: id_order(row.id))
        by_id = [
            Pair(head.get(row.id), base.get(row.id), row.task, (row.model,) * 2, (row.sampler,) * 2)
            for row in every
        ]
        return by_id, (0, 0), []
    both = models and samplers
    models = _resolved("model", models or {}, head.values(), base.values())
    samplers = _resolved("sampler", samplers or {}, head.values(), base.values())
    news = {
        (row.model, row.task, row.sampler, _level(row)): row
        for row in head.values()
        if row.model in models and row.sampler in samplers
    }
    olds = {(row.model, row.task, row.sampler, _level(row)): row for row in base.values()}
    pairs = []
    missing = []
    for (model, task, sampler, level), row in news.items():
        old_model = models[model]
        old_sampler = samplers[sampler]
        partner = olds.get((old_model, task, old_sampler, level))
        pairs.append(Pair(row, partner, task, (model, old_model), (sampler, old_sampler), level))
    for (model, task, sampler, level), row in olds.items():
        own = [new for new, old in models.items() if old == model]
        others = [new for new, old in samplers.items() if old == sampler]
        for one in own:
            for other in others:
                if (one, task, other, level) not in news:
                    lacked = Pair(None, row, task, (one, model), (other, sampler), level)
                    missing.append(lacked)
    if not any(pair.base for pair in pairs):
        sides = (_known([pair.id for pair in side]) for side in (pairs, missing))
        raise InputError(
            f"no cell of A has a partner in B: under the given names A has {next(sides)}, B"
            f" {next(sides)}; both need the same tasks, and the same models or samplers where only"
            " the others are named"
        )
    left_out = (
        len(head) - len(pairs),
        len(base.keys() - {pair.ids[1] for pair in (*pairs, *missing)}),
    )
    ran = {(row.model, row.sampler) for row in head.values()}
    dropped = [
        pair
        for pair in missing
        if head.keys() != base.keys()
        and (not pair.renamed or both or (pair.model[0], pair.sampler[0]) in ran)
    ]
    lacking = sorted(
        {pair.wanted for pair in missing} - {pair.wanted for pair in dropped}, key=id_order
    )
    return (
        sorted([*pairs, *dropped], key=lambda pair: (id_order(pair.id), pair.ids[1], pair.name)),
        left_out,
        lacking,
    )


def _level(row: BaselineCell) -> str:
    """The level of factors that a cell's id ends with; empty without one."""
    end = row.id.rpartition("/")[2]
    return end if ":" in end else ""


def differing(head: BaselineCell, base: BaselineCell) -> Iterator[tuple[str, Any, Any]]:
    """The settings that differ between two rows, with head's and base's: those of `SETTINGS`, then
    `model revision` and what else identifies a model, None where unknown.
    """
    rows = [(name, getattr(head, name), getattr(base, name)) for name in SETTINGS]
    known = sorted(head.model_identity.keys() | base.model_identity.keys())
    rows += [
        (f"model {name}", head.model_identity.get(name), base.model_identity.get(name))
        for name in known
    ]
    return (row for row in rows if row[1] != row[2])


def _resolved(
    kind: str,
    names: Mapping[str, str],
    head: Collection[BaselineCell],
    base: Collection[BaselineCell],
) -> dict[str, str]:
    """The names as A and B spell them; without any, each stands for itself. Raises InputError for
    unknown ones, with close matches and what there is.
    """
    known = [list(dict.fromkeys(getattr(row, kind) for row in rows)) for rows in (head, base)]
    found: dict[str, str] = {} if names else {name: name for name in (*known[0], *known[1])}
    for new, old in names.items():
        name = _spelled(kind, new, known[0], "A")
        if name in found:
            raise InputError(
                f"{kind} {printable(new)} of A is given twice; compare it with one {kind} at a time"
            )
        found[name] = _spelled(kind, old, known[1], "B")
    return found


def _spelled(kind: str, name: str, known: list[str], side: str) -> str:
    if name in known:
        return name
    with suppress(SamplerNameError):
        if kind == "sampler" and canonical(name) in known:
            return canonical(name)
    near = get_close_matches(name, known, n=3, cutoff=0.5)
    advice = f"did you mean {printable(' or '.join(near))}? " if near else ""
    raise InputError(f"no {kind} {printable(name)!r} in {side}; {advice}{side} has {_known(known)}")


def _known(names: Sequence[str]) -> str:
    return some([printable(name) for name in names], LISTED) or "none"


def _arrow(head: str, base: str) -> str:
    """`B's→A's`, both by the last part of a path or hub id (and of an adapter's behind it:
    `tiny+adapters/shuffle` → `tiny+shuffle`) where these differ; the name itself where both are the
    same.
    """
    if head == base:
        return head
    brief = [
        "+".join(part.rstrip("/").rsplit("/", 1)[-1] for part in name.split("+"))
        for name in (base, head)
    ]
    return "→".join((base, head) if brief[0] == brief[1] else brief)
