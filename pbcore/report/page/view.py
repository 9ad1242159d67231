"""The command `pbcore view`: opens a run's page, or serves it where it can't hold all answers."""

from __future__ import annotations

import argparse
import re
import webbrowser
from collections.abc import Sequence
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from pbcore.errors import InputError
from pbcore.report.commands import side_by_side
from pbcore.report.page.data import Answers, cell_data
from pbcore.report.page.html import as_json
from pbcore.report.page.write import FILE, answers_of, page, write_page
from pbcore.results.load import load, load_many
from pbcore.results.rundir import RunDir
from pbcore.text import show

HOST = "127.0.0.1"
_HOLDS = re.compile(r'<meta name="answers" content="(\d+)/(\d+)">')
_SAMPLES = re.compile(r"/samples/(\d{1,9})\.json")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command; it sets `run` to a function of the parsed arguments that returns the exit status."""
    view = subparsers.add_parser("view", help="open the page of a run in a browser")
    view.add_argument(
        "runs",
        nargs="*",
        type=Path,
        metavar="RUN",
        help="run directories; several stand side by side (default: the latest in reports/)",
    )
    view.add_argument("--port", type=int, default=0, help="port of the local server (default: a free one)")
    view.add_argument("--no-open", action="store_true", help="print the address, don't start a browser")
    view.set_defaults(run=run_view)


def run_view(args: argparse.Namespace) -> int:
    """Opens report.html if it holds all answers of the one run; else serves a page until Ctrl-C."""
    runs = args.runs or [latest(Path("reports"))]
    if len(runs) == 1:
        file = runs[0] / FILE
        if not file.exists():
            write_page(runs[0])
        if complete(file):
            _open(file.resolve().as_uri(), args.no_open)
            return 0
    with serve(runs, args.port) as server:
        _open(f"http://{HOST}:{server.server_port}/", args.no_open)
        show("Ctrl-C ends it")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return 0
    return 0


def latest(folder: Path) -> Path:
    """The newest run directory of a folder. Raises InputError if there is none."""
    runs = [path for path in folder.glob("*") if (path / "cells").is_dir()]
    if not runs:
        raise InputError(f"{folder} holds no run directory; give one: pbcore view RUN")
    return max(runs, key=lambda path: (path / "cells").stat().st_mtime)


def complete(file: Path) -> bool:
    """Whether a page holds all answers of its run, as it says itself."""
    with file.open(encoding="utf-8", errors="replace") as stream:
        told = _HOLDS.search(stream.read(2000))
    return told is not None and told[1] == told[2]


def serve(runs: Sequence[Path], port: int = 0) -> ThreadingHTTPServer:
    """A server of one page for these runs, on this machine alone; the page asks it for the answers of a cell.

    Raises the errors of `results.load`, and InputError for a port that can't be had.
    """
    cells = load(runs[0]) if len(runs) == 1 else side_by_side(load_many(runs))
    answers = answers_of(cells, runs)
    facts = RunDir(runs[0]).read_run() if len(runs) == 1 and runs[0].is_dir() else {}
    text = page(cells, answers, ", ".join(path.name for path in runs), facts, remote=True)
    try:
        return ThreadingHTTPServer((HOST, port), partial(Handler, text, answers))
    except (OSError, OverflowError) as error:
        raise InputError(f"--port {port} can't be used ({error}); leave it out for a free one") from error


class Handler(BaseHTTPRequestHandler):
    """Answers for the page and its cells, to requests that name this machine as their host."""

    def __init__(self, page: str, answers: Sequence[Answers], *args: object) -> None:
        self._page, self._answers = page, answers
        super().__init__(*args)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        assert isinstance(self.server, ThreadingHTTPServer)
        port = self.server.server_port
        cell = _SAMPLES.fullmatch(self.path)
        if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):
            self._reply(403, "text/plain", "asked for under another name; another site's page may have asked")
        elif self.path == "/":
            self._reply(200, "text/html", self._page)
        elif cell and int(cell[1]) < len(self._answers):
            self._reply(200, "application/json", as_json(cell_data(self._answers[int(cell[1])])))
        else:
            self._reply(404, "text/plain", "nothing here")

    def _reply(self, status: int, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        for name, value in (
            ("Content-Type", f"{kind}; charset=utf-8"),
            ("Content-Length", str(len(data))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the terminal shows the address alone."""


def _open(address: str, silent: bool) -> None:
    show(address)
    if not silent:
        webbrowser.open(address)
