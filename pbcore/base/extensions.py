"""What integrations add to the core. Each package of `pbcore/extras/` declares itself by an
`Integration` named `INTEGRATION`; a place that it adds to reads `provided(…)`. The core imports no
integration by name.

Reading the declarations imports nothing else: what they name is imported where it is used.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import Any

HOME = "pbcore.extras"


@dataclass(frozen=True, slots=True, kw_only=True)
class Integration:
    """What one integration adds. Objects are named `module:object`, so that reading the declaration
    is cheap.
    """

    # Command of `pbcore` → its group in `pbcore --help`, its module and its line of help.
    commands: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    plugins: tuple[str, ...] = ()  # pytest plugins, modules
    options: str | None = None  # a dataclass of options of a run (`grid.option.OptionGroup`)
    # Models by name: `entries()`, name → `models.entry.ModelEntry`; `add_file(path, taken)`.
    models: str | None = None
    # Tasks that are asked and scored in another way (`tasks.spec.TaskSource`).
    tasks: str | None = None
    folders: str | None = None  # folders of questions in another layout (`tasks.spec.Folders`)
    exporter: str | None = None  # where `pbcore export` sends a run (`exchange.export.Exporter`)
    served: str | None = None  # the class of a record's part `served` (`results.record.RecordPart`)
    # What sets a sampler on a server: `(model, sampler, tokens) -> list[str]`, lines for a reader.
    same_on_servers: str | None = None
    engines: str | None = None  # what `check engine` may check (`engine_check.source.EngineSource`)
    report: str | None = None  # what reports say of these parts (`report.cells.Section`)
    decides: bool = False  # its code decides answers or scores, so that it counts in a cell's key


@cache
def integrations() -> Mapping[str, Integration]:
    """The integrations that are here, by name; none where their folder was left out."""
    if find_spec(HOME) is None:
        return {}
    names = sorted(module.name for module in iter_modules(import_module(HOME).__path__))
    return {name: import_module(f"{HOME}.{name}").INTEGRATION for name in names}


@cache
def provided(what: str) -> tuple[Any, ...]:
    """The objects that integrations name for a place of the core, a field of `Integration`; imports
    their modules.
    """
    names = [getattr(integration, what) for integration in integrations().values()]
    return tuple(named(name) for name in names if name is not None)


def named(name: str) -> Any:
    """The object `module:object`."""
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
