"""Wires the fixtures of this repository."""

pytest_plugins = ["fixtures.benchmark", "fixtures.cells", "fixtures.models"]
