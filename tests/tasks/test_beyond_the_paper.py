"""Several questions on one canvas, and walks on a graph: their samples, and how answers to them are
scored.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from pbcore.base.errors import InputError
from pbcore.tasks import add_tasks_file, load_task
from pbcore.tasks.lists import MASK, OPERATIONS, QUESTION_GENERATORS, _draw_several
from pbcore.tasks.puzzles import WALK_GENERATORS, graph


@pytest.mark.parametrize("k", [1, 2, 4, 8])
@pytest.mark.parametrize("operation", ["shuffle", "replace_random"])
def test_questions_have_different_people_and_their_examples_score_1(operation: str, k: int) -> None:
    """k lists on one canvas of k times one question's room."""
    task = load_task(f"questions/{operation}-x{k}", limit=5)
    for sample in task.samples:
        parts = sample.label["questions"]
        people = [person for part in parts for person in part["label"]["input"]]
        assert len(parts) == k
        assert len(set(people)) == len(people) == 4 * k
        assert sample.max_new_tokens == 32 * k
        assert task.score(str(sample.answer), sample) == {"accuracy": 1, "accuracy_all": 1}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_list_operation_can_be_asked(operation: str) -> None:
    """A tasks file may ask any of them, insert_index with its position and new person."""
    item = _draw_several(Random(0), 4, {"operation": operation, "questions": 3})
    assert item.input["context"].count("\n") == 2
    assert len(item.label["questions"]) == 3
    assert ("new person" in item.input["context"]) == operation.startswith(("insert", "replace"))


def test_each_question_counts_and_an_extra_list_does_not_pass() -> None:
    """One wrong list of two is half; the details name it."""
    task = load_task("questions/shuffle-x2", limit=1)
    sample = task.samples[0]
    first, second = str(sample.answer).split("\n")
    unchanged = (
        "["
        + ", ".join(f'"{name}"' for name in sample.label["questions"][1]["label"]["input"])
        + "]"
    )
    wrong = task.score_many([f"{first}\n{unchanged}"], [sample])[0]
    assert wrong.scores == {"accuracy": 0.5, "accuracy_all": 0}
    assert wrong.details["wrong"] == [2]
    assert task.score(first, sample) == {"accuracy": 0.5, "accuracy_all": 0}
    assert task.score(f"{second}\n{first}", sample)["accuracy"] == 0
    assert task.score(f"{first}\n{second}\n{first}", sample) == {"accuracy": 1, "accuracy_all": 0}


def test_a_walk_is_judged_by_start_length_and_edges() -> None:
    """The example scores 1; each fault has its name."""
    task = load_task("walk/graph", limit=3)
    for sample in task.samples:
        walk = str(sample.answer)
        assert task.score(walk, sample) == {"accuracy": 1, "edges": 1}
        assert sample.canvas == walk[0] + MASK * 15
        assert task.score(",".join(walk), sample)["accuracy"] == 1
        faults = {
            "wrong length": walk[:-1],
            "wrong start": walk[1] + walk[:-1],
            "no edge": walk[0] * 16,
        }
        for fault, text in faults.items():
            assert task.score_many([text], [sample])[0].details["failure"] == fault
        assert task.score(walk[0] * 16, sample)["edges"] == 0


def test_samples_share_the_graph_under_other_names() -> None:
    """So that answers to all of them tell one kernel."""
    samples = load_task("walk/graph", limit=10).samples
    assert len({str(sample.label["edges"]) for sample in samples}) == 1
    assert len({sample.label["nodes"] for sample in samples}) > 5
    assert len({sample.prompt for sample in samples}) == 10


@pytest.mark.parametrize("nodes", [2, 5, 10])
def test_graphs_are_connected(nodes: int) -> None:
    """From node 0 every node is reached; the number of edges is as asked."""
    edges = graph(nodes, nodes - 1 if nodes == 2 else nodes + 1, 3)
    reached = {0}
    for _ in range(nodes):
        reached |= {end for edge in edges if reached & set(edge) for end in edge}
    assert reached == set(range(nodes))


@pytest.mark.parametrize(
    ("generator", "settings"),
    [
        (QUESTION_GENERATORS["questions"], {"operation": "juggle", "questions": 2}),
        (QUESTION_GENERATORS["questions"], {"operation": "copy", "questions": 0}),
        (WALK_GENERATORS["walk"], {"nodes": 11, "edges": 12, "graph": 0, "infill": True}),
        (WALK_GENERATORS["walk"], {"nodes": 4, "edges": 2, "graph": 0, "infill": True}),
        (WALK_GENERATORS["walk"], {"nodes": 4, "edges": 4, "graph": "a", "infill": True}),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(
    generator: object, settings: dict[str, object]
) -> None:
    """With the allowed values in the message."""
    with pytest.raises(InputError, match="settings"):
        generator.check(settings)  # type: ignore[attr-defined]


def test_too_many_edges_are_refused_with_their_nodes(tmp_path: Path) -> None:
    """The range depends on the nodes, so the message names them."""
    file = tmp_path / "tasks.yaml"
    keys = "generator: walk, lengths: [4], prompt: q, scorer: walk, max_new_tokens: 32"
    file.write_text(f"mine/walk: {{{keys}, settings: {{nodes: 4, edges: 7}}}}\n")
    with pytest.raises(
        InputError, match=r"settings\.edges 7; give an integer from 3 to 6 for 4 nodes"
    ):
        add_tasks_file(file)
