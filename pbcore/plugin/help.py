"""`pytest --help` shows the options of everyday use; `--help-pbcore` shows all, by what they are for."""

import argparse
import sys
from collections.abc import Iterator

import pytest

from pbcore.extensions import integrations, named
from pbcore.grid.option import Option, options_of
from pbcore.grid.settings import OPTIONS
from pbcore.plugin.options import add, flag

TOPICS = {
    "What is measured": "model task sampler preset profile factor limit sample per_sample shard tasks",
    "Questions": "n shots cot cot_answer max_new_tokens data_seed data_dir",
    "Answers and scores": "seed official_text languagetool_url bertscore_model no_download",
    "Where and how a model computes": "gpu device dtype batch_size threads share_forwards share_memory rounds",
    "How weights are loaded": "quantization attn_implementation device_map revision trust_remote_code draft adapter",
    "The run": "out resume resume_anyway estimate",
    "Regression gates": "gate gate_level gate_time against floor update_baseline",
}


def pytest_cmdline_main(config: pytest.Config) -> int | None:
    """Prints the options in place of a run if `--help-pbcore` is given."""
    if not config.getoption("help_pbcore"):
        return None
    sys.stdout.write(_all(config))
    return 0


def topics() -> Iterator[tuple[str, list[Option]]]:
    """Title and options of each topic; each integration has one."""
    known = {option.field: option for option in OPTIONS}
    for title, names in TOPICS.items():
        yield title, [known[name] for name in names.split()]
    for name, integration in integrations().items():
        if integration.options:
            yield f"Integration {name}", options_of(named(integration.options))


def _all(config: pytest.Config) -> str:
    parser = argparse.ArgumentParser(
        add_help=False,
        usage="pytest benches [options]",
        description="Options of pbcore. Each has an ini equivalent, pbcore_model for --model, and a name that no other "
        "plugin has, --pbcore-model.",
    )
    for title, options in topics():
        group = parser.add_argument_group(title)
        for option in options:
            add(group.add_argument, option, flag(config, option), option.help)
    return parser.format_help()
