"""Cells and, in the drill-down, samples as pytest items: parametrized by name, sorted by model,
split into shards.
"""

import os
from collections import Counter
from collections.abc import Generator as Yields
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from pbcore.base.printable import printable
from pbcore.grid.cellid import CellName, by_model
from pbcore.plugin.nodes import cell_name
from pbcore.plugin.options import given
from pbcore.plugin.state import PLAN, plan, settings

# What a test of cells takes, by name, and the package whose it is.
FIXTURES = {
    **dict.fromkeys(("cell", "task", "model", "model_cache"), "pbcore.plugin"),
    "benchmark": "pytest_benchmark",
}
CATEGORIES = ("waiting_line", "text_writing", "puzzle", "list_ops")
_REFUSED = pytest.StashKey[str]()  # the first test of cells that can't be meant
_LEFT_OUT = pytest.StashKey[Counter[str]]()


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Tells the scorers, which run in workers too, by the environment. Raises pytest.UsageError if
    BERTScore's model can't be used, and was chosen by the option, or by the environment for a run
    that needs it.
    """
    requested = settings(config)
    model = requested.bertscore_model
    if model is not None and Path(model).is_dir():
        model = str(Path(model).resolve())  # workers may start elsewhere
    chosen = {"LANGUAGETOOL_URL": requested.languagetool_url, "BERTSCORE_MODEL": model}
    chosen["NO_DOWNLOAD"] = "1" if requested.no_download else None
    os.environ.update(
        {f"PBCORE_{name}": value for name, value in chosen.items() if value is not None}
    )
    if (
        hasattr(config, "workerinput")
        or not given(config)
        or not os.environ.get("PBCORE_BERTSCORE_MODEL")
    ):
        return  # the default model may be missing: its score is then absent
    from pbcore.metrics import semantic
    from pbcore.tasks import task_spec
    from pbcore.tasks.scoring import scorer

    tasks = {name.task for name in plan(config).items.values()}
    if model or any("bertscore" in scorer(task_spec(task).scorer).metrics for task in tasks):
        try:
            semantic.chosen_model()
        except semantic.BertScoreUnavailable as error:
            raise pytest.UsageError(str(error)) from error


def pytest_report_header(config: pytest.Config) -> list[str]:
    """Says what a reader of the log must know before anything runs."""
    lines = []
    if settings(config).trust_remote_code:
        lines.append("pbcore: --trust-remote-code: code that comes with a checkpoint is run")
    if given(config):
        for text, name in plan(config).respelled.items():
            lines.append(printable(f"pbcore: sampler {text} is named {name}", 400))
    return [*lines, *_authors_settings(config)]


def _authors_settings(config: pytest.Config) -> Iterator[str]:
    """A line for each model whose authors' settings are a preset, in a run that has none."""
    from pbcore.models.errors import ModelError
    from pbcore.models.registry import presets_of, resolve_model

    if settings(config).preset is not None:
        return
    for model in settings(config).model:
        try:
            presets = presets_of(resolve_model(model))
        except ModelError:  # said when the cells are planned
            continue
        if presets:
            names = " or ".join(f"--preset {name}" for name in presets)
            yield printable(f"pbcore: {model}: its authors decode it with {names}", 400)


def left_out(config: pytest.Config) -> Counter[str]:
    """Reason → number of the collected combinations that a model can't run."""
    return config.stash.setdefault(_LEFT_OUT, Counter())


def parametrize(metafunc: pytest.Metafunc, marked: tuple[str, ...]) -> None:
    """A cell per name for a test that is marked with these categories, or with none for the user's
    own tasks. What can't be meant ends the run as a usage error once all files are collected; a
    test that it concerns has no cells.
    """
    try:
        names = _names(metafunc, marked)
    except pytest.UsageError as error:
        metafunc.config.stash.setdefault(_REFUSED, str(error))
        names = []
    if names or "cell" in metafunc.fixturenames:
        metafunc.parametrize("cell", names, indirect=True)


@pytest.hookimpl(tryfirst=True)
def pytest_make_parametrize_id(config: pytest.Config, val: object, argname: str) -> str | None:
    """A cell's name is its id as it is: pytest would escape `müller` and backslashes."""
    if argname != "cell" or PLAN not in config.stash or not isinstance(val, str):
        return None
    return val if val in plan(config).items else None


def _names(metafunc: pytest.Metafunc, marked: tuple[str, ...]) -> list[str]:
    """The names of the cells of a test. Raises pytest.UsageError."""
    from pbcore.tasks import all_task_names
    from pbcore.tasks.naming import category

    node_id = metafunc.definition.nodeid
    write = f"`def {metafunc.function.__name__}(cell, model, task, benchmark):`"
    if "cell" not in metafunc.fixturenames:
        raise pytest.UsageError(
            f"{node_id} is marked `cells` but does not take the fixture `cell`; write {write}"
        )
    _check_fixtures(metafunc)
    the_plan = plan(metafunc.config)  # reads the tasks of --tasks
    known = sorted({category(task) for task in all_task_names()})
    for name in marked:
        if name not in known:
            raise pytest.UsageError(
                f"{node_id}: no task has the category {name!r}; there are {', '.join(known)}"
            )
    categories = set(marked) or the_plan.categories - set(CATEGORIES)
    left_out(metafunc.config).update(the_plan.left_out(categories))
    return [text for text, name in the_plan.items.items() if name.category in categories]


