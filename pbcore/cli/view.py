"""`pbcore view`: opens a run's page in a browser."""

from __future__ import annotations

import argparse
import webbrowser
from contextlib import suppress
from pathlib import Path

from pbcore.report.options import OWN, ReportOptions, add_axis_option, add_price_options
from pbcore.report.view import FILE, HOST, holds_all_answers, latest, serve, tell_size


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    about = "run directories; several stand side by side (default: the latest in reports/)"
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
    """Opens report.html if it holds all answers of the one run; else serves a page until Ctrl-C."""
    runs = args.runs or [latest(Path("reports"))]
    options = ReportOptions.of(args)
    if len(runs) == 1 and options == OWN:
        file = runs[0] / FILE
        if not file.exists():
            from pbcore.report.page import write_page

            tell_size(runs)
            write_page(runs[0])
        if holds_all_answers(file):
            _open(file.resolve().as_uri(), args.no_open)
            return 0
    with serve(runs, args.port, options) as server:
        _open(f"http://{HOST}:{server.server_port}/", args.no_open)
        print("Ctrl-C ends it")
        with suppress(KeyboardInterrupt):
            server.serve_forever()
    return 0


def _open(address: str, silent: bool) -> None:
    print(address)
    if not silent:
        webbrowser.open(address)
