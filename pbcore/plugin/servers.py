"""Models behind servers: what is checked before the first request, where answers are kept, and what was spent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pbcore.errors import PbcoreError
from pbcore.grid.cellid import CellName
from pbcore.plugin.rundir import run_dir
from pbcore.plugin.state import drilled, plan, settings

if TYPE_CHECKING:
    from pathlib import Path

    from pbcore.models.base import Model
    from pbcore.models.servers.model import Session
    from pbcore.models.servers.money import Budget
    from pbcore.results.record import CellRecord, SampleRecord

LEDGER = ".spending"


def is_served(model: Model) -> bool:
    """Whether a model answers behind a server."""
    return model.info.get("family") == "server"


def prepare(config: pytest.Config, names: Iterable[CellName]) -> None:
    """On the controller, before the first cell: the estimate, then each server asked whether it can answer.

    With --collect-only the estimate alone. Raises pytest.UsageError that names variable, address or model.
    """
    from pbcore.grid.api_cost import check_limit, estimate_lines, server_models

    unfinished = _unfinished(config, names)
    if not server_models(unfinished):
        return
    from pbcore.models.servers.preflight import check_server

    try:
        check_limit(plan(config), unfinished)
    except PbcoreError as error:
        raise pytest.UsageError(str(error)) from error
    lines = estimate_lines(plan(config), unfinished, lambda name: _store(config, name.cell_id).known)
    _say(config, [f"pbcore: {line}" for line in lines])
    if config.getoption("collectonly", False):
        return
    try:
        for spec in server_models(unfinished).values():
            check_server(spec)
    except PbcoreError as error:
        raise pytest.UsageError(str(error)) from None


def begin_spending(config: pytest.Config) -> None:
    """Lets --max-cost count from what earlier runs of the same directory have spent."""
    limit = _budget(config)
    if limit is not None:
        limit.begin(spent(run_dir(config).cells_dir)[1])


@contextmanager
def asking(item: pytest.Item, cell_id: str, model: Model) -> Iterator[Session | None]:
    """Keeps a server's answers beside the cell while it decodes; nothing for other models."""
    if not is_served(model):
        yield None
        return
    from pbcore.models.servers.model import CostLimitError, ServerModel

    assert isinstance(model, ServerModel)
    with model.session(_store(item.config, cell_id), _budget(item.config)) as session:
        try:
            yield session
        except CostLimitError as error:
            item.session.shouldstop = str(error)
            raise


def told(cell: CellRecord, samples: list[SampleRecord], session: Session) -> CellRecord:
    """The record with what the server reported."""
    from pbcore.results.served import served

    spec = session.spec
    part = served(
        samples,
        provider=spec.provider,
        kind=spec.kind,
        concurrency=spec.concurrency,
        asked=session.asked,
        kept=session.kept,
        version=session.version,
        counters=session.counters,
    )
    return replace(cell, served=part)


def counted(session: Session | None) -> tuple[dict[str, Any], dict[str, str]]:
    """Forwards by the server's own counters, over all requests together, and why single samples have none; empty where
    it has no such counters, or some answers were not asked for now.
    """
    steps = 0.0 if session is None else session.counters.get("denoising_steps", 0.0)
    if session is None or session.kept or not session.asked or steps <= 0:
        return {}, {}
    tokens = session.counters.get("committed_tokens")
    rates = {"nfe_mean": steps / session.asked, "tokens_per_forward": None if tokens is None else tokens / steps}
    return rates, {"tokens_per_step": "the server counts the forwards of all requests together"}


def timed(session: Session) -> list[float]:
    """The seconds of the requests; none if some answers were not asked for now."""
    return [] if session.kept else [session.seconds]


def untimed(session: Session | None) -> dict[str, str]:
    """Why a cell has no time of its own."""
    if session is None or not session.kept:
        return {}
    return {"seconds": f"{session.kept} of {session.kept + session.asked} answers were kept from an earlier run"}


def spent(cells: Path) -> tuple[int, float]:
    """The answers of servers that are kept beside the cells of a run, and what they cost by the declared prices."""
    from pbcore.models.servers.store import lines
    from pbcore.results.rundir import ANSWERS

    costs = [row.get("cost") or 0.0 for file in cells.glob(f"*{ANSWERS}") for row in lines(file)]
    return len(costs), sum(costs)


def spending(config: pytest.Config) -> list[str]:
    """A line for the summary; none without answers of servers."""
    answers, usd = spent(run_dir(config).cells_dir)
    money = f", {usd:.4f} USD by the declared prices" if usd else ""
    return [f"{answers:,} answers of servers are kept in {run_dir(config).cells_dir}{money}"] if answers else []


def _unfinished(config: pytest.Config, names: Iterable[CellName]) -> list[CellName]:
    """The cells that a resumed run has still to measure; all cells of other runs."""
    from pbcore.results.resume import finished

    if settings(config).resume is None or drilled(config):
        return list(names)
    done = finished(run_dir(config).path, lambda damaged: None)
    return [name for name in names if name.cell_id not in done]


def _store(config: pytest.Config, cell_id: str) -> Any:
    """The answers of a cell. The drill-down reads those of a run that it resumes, and writes none."""
    from pbcore.models.servers.store import AnswerStore

    if drilled(config) and settings(config).resume is None:
        return AnswerStore(None)
    return AnswerStore(run_dir(config).answers_file(cell_id), write=not drilled(config))


def _budget(config: pytest.Config) -> Budget | None:
    """The limit of --max-cost, shared by all workers of a run."""
    from pbcore.models.servers.money import Budget

    limit = settings(config).max_cost
    if limit is None:
        return None
    if drilled(config):
        return Budget(limit)
    folder = run_dir(config).cells_dir
    folder.mkdir(parents=True, exist_ok=True)
    return Budget(limit, folder / LEDGER)


def _say(config: pytest.Config, lines: list[str]) -> None:
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal is None:
        return
    for line in lines:
        terminal.ensure_newline()
        terminal.write_line(line)
