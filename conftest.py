"""Wires the fixtures of this repository; those of cells come with the plugin."""

pytest_plugins = ["pytester", "fixtures.cpu_by_file", "fixtures.grammar", "fixtures.llama"]
