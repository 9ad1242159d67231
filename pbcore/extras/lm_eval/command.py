"""The command `pbcore lm-eval`: the harness's own command line with `--model pbcore` known to it,
and a run directory of its results.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from pbcore.base.errors import InputError
from pbcore.base.tabular import Table, Value, terminal
from pbcore.extras.lm_eval.records import results_files, write_run
from pbcore.extras.lm_eval.tasks import MISSING
from pbcore.results.load import load_cells
from pbcore.results.rundir import create, new_name

USAGE = """usage: pbcore lm-eval ARGUMENTS          the arguments of `lm_eval`, run or ls
       pbcore lm-eval import FOLDER [RUN]   make a run of results written with --output_path and --log_samples

example: pbcore lm-eval --model_args pretrained=llada-1.5,sampler=threshold-0.9+b32 --tasks gsm8k

--model pbcore, --batch_size auto and --log_samples are added unless given; without --output_path the harness's own
files go into the run directory, reports/<date-time>/lm_eval."""
UNKNOWN = "Tasks not found"  # the harness's words


# No argument is an option of ours.
PARSER = {"prefix_chars": "\0", "add_help": False}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Hands all arguments to the harness."""
    parser.add_argument("arguments", nargs="*")


def run(args: argparse.Namespace) -> int:
    """Exit status 0, or the harness's. Raises InputError without the harness and for unusable
    arguments.
    """
    arguments: list[str] = args.arguments
    if not arguments or arguments[0] in ("-h", "--help"):
        print(USAGE)
        raise SystemExit(0)
    if find_spec("lm_eval") is None:
        raise InputError(MISSING)
    if arguments[0] == "import":
        return _import(arguments[1:])
    if arguments[0] in ("ls", "validate"):
        return _harness(arguments)
    return _evaluate(arguments[1:] if arguments[0] == "run" else arguments)


def _evaluate(arguments: Sequence[str]) -> int:
    """Runs the harness, then makes a run directory of the results that it wrote."""
    usage = USAGE.removeprefix("usage: ")
    parser = argparse.ArgumentParser(
        "pbcore lm-eval", usage=usage, add_help=False, allow_abbrev=False
    )
    parser.add_argument("--model", "-M")
    parser.add_argument("--batch_size", "-b")
    parser.add_argument("--output_path", "-o", type=Path)
    parser.add_argument("--log_samples", "-s", action="store_true")
    theirs, _ = parser.parse_known_args(arguments)
    target = Path("reports") / new_name()
    output = theirs.output_path or target / "lm_eval"
    if output.suffix == ".json":
        raise InputError(f"--output_path {output}: give a folder, from which the run is made")
    added = []
    if not theirs.model:
        added += ["--model", "pbcore"]
    if not theirs.batch_size:
        added += ["--batch_size", "auto"]
    if not theirs.log_samples:
        added += ["--log_samples"]
    if not theirs.output_path:
        added += ["--output_path", str(output)]
    before = set(results_files(output))
    status = _harness(["run", *added, *arguments])
    written = [file for file in results_files(output) if file not in before]
    if status == 0 and written:
        folder = target if target.exists() else create(target.parent, target.name).path
        _show(write_run(written, folder))
    return status


def _import(arguments: Sequence[str]) -> int:
    if not 1 <= len(arguments) <= 2:
        raise InputError(f"import needs the folder of the harness's results\n{USAGE}")
    folder = Path(arguments[0])
    files = results_files(folder)
    if not files:
        raise InputError(
            f"{folder} has no results_*.json; run the harness with --output_path {folder}"
            " --log_samples"
        )
    target = Path(arguments[1]) if len(arguments) == 2 else Path("reports") / new_name()
    _show(write_run(files, create(target.parent, target.name).path))
    return 0


def _show(folder: Path) -> None:
    """Prints a line per cell."""
    rows: list[list[Value]] = []
    for cell in load_cells(folder):
        score = cell.scores.get(cell.headline)
        mean = None if score is None else 100 * score.mean
        rows.append(
            [
                cell.id,
                cell.n_samples,
                cell.headline,
                mean,
                cell.nfe_mean,
                cell.tokens_per_forward,
                cell.seconds,
            ]
        )
    heads = ["cell", "samples", "score", "mean (%)", "NFE", "TPF", "seconds"]
    print(terminal(Table(heads, rows, forms=".2f")))
    print(f"run: {folder}")


def _harness(arguments: Sequence[str]) -> int:
    """The harness's command line; its exit status. Raises InputError for tasks that it doesn't
    know.
    """
    from lm_eval.__main__ import cli_evaluate

    from pbcore.extras.lm_eval.model import register

    register()
    before = sys.argv
    sys.argv = ["lm_eval", *arguments]  # the harness reads it
    try:
        cli_evaluate()
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except ValueError as error:
        if not str(error).startswith(UNKNOWN):
            raise
        raise InputError(f"{error}; `pbcore lm-eval ls tasks` lists the harness's tasks") from error
    finally:
        sys.argv = before
    return 0
