"""Pairs the cells of two runs: by id, or by the names that the user gives; and which of their
settings differ.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import product
from typing import Any

from pbcore.base.errors import InputError
from pbcore.base.printable import printable, some
from pbcore.names import SamplerNameError, canonical
from pbcore.results.baseline import BaselineCell
from pbcore.results.record import CellRecord, id_order
from pbcore.results.weights import weights_text
from pbcore.tasks.naming import short

SETTINGS = (
    "seeds",
    "task",
    "model",
    "sampler",
    "dtype",
    "device",
    "length",
    "headline",
    "options",
    "data_hash",
)
LISTED = 12  # names in an error
CellsById = Mapping[str, BaselineCell]
Names = tuple[str, str] | None  # A's and B's, None where they weren't given


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

    def given(self, by_model: bool, by_sampler: bool) -> tuple[Names, Names]:
        """The names of models and of samplers that join it; both None where it has the same id.

        Args:
            by_model: whether models were named.
            by_sampler: whether samplers were.
        """
        if not self.renamed:
            return None, None
        return self.model if by_model else None, self.sampler if by_sampler else None

    def _named(self, model: str, sampler: str) -> str:
        """An id of the pair's task and level."""
        level = (self.level,) if self.level else ()
        return "/".join((model, short(self.task), sampler, *level))


@dataclass(frozen=True, slots=True)
class Pairing:
    """All pairs of run A and run B.

    - `pairs`: sorted by id;
    - `left_out`: how many cells of A and of B have other names than the given ones;
    - `lacking`: the ids that A would need for B's cells to have a partner, and never had.
    """

    pairs: tuple[Pair, ...]
    left_out: tuple[int, int] = (0, 0)
    lacking: tuple[str, ...] = ()


def pair_cells(
    head: CellsById,
    base: CellsById,
    models: Mapping[str, str] | None = None,
    samplers: Mapping[str, str] | None = None,
) -> Pairing:
    """Joins the cells of run A with those of run B: those of the same id, or by names.

    With names, only cells of A whose model (and sampler) is named are paired, each with B's cell of
    the other name, the same task and level of factors, and the same model or sampler where only the
    other is named. A cell of B without its partner is a pair without A's; but where A and B have
    the same cells, or A has no cell at all of that model and sampler and only one of the two is
    named, nothing was dropped, and A never had the id.

    Args:
        head: A's cells by id.
        base: B's cells by id.
        models: names of A's models → names of B's; none: cells are joined by id.
        samplers: the same for samplers, in any order of their modifiers.

    Raises:
        InputError: for names that A or B lacks, and if nothing has a partner.
    """
    if not models and not samplers:
        return Pairing(tuple(_same_id(head, base)))
    model_names = _resolved("model", models or {}, head.values(), base.values())
    sampler_names = _resolved("sampler", samplers or {}, head.values(), base.values())
    joined = _named_cells(head, base, model_names, sampler_names)
    missing = _without_partner(head, base, model_names, sampler_names)
    if not any(pair.base for pair in joined):
        raise InputError(
            "no cell of A has a partner in B: under the given names A has"
            f" {_listed([pair.id for pair in joined])}, B {_listed([pair.id for pair in missing])};"
            " both need the same tasks, and the same models or samplers where only the others are"
            " named"
        )
    dropped = missing
    if head.keys() == base.keys():
        dropped = []
    elif not (models and samplers):
        dropped = _of_names_that_ran(missing, head)
    lacking = {pair.wanted for pair in missing} - {pair.wanted for pair in dropped}
    joined_of_base = {pair.ids[1] for pair in [*joined, *missing]}
    pairs = [*joined, *dropped]
    pairs.sort(key=lambda pair: (id_order(pair.id), pair.ids[1], pair.name))
    return Pairing(
        tuple(pairs),
        left_out=(len(head) - len(joined), len(base.keys() - joined_of_base)),
        lacking=tuple(sorted(lacking, key=id_order)),
    )


def _same_id(head: CellsById, base: CellsById) -> Iterator[Pair]:
    """The pairs of cells with the same id, sorted by it."""
    for cell in sorted({**base, **head}.values(), key=lambda cell: id_order(cell.id)):
        yield Pair(
            head.get(cell.id),
            base.get(cell.id),
            cell.task,
            model=(cell.model, cell.model),
            sampler=(cell.sampler, cell.sampler),
            level=cell.level,
        )


def _named_cells(
    head: CellsById, base: CellsById, models: Mapping[str, str], samplers: Mapping[str, str]
) -> list[Pair]:
    """A's cells whose model and sampler are named, each with B's cell of the other names."""
    partners = {(cell.model, cell.task, cell.sampler, cell.level): cell for cell in base.values()}
    pairs = []
    for cell in head.values():
        if cell.model not in models or cell.sampler not in samplers:
            continue
        model = models[cell.model]
        sampler = samplers[cell.sampler]
        level = cell.level
        partner = partners.get((model, cell.task, sampler, level))
        pairs.append(
            Pair(cell, partner, cell.task, (cell.model, model), (cell.sampler, sampler), level)
        )
    return pairs


