"""Cell names: printed and read."""

from __future__ import annotations

import pytest

from pbcore.grid.cellid import CellText, bracketed, parse_cell_name
from pbcore.tasks import all_task_names
from pbcore.tasks.naming import short


class TestShort:
    def test_the_papers_tasks_go_by_their_last_part(self) -> None:
        """`waiting_line/shuffle` is `shuffle`, while `list_ops/shuffle` keeps its category, so that
        ids stay unique.
        """
        assert short("waiting_line/shuffle") == "shuffle"
        assert short("list_ops/shuffle") == "list_ops/shuffle"

    def test_no_two_tasks_share_a_short_name(self) -> None:
        """All tasks that ship with the package have different ids."""
        names = [short(task) for task in all_task_names()]
        assert len(names) == len(set(names)) > 20


class TestParse:
    @pytest.mark.parametrize(
        "model",
        [
            *("tiny", "llada-1.5", "GSAI-ML/LLaDA-1.5", "../runs/my/model", "dream:dummy-l2"),
            *("m\u00fc[1]", "two\nlines", "a\\x0a\\\n\u2028", "C:\\new\\u12ab", "bytes \udcff"),
        ],
    )
    @pytest.mark.parametrize(
        "task", ["waiting_line/shuffle", "list_ops/shuffle", "text_writing/w2s_easy"]
    )
    @pytest.mark.parametrize("sample", [None, 17])
    def test_a_printed_name_is_read_back(self, model: str, task: str, sample: int | None) -> None:
        """Reading what was printed gives the same cell, whatever the model's name holds."""
        name = CellText(model, task, "confidence-k2+b8", sample)
        assert len(name.item_id.splitlines()) == 1
        assert parse_cell_name(name.item_id, all_task_names()) == name

    @pytest.mark.parametrize(
        "text", ["tiny", "tiny/shuffle", "tiny/nothing/random-k2", "shuffle/random-k2", "3/17"]
    )
    def test_what_names_no_cell_is_refused(self, text: str) -> None:
        """A text without a known task before the sampler."""
        assert parse_cell_name(text, all_task_names()) is None


class TestBracketed:
    def test_only_brackets_with_two_slashes_count(self) -> None:
        """Parametrized tests that are no cells are told apart."""
        assert (
            bracketed("benches/test_a.py::test_cell[tiny/shuffle/random-k2]")
            == "tiny/shuffle/random-k2"
        )
        assert bracketed("a[0]/test_a.py::Test::test_b[a[1]/copy/ar]") == "a[1]/copy/ar"
        assert bracketed("tests/test_a.py::test_b[1-2]") is None
        assert bracketed("tests/test_a.py::test_b") is None
