"""A run's page for a browser: served where it can't hold all answers."""

from __future__ import annotations

import re
import sys
import threading
import zlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from html import escape
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from pbcore.base.errors import PbcoreError
from pbcore.base.printable import counted
from pbcore.report.options import OWN, ReportOptions
from pbcore.report.runs import FILE, cell_count, cells_state, head_of, list_runs
from pbcore.report.server import NOTHING, HttpReply, as_html, started

# What reads answers (pandas, pydantic) is imported when it is needed, so that a page that exists is
# there at once.

# Number of a cell on the page → its answers as JSON; None for no such cell.
AnswersOfCell = Callable[[int], str | None]
_ANSWERS = re.compile(r'<script type="application/gzip" id="answers">[^<]*</script>\n?')
_OF_RUN = re.compile(r"/run/([^/]+)(/.*)")
_SAMPLES = re.compile(r"/samples/(\d{1,9})\.json")


class View(NamedTuple):
    """What is served: a page, and what tells the answers of its cells."""

    page: str
    cell: AnswersOfCell


def is_current(run: Path) -> bool:
    """Whether a run's page is there and names as many cells as the run has."""
    cells = head_of(run / FILE).get("cells")
    if cells is None:
        return (run / FILE).exists() and not (run / "cells").is_dir()
    return not (run / "cells").is_dir() or int(cells[0]) == cell_count(run)


def holds_all_answers(file: Path) -> bool:
    """Whether a page holds all answers of its run, as it says itself."""
    held, _, total = head_of(file).get("answers", ["0/1"])[0].partition("/")
    return held == total


def tell_size(runs: Sequence[Path]) -> None:
    """Says that a page takes a while."""
    cells = sum(map(cell_count, runs))
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
    if len(runs) == 1 and options == OWN:
        return _serve_run(runs[0], port)
    built = _built(runs, options)
    return started(lambda path: reply_of(built, path), port)


def _serve_run(run: Path, port: int) -> ThreadingHTTPServer:
    """A server of one run, whose page is made anew when further cells are done."""
    view = shown(run, cells_state(run))
    server = started(lambda path: reply_of(shown(run, cells_state(run)), path), port)
    # Imports what the first question needs.
    threading.Thread(target=_prepare, args=(view.cell,), daemon=True).start()
    return server


@lru_cache(maxsize=4)
def shown(run: Path, state: object) -> View:
    """What is served of a run; its own report.html without answers where that names all its cells.

    Args:
        run: its directory.
        state: of its cells (`cells_state`), for which this is kept.
    """
    return _kept(run) or _built([run])


@lru_cache(maxsize=2)
def beside(runs: tuple[Path, ...], state: object) -> View:
    """What is served of several runs side by side.

    Args:
        runs: their directories, the newest first.
        state: of their cells, for which this is kept.
    """
    return _built(runs)


def serve_folder(folder: Path, port: int = 0) -> ThreadingHTTPServer:
    """A server of the list of a folder's runs, of the page of each, of comparisons of two, and of
    several side by side.

    Args:
        folder: of run directories, also in folders below.
        port: of the server; 0: a free one.

    Raises:
        InputError: for a folder without runs, and a port that can't be had.
    """
    list_runs(folder)
    return started(lambda path: _reply_of_folder(folder, path), port)


def _reply_of_folder(folder: Path, path: str) -> HttpReply:
    """The answer to a request for the list (`/`), what is below `/run/NAME/`, a comparison of two
    runs, or what is below `/beside/` of several.
    """
    from pbcore.report.page.html import runs_document

    parts = urlsplit(path)
    runs = list_runs(folder)
    if parts.path == "/":
        return as_html(runs_document(runs, str(folder)))
    names = [run.name for run in runs if run.done]  # newest first
    wanted = parse_qs(parts.query).get("run", [])
    marked = [folder / name for name in names if name in wanted]
    if parts.path == "/compare":
        if len(marked) != 2:
            return HttpReply(400, "text/plain", "mark two runs of the list")
        return as_html(_comparison(*marked))
    if parts.path.startswith("/beside/"):
        if len(marked) < 2:
            return HttpReply(400, "text/plain", "mark two runs of the list or more")
        states = tuple(cells_state(run) for run in marked)
        return reply_of(beside(tuple(marked), states), parts.path.removeprefix("/beside"))
    found = _OF_RUN.fullmatch(parts.path)
    if found is None or unquote(found[1]) not in names:
        return NOTHING
    run = folder / unquote(found[1])
    return reply_of(shown(run, cells_state(run)), found[2])


