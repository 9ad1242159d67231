"""Which options act on which cells (`Option.need`): an option that acts on no cell of a run is
refused, and a record keeps those that acted on its cell.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import chain
from typing import Any

from pbcore.base.errors import InputError, PbcoreError
from pbcore.base.printable import printable
from pbcore.decoding.samplers import Sampler, sampler_of
from pbcore.grid.capabilities import Capabilities, forms_batches
from pbcore.grid.cellid import CellName, CellText
from pbcore.grid.option import AddedNeed, Need, Option, OptionValues
from pbcore.grid.settings import GROUPS, OPTIONS, Settings
from pbcore.models.entry import ModelEntry
from pbcore.tasks import task_names
from pbcore.tasks.registry import task_spec, tasks_file
from pbcore.tasks.scoring import scorer
from pbcore.tasks.spec import WITH_SHOTS, TaskSpec

_FIELDS = {option.field: option for option in OPTIONS}
_GROUPS: tuple[type[Any], ...] = (Settings, *GROUPS)
_DEFAULTS = {
    setting.name: setting.default
    for setting in chain.from_iterable(fields(group) for group in _GROUPS)
}
SHARING = "sharing"  # among the values of a run: whether it shares forwards


@dataclass(frozen=True)
class Use:
    """A cell under the options of a run, `values` by field. `alone`: its samples are looked at one
    by one.
    """

    values: OptionValues
    cell: CellName | CellText
    alone: bool = False

    @classmethod
    def of(cls, settings: Settings, cell: CellName | CellText, alone: bool = False) -> "Use":
        """A cell of a run.

        Args:
            settings: of the run.
            cell: its name.
            alone: True if its samples are looked at one by one.
        """
        return cls({**values_of(settings), SHARING: settings.sharing}, cell, alone)

    @cached_property
    def spec(self) -> TaskSpec:
        return task_spec(self.cell.task)

    @cached_property
    def entry(self) -> ModelEntry:
        return Capabilities(self.cell.model).entry

    @cached_property
    def sampler(self) -> Sampler:
        return sampler_of(self.cell.sampler)

    @property
    def here(self) -> bool:
        """Whether the model has a network on this machine."""
        return not self.entry.served and self.entry.loaded_as != "ideal"

    @property
    def opaque(self) -> bool:
        return Capabilities(self.cell.model).opaque


def values_of(settings: Settings) -> OptionValues:
    """The options of a run by field, those of neighbours included."""
    values: OptionValues = {}
    for name in _FIELDS:
        of_run = getattr(settings, name, _DEFAULTS[name])
        values[name] = settings.more.get(name, of_run)
    return values


def takes_length(spec: TaskSpec, lengths: Collection[int]) -> bool:
    """Whether a task's questions can have each of these n."""
    generator = spec.generator
    if generator is None or generator.lengths is None:
        return False
    return all(n in generator.lengths for n in lengths)


def _official(use: Use) -> bool:
    return use.cell.task in task_names()


def _generated(use: Use) -> bool:
    fixed = use.values.get("data_dir") and _official(use)
    return use.spec.generator is not None and not fixed


def _rows(use: Use) -> bool:
    sizes = use.values.get("batch_size") or ()
    if use.entry.served or forms_batches(use.entry):
        return False
    if use.alone and len(sizes) > 1:
        return False
    return use.sampler.name.at_once in (0, *sizes)


def _shares(use: Use) -> bool:
    if use.opaque:
        return True
    if use.entry.loaded_as != "masked" or Capabilities(use.cell.model).in_blocks:
        return False
    from pbcore.decoding.sharing import reads_numbers  # imports numpy

    return reads_numbers(use.sampler.policy, use.sampler.name)


def _blamed(use: Use) -> bool:
    from pbcore.results.stats import right_or_wrong  # imports numpy

    score = right_or_wrong(use.spec.headline, scorer(use.spec.scorer).metrics)
    return not use.alone and score is not None


def _measured(use: Use, metric: str) -> bool:
    return metric in scorer(use.spec.scorer).metrics


_MEETS: Mapping[Need, Callable[[Use], bool]] = {
    Need.NOTHING: lambda use: True,
    Need.LENGTH: lambda use: takes_length(use.spec, use.values.get("n") or ()),
    Need.SHOTS: lambda use: use.spec.kind in WITH_SHOTS,
    Need.CANVAS: lambda use: use.spec.fixed is None,
    Need.STEPS: lambda use: use.spec.cot or (bool(use.values.get("cot")) and not use.spec.fixed),
    Need.OFFICIAL: _official,
    Need.GENERATED: _generated,
    Need.OWN_TASK: lambda use: tasks_file(use.spec.name) is not None,
    Need.ENDS: lambda use: not use.entry.served and use.entry.loaded_as != "causal",
    Need.GRAMMAR: lambda use: _measured(use, "grammar"),
    Need.BERTSCORE: lambda use: _measured(use, "bertscore"),
    Need.HERE: lambda use: not use.entry.served,
    Need.DEVICE: lambda use: (
        use.here or (use.entry.loaded_as == "ideal" and use.values.get("device") != "mps")
    ),
    Need.DTYPE: lambda use: use.here,
    Need.WEIGHTS: lambda use: use.here and not use.entry.dummy,
    Need.NETWORK: lambda use: use.here,
    Need.HUB: lambda use: use.opaque or (use.entry.source is not None and not use.entry.dummy),
    Need.CODE: lambda use: use.here and not use.entry.embedded and not use.entry.dummy,
    Need.DRAFT: lambda use: str(use.cell.sampler).startswith("ar-draft"),
    Need.ROWS: _rows,
    Need.SHARES: _shares,
    Need.STORE: lambda use: bool(use.values.get(SHARING)) and _shares(use),
    Need.TIMED: lambda use: not use.alone and not use.entry.served,
    Need.BLAMED: _blamed,
    Need.WRITTEN: lambda use: not use.alone,
    Need.GATED: lambda use: bool(use.values.get("gate")),
}


def acts(field: str, use: Use) -> bool:
    """Whether an option, by its field, changes anything of a cell. True where this isn't known: a
    task, a model or a sampler that is not on this machine, as in reports of a run made elsewhere.
    """
    option = _FIELDS.get(field)
    if option is None:
        return True
    try:
        need = option.need
        return need.meets(use) if isinstance(need, AddedNeed) else _MEETS[need](use)
    except (PbcoreError, ValueError):
        return True


def default_of(field: str) -> Any:
    """An option's value in a run that doesn't give it."""
    return _DEFAULTS[field]


def refuse_idle(given: Collection[str], uses: Iterable[Use], flag: Callable[[Option], str]) -> None:
    """Refuses an option that acts on no cell.

    Args:
        given: the options that were given, by field.
        uses: the cells of the run.
        flag: writes an option as on the command line.

    Raises:
        InputError: for the first such option.
    """
    cells = list(uses)
    if not cells:
        return
    for option in OPTIONS:
        value = cells[0].values[option.field]
        if option.field not in given or value == _DEFAULTS[option.field]:
            continue
        if not any(acts(option.field, use) for use in cells):
            raise InputError(
                f"{flag(option)}{_shown(value)}: no cell of this run {option.need.value}; leave it"
                " out"
            )


def _shown(value: Any) -> str:
    """A value behind its option; a switch has none."""
    if isinstance(value, bool):
        return ""
    several = value if isinstance(value, tuple) else (value,)
    return f" {printable(','.join(map(str, several)), 80)}"
