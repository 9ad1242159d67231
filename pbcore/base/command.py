"""A command of `pbcore`, as the core and others declare it."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its line of help, and those of its parts. `alone`: the part that is meant without
    one; empty where the command itself is meant, None where a part has to be named. One that is
    added to the core names its group in `pbcore --help` and its module, which has `run(args)`, and
    where it takes options `add_arguments(parser)` and `PARSER`, keywords of its parser; a part's
    module is named `MODULE_PART`.
    """

    line: str
    parts: Mapping[str, str] = field(default_factory=dict)
    alone: str | None = ""
    group: str = ""
    module: str = ""
