# PYTHON_ARGCOMPLETE_OK
"""The command `pbcore`. A subcommand's module is imported only when it is called, so that `pbcore
--help` is fast.
"""

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version
from typing import Any

from pbcore.base.errors import PbcoreError
from pbcore.base.extensions import integrations
from pbcore.base.printable import printable
from pbcore.base.registry import hint
from pbcore.base.text import spell_signs

# command → the module that adds its parser, or alone has `run`, and its line in `pbcore --help`
COMMANDS = {
    "tasks": ("pbcore.tasks_cli", "list the tasks"),
    "samplers": (
        "pbcore.decoding.cli",
        "list the samplers; make token frequencies for those that need them",
    ),
    "presets": ("pbcore.grid.profiles", "list settings of papers by name, with their sources"),
    "models": (
        "pbcore.models.cli",
        "list the models and whether they are available on this machine",
    ),
    "theory": (
        "pbcore.figures.commands",
        "the loss and accuracy of an ideal model on the list operations, and the optimal frontier",
    ),
    "figures": ("pbcore.figures.commands", "the paper's table and figures, drawn again"),
    "report": ("pbcore.report.commands", "tables and curves from the results of runs"),
    "vary": ("pbcore.report.commands", "run cells at levels of batch size, dtype, threads, seed"),
    "tune": (
        "pbcore.tune.command",
        "find the fastest sampler of a model that loses at most so many points",
    ),
    "merge": ("pbcore.report.commands", "merge run directories, e.g. of shards, into one"),
    "compare": ("pbcore.report.commands", "judge one run against another, sample by sample"),
    "view": ("pbcore.report.view", "open the page of a run in a browser"),
    "rescore": (
        "pbcore.exchange.rescore",
        "score the kept answers of a run again, without its models",
    ),
    "blame": (
        "pbcore.exchange.blame",
        "find the step that broke each wrong answer of a run, with the run's own models",
    ),
    "export": ("pbcore.exchange.export", "write a run as CSV or Parquet, or send it to a tracker"),
    "verify": ("pbcore.verify", "check a copy of the official data, or the scores of a run"),
    "doctor": (
        "pbcore.doctor",
        "show what is installed on this machine: libraries, GPU, Java, LanguageTool, models",
    ),
    "gpu-check": (
        "pbcore.gpu_check.command",
        "check a GPU: answers beside the CPU's, speed, waits, memory; ends in a block to paste",
    ),
    "price": (
        "pbcore.price_cli",
        "measure what calls of a model cost here, in seconds; list the devices with prices",
    ),
    "languagetool": ("pbcore.metrics.grammar", "install the grammar checker, or show its status"),
    "bertscore": (
        "pbcore.metrics.semantic",
        "install BERTScore's model, or show whether it is installed",
    ),
    "agreement": (
        "pbcore.metrics.agreement",
        "compare this package's text scores with published ones",
    ),
}
for _integration in integrations().values():
    COMMANDS.update(_integration.commands)


def add_command(subparsers: Any, name: str) -> None:
    """Adds the parser of a command: its module's own, or one without options that calls the
    module's `run`.
    """
    module = import_module(COMMANDS[name][0])
    add = getattr(module, "add_parsers", None) or getattr(module, "add_parser", None)
    if add is None:
        subparsers.add_parser(name).set_defaults(run=module.run)
    else:
        add(subparsers)


def _instead(name: str) -> str:
    """What to write in place of a command that isn't there: an option of the run by that name, or
    near commands.
    """
    from pbcore.grid.settings import OPTIONS

    if any(name == option.name for option in OPTIONS):
        return f"it is an option of the run: pytest benches --{name}"
    return hint(name, list(COMMANDS))


def _parser(name: str, completing: bool) -> argparse.ArgumentParser:
    """The parser of the command line: with the options of the command `name`, else with all
    commands. Ends the process for an unknown one, unless the shell asks for what can follow.
    """
    parser = argparse.ArgumentParser(
        "pbcore",
        description=(
            "Measures parallel decoding in diffusion LLMs. The benchmark runs under pytest: pytest"
            " benches -h"
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"pbcore {version('pbcore')}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    if name and name not in COMMANDS and not completing:
        parser.error(f"there is no command {name!r}; {_instead(name)}")
    if name in COMMANDS:
        add_command(subparsers, name)
    else:
        for command, (_, line) in COMMANDS.items():
            subparsers.add_parser(command, help=line)
    return parser


def _error_text(error: Exception) -> str:
    """What is said of an error: of the system's the file and the reason."""
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one subcommand and returns its exit status: the error's for invalid input, with one line
    on stderr, and 141 if the reader of its output has gone.
    """
    completing = "_ARGCOMPLETE" in os.environ  # the shell asks for what can follow
    arguments = list(sys.argv[1:] if argv is None else argv)
    if completing:
        typed = os.environ["COMP_LINE"][: int(os.environ["COMP_POINT"])]
        arguments = typed.split(" ")[1:-1]
    words = [argument for argument in arguments if argument and not argument.startswith("-")]
    name = words[0] if words else ""
    parser = _parser(name, completing)
    if completing:
        import argcomplete

        argcomplete.autocomplete(parser)  # answers and ends the process
    for stream in (sys.stdout, sys.stderr):
        spell_signs(stream)
    parsed, more = parser.parse_known_args(arguments)
    if more and "more" not in parsed:
        parser.error(f"unrecognized arguments: {' '.join(more)}")
    parsed.more = more  # options of pytest, for a command that runs it
    formatted = warnings.formatwarning
    warnings.formatwarning = lambda message, *about, **more: f"pbcore {name}: {message}\n"
    try:
        status = int(parsed.run(parsed))
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # `pbcore … | head` closed the pipe: no message, and the status that a shell gives to
        # SIGPIPE, since a command that judges (compare, verify) has no verdict yet. Flushing the
        # buffer at exit must not raise again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (PbcoreError, OSError) as error:
        for line in f"pbcore {name}: {_error_text(error)}".split("\n"):
            print(printable(line, 1000), file=sys.stderr)
        return error.status if isinstance(error, PbcoreError) else 2
    except KeyboardInterrupt:
        return 130
    finally:
        warnings.formatwarning = formatted
