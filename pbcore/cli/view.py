"""`pbcore view`: opens a run's page in a browser, or the list of all runs."""

from __future__ import annotations

import argparse
import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from http.server import ThreadingHTTPServer
from pathlib import Path

from pbcore.base.errors import InputError
from pbcore.report.options import OWN, ReportOptions, add_axis_option, add_price_options
from pbcore.report.runs import FILE, cell_count, is_run, runs_below
from pbcore.report.server import HOST
from pbcore.report.view import holds_all_answers, is_current, serve, serve_folder, tell_size
from pbcore.results.lock import is_held

FOLDER = Path("reports")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    about = (
        "run directories; several stand side by side. Of a folder with runs below: their list"
        " (default: reports/)"
    )
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help=about)
    parser.add_argument(
        "--port", type=int, default=0, help="port of the local server (default: a free one)"
    )
    parser.add_argument(
        "--no-open", action="store_true", help="print the address, don't start a browser"
    )
    add_axis_option(parser)
    add_price_options(parser)


def run(args: argparse.Namespace) -> int:
    """Opens report.html if it holds all answers of the one finished run; else serves its page, or
    of a folder with runs the list of all, until Ctrl-C.
    """
    options = ReportOptions.of(args)
    folder = _folder(args.runs)
    if folder is not None:
        if options != OWN:
            raise InputError("--axis and the options of prices are for one run or more: give RUN")
        return _served(serve_folder(folder, args.port), args.no_open)
    if len(args.runs) == 1 and options == OWN and _opened(args.runs[0], args.no_open):
        return 0
    return _served(serve(args.runs, args.port, options), args.no_open)


def _folder(paths: Sequence[Path]) -> Path | None:
    """The folder whose runs are listed; None where runs are given."""
    if not paths:
        return FOLDER
    if len(paths) == 1 and not is_run(paths[0]) and any(runs_below(paths[0])):
        return paths[0]
    return None


def _opened(run: Path, silent: bool) -> bool:
    """Opens the page of a run that has ended, made anew where it lacks cells, if it holds all
    answers; says whether it did. Raises InputError for a run at work without a finished cell.
    """
    if is_held(run):
        if not cell_count(run):
            raise InputError(
                f"{run} has no finished cell yet; its run is at work, and `pbcore view` lists it"
            )
        return False
    if not is_current(run):
        from pbcore.report.page import write_page

        tell_size([run])
        write_page(run)
    file = run / FILE
    if holds_all_answers(file):
        _open(file.resolve().as_uri(), silent)
        return True
    return False


def _served(server: ThreadingHTTPServer, silent: bool) -> int:
    with server:
        _open(f"http://{HOST}:{server.server_port}/", silent)
        print("Ctrl-C ends it")
        with suppress(KeyboardInterrupt):
            server.serve_forever()
    return 0


def _open(address: str, silent: bool) -> None:
    print(address)
    if not silent:
        webbrowser.open(address)