def _check_fixtures(metafunc: pytest.Metafunc) -> None:
    """Raises pytest.UsageError if a fixture of the project's, under the name of one that a test of
    cells takes, would stand in its place. One that takes ours by this name adds to it, and is fine.
    """
    known = metafunc.definition._fixtureinfo.name2fixturedefs
    for name, package in FIXTURES.items():
        definitions = known.get(name, ())
        if not definitions or definitions[-1].func.__module__.startswith(package):
            continue
        nearest = definitions[-1]
        if len(definitions) > 1 and name in nearest.argnames:
            continue
        code = nearest.func.__code__
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid}: the fixture {name!r} of {code.co_filename}, line"
            f" {code.co_firstlineno}, stands in the place of the one that a test of cells takes;"
            f" rename yours, or let it take {name!r} as an argument and return that"
        )


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks a cell by its profile; -k also finds it by its sampler as the command line has it."""
    name = cell_name(item)
    if name is None:
        return
    tier = settings(item.config).profile
    if tier in ("quick", "ci"):
        item.add_marker(tier)
    for text, sampler in plan(item.config).respelled.items():
        if sampler == name.sampler:
            item.extra_keyword_matches.add(text)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Yields[None, pytest.CollectReport, pytest.CollectReport]:
    """Drops the item that pytest makes where a file's grid is empty before it is counted, so that
    as many tests are collected as are run or deselected; an argument that names the test finds it.
    """
    report = yield
    if not any("::" in str(argument) for argument in collector.config.args):
        report.result = [node for node in report.result if not _stands_for_none(node)]
    return report


def _stands_for_none(node: pytest.Item | pytest.Collector) -> bool:
    """Whether an item stands for an empty grid."""
    parameters = getattr(getattr(node, "callspec", None), "params", {})
    if "cell" not in parameters or isinstance(parameters["cell"], str):
        return False
    return node.get_closest_marker("cells") is not None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(
    session: pytest.Session, config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Puts a model's cells together (it is loaded once), and keeps this shard's part.

    Args:
        session: ends with the error of a worker that can't run.
        config: has the settings.
        items: the tests; changed in place.
    """
    try:
        if _REFUSED in config.stash:
            raise pytest.UsageError(config.stash[_REFUSED])
        names = _runnable(config, _collected(items))
    except pytest.UsageError as error:
        items.clear()  # pytest says next that collecting has finished: no run begins
        if not hasattr(config, "workerinput"):
            raise
        # The controller would take a worker's usage error for a crash.
        session.shouldfail = str(error)
        return
    # Where a file's grid is empty pytest makes one item to be skipped; the summary says what was
    # left out and why.
    items[:] = [item for item in items if item in names or item.get_closest_marker("cells") is None]
    if not names:
        return
    models = list(dict.fromkeys(name.model for name in names.values()))
    levels = list(dict.fromkeys(name.level for name in names.values()))

    def loaded(item: pytest.Item) -> tuple[int, int]:
        """The place of what the cell needs loaded: a model is loaded anew for each dtype."""
        return models.index(names[item].model), levels.index(names[item].level)

    cells = iter(sorted(names, key=loaded))
    items[:] = [next(cells) if item in names else item for item in items]
    shard = settings(config).shard
    if shard is not None:
        mine = shard_of([names[item] for item in items if item in names], *shard)
        dropped = [item for item in items if item in names and names[item] not in mine]
        items[:] = [item for item in items if item not in names or names[item] in mine]
        config.hook.pytest_deselected(items=dropped)


def _runnable(
    config: pytest.Config, names: Mapping[pytest.Item, CellName]
) -> dict[pytest.Item, CellName]:
    """The cells without those of node ids that their model can't run, which are left out. Raises
    pytest.UsageError where none remains.
    """
    refused = {}
    for item, name in names.items():
        reason = plan(config).refuses(name)
        if reason is not None:
            refused[item] = reason
    if refused and len(refused) == len(names):
        reasons = dict.fromkeys(refused.values())
        raise pytest.UsageError("\n".join(printable(reason, 400) for reason in reasons))
    left_out(config).update(refused.values())
    if refused:
        config.hook.pytest_deselected(items=list(refused))
    return {item: name for item, name in names.items() if item not in refused}


def _collected(items: Iterable[pytest.Item]) -> dict[pytest.Item, CellName]:
    """The cells among the items. Raises pytest.UsageError where one has other parameters too, or is
    collected twice: its id would not tell which is meant.
    """
    names: dict[pytest.Item, CellName] = {}
    first: dict[CellName, str] = {}
    for item in items:
        name = cell_name(item)
        if name is None:
            parameters = getattr(getattr(item, "callspec", None), "params", {})
            if item.get_closest_marker("cells") and isinstance(parameters.get("cell"), str):
                how = "register a model or a sampler for each variant"
                raise pytest.UsageError(
                    f"{item.nodeid}: a test of cells has no parameters of its own; {how}"
                )
            continue
        if first.setdefault(name, item.nodeid) != item.nodeid:
            both = f"as {first[name]} and as {item.nodeid}"
            raise pytest.UsageError(
                f"the same cell is collected twice, {both}; run one of the two files"
            )
        names[item] = name
    return names


def shard_of(cells: Sequence[CellName], number: int, shards: int) -> set[CellName]:
    """The cells of one shard.

    While there are models enough, each model goes whole to the shard with the fewest cells so far,
    biggest model first; with fewer models than shards, every model gets a fair number of shards of
    its own, which take its cells in turns.

    Args:
        cells: of the whole run, in order.
        number: the shard, from 1.
        shards: how many there are.
    """
    groups = by_model(cells)
    models = sorted(groups, key=lambda model: (-len(groups[model]), model))
    parts = dict.fromkeys(models, 1)
    for _ in range(shards - len(models) if models else 0):
        parts[max(models, key=lambda model: len(groups[model]) / parts[model])] += 1
    loads: list[list[CellName]] = [[] for _ in range(shards)]
    for model in models:
        for part in range(parts[model]):
            min(loads, key=len).extend(groups[model][part :: parts[model]])
    return set(loads[number - 1])
