"""The commands of `pbcore` in three groups, each with its line of help.

The command `list tasks` is the module `pbcore.cli.list_tasks`, which has `run(args)`, and where it
takes options `add_arguments(parser)` and `PARSER`, keywords of its parser.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from types import ModuleType
from typing import Any

from pbcore.base.command import Command
from pbcore.base.registry import Registry

# What a shell starts, or the words behind `pbcore`: `list`, `list tasks`.
Path = tuple[str, ...]
BENCHMARK = ("pytest benches", "run the benchmark; its options: pytest --help-pbcore")


ADDED: Registry[Command] = Registry("command", "pbcore.commands")
GROUPS: dict[str, dict[str, Command]] = {
    "run": {
        "price": Command("measure the seconds of a model's calls here; list devices"),
    },
    "read": {
        "view": Command("open the page of a run in a browser"),
        "report": Command("print the tables of runs; write report.md and report.html"),
        "compare": Command("judge one run against another, sample by sample"),
        "explain": Command("give each option's part of the difference between two settings"),
        "blame": Command("find the step that broke each wrong answer of a run"),
        "export": Command("write a run as CSV or Parquet, or send it to a tracker"),
        "figures": Command(
            "draw curves, films and other figures",
            {"theory": "print the exact losses of an ideal model, and the optimal frontier"},
        ),
    },
    "keep": {
        "list": Command(
            "list tasks, samplers, models or presets",
            {
                "tasks": "list the tasks",
                "samplers": "list the samplers, or count token frequencies for pc",
                "models": "list the models, and whether they are on this machine",
                "presets": "list settings of papers by name, with their sources",
            },
            alone=None,
        ),
        "install": Command(
            "install LanguageTool or BERTScore's model",
            {
                "languagetool": "install the grammar checker, and start it once",
                "bertscore": "install BERTScore's model",
            },
            alone=None,
        ),
        "merge": Command("merge run directories, e.g. of shards, into one"),
        "rescore": Command("score the kept answers of a run again, without its models"),
    },
}
for _name, _command in ADDED.all().items():
    GROUPS[_command.group][_name] = _command

COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}


def paths() -> list[Path]:
    """Every command and part that can be called."""
    found: list[Path] = []
    for name, command in COMMANDS.items():
        if command.alone == "":
            found.append((name,))
        found += [(name, part) for part in command.parts]
    return found


def path_of(arguments: Sequence[str]) -> Path:
    """The command that arguments call, as far as it is known."""
    if not arguments or arguments[0] not in COMMANDS:
        return ()
    known = COMMANDS[arguments[0]].parts
    return tuple(arguments[:2] if len(arguments) > 1 and arguments[1] in known else arguments[:1])


def add_command(subparsers: Any, path: Path) -> None:
    """Adds a command's parser with its options; without the part that has to be named, the parts
    and their lines.
    """
    name, *part = path
    command = COMMANDS[name]
    module = command.module or f"{__package__}.{name}"
    if not part and command.alone == "":
        _add_options(subparsers, name, command.line, import_module(module))
        return
    parser = subparsers.add_parser(name, description=_sentence(command.line))
    parts = parser.add_subparsers(required=True)
    if part:
        own = import_module(f"{module}_{path[1]}")
        _add_options(parts, path[1], command.parts[path[1]], own)
        return
    for each, line in command.parts.items():
        parts.add_parser(each, help=line)


def _add_options(subparsers: Any, name: str, line: str, module: ModuleType) -> None:
    settings = {"description": _sentence(line), **getattr(module, "PARSER", {})}
    parser = subparsers.add_parser(name, **settings)
    if hasattr(module, "add_arguments"):
        module.add_arguments(parser)
    parser.set_defaults(run=module.run)


def _sentence(line: str) -> str:
    return f"{line[0].upper()}{line[1:]}."


def overview() -> str:
    """All commands by group with their lines, `pytest benches` first."""
    lines = []
    for title, group in GROUPS.items():
        entries = [(name, command.line) for name, command in group.items()]
        if title == "run":
            entries.insert(0, BENCHMARK)
        lines += [f"{title}:", *(f"  {name:15} {line}" for name, line in entries), ""]
    return "\n".join(lines)


def instead(name: str) -> str:
    """What to write in place of a command that isn't there: the part of a command that has this
    name, an option of the run, near commands, else all.
    """
    from pbcore.grid.settings import OPTIONS

    by_name = {}  # what a command may be called → the command
    for path in paths():
        by_name["-".join(path)] = f"pbcore {' '.join(path)}"
        by_name[path[-1]] = f"pbcore {' '.join(path)}"
    if name in by_name:
        return f"did you mean {by_name[name]}?"
    if any(name == option.name for option in OPTIONS):
        return f"it is an option of the run: pytest benches --{name}"
    near = get_close_matches(name, by_name, n=3, cutoff=0.5)
    if near:
        return f"did you mean {', '.join(dict.fromkeys(by_name[each] for each in near))}?"
    return f"known: {', '.join(COMMANDS)}"
