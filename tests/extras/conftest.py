"""Which tests of neighbours README's command runs; and runs of pytest in a project, as the plugin's
own tests have them.
"""

from pathlib import Path

import pytest

from tests.plugin.conftest import apart, entry_points, in_process, modules, project, run

__all__ = ["apart", "entry_points", "in_process", "modules", "project", "run"]
HERE = Path(__file__).parent
# A neighbour's contract: it does what it is for, once. (That it loads, and is found in the
# registries, stands in tests/base/test_extensions.py.)
CONTRACTS = {
    "check": ("engine/test_own.py", "gpu/test_steps.py", "test_machine.py"),
    "lm_eval": ("test_run.py",),
    "paper": ("rewrite/test_run.py", "test_figures.py", "test_lists.py", "test_site.py"),
    "ray": ("test_parts.py",),
    "servers": ("test_parts.py", "test_plugin.py", "test_run.py"),
    "trackers": ("test_send.py",),
    "train": ("sedd/test_kind.py", "test_command.py"),
    "tune": ("test_proof.py", "test_race.py", "test_served.py"),
}


@pytest.hookimpl(tryfirst=True)  # before pytest looks at marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks what only .ci/run tests, unless the command names a folder or file of neighbours."""
    if any(HERE.name in Path(argument).parts for argument in config.args):
        return
    contracts = {HERE / room / file for room, files in CONTRACTS.items() for file in files}
    for item in items:
        of_neighbour = item.path.is_relative_to(HERE) and item.path.parent != HERE
        if of_neighbour and item.path not in contracts:
            item.add_marker(pytest.mark.neighbour)
