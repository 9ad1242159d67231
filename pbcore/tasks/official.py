"""Rows in the official layout: a folder of `<group>/<task>.jsonl` files, or one such file of a user's own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any

from pbcore.tasks.generators import Asked, Item
from pbcore.tasks.lists import LIST_GENERATORS
from pbcore.tasks.spec import TaskSpec

Row = tuple[int, Asked]


class RowError(ValueError):
    """A row that can't be read; the message names the file and its line."""


def official_place(spec: TaskSpec, n: int | None) -> str:
    """The `folder/file` of a task's official rows of one n, or of the usual ones (None).

    Lists: the usual file holds the usual lengths, other n are in `waiting_line_n15/`. All else: each n has a file of its own
    (`easy_n3`), also where it is the usual number: `easy_n4` is another file than `easy`.
    Raises ValueError for a task without official data.
    """
    if spec.official is None:
        raise ValueError(f"{spec.name} has no official data; leave data_dir out")
    group, name = spec.official.split("/")
    if n is None:
        return spec.official
    if spec.kind in LIST_GENERATORS:
        return spec.official if n in (spec.lengths or ()) else f"{group}_n{n}/{name}"
    return f"{group}/{re.sub(r'_n[0-9]+$', '', name)}_n{n}"


def official_rows(spec: TaskSpec, data_dir: Path, lengths: tuple[int, ...] | None) -> Iterable[Row]:
    """The official questions of a task, numbered; of some lengths only where `lengths` says so.

    The number is the row's in its file. Where the lengths lie in several files they take turns, smallest first, and are numbered
    in that order. Raises ValueError for a task or an n that has no official rows, FileNotFoundError for a missing folder or file.
    """
    if lengths is None:
        return read_rows(_file(spec, data_dir, None), spec)
    wanted: dict[Path, list[int]] = {}
    for n in lengths:
        wanted.setdefault(_file(spec, data_dir, n), []).append(n)
    rows = [row for path, some in wanted.items() for row in read_rows(path, spec) if row[1].item.length in some]
    by_length = {n: [row for row in rows if row[1].item.length == n] for n in lengths}
    for n, found in by_length.items():
        if not found:
            raise ValueError(f"{spec.name}: {_file(spec, data_dir, n)} holds no sample of n = {n}; ask for another n")
    if len(wanted) == 1:
        return rows
    turns = chain.from_iterable(zip_longest(*by_length.values()))
    return enumerate(asked for _, asked in filter(None, turns))


def _file(spec: TaskSpec, data_dir: Path, n: int | None) -> Path:
    place = official_place(spec, n)
    if not data_dir.is_dir():
        raise FileNotFoundError(
            f"no folder {data_dir}; give the folder that holds waiting_line/, puzzle/ … as data_dir"
        )
    path = data_dir / f"{place}.jsonl"
    if not path.is_file():
        group, name = str(spec.official).split("/")
        found = sorted(str(file.relative_to(data_dir)) for file in data_dir.glob(f"{group}*/{name}*.jsonl"))
        raise FileNotFoundError(
            f"{spec.name}: no file {path}; of this task {data_dir} holds {', '.join(found) or 'nothing'}"
        )
    return path


def read_rows(path: Path, spec: TaskSpec) -> Iterator[Row]:
    """The questions of a file, one JSON object a line: `input` with what fills the prompt (and `icl_examples`), `answer`, `metadata`.

    Raises FileNotFoundError, or RowError naming file, line and what is wrong.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"{spec.name}: no file {path}; give the path of a .jsonl file, relative to the tasks file"
        )
    lines = path.read_text(encoding="utf-8").splitlines()
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not numbered:
        raise RowError(f"{path} has no rows; give one JSON object a line")
    for index, (number, line) in enumerate(numbered):
        try:
            asked = _asked(json.loads(line), spec)
        except (ValueError, KeyError, TypeError) as error:
            said = f"the prompt needs {error}, which the input lacks" if isinstance(error, KeyError) else str(error)
            raise RowError(f"{path}, line {number}: {said}") from None
        yield index, asked


def _asked(row: Any, spec: TaskSpec) -> Asked:
    item = _item(row)
    examples = row["input"].get("icl_examples", [])
    if not isinstance(examples, list):
        raise ValueError("icl_examples must be a list of rows")
    asked = Asked(item, tuple(_item(example) for example in examples))
    spec.messages(asked.item, asked.shots)
    return asked


def _item(row: Any) -> Item:
    """One row, or one of its examples, checked."""
    for key, types, wanted in (("input", dict, "an object"), ("answer", (str, dict), "a text or an object")):
        if not isinstance(row, dict) or not isinstance(row.get(key), types):
            raise ValueError(f"a row needs {key}: {wanted}")
    label, metadata = row["answer"], row.get("metadata") or {}
    length = metadata.get("length") if isinstance(metadata, Mapping) else None
    if isinstance(label, dict) and isinstance(label.get("words"), list):
        length = len(label["words"])  # the official files of single words say 3
    if length is not None and type(length) is not int:
        raise ValueError(f"metadata.length {length!r} must be an integer")
    filled = {key: value for key, value in row["input"].items() if key != "icl_examples"}
    return Item(filled, label, "", length)
