"""Models behind servers: what is checked before the first request, where answers are kept, and what
was spent.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pbcore.base.errors import PbcoreError
from pbcore.base.printable import counted
from pbcore.extras.servers.options import ServerOptions
from pbcore.grid.capabilities import is_served
from pbcore.grid.cellid import CellName
from pbcore.plugin.rundir import run_dir
from pbcore.plugin.state import drilled, plan, say, settings

if TYPE_CHECKING:
    from pathlib import Path

    from pbcore.extras.servers.model import ServerModel, Session
    from pbcore.extras.servers.money import Budget
    from pbcore.extras.servers.reply import Kept
    from pbcore.models.base import Model

_ASKS = pytest.StashKey[bool]()  # whether workers ask servers
LEDGER = ".spending"
SHOWN = 3  # of the values of kept answers that can't be used


def pytest_pbcore_check(config: pytest.Config, cells: Collection[CellName]) -> None:
    """The estimate, then each server asked whether it can answer. With --collect-only the estimate
    alone. Raises pytest.UsageError that names variable, address or model.
    """
    from pbcore.extras.servers.declared import MODELS

    _check_at_once(config, cells)
    unfinished = _unfinished(config, cells)
    declared = MODELS.specs()
    models = dict.fromkeys(name.model for name in unfinished)
    specs = [declared[model] for model in models if model in declared]
    if not specs:
        return
    config.stash[_ASKS] = config.pluginmanager.hasplugin("dsession")
    from pbcore.extras.servers.clients import client_of
    from pbcore.extras.servers.engines import check_sampler
    from pbcore.extras.servers.field_states import row_text
    from pbcore.extras.servers.keys import short_key
    from pbcore.extras.servers.money import estimate_lines
    from pbcore.extras.servers.tokenizers import without_template

    try:
        for spec in specs:
            if spec.tokenizer is not None:
                from pbcore.extras.servers.tokenizers import declared_tokenizer

                declared_tokenizer(spec)
        lines = estimate_lines(
            plan(config), unfinished, specs, lambda name: _store(config, name.cell_id).replies
        )
        for spec in specs:
            for warning in (short_key(spec), without_template(spec)):
                if warning is not None:
                    lines.append(warning)
            if spec.sampler_fields:
                lines.append(f"model {spec.name}: {row_text(spec)}")
        say(config, *(f"pbcore: {line}" for line in lines))
        if config.getoption("collectonly", False):
            return
        for spec in specs:
            untold = client_of(spec).check()
            if untold is not None:
                say(config, f"pbcore: {untold}")
            check_sampler(spec)
    except PbcoreError as error:
        raise pytest.UsageError(str(error)) from None


def _check_at_once(config: pytest.Config, cells: Iterable[CellName]) -> None:
    """Raises pytest.UsageError where --concurrency and a sampler's `+x4` say two numbers."""
    chosen = settings(config).part(ServerOptions).concurrency
    if not chosen:
        return
    for cell in cells:
        at_once = cell.sampler.name.at_once
        if at_once and at_once not in chosen and is_served(cell.model):
            text = ",".join(map(str, chosen))
            raise pytest.UsageError(
                f"--concurrency {text}: {cell.cell_id} has {at_once} at a time (+x{at_once});"
                " leave one of the two out"
            )


def pytest_pbcore_begin(config: pytest.Config) -> None:
    """Lets --max-cost count from what earlier runs of the same directory have spent."""
    limit = _budget(config)
    if limit is not None:
        files = kept_answers(run_dir(config).cells_dir)
        limit.begin(sum(sum(kept.costs) + sum(kept.at_most) for kept in files))


def pytest_pbcore_asking(
    item: pytest.Item, cell_id: str, model: Model
) -> AbstractContextManager[Session] | None:
    """Keeps a server's answers beside the cell while it decodes.

    Args:
        item: the cell's test.
        cell_id: names the file of answers.
        model: of the cell.

    Returns:
        The surrounding context; None for a model that is not a server.
    """
    from pbcore.extras.servers.model import ServerModel

    return _asking(item, cell_id, model) if isinstance(model, ServerModel) else None


