"""The environment of processes that tests start."""

import os


def own_environment() -> dict[str, str]:
    """This process's variables, without those by which xdist tells its workers: a pytest started
    with them would take itself for a worker, which times nothing.
    """
    return {
        name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")
    }
