"""Scores of lists: the official ones case by case, and what is right or wrong by construction."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbcore.metrics.lists import judge_several
from pbcore.tasks import Sample, Task, load_task
from pbcore.tasks.lists import OPERATIONS, formatted
from pbcore.tasks.scoring import scorer
from tests.reference import reference

TASKS: dict[str, Task] = {
    name: load_task(name, limit=24)
    for name in [
        *(f"waiting_line/{operation}" for operation in OPERATIONS),
        "list_ops/shuffle",
        "list_ops/replace_random",
    ]
}


def right_answers(task: Task, sample: Sample) -> Iterator[list[str]]:
    """Every right answer of a short sample, by the words of the prompt."""
    line = json.loads(sample.input["context"])
    word = sample.input.get("word")
    if task.kind == "shuffle":
        yield from (
            list(p) for p in permutations(line) if list(p) != line or task.category == "list_ops"
        )
    elif task.kind == "insert_random":
        yield from ([*line[:at], word, *line[at:]] for at in range(len(line) + 1))
    elif task.kind == "remove_random":
        yield from ([*line[:at], *line[at + 1 :]] for at in range(len(line)))
    elif task.kind == "replace_random":
        yield from ([*line[:at], word, *line[at + 1 :]] for at in range(len(line)))
    else:
        yield json.loads(sample.label)


@pytest.mark.parametrize("name", ["waiting_line/copy", "list_ops/shuffle"])
def test_a_list_within_thinking_counts(name: str) -> None:
    """As the official code counts it, which reads the last list of the whole text."""
    task = TASKS[name]
    sample = task.samples[0]
    right = json.dumps(next(right_answers(task, sample)))
    for text in (f"<think>I take {right}", f"<think>no</think>{right}", f"<think>[]<think>{right}"):
        assert task.score(text, sample)["accuracy"] == 1
    assert task.score(f"{right}<think>or []", sample)["accuracy"] == 0


class TestGolden:
    def test_every_official_score_agrees(self) -> None:
        """Accuracy and strict accuracy of all list predictions scored by the official benchmark."""
        cases = json.loads(reference("golden", "metric_cases.json").read_text())
        folder = reference("official-v1")
        tasks: dict[str, Task] = {}
        seen = 0
        for case in cases:
            group, _, operation = case["task"].partition("/")
            if not group.startswith("waiting_line"):
                continue
            n = 15 if group.endswith("n15") else None
            if case["task"] not in tasks:
                tasks[case["task"]] = load_task(f"waiting_line/{operation}", data_dir=folder, n=n)
            task = tasks[case["task"]]
            scores = task.score(
                case["prediction"], task.samples[case["index"]], {"accuracy", "accuracy_strict"}
            )
            assert scores == {
                "accuracy": case["score"],
                "accuracy_strict": case["score_strict"],
            }, case
            seen += 1
        assert seen == 2130


class TestRight:
    @pytest.mark.parametrize("name", TASKS)
    def test_every_right_answer_scores_one(self, name: str) -> None:
        """All answers that the prompt allows, enumerated for the short lists."""
        task = TASKS[name]
        for sample in task.samples[:4]:
            for answer in right_answers(task, sample):
                assert set(task.score(formatted(answer), sample).values()) == {1.0}
                assert task.score(", ".join(answer), sample)["accuracy"] == 1
                assert task.score(", ".join(answer), sample)["accuracy_strict"] == 0

    @pytest.mark.parametrize("name", TASKS)
    def test_no_other_arrangement_does(self, name: str) -> None:
        """Of all orders of all choices of people on the shortest line, just the right answers score
        1.
        """
        task = TASKS[name]
        sample = min(task.samples, key=lambda sample: sample.length or 0)
        pool = json.loads(sample.input["context"]) + (
            [sample.input["word"]] if "word" in sample.input else []
        )
        right = {tuple(answer) for answer in right_answers(task, sample)}
        for size in range(1, len(pool) + 1):
            for answer in permutations(pool, size):
                assert task.score(formatted(answer), sample)["accuracy"] == (answer in right)


class TestWrong:
    @pytest.mark.parametrize("name", TASKS)
    @given(number=st.integers(0, 23), data=st.data())
    def test_any_single_corruption_scores_zero(
        self, name: str, number: int, data: st.DataObject
    ) -> None:
        """One item doubled, made unknown, or with the last name of another: wrong, with a kind and
        a reason.
        """
        task = TASKS[name]
        sample = task.samples[number]
        items = json.loads(sample.answer or "")
        at = data.draw(st.integers(0, len(items) - 1))
        corruption = data.draw(st.sampled_from(["double", "unknown", "empty", "case"]))
        changed = {
            "double": [*items[: at + 1], *items[at:]],
            "unknown": [*items[:at], "Zaphod Beeblebrox", *items[at + 1 :]],
            "empty": [],
            "case": [*items[:at], items[at].swapcase(), *items[at + 1 :]],
        }[corruption]
        [scored] = task.score_many([formatted(changed)], [sample])
        kind = {
            "double": "item twice",
            "unknown": "unknown item",
            "empty": "malformed",
            "case": "unknown item",
        }[corruption]
        assert set(scored.scores.values()) == {0.0}
        assert scored.details["failure"] == kind
        assert scored.details["why"]

    @pytest.mark.parametrize(
        ("given", "answer", "repeated"),
        [
            ("A,B,C", '["B", "B", "C"]', {"B": (1, [2, 7])}),
            ("A,B,C", "so: [B, C,B,C ,B]", {"B": (1, [5, 10, 15]), "C": (1, [8, 12])}),
            ("A,B,C", '["B", "B", "X"]', {"B": (1, [2, 7])}),
            ("A,A,B", '["A", "A", "A"]', {"A": (2, [2, 7, 12])}),
            ("A,A,B", '["A", "A", "C"]', {}),
            ("A,B,C", '["C", "A"]', {}),
        ],
    )
    def test_items_that_repeat(
        self, given: str, answer: str, repeated: dict[str, tuple[int, list[int]]]
    ) -> None:
        """Each stands with how often it may, and where it begins, whatever else is wrong."""
        items = given.split(",")
        task = TASKS["waiting_line/shuffle"]
        sample = Sample(task.name, 0, (), {"context": formatted(items)}, {"input": items}, 32)
        [scored] = task.score_many([answer], [sample])
        told = scored.details.get("repeated", [])
        assert {entry["item"]: (entry["allowed"], entry["at"]) for entry in told} == repeated
        for entry in told:
            assert all(answer.startswith(entry["item"], at) for at in entry["at"])

    def test_items_that_repeat_in_one_of_several_lists(self) -> None:
        """They begin where they stand in the whole answer."""
        parts = []
        for items in (["A", "B"], ["C", "D"]):
            parts.append(
                {"task": "list_ops/shuffle", "input": {}, "label": {"input": items}},
            )
        sample = Sample("list_ops/shuffle", 0, (), {}, {"questions": parts}, 32)
        text = '["B", "A"]\n["D", "D"]'
        _, details = judge_several(text, sample)
        assert details["repeated"] == [{"item": "D", "allowed": 1, "at": [13, 18]}]

    @pytest.mark.parametrize(
        ("name", "label", "answer", "failure"),
        [
            ("shuffle", {}, ["A B", "C D", "E F"], "unchanged"),
            ("shuffle", {}, ["C B", "A D", "E F"], "recombined"),
            ("shuffle", {}, ["C D", "A B"], "item missing"),
            ("remove_random", {}, ["A B", "C D", "E F"], "unchanged"),
            ("remove_random", {}, ["A B"], "item missing"),
            ("remove_random", {}, ["C D", "A B"], "wrong order"),
            ("replace_random", {"word": "X Y"}, ["A B", "C D", "E F"], "unchanged"),
            ("replace_random", {"word": "X Y"}, ["X Y", "A B", "C D", "E F"], "extra item"),
            ("replace_random", {"word": "X Y"}, ["C D", "X Y", "E F"], "wrong order"),
            ("insert_random", {"word": "X Y"}, ["A B", "C D", "E F"], "item missing"),
            ("insert_random", {"word": "X Y"}, ["A B", "X Y", "X Y", "C D", "E F"], "item twice"),
        ],
    )
    def test_kinds(self, name: str, label: dict[str, str], answer: list[str], failure: str) -> None:
        """What is wrong is named as a reader would name it."""
        line = ["A B", "C D", "E F"]
        task = TASKS[f"waiting_line/{name}"]
        sample = Sample(
            task.name, 0, (), {"context": formatted(line), **label}, {"input": line, **label}, 32
        )
        [scored] = task.score_many([formatted(answer)], [sample])
        assert scored.scores["accuracy"] == 0
        assert scored.details["failure"] == failure

    @pytest.mark.parametrize("operation", ["insert_index", "remove_index", "replace_index"])
    def test_another_index_is_a_wrong_position(self, operation: str) -> None:
        """Right for another index is its own kind of failure, and the sentence says which index it
        would be.
        """
        task = TASKS[f"waiting_line/{operation}"]
        sample = task.samples[0]
        line = json.loads(sample.input["context"])
        word = sample.input.get("word")
        index = sample.input["index"]
        other = (index + 1) % len(line)
        rest = line[other + (operation != "insert_index") :]
        [scored] = task.score_many(
            [formatted([*line[:other], *([word] if word else []), *rest])], [sample]
        )
        assert scored.details["failure"] == "wrong position"
        assert (
            f"right for position {other}; the question says position {index}"
            in scored.details["why"]
        )

    def test_a_right_answer_without_quotes_says_so(self) -> None:
        """Lenient but not strict: no failure, but a reason."""
        task = TASKS["waiting_line/copy"]
        [scored] = task.score_many(
            [str(task.samples[0].answer).replace('"', "")], [task.samples[0]]
        )
        assert "failure" not in scored.details
        assert "double quotes" in scored.details["why"]


class TestSort:
    def test_as_asked(self) -> None:
        """By last name is right as asked, whatever the official label says; by whole name is right
        officially.
        """
        label = formatted(["Ann Zorn", "Bob Adams"])
        sample = Sample(
            "waiting_line/sort", 0, (), {"context": formatted(["Bob Adams", "Ann Zorn"])}, label, 32
        )
        task = TASKS["waiting_line/sort"]
        official = {
            "accuracy": 1.0,
            "accuracy_strict": 1.0,
            "accuracy_any_layout": 1.0,
            "accuracy_as_asked": 0.0,
        }
        assert task.score(label, sample) == official
        asked = formatted(["Bob Adams", "Ann Zorn"])
        assert task.score(asked, sample) == {name: 1 - score for name, score in official.items()}

    def test_own_labels_are_as_asked(self) -> None:
        """The package's own labels are in the order that the prompt asks for."""
        task = TASKS["waiting_line/sort"]
        assert all(task.score(str(s.answer), s)["accuracy_as_asked"] == 1 for s in task.samples)

    @pytest.mark.parametrize(("n", "in_order"), [(None, 5), (15, 0)])
    def test_official_labels(self, n: int | None, in_order: int) -> None:
        """5 of 100 official labels are in last-name order, and none at n = 15."""
        task = load_task("waiting_line/sort", data_dir=reference("official-v1"), n=n)
        assert (
            sum(task.score(str(s.answer), s)["accuracy_as_asked"] for s in task.samples) == in_order
        )


class TestLabels:
    def test_a_label_that_does_not_fit(self) -> None:
        """A scorer that needs more than the label has names task, sample and what is missing."""
        sample = Sample("waiting_line/shuffle", 7, (), {}, "text", 32)
        with pytest.raises(
            ValueError, match=r"waiting_line/shuffle, sample 7: its scorer needs a label with input"
        ):
            TASKS["waiting_line/shuffle"].score("[]", sample)

    def test_every_sample_needs_its_answer(self) -> None:
        """Fewer answers than samples are an error, not a shorter list of scores."""
        with pytest.raises(ValueError, match="zip"):
            scorer("list_match").score(
                ["[]"], TASKS["waiting_line/copy"].samples[:2], frozenset({"accuracy"})
            )

    def test_unknown_metric(self) -> None:
        """A metric that the task doesn't have is an error that lists those it has."""
        with pytest.raises(
            ValueError,
            match=(
                r"no metric \['bleu'\]; it has \['accuracy', 'accuracy_any_layout',"
                r" 'accuracy_strict'\]"
            ),
        ):
            TASKS["waiting_line/copy"].score("[]", TASKS["waiting_line/copy"].samples[0], {"bleu"})
