"""The options of the group "pbcore", each with an ini/TOML equivalent `pbcore_<name>`, read into
one Settings value.
"""

import argparse
import os
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from pbcore.base.errors import InputError
from pbcore.base.printable import printable
from pbcore.grid.cellid import CellName, CellText, bracketed
from pbcore.grid.option import (
    OPTION_GROUPS,
    Option,
    OptionValues,
    natural,
    options_of,
    positive,
    samples,
    threads,
)
from pbcore.grid.settings import OPTIONS, Settings

if TYPE_CHECKING:
    from pbcore.results.rundir import Commands, RunFacts

OR_PATHS = ("model", "adapter", "draft", "bertscore_model", "preset")  # or names
_SHORT = pytest.StashKey[frozenset[str]]()
# in `--help`
EVERYDAY = "model task sampler preset profile limit seed gpu dtype sample out resume estimate gate"
TOPICS = {  # of `--help-pbcore`, which shows all
    "What is measured": (
        "model task sampler preset profile factor limit questions sample per_sample shard tasks"
    ),
    "Questions": "n shots cot cot_answer max_new_tokens data_seed data_dir",
    "Answers and scores": "seed official_text languagetool_url bertscore_model no_download",
    "Where and how a model computes": (
        "gpu device dtype batch_size threads share_forwards share_memory rounds"
    ),
    "How weights are loaded": (
        "quantization attn_implementation device_map revision trust_remote_code architecture draft"
        " adapter"
    ),
    "The run": "out blame max_loss axis price price_batch resume resume_anyway estimate",
    "Regression gates": (
        "gate gate_level gate_exact gate_time against floor update_baseline allow_missing"
    ),
}


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    from pbcore.plugin import hookspecs

    pluginmanager.add_hookspecs(hookspecs)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options under their prefixed names, `--pbcore-model`, which no other plugin has; `--help`
    hides them.
    """
    group = parser.getgroup("pbcore", "pbcore: parallel decoding in diffusion LLMs")
    group.addoption(
        "--help-pbcore",
        action="store_true",
        help="show all options of pbcore, by what they are for",
    )
    for option in OPTIONS:
        option.add(group.addoption, f"--pbcore-{option.name}", argparse.SUPPRESS)
        parser.addini(
            option.dest,
            f"as --{option.name} on the command line",
            type=_ini_type(option),
            default=None,
        )


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser
) -> Generator[None, Any, Any]:
    """The same options under their short names, `--model`, unless another plugin or the project's
    conftest.py has taken a name: all of those have added their options by now, so that ours yield.
    """
    outcome = yield
    free = set()
    group = parser.getgroup("pbcore")
    for option in OPTIONS:
        text = option.help if option.field in EVERYDAY.split() else argparse.SUPPRESS
        try:
            option.add(group.addoption, f"--{option.name}", text)
            free.add(option.name)
        except (ValueError, argparse.ArgumentError):  # taken: --help shows the prefixed name
            long = next(
                argument
                for argument in group.options
                if f"--pbcore-{option.name}" in argument.names()
            )
            long.attrs()["help"] = text
    early_config.stash[_SHORT] = frozenset(free)
    return outcome


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Prints all options in place of a run if `--help-pbcore` is given; `--help` has one line for
    their ini values.
    """
    if config.option.help:
        values = config._parser._inidict
        for option in OPTIONS:
            values.pop(option.dest, None)
        values["pbcore_NAME"] = ("as --NAME of pbcore; --help-pbcore lists all", "string", None)
    if not config.getoption("help_pbcore"):
        return None
    parser = argparse.ArgumentParser(
        add_help=False,
        usage="pytest benches [options]",
        description=(
            "Options of pbcore. Each has an ini equivalent, pbcore_model for --model, and a name"
            " that no other plugin has, --pbcore-model."
        ),
    )
    for title, options in topics():
        group = parser.add_argument_group(title)
        for option in options:
            option.add(group.add_argument, flag(config, option), option.help)
    sys.stdout.write(parser.format_help())
    return 0


