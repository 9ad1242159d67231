"""Names of tasks, `category/name`: the category, the paper's tasks, the short names in node ids.
Reads no data.
"""

from pbcore.tasks.lists import OPERATIONS

# the 17, in the paper's order
PAPER_TASKS = (
    *(f"waiting_line/{operation}" for operation in OPERATIONS),
    "text_writing/summarization",
    "text_writing/paraphrasing",
    "text_writing/w2s_easy",
    "text_writing/w2s_medium",
    "text_writing/w2s_hard",
    "puzzle/latin_square",
    "puzzle/sudoku",
)
# where questions come from: the benchmark's rewrite of 2026 asks many others than v1
REWRITE = "rewrite-2026"


def category(task: str) -> str:
    """`waiting_line` for `waiting_line/shuffle`: the part before the slash."""
    return task.split("/", 1)[0]


def short(task: str) -> str:
    """`shuffle` for `waiting_line/shuffle`; tasks outside the paper keep their full name: short
    names are unique.
    """
    return task.split("/", 1)[1] if task in PAPER_TASKS else task
