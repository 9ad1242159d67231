"""Wires the fixtures of this repository; those of cells come with the plugin."""

pytest_plugins = ["pytester", "fixtures.grammar", "fixtures.llama"]
