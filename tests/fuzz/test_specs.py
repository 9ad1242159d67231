"""Tasks files: every one is read as it stands, or refused in one line that names the file, and the
task if it has a name.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
import yaml

from pbcore.base.errors import InputError
from pbcore.tasks import add_tasks_file, load_task, registry, task_spec
from pbcore.tasks.spec import GENERATORS
from tests.fuzz.damage import damaged_bytes, damaged_text, damaged_value, noise
from tests.fuzz.outcomes import COUNTS, Silent, fuzz

LISTS: dict[str, Any] = {
    "kitchen/reverse": {
        "generator": "reverse",
        "settings": {"items": ["salt", "pepper", "basil", "thyme", "cumin", "clove"]},
        "scorer": "list_match",
        "headline": "accuracy_strict",
        "shots": 1,
        "lengths": [3, 4],
        "samples": 10,
        "max_new_tokens": 32,
        "prompt": "Reverse: {context}",
    },
}
OTHERS: dict[str, Any] = {
    "kitchen/insert": {
        "generator": "insert_index",
        "settings": {"word": "Zoe", "items": "people", "infill": False},
        "scorer": "list_match",
        "lengths": [3],
        "max_new_tokens": 32,
        "prompt": "Put {word} at {index}: {context}",
        "official": "waiting_line/insert_index",
    },
    "kitchen/flags": {
        "samples": "flags.jsonl",
        "scorer": "list_match",
        "max_new_tokens": 16,
        "prompt": "Colours of {country}?",
    },
    "kitchen/square": {
        "generator": "latin_square",
        "scorer": "latin_square",
        "lengths": [4],
        "max_new_tokens": 64,
        "prompt": "{size}: {symbols}",
    },
    "kitchen/sudoku": {
        "generator": "sudoku",
        "scorer": "sudoku",
        "max_new_tokens": 64,
        "prompt": "Solve {sudoku}",
    },
    "kitchen/words": {
        "generator": "words_to_sentence",
        "settings": {"difficulty": "easy"},
        "scorer": "words_to_sentence",
        "lengths": [1, 3],
        "max_new_tokens": 64,
        "prompt": "Use {words}",
        "prompt_single": "Use the word {words}",
    },
}
FLAGS = [{"input": {"country": "France"}, "answer": '["blue", "white", "red"]'}]


def tasks_text(random: Random) -> str | bytes:
    """A tasks file with damage to its values, its text or its bytes."""
    first = random.choice([*OTHERS, *LISTS] if random.random() < 0.7 else list(LISTS))
    tasks = {
        name: entry
        for name, entry in {**OTHERS, **LISTS}.items()
        if name == first or random.random() < 0.1
    }
    how = random.randrange(20)
    if how == 0:
        return noise(random)
    if how < 12:
        tasks = damaged_value(random, tasks)
    text = yaml.safe_dump(
        tasks,
        allow_unicode=random.random() < 0.5,
        sort_keys=False,
        default_flow_style=random.random() < 0.3,
    )
    if 12 <= how < 16:
        return damaged_text(random, text)
    return damaged_bytes(random, text) if how >= 16 else text


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "flags.jsonl").write_text("".join(json.dumps(row) + "\n" for row in FLAGS))
    return tmp_path / "my.yaml"


def check(file: Path, given: str | bytes) -> None:
    data = given if isinstance(given, bytes) else given.encode("utf-8", "surrogatepass")
    file.write_bytes(data)
    registry._ADDED.clear()
    try:
        names = add_tasks_file(file)
    except (InputError, FileNotFoundError) as error:
        if not re.search(r"my\.yaml|no file |, line \d+: ", str(error)):
            raise Silent(f"neither file nor line in: {error}") from error
        raise
    declared = yaml.safe_load(data.decode("utf-8-sig"))
    assert names == list(map(str, declared))
    for name in names:
        entry = declared[name]
        spec = task_spec(name)
        for key in (
            "scorer",
            "prompt",
            "max_new_tokens",
            "headline",
            "shots",
            "official",
            "prompt_single",
        ):
            if key in entry and getattr(spec, key) != entry[key]:
                raise Silent(f"{key} {entry[key]!r} became {getattr(spec, key)!r}")
        if not all(spec.settings[key] == value for key, value in entry.get("settings", {}).items()):
            raise Silent(f"settings {entry['settings']!r} became {spec.settings!r}")
        assert spec.kind in GENERATORS or spec.rows is not None
        samples = load_task(name, limit=2).samples
        assert all(isinstance(sample.prompt, str) for sample in samples)


@pytest.mark.parametrize("count", COUNTS)
def test_specs(file: Path, count: int) -> None:
    """Damaged tasks files of every kind of generator, and of rows."""
    fuzz(
        "specs",
        count,
        tasks_text,
        lambda given: check(file, given),
        (InputError, FileNotFoundError),
    )
