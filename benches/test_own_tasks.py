"""Tasks of your own: those of `--tasks FILE` whose category is none of the other files'."""

from pbcore.benches.test_own_tasks import test_cell

__all__ = ["test_cell"]