def _comparison(head: Path, base: Path) -> str:
    """The page of a run against an older one."""
    from pbcore.analysis.compare import compare_runs
    from pbcore.report.page.compare import comparison_page
    from pbcore.results.load import load_stored

    sides = load_stored(head), load_stored(base)
    return comparison_page(compare_runs(*sides), *sides, (head, base))


def reply_of(view: View, path: str) -> HttpReply:
    """The answer to a request for a page (`/`) or the answers of a cell."""
    if path == "/":
        return as_html(view.page)
    cell = _SAMPLES.fullmatch(path)
    answers = None if cell is None else view.cell(int(cell[1]))
    return NOTHING if answers is None else HttpReply(200, "application/json", answers)


def _prepare(cell: AnswersOfCell) -> None:
    """Reads one cell; what is wrong with it is said when it is asked for."""
    with suppress(PbcoreError, OSError):
        cell(0)


def _kept(run: Path) -> View | None:
    """The run's report.html without its answers, and what reads a cell's file when it is asked for.
    None if the page is missing or names other cells than the run has.
    """
    file = run / FILE
    folder = run / "cells"
    if not file.exists() or not folder.is_dir():
        return None
    text = file.read_text(encoding="utf-8", errors="replace")
    names = _cells_named(text)
    if not names or len(names) != cell_count(run):
        return None
    text = text.replace("img-src data:; base-uri", "img-src data:; connect-src 'self'; base-uri", 1)
    folder_told = f'<meta name="folder" content="{escape(str(run.resolve()))}">\n'
    text = text.replace('<meta name="viewport"', f'{folder_told}<meta name="viewport"', 1)
    # a page without answers asks its server
    return View(_ANSWERS.sub("", text, count=1), _answers_of(run, names))


def _answers_of(run: Path, names: Sequence[tuple[str, str]]) -> AnswersOfCell:
    """What reads a cell's file when it is asked for.

    Args:
        run: the cells' run.
        names: (id, model) of each cell on its page.
    """
    all_cells = cache(lambda: _built([run]).cell)

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
        path = run / "cells" / cell_file(name)
        if not path.exists():
            # its name holds signs that the page doesn't
            return all_cells()(number)
        entry = parse_cell(path.read_text(encoding="utf-8"), str(path))
        return cell_data(
            ReportCell(name, model, entry.cell, entry.samples, questions()(entry.cell))
        )

    return cell


def _cells_named(text: str) -> list[tuple[str, str]]:
    """(id, model) of the cells that a page names; none where its data can't be read."""
    from pbcore.report.page.html import read_element

    try:
        data = read_element(text, "page")
        return [(str(cell["id"]), str(cell["model"])) for cell in data["cells"]]
    except (ValueError, OSError, EOFError, KeyError, TypeError, zlib.error):
        return []


def _built(runs: Sequence[Path], options: ReportOptions = OWN) -> View:
    """A page of all runs."""
    from pbcore.report.page.data import cell_data
    from pbcore.report.page.write import page
    from pbcore.report.report import read_report

    tell_size(runs)
    report = read_report(runs, options)
    where = " ".join(str(run.resolve()) for run in runs)
    text = page(report, remote=True, where=where)
    answers = report.answers

    def cell(number: int) -> str | None:
        return cell_data(answers[number]) if number < len(answers) else None

    return View(text, cell)