def topics() -> Iterator[tuple[str, list[Option]]]:
    """Title and options of each topic; a neighbour's options are one."""
    known = {option.field: option for option in OPTIONS}
    for title, names in TOPICS.items():
        yield title, [known[name] for name in names.split()]
    for name, group in OPTION_GROUPS.all().items():
        yield group.title or name, options_of(group)


def flag(config: pytest.Config, option: Option) -> str:
    """How the option is written on the command line of this run: short, unless that name is another
    plugin's.
    """
    return (
        f"--{option.name}"
        if option.name in config.stash.get(_SHORT, frozenset())
        else f"--pbcore-{option.name}"
    )


def _ini_type(option: Option) -> Literal["linelist", "bool", "int", "string"]:
    if option.many:
        return "linelist"
    if option.kind is None:
        return "bool"
    return "int" if option.kind in (positive, natural, samples, threads) else "string"


def given(config: pytest.Config) -> bool:
    """Whether any option of the group is set, on the command line or in an ini file."""
    return any(_value(config, option) is not None for option in OPTIONS)


def may_be_given(config: pytest.Config, words: Sequence[str]) -> bool:
    """Whether an option of the group may be set, before the command line is read: by its name among
    the words, in a file of arguments, in an ini file, or by xdist for its worker.
    """
    flags = {"--help-pbcore"}
    for option in OPTIONS:
        for prefix in ("", "pbcore-", "no-", "pbcore-no-"):
            flags.add(f"--{prefix}{option.name}")
    for word in words:
        if word.startswith("@") or word.partition("=")[0] in flags:
            return True
    return given(config)


def on_command_line(config: pytest.Config, *names: str) -> list[str]:
    """Those of the options that stand on the command line, as written there."""
    return [
        flag(config, o)
        for o in OPTIONS
        if o.name in names and config.getoption(o.dest, None) is not None
    ]


def typed_fields(config: pytest.Config) -> set[str]:
    """The fields of the options that were typed."""
    return {option.field for option in OPTIONS if _typed(config, option)}


def _typed(config: pytest.Config, option: Option) -> bool:
    flags = []
    for prefix in ("", "pbcore-", "no-", "pbcore-no-"):
        flags.append(f"--{prefix}{option.name}")
    return is_typed(config, *flags)


def is_typed(config: pytest.Config, *flags: str) -> bool:
    """Whether one of these options was typed, and doesn't come from an ini file, `addopts` or
    PYTEST_ADDOPTS.
    """
    typed = [str(word).partition("=")[0] for word in config.invocation_params.args]
    return any(word in flags or word.startswith("@") for word in typed)


def read(config: pytest.Config) -> Settings:
    """The settings of this run: a typed `--resume` wins over an `--out` that isn't. Raises
    pytest.UsageError for values that can't be meant.
    """
    from pbcore.grid.levels import with_short_forms
    from pbcore.grid.profiles import with_preset
    from pbcore.grid.validate_settings import check

    resumes = is_typed(config, "--resume", "--pbcore-resume")
    no_out = resumes and not is_typed(config, "--out", "--pbcore-out")
    values: OptionValues = {}
    for option in OPTIONS:
        if option.field == "out" and no_out:
            continue
        value = _value(config, option)
        if value is not None:
            values[option.field] = tuple(value) if option.many else value
    with usage_errors():
        return check(with_short_forms(Settings.of(**with_preset(values, OPTIONS))))


@contextmanager
def usage_errors(option: str = "") -> Iterator[None]:
    """Input that can't be used ends the run as a usage error, after the name of the option that
    gave it; so does a file or folder that the system refuses, such as one with too long a name.
    """
    try:
        yield
    except (InputError, OSError) as error:
        what = str(error)
        if isinstance(error, OSError) and error.filename:
            what = f"{printable(str(error.filename))}: {error.strerror}"
        lines = f"{option and f'{option}: '}{what}".split("\n")
        text = "\n".join(printable(line, 1000) for line in lines)
        raise pytest.UsageError(text) from error


