"""Waiting line: ten operations on a list of people (paper, Section 5, prompts in Table 3)."""

from pbcore.benches.test_waiting_line import test_cell

__all__ = ["test_cell"]
