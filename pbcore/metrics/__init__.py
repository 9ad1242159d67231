"""Scores of answers. Importing this package registers every scorer under the name that tasks
give.
"""

from pbcore.metrics import lists, puzzles, text

__all__ = ["lists", "puzzles", "text"]