def run_facts(
    config: pytest.Config, settings: Settings, cells: Mapping[str, CellName | CellText]
) -> "RunFacts":
    """What run.json keeps for the commands that run a cell again.

    Args:
        config: pytest's, with the options as they were given.
        settings: The run's, read from them.
        cells: Its cells, or samples of them, by node id.
    """
    from pbcore.base.check import plain
    from pbcore.report.rerun import bench_file

    folder = config.invocation_params.dir
    files = {}
    for node_id, cell in cells.items():
        file, _, test = node_id.partition("::")
        function = test.partition("[")[0]
        if function != "test_cell" or Path(file).name not in ("", bench_file(cell.task)):
            place = os.path.relpath(config.rootpath / file, folder)
            files[cell.cell_id] = f"{place}::{function}"  # a project's own file of cells
    short = config.stash.get(_SHORT, None)
    commands: Commands = {
        "folder": str(folder),
        "stated": [option.field for option in OPTIONS if _stated(config, option)],
        "long": [o.name for o in OPTIONS if short is not None and o.name not in short],
        "computes": plain(settings.computing, "settings"),
        "files": files,
    }
    return {"settings": plain(settings.remembered, "settings"), "commands": commands}


def _stated(config: pytest.Config, option: Option) -> bool:
    """Whether an ini file, `addopts` or PYTEST_ADDOPTS has a value for an option, which holds
    wherever none is typed.
    """
    if config.getini(option.dest) is not None:
        return True
    if hasattr(config, "workerinput"):  # whose arguments are not those that were typed
        return False
    return config.getoption(option.dest, None) is not None and not _typed(config, option)


def rerun(
    config: pytest.Config,
    settings: Settings,
    node_id: str,
    sample: int,
    seed: int | None = None,
) -> str:
    """The command that runs one sample again.

    Args:
        config: pytest's, with the options as they were given.
        settings: The run's, read from them.
        node_id: The node id of the cell, or of one of its samples.
        sample: The sample's number.
        seed: The one seed to decode by; None for all of the run's.

    Returns:
        A command for the folder where pytest was started, with the options that decide the answer.
    """
    from pbcore.grid.cellid import parse_cell_name
    from pbcore.grid.levels import given_at
    from pbcore.report.rerun import run_command
    from pbcore.tasks import all_task_names

    cell = parse_cell_name(bracketed(node_id) or "", all_task_names())
    assert cell is not None  # a cell's node id
    if seed is not None and len(settings.seed) > 1:
        settings = replace(settings, seed=(seed,))
    facts = run_facts(config, settings, {node_id: cell})
    level = given_at(cell.level, settings.factor)
    return run_command(replace(cell, sample=sample), facts, level=level)


def _value(config: pytest.Config, option: Option) -> Any:
    """The option's value from the command line, else from the ini file, else None."""
    value = config.getoption(option.dest, None)
    if value is not None:
        return value
    try:
        raw = config.getini(option.dest)
        return None if raw is None else _from_ini(config, option, option.read(raw))
    except (argparse.ArgumentTypeError, pytest.UsageError) as error:
        raise pytest.UsageError(f"ini option {option.dest}: {error}") from error


def _from_ini(config: pytest.Config, option: Option, value: Any) -> Any:
    """A value of an ini file, whose paths begin in its folder; a name that is no path there stays
    as it is.
    """
    if isinstance(value, tuple):
        return tuple(_from_ini(config, option, one) for one in value)
    here = config.invocation_params.dir
    folder = here if config.inipath is None else config.inipath.parent
    is_path = isinstance(value, Path) or option.field in OR_PATHS
    if folder == here or not is_path or Path(value).is_absolute():
        return value
    if option.field in OR_PATHS and not (folder / value).exists():
        return value
    moved = os.path.relpath(folder / value, here)
    return Path(moved) if isinstance(value, Path) else moved
