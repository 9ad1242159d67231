"""The list operations: what they ask, and that their labels are right."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.tasks import load_task
from pbcore.tasks.lists import (
    OPERATIONS,
    by_last_name,
    canvas_room,
    formatted,
    operate,
    people,
    symbols,
)

INDEXED = ("insert_index", "remove_index", "replace_index")
RANDOM = ("insert_random", "remove_random", "replace_random")

lists = st.lists(st.text("abcdefgh", min_size=1, max_size=3), min_size=2, max_size=8, unique=True)


class TestPeople:
    def test_every_name_is_used_once(self) -> None:
        """120 people, and no word is the first or last name of two, or both a first and a last
        name.
        """
        words = [word for person in people() for word in person.split(" ")]
        assert len(people()) == 120
        assert len(words) == len(set(words)) == 240

    def test_names_are_plain_capitalised_words(self) -> None:
        """Each person is two ASCII words with one capital at the start, which the word-level tokens
        need.
        """
        assert all(
            word.isascii() and word.isalpha() and word == word.capitalize()
            for p in people()
            for word in p.split()
        )


class TestSymbols:
    def test_the_new_item_is_not_among_them(self) -> None:
        """F stays free for any length, and the symbols of a list differ."""
        for count in (5, 25, 26, 61):
            assert "F" not in symbols(count)
            assert len(set(symbols(count))) >= count

    def test_short_lists_have_capitals_only(self) -> None:
        """Up to 25 symbols are capitals."""
        assert all(symbol.isupper() for symbol in symbols(25))


class TestOperate:
    """Each operation against its definition in Python."""

    @given(lists)
    def test_fixed_operations(self, items: list[str]) -> None:
        """Copy, reverse and sort are what Python says."""
        assert operate("copy", items, 0, None, ()) == items
        assert operate("reverse", items, 0, None, ()) == items[::-1]
        assert operate("sort", items, 0, None, ()) == sorted(items)

    @given(lists, st.data())
    def test_indexed_operations(self, items: list[str], data: st.DataObject) -> None:
        """Insert, remove and replace do what list.insert, del and assignment do, counted from 0."""
        index = data.draw(st.integers(0, len(items) - 1))
        inserted = items.copy()
        removed = items.copy()
        replaced = items.copy()
        inserted.insert(index, "new")
        del removed[index]
        replaced[index] = "new"
        assert operate("insert_index", items, index, "new", ()) == inserted
        assert operate("remove_index", items, index, None, ()) == removed
        assert operate("replace_index", items, index, "new", ()) == replaced

    def test_sort_is_by_last_name_then_first(self) -> None:
        """The prompt asks for last names; equal ones are in the order of the first names."""
        assert sorted(["Zoe Adams", "Ann Baker", "Bob Adams"], key=by_last_name) == [
            "Bob Adams",
            "Zoe Adams",
            "Ann Baker",
        ]


class TestRoom:
    @pytest.mark.parametrize(
        ("n", "tokens"), [(2, 32), (6, 32), (7, 64), (10, 64), (12, 64), (15, 128), (20, 128)]
    )
    def test_new_tokens(self, n: int, tokens: int) -> None:
        """max(32, next power of two ≥ 5n + 2): 32 up to 6, 64 at 10, 128 at 15 and 20."""
        assert canvas_room(n) == tokens


class TestWaitingLine:
    @pytest.mark.parametrize("operation", OPERATIONS)
    def test_samples_are_balanced_distinct_and_well_formed(self, operation: str) -> None:
        """100 samples, 25 of each length, in turns; no person twice; no question twice; one shot
        before the question.
        """
        task = load_task(f"waiting_line/{operation}", seed=3)
        assert Counter(sample.length for sample in task.samples) == {3: 25, 4: 25, 5: 25, 6: 25}
        assert [sample.length for sample in task.samples[:4]] == [3, 4, 5, 6]
        assert len({sample.prompt for sample in task.samples}) == 100
        for sample in task.samples:
            line = json.loads(sample.input["context"])
            assert len(line) == len(set(line)) == sample.length
            assert set(line) <= set(people())
            assert sample.input.get("word") not in line
            assert [message["role"] for message in sample.messages] == ["user", "assistant", "user"]
            assert sample.max_new_tokens == 32
            assert sample.canvas is None

    @pytest.mark.parametrize("operation", INDEXED)
    def test_indices_cover_the_line(self, operation: str) -> None:
        """An index is a position of the line, from 0; an insertion may also come after its end."""
        last = 0 if operation == "insert_index" else 1
        seen = {
            (s.length, s.input["index"])
            for s in load_task(f"waiting_line/{operation}", limit=400, n=[3, 4]).samples
        }
        assert seen == {(n, index) for n in (3, 4) for index in range(n + 1 - last)}

    @pytest.mark.parametrize("operation", [*INDEXED, "copy", "reverse", "sort"])
    def test_labels_follow_from_the_question(self, operation: str) -> None:
        """The label is the operation's result on the question's values."""
        for sample in load_task(f"waiting_line/{operation}", limit=40).samples:
            asked = sample.input
            expected = operate(
                operation,
                json.loads(asked["context"]),
                asked.get("index", 0),
                asked.get("word"),
                (),
            )
            assert sample.label == formatted(expected)

    @pytest.mark.parametrize("operation", ["shuffle", *RANDOM])
    def test_labels_with_many_answers_have_the_official_layout(self, operation: str) -> None:
        """`input` is the list, `word` the new item where there is one, `example` an answer that
        differs from the input.
        """
        for sample in load_task(f"waiting_line/{operation}", limit=40).samples:
            assert sample.label["input"] == json.loads(sample.input["context"])
            assert sample.label.get("word") == sample.input.get("word")
            assert sample.label["example"] != sample.input["context"]
            assert set(sample.label) - {"word"} == {"input", "example"}

    def test_shots_are_solved_examples_of_the_same_prompt(self) -> None:
        """The shot of a copy question repeats the list it was given, and is another list."""
        for sample in load_task("waiting_line/copy", limit=20).samples:
            shot, answer, question = (message["content"] for message in sample.messages)
            assert answer in shot
            assert answer != sample.answer
            assert shot.replace(answer, str(sample.answer)) == question

    @given(
        n=st.lists(st.integers(2, 60), min_size=1, max_size=4, unique=True),
        seed=st.integers(0, 10**6),
    )
    def test_any_length(self, n: list[int], seed: int) -> None:
        """Any lengths from 2 to 60 take turns, and the canvas grows with each."""
        samples = load_task("waiting_line/replace_random", n=n, seed=seed, limit=2 * len(n)).samples
        assert [sample.length for sample in samples] == 2 * sorted(n)
        assert all(sample.max_new_tokens == canvas_room(sample.length or 0) for sample in samples)


class TestListOps:
    @pytest.mark.parametrize("operation", ["copy", "replace_index", "replace_random", "shuffle"])
    def test_the_canvas_has_one_mask_an_item(self, operation: str) -> None:
        """Brackets, quotes and commas are there already; replacing the masks by the items gives the
        answer.
        """
        for sample in load_task(f"list_ops/{operation}", limit=40).samples:
            answer = json.loads(sample.answer or "")
            assert sample.canvas is not None
            assert sample.canvas.count("[MASK]") == sample.length == len(answer)
            filled = sample.canvas
            for item in answer:
                filled = filled.replace("[MASK]", item, 1)
            assert filled == sample.answer

    def test_items_are_symbols_and_the_new_one_is_f(self) -> None:
        """F is asked for as the new item and is never in the list, for long lists too."""
        for sample in load_task("list_ops/replace_random", n=[5, 30], limit=20).samples:
            assert sample.input["word"] == "F"
            assert "F" not in sample.label["input"]
            assert all(len(item) == 1 for item in sample.label["input"])

    def test_shuffle_includes_the_identity(self) -> None:
        """About half of the labels of two items are the input itself."""
        same = [
            s.answer == s.input["context"]
            for s in load_task("list_ops/shuffle", n=2, limit=100).samples
        ]
        assert 30 <= sum(same) <= 70
