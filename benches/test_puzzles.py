"""Puzzles: Latin squares and sudokus of size 4 (paper, Section 5, prompts in Table 3)."""

from pbcore.benches.test_puzzles import test_cell

__all__ = ["test_cell"]