def _without_partner(
    head: CellsById, base: CellsById, models: Mapping[str, str], samplers: Mapping[str, str]
) -> list[Pair]:
    """B's cells whose model and sampler are named, one pair for each cell that A lacks for them."""
    present = {(cell.model, cell.task, cell.sampler, cell.level) for cell in head.values()}
    pairs = []
    for cell in base.values():
        level = cell.level
        wanted_models = [name for name, other in models.items() if other == cell.model]
        wanted_samplers = [name for name, other in samplers.items() if other == cell.sampler]
        for model, sampler in product(wanted_models, wanted_samplers):
            if (model, cell.task, sampler, level) not in present:
                names = (model, cell.model), (sampler, cell.sampler)
                pairs.append(Pair(None, cell, cell.task, *names, level))
    return pairs


def _of_names_that_ran(missing: Iterable[Pair], head: CellsById) -> list[Pair]:
    """The pairs without A's cell whose model and sampler A ran on some task."""
    ran = {(cell.model, cell.sampler) for cell in head.values()}
    return [pair for pair in missing if not pair.renamed or (pair.model[0], pair.sampler[0]) in ran]


def differing(head: BaselineCell, base: BaselineCell) -> Iterator[tuple[str, Any, Any]]:
    """The settings that differ between two rows, with head's and base's: those of `SETTINGS`."""
    rows = [(name, getattr(head, name), getattr(base, name)) for name in SETTINGS]
    return (row for row in rows if row[1] != row[2])


def unpaired(
    head: BaselineCell | CellRecord, base: BaselineCell | CellRecord, alike: Iterable[str]
) -> tuple[str, Any, Any] | None:
    """Why the answers of two cells can't be paired: the first fact that differs, with head's and
    base's. A fact that isn't known (None) differs from none; `indices`, the samples that were
    answered, also differ where a side has none.

    Args:
        head: a cell.
        base: the cell that it is held against.
        alike: names of the facts that must not differ, in the order in which they are told.

    Returns:
        The name and both values; None where answers can be paired.
    """
    for name in alike:
        ours = getattr(head, name)
        theirs = getattr(base, name)
        lacking = name == "indices" and not (ours and theirs)
        if lacking or (ours != theirs and None not in (ours, theirs)):
            return name, ours, theirs
    return None


def weights_of(pairs: Iterable[Pair]) -> str:
    """Whether the models of pairs have the same weights, in words (`results.weights`)."""
    return weights_text(
        (pair.head.model_identity, pair.base.model_identity)
        for pair in pairs
        if pair.head is not None and pair.base is not None
    )


def _resolved(
    kind: str,
    names: Mapping[str, str],
    head: Collection[BaselineCell],
    base: Collection[BaselineCell],
) -> dict[str, str]:
    """The names as A and B spell them; without any, each stands for itself. Raises InputError for
    unknown ones, with close matches and what there is.
    """
    names_of_a = list(dict.fromkeys(getattr(cell, kind) for cell in head))
    names_of_b = list(dict.fromkeys(getattr(cell, kind) for cell in base))
    if not names:
        return {name: name for name in [*names_of_a, *names_of_b]}
    resolved: dict[str, str] = {}
    for new, old in names.items():
        name = _spelled(kind, new, names_of_a, "A")
        if name in resolved:
            raise InputError(
                f"{kind} {printable(new)} of A is given twice; compare it with one {kind} at a time"
            )
        resolved[name] = _spelled(kind, old, names_of_b, "B")
    return resolved


def _spelled(kind: str, name: str, known: list[str], side: str) -> str:
    if name in known:
        return name
    with suppress(SamplerNameError):
        if kind == "sampler" and canonical(name) in known:
            return canonical(name)
    near = get_close_matches(name, known, n=3, cutoff=0.5)
    advice = f"did you mean {printable(' or '.join(near))}? " if near else ""
    raise InputError(
        f"no {kind} {printable(name)!r} in {side}; {advice}{side} has {_listed(known)}"
    )


def _listed(names: Sequence[str]) -> str:
    return some([printable(name) for name in names], LISTED) or "none"


def _arrow(head: str, base: str) -> str:
    """`B's→A's`, both by the last part of a path or hub id (and of an adapter's behind it:
    `tiny+adapters/shuffle` → `tiny+shuffle`) where these differ; the name itself where both are the
    same.
    """
    if head == base:
        return head
    brief_base = _brief(base)
    brief_head = _brief(head)
    if brief_base == brief_head:
        return f"{base}→{head}"
    return f"{brief_base}→{brief_head}"


def _brief(name: str) -> str:
    """The last part of a model's path or hub id, and of an adapter's behind it."""
    return "+".join(path.rstrip("/").rsplit("/", 1)[-1] for path in name.split("+"))
