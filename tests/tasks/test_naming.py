"""Names of tasks."""

from __future__ import annotations

from pbcore.tasks import all_task_names, task_names, task_spec
from pbcore.tasks.naming import PAPER_TASKS, category, short


class TestNaming:
    """PAPER_TASKS, category and short."""

    def test_the_papers_tasks_are_declared(self) -> None:
        """The 17 are tasks.yaml's, in its order; what is left there are the list operations of
        Section 4.
        """
        assert len(PAPER_TASKS) == 17
        assert task_names() == [name for name in all_task_names() if name in PAPER_TASKS]
        declared = [
            name
            for name in all_task_names()
            if category(name) in ("waiting_line", "text_writing", "puzzle")
        ]
        assert declared == list(PAPER_TASKS)
        assert task_spec("list_ops/copy").category == "list_ops"

    def test_short_names(self) -> None:
        """Only the paper's tasks have short names, so that no two tasks have the same."""
        assert short("waiting_line/shuffle") == "shuffle"
        assert short("waiting_line/mine") == "waiting_line/mine"
        assert short("puzzle/sudoku") == "sudoku"
        assert short("list_ops/shuffle") == "list_ops/shuffle"
        assert len({short(name) for name in all_task_names()}) == len(all_task_names())
