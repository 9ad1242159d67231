"""A run's page for a browser: served where it can't hold all answers."""

from __future__ import annotations

import re
import sys
import threading
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pbcore.base.errors import InputError, PbcoreError
from pbcore.base.printable import counted, first_line
from pbcore.report.options import OWN, ReportOptions

# What reads answers (pandas, pydantic) is imported when it is needed, so that a page that exists is
# there at once.

FILE = "report.html"
HOST = "127.0.0.1"
# Number of a cell on the page → its answers as JSON; None for no such cell.
AnswersOfCell = Callable[[int], str | None]
_HOLDS = re.compile(r'<meta name="answers" content="(\d+)/(\d+)">')
_ANSWERS = re.compile(r'<script type="application/gzip" id="answers">[^<]*</script>\n?')
_SAMPLES = re.compile(r"/samples/(\d{1,9})\.json")


def latest(folder: Path) -> Path:
    """The newest run directory of a folder. Raises InputError if there is none."""
    runs = [path for path in folder.glob("*") if (path / "cells").is_dir()]
    if not runs:
        raise InputError(f"{folder} holds no run directory; give one: pbcore view RUN")
    return max(runs, key=lambda path: (path / "cells").stat().st_mtime)


def holds_all_answers(file: Path) -> bool:
    """Whether a page holds all answers of its run, as it says itself."""
    with file.open(encoding="utf-8", errors="replace") as stream:
        held = _HOLDS.search(stream.read(2000))
    return held is not None and held[1] == held[2]


def tell_size(runs: Sequence[Path]) -> None:
    """Says that a page takes a while."""
    cells = sum(len(list((run / "cells").glob("*.json"))) for run in runs)
    if cells > 100:
        print(f"reading {counted(cells, 'cell')} …", file=sys.stderr, flush=True)


def serve(runs: Sequence[Path], port: int = 0, options: ReportOptions = OWN) -> ThreadingHTTPServer:
    """A server of one page for these runs, on this machine alone; the page asks it for the answers
    of a cell. A run's own report.html is served as it is, if it names all cells of the run and
    nothing else is asked for.

    Args:
        runs: run directories.
        port: of the server; 0: a free one.
        options: what is asked for instead of what the runs say.

    Raises:
        InputError: for a port that can't be had; the errors of `results.load`, too.
    """
    kept = _kept(runs[0]) if len(runs) == 1 and options == OWN else None
    page, cell = _built(runs, options) if kept is None else kept
    try:
        server = ViewServer((HOST, port), partial(Handler, page, cell))
    except (OSError, OverflowError) as error:
        raise InputError(
            f"--port {port} can't be used ({error}); leave it out for a free one"
        ) from error
    # Imports what the first question needs.
    threading.Thread(target=_prepare, args=(cell,), daemon=True).start()
    return server


def _prepare(cell: AnswersOfCell) -> None:
    """Reads one cell; what is wrong with it is said when it is asked for."""
    with suppress(PbcoreError, OSError):
        cell(0)


def _kept(run: Path) -> tuple[str, AnswersOfCell] | None:
    """The run's report.html without its answers, and what reads a cell's file when it is asked for.
    None if the page is missing or names other cells than the run has.
    """
    file = run / FILE
    folder = run / "cells"
    if not file.exists() or not folder.is_dir():
        return None
    text = file.read_text(encoding="utf-8", errors="replace")
    names = _cells_named(text)
    if not names or len(names) != len(list(folder.glob("*.json"))):
        return None
    all_cells = cache(lambda: _built([run])[1])

    @cache
    def questions() -> Callable[..., Any]:
        from pbcore.report.answers import questions_of
        from pbcore.results.rundir import RunDir

        return questions_of(RunDir(run))

    def cell(number: int) -> str | None:
        from pbcore.report.answers import ReportCell
        from pbcore.report.page.data import cell_data
        from pbcore.results.rundir import cell_file, parse_cell

        if number >= len(names):
            return None
        name, model = names[number]
        path = folder / cell_file(name)
        if not path.exists():
            # its name holds signs that the page doesn't
            return all_cells()(number)
        entry = parse_cell(path.read_text(encoding="utf-8"), str(path))
        return cell_data(
            ReportCell(name, model, entry.cell, entry.samples, questions()(entry.cell))
        )

    text = text.replace("img-src data:; base-uri", "img-src data:; connect-src 'self'; base-uri", 1)
    return _ANSWERS.sub("", text, count=1), cell  # a page without answers asks its server


def _cells_named(text: str) -> list[tuple[str, str]]:
    """(id, model) of the cells that a page names; none where its data can't be read."""
    from pbcore.report.page.html import read_element

    try:
        data = read_element(text, "page")
        return [(str(cell["id"]), str(cell["model"])) for cell in data["cells"]]
    except (ValueError, OSError, EOFError, KeyError, TypeError, zlib.error):
        return []


def _built(runs: Sequence[Path], options: ReportOptions = OWN) -> tuple[str, AnswersOfCell]:
    """A page of all runs, and what tells the answers of its cells."""
    from pbcore.report.answers import name_and_facts, read_all
    from pbcore.report.page.data import cell_data
    from pbcore.report.page.write import page

    tell_size(runs)
    cells, answers = read_all(runs)
    name, facts = name_and_facts(runs, options)
    text = page(cells, answers, name, facts, remote=True)

    def cell(number: int) -> str | None:
        return cell_data(answers[number]) if number < len(answers) else None

    return text, cell


class ViewServer(ThreadingHTTPServer):
    """Serves each request in a thread of its own; a browser that has gone is no error."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing for a connection that its client has reset or left; else as the base class."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Answers for the page and its cells, to requests that name this machine as their host."""

    def __init__(self, page: str, cell: AnswersOfCell, *args: object) -> None:
        self._page = page
        self._cell = cell
        super().__init__(*args)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        assert isinstance(self.server, ThreadingHTTPServer)
        port = self.server.server_port
        cell = _SAMPLES.fullmatch(self.path)
        if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):
            self._reply(
                403,
                "text/plain",
                "asked for under another name; another site's page may have asked",
            )
        elif self.path == "/":
            self._reply(200, "text/html", self._page)
        elif cell:
            self._answers(int(cell[1]))
        else:
            self._reply(404, "text/plain", "nothing here")

    def _answers(self, number: int) -> None:
        """A cell's answers; of one whose file is damaged, why they can't be shown."""
        try:
            answers = self._cell(number)
        except (PbcoreError, OSError) as error:
            self._reply(500, "text/plain", first_line(str(error), 1000))
            return
        if answers is None:
            self._reply(404, "text/plain", "nothing here")
        else:
            self._reply(200, "application/json", answers)

    def _reply(self, status: int, kind: str, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the terminal shows the address alone."""
