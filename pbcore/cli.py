"""The command `pbcore`: looks up what a subcommand needs when it is called, so that `pbcore --help` is quick."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import version

# command → the module that adds its parser, and its line in `pbcore --help`
COMMANDS = {
    "tasks": ("pbcore.listing", "the tasks there are"),
    "samplers": ("pbcore.decoding.cli", "the samplers there are; token frequencies for those that need them"),
    "models": ("pbcore.models.cli", "the models, and which of them are available here"),
    "theory": ("pbcore.theory.cli", "what an ideal model must lose: closed forms for the list operations"),
    "report": ("pbcore.report.commands", "tables and curves from what runs left behind"),
    "merge": ("pbcore.report.commands", "join run directories, e.g. of shards, into one"),
    "compare": ("pbcore.report.commands", "judge one run against another, sample by sample"),
    "verify": ("pbcore.verify", "check a copy of the official data, or the scores of a run"),
    "doctor": ("pbcore.doctor", "what is present on this machine"),
    "languagetool": ("pbcore.metrics.languagetool.cli", "the grammar checker: install it, or say what is there"),
    "bertscore": ("pbcore.metrics.semantic", "BERTScore's model: whether it is here, and its download"),
    "agreement": ("pbcore.metrics.agreement", "compare this package's text scores with published ones"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one subcommand and returns its exit status; 2 and one line on stderr for what can't be done as asked."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = argparse.ArgumentParser(
        "pbcore",
        description="Parallel decoding in diffusion LLMs, measured. Measuring itself is pytest's: pytest benches --help",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"pbcore {version('pbcore')}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    name = next((argument for argument in arguments if not argument.startswith("-")), "")
    if name in COMMANDS:
        module = import_module(COMMANDS[name][0])
        add = module.add_parsers if hasattr(module, "add_parsers") else module.add_parser
        add(subparsers)
    else:
        for command, (_, line) in COMMANDS.items():
            subparsers.add_parser(command, help=line)
    parsed = parser.parse_args(arguments)
    try:
        return int(parsed.run(parsed))
    except BrokenPipeError:
        # `pbcore … | head`: nobody reads on, which is no error; what is still buffered must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ValueError, OSError, RuntimeError) as error:
        print(f"pbcore {name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
