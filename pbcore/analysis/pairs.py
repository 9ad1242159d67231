"""Pairs the cells of two runs: by id, or by the names that the user gives."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches

from pbcore.errors import InputError
from pbcore.names import SamplerNameError, canonical
from pbcore.printable import printable
from pbcore.results.baseline import BaselineCell
from pbcore.results.record import CellRecord, id_order
from pbcore.tasks.naming import short

LISTED = 12  # names in an error
Named = CellRecord | BaselineCell


@dataclass(frozen=True, slots=True)
class Pair:
    """A cell of A and one of B, by their ids; None on the side that lacks it. `model` and `sampler` are (A's, B's)."""

    head: str | None
    base: str | None
    task: str
    model: tuple[str, str]
    sampler: tuple[str, str]

    @property
    def id(self) -> str:
        """A's cell, or B's where A has none."""
        return self.head or self.base or ""

    @property
    def renamed(self) -> bool:
        """Whether the two sides have different names."""
        return self.model[0] != self.model[1] or self.sampler[0] != self.sampler[1]

    @property
    def wanted(self) -> str:
        """The id that A's cell has or would have."""
        return "/".join((self.model[0], short(self.task), self.sampler[0]))

    @property
    def name(self) -> str:
        """What tables call the pair: the cell's id, with `B's→A's` where names differ, such as
        `tiny/shuffle/confidence-k2→random-k2`; models then go by the last part of a path or hub id."""
        return f"{_arrow(*self.model)}/{short(self.task)}/{_arrow(*self.sampler)}"


@dataclass(frozen=True, slots=True)
class Pairs:
    """All pairs of two runs, sorted by id, and how many cells of A and of B have other names than the given ones.
    `lacking`: ids that A would need for B's cells to have a partner, and never had."""

    pairs: tuple[Pair, ...]
    left_out: tuple[int, int] = (0, 0)
    lacking: tuple[str, ...] = ()


def pair_cells(
    head: Mapping[str, Named],
    base: Mapping[str, Named],
    models: Mapping[str, str] | None = None,
    samplers: Mapping[str, str] | None = None,
) -> Pairs:
    """The pairs of run A (`head`, id → cell) and run B (`base`).

    Without names: cells of the same id. `models` and `samplers` map names of A to names of B: then only cells of A
    whose model (and sampler) is named are paired, each with B's cell of the other name, the same task, and the same
    model or sampler where only the other is named. Samplers may be spelled in any order of their modifiers. A cell of B
    without its partner is a pair without A's; but where A and B have the same cells, or A has no cell at all of that
    model and sampler and only one of the two is named, nothing was dropped, and the id is `lacking`. Raises InputError
    for names that A or B lacks, and if nothing has a partner.
    """
    if not models and not samplers:
        every = sorted({**base, **head}.items(), key=lambda item: id_order(item[0]))
        return Pairs(
            tuple(
                Pair(
                    name if name in head else None,
                    name if name in base else None,
                    cell.task,
                    (cell.model, cell.model),
                    (cell.sampler, cell.sampler),
                )
                for name, cell in every
            )
        )
    levelled = next((name for name in (*head, *base) if ":" in name.rpartition("/")[2]), None)
    if levelled is not None:
        raise InputError(f"cells at levels of factors ({printable(levelled)}) are paired by id; give no other names")
    models = _resolved("model", models or {}, head.values(), base.values())
    samplers = _resolved("sampler", samplers or {}, head.values(), base.values())
    news = {
        (cell.model, cell.task, cell.sampler): name
        for name, cell in head.items()
        if (not models or cell.model in models) and (not samplers or cell.sampler in samplers)
    }
    olds = {(cell.model, cell.task, cell.sampler): name for name, cell in base.items()}
    pairs, missing = [], []
    for (model, task, sampler), name in news.items():
        there = models.get(model, model), task, samplers.get(sampler, sampler)
        pairs.append(Pair(name, olds.get(there), task, (model, there[0]), (sampler, there[2])))
    for (model, task, sampler), name in olds.items():
        own = [new for new, old in models.items() if old == model] if models else [model]
        others = [new for new, old in samplers.items() if old == sampler] if samplers else [sampler]
        lacked = [(one, other) for one in own for other in others if (one, task, other) not in news]
        missing += [Pair(None, name, task, (one, model), (other, sampler)) for one, other in lacked]
    if not any(pair.base for pair in pairs):
        sides = _some([pair.head or "" for pair in pairs]), _some([pair.base or "" for pair in missing])
        raise InputError(
            f"no cell of A has a partner in B: under the given names A has {sides[0]}, B {sides[1]}; both need the "
            "same tasks, and the same models or samplers where only the others are named"
        )
    left_out = len(head) - len(pairs), len(base.keys() - {pair.base for pair in (*pairs, *missing)})
    ran = {(cell.model, cell.sampler) for cell in head.values()}
    dropped = [
        pair
        for pair in missing
        if head.keys() != base.keys()
        and (not pair.renamed or (models and samplers) or (pair.model[0], pair.sampler[0]) in ran)
    ]
    lacking = sorted({pair.wanted for pair in missing} - {pair.wanted for pair in dropped}, key=id_order)
    ordered = sorted([*pairs, *dropped], key=lambda pair: (id_order(pair.id), pair.base or "", pair.name))
    return Pairs(tuple(ordered), left_out, tuple(lacking))


def _resolved(kind: str, names: Mapping[str, str], head: Collection[Named], base: Collection[Named]) -> dict[str, str]:
    """The names as A and B spell them. Raises InputError for unknown ones, with close matches and what there is."""
    known = {
        side: list(dict.fromkeys(getattr(cell, kind) for cell in cells)) for side, cells in (("A", head), ("B", base))
    }
    found: dict[str, str] = {}
    for new, old in names.items():
        name = _spelled(kind, new, known["A"], "A")
        if name in found:
            raise InputError(f"{kind} {printable(new)} of A is given twice; compare it with one {kind} at a time")
        found[name] = _spelled(kind, old, known["B"], "B")
    return found


def _spelled(kind: str, name: str, known: list[str], side: str) -> str:
    if name in known:
        return name
    if kind == "sampler":
        with suppress(SamplerNameError):
            if canonical(name) in known:
                return canonical(name)
    near = get_close_matches(name, known, n=3, cutoff=0.5)
    advice = f"did you mean {printable(' or '.join(near))}? " if near else ""
    raise InputError(f"no {kind} {printable(name)!r} in {side}; {advice}{side} has {_some(known)}")


def _some(names: Sequence[str]) -> str:
    listed = ", ".join(printable(name) for name in names[:LISTED]) or "none"
    return listed + (f" … ({len(names)})" if len(names) > LISTED else "")


def _arrow(head: str, base: str) -> str:
    """`B's→A's`, both by the last part of a path or hub id (and of an adapter's behind it: `tiny+adapters/shuffle` →
    `tiny+shuffle`) where these differ; the name itself where both are the same."""
    if head == base:
        return head
    brief = ["+".join(part.rstrip("/").rsplit("/", 1)[-1] for part in name.split("+")) for name in (base, head)]
    return "→".join((base, head) if brief[0] == brief[1] else brief)
