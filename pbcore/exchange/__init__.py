"""Rescoring, import of published runs, export to other tools."""