@contextmanager
def _asking(item: pytest.Item, cell_id: str, model: ServerModel) -> Iterator[Session]:
    from pbcore.extras.servers.money import CostLimitError
    from pbcore.extras.servers.reply import LeftOutWarning

    chosen = settings(item.config).part(ServerOptions).concurrency
    only = chosen[0] if len(chosen) == 1 else None
    store = _store(item.config, cell_id)
    for fault in store.left_out:
        warnings.warn(fault, LeftOutWarning, stacklevel=2)
    show = partial(_show, item.config)
    with model.session(store, _budget(item.config), only, show) as session:
        try:
            yield session
        except CostLimitError as error:
            item.session.shouldstop = str(error)
            raise


def _show(config: pytest.Config, line: str) -> None:
    """Writes a line at once, although a test's output is captured."""
    capture = config.pluginmanager.getplugin("capturemanager")
    shown = capture.global_and_fixture_disabled() if capture else nullcontext()
    with shown:
        say(config, line)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """On the controller of workers, after Ctrl-C: says what it waits for, before it does."""
    config = session.config
    if exitstatus == pytest.ExitCode.INTERRUPTED and config.stash.get(_ASKS, False):
        from xdist.workermanage import NodeManager

        say(
            config,
            f"pbcore: waiting for at most {NodeManager.EXIT_TIMEOUT} s for workers with requests"
            " under way; answers that came are kept",
        )


def kept_answers(cells: Path) -> list[Kept]:
    """What the files of answers beside the cells of a run hold, in the order of their names."""
    from pbcore.extras.servers.reply import read_answers
    from pbcore.results.rundir import ANSWERS

    return [read_answers(file) for file in sorted(cells.glob(f"*{ANSWERS}"))]


def pytest_pbcore_summary(config: pytest.Config) -> list[str]:
    """A line for the summary, and one on what can't be used of the answers; none without answers of
    servers.
    """
    files = kept_answers(run_dir(config).cells_dir)
    answers = sum(len(kept.replies) for kept in files)
    usd = sum(sum(kept.costs) for kept in files)
    faults = [fault for kept in files for fault in kept.left_out]
    money = f", {usd:.4f} USD by the declared prices" if usd else ""
    limit = None if drilled(config) else _budget(config)
    if limit is not None:
        balance = limit.balance()
        reserved = balance.taken - balance.spent
        left = limit.limit - balance.taken
        money += (
            f"; --max-cost {limit.limit:g}: {balance.spent:.4f} USD spent, {reserved:.4f} reserved,"
            f" {left:.4f} left"
        )
    lines = []
    if answers:
        folder = run_dir(config).cells_dir
        lines.append(f"{counted(answers, 'answer')} of servers kept in {folder}{money}")
    if faults:
        more = f" (and {len(faults) - SHOWN} more)" if len(faults) > SHOWN else ""
        lines.append(f"of the answers kept, left out: {'; '.join(faults[:SHOWN])}{more}")
    return lines


def _unfinished(config: pytest.Config, names: Iterable[CellName]) -> list[CellName]:
    """The cells that a resumed run has still to measure; all cells of other runs."""
    if settings(config).resume is None or drilled(config):
        return list(names)
    from pbcore.results.resume import finished

    done = finished(run_dir(config).path, lambda damaged: None)
    return [name for name in names if name.cell_id not in done]


def _store(config: pytest.Config, cell_id: str) -> Any:
    """The answers of a cell. The drill-down reads those of a run that it resumes, and writes
    none.
    """
    from pbcore.extras.servers.reply import AnswerStore

    if drilled(config) and settings(config).resume is None:
        return AnswerStore(None)
    return AnswerStore(run_dir(config).answers_file(cell_id), write=not drilled(config))


def _budget(config: pytest.Config) -> Budget | None:
    """The limit of --max-cost, shared by all workers of a run."""
    from pbcore.extras.servers.money import Budget

    limit = settings(config).part(ServerOptions).max_cost
    if limit is None:
        return None
    if drilled(config):
        return Budget(limit)
    folder = run_dir(config).cells_dir
    folder.mkdir(parents=True, exist_ok=True)
    return Budget(limit, folder / LEDGER)
