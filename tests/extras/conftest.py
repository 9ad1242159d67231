"""Runs of pytest in a project, as the plugin's own tests have them."""

from tests.plugin.conftest import apart, entry_points, in_process, modules, project, run

__all__ = ["apart", "entry_points", "in_process", "modules", "project", "run"]
