# PYTHON_ARGCOMPLETE_OK
"""The command `pbcore`, a module per subcommand, which is imported only when it is called, so that
`pbcore --help` is fast.
"""

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from importlib.metadata import version

from pbcore.base.errors import PbcoreError
from pbcore.base.printable import printable
from pbcore.base.text import spell_signs
from pbcore.cli.commands import COMMANDS, Path, add_command, instead, overview, path_of


def _parser(path: Path) -> argparse.ArgumentParser:
    """The parser of the command line: with the options of one command, else with all commands."""
    parser = argparse.ArgumentParser(
        "pbcore",
        description="Measures parallel decoding in diffusion LLMs.",
        epilog=f"{overview()}\nOptions of a command: pbcore COMMAND -h",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage=None if path else "pbcore [-h] [--version] COMMAND ...",
    )
    parser.add_argument("--version", action="version", version=f"pbcore {version('pbcore')}")
    subparsers = parser.add_subparsers(
        metavar="COMMAND", required=True, help=argparse.SUPPRESS, prog="pbcore"
    )
    if path:
        add_command(subparsers, path)
    else:
        for name in COMMANDS:
            subparsers.add_parser(name)
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
    path = path_of(arguments)
    if len(arguments) == 1 and path and COMMANDS[path[0]].alone and not completing:
        arguments.append(str(COMMANDS[path[0]].alone))
        path = path_of(arguments)
    name = " ".join(path)
    parser = _parser(path)
    if completing:
        import argcomplete

        argcomplete.autocomplete(parser)  # answers and ends the process
    for stream in (sys.stdout, sys.stderr):
        spell_signs(stream)
    named = [argument for argument in arguments if not argument.startswith("-")]
    if not path and named:
        parser.error(f"there is no command {named[0]!r}; {instead(named[0])}")
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
