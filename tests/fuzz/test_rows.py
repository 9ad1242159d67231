"""Rows of questions: read as they stand and scored without a fault, or refused in one line that
names file and line.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pbcore.tasks import Sample, load_task, task_spec
from pbcore.tasks.official import RowError
from pbcore.tasks.scoring import scorer
from tests.fuzz.damage import damaged_bytes, damaged_text, damaged_value
from tests.fuzz.outcomes import COUNTS, Silent, fuzz
from tests.fuzz.test_scorers import MEASURED_ELSEWHERE

TASKS = [
    "waiting_line/copy",
    "waiting_line/sort",
    "waiting_line/shuffle",
    "waiting_line/insert_index",
    "waiting_line/replace_random",
    "waiting_line/remove_random",
    "puzzle/latin_square",
    "puzzle/sudoku",
    "text_writing/w2s_easy",
    "text_writing/summarization",
    "text_writing/paraphrasing",
]
Given = tuple[str, int, bytes]


@cache
def samples(name: str) -> tuple[Sample, ...]:
    return load_task(name, limit=4).samples


def official(name: str, number: int) -> dict[str, Any]:
    """A row in the official layout."""
    sample = samples(name)[number]
    shot = samples(name)[number - 1]
    shots = [{"input": dict(shot.input), "answer": shot.label}] if len(sample.messages) > 1 else []
    return {
        "input": {**sample.input, **({"icl_examples": shots} if shots else {})},
        "answer": sample.label,
        "metadata": {"length": sample.length},
    }


def rows(random: Random, row: Any) -> Given:
    """Three rows of a task, the one at a random place damaged in its values, its text or its
    bytes.
    """
    name = random.choice(TASKS)
    at = random.randrange(3)
    lines = [json.dumps(row(name, number)).encode() for number in range(3)]
    if random.random() < 0.6:
        value = damaged_value(random, row(name, at))
        lines[at] = json.dumps(value, ensure_ascii=random.random() < 0.5).encode(
            "utf-8", "surrogatepass"
        )
    elif random.random() < 0.5:
        lines[at] = damaged_text(random, lines[at].decode()).encode("utf-8", "surrogatepass")
    else:
        lines[at] = damaged_bytes(random, lines[at].decode())
    return name, at, b"\n".join(lines)


def check(folder: Path, place: str, given: Given) -> None:
    """What is read can be scored with the label, an empty and an odd answer; what is refused names
    the line that was damaged.
    """
    name, at, data = given
    path = folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    try:
        task = load_task(name, data_dir=folder)
    except RowError as error:
        told = re.match(rf"{re.escape(str(path))}, line (\d+): ", str(error))
        if told is None or not at < int(told[1]) <= 1 + data.count(b"\n"):
            raise Silent(f"neither file nor line in: {error}") from error
        raise
    finally:
        path.unlink()
    if data.count(b"\n") == 2 and len(task.samples) != sum(
        1 for line in data.split(b"\n") if line.strip()
    ):
        raise Silent("a row was lost")
    metrics = frozenset(scorer(task.scorer).metrics) - MEASURED_ELSEWHERE
    for sample in task.samples:
        assert all(isinstance(message["content"], str) for message in sample.messages)
        for answer in (str(sample.answer), "", "[x\ud800"):
            [scored] = task.score_many([answer], [sample], metrics)
            assert all(0 <= score <= 1 for score in scored.scores.values())


@pytest.mark.parametrize("count", COUNTS)
class TestRows:
    def test_official(self, tmp_path: Path, count: int) -> None:
        """Rows of lists, puzzles and texts in the official layout."""

        def checked(given: Given) -> None:
            check(tmp_path, f"{task_spec(given[0]).official}.jsonl", given)

        fuzz("official rows", count, lambda random: rows(random, official), checked, RowError)
