"""Runs of pytest in a project, as the plugin's own tests have them."""

from tests.plugin.conftest import apart, in_process, modules, project, run

__all__ = ["apart", "in_process", "modules", "project", "run"]
