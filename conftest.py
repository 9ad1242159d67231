"""Wires the fixtures of this repository."""

pytest_plugins = [
    "pytester",
    "fixtures.benchmark",
    "fixtures.cells",
    "fixtures.grammar",
    "fixtures.llama",
    "fixtures.models",
]
