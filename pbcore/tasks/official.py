"""Rows in the official layout: a folder of `<group>/<task>.jsonl` files, or a single such file given by the user."""

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
    """An invalid row; the message names the file and the line."""


def official_place(spec: TaskSpec, n: int | None) -> str:
    """The `folder/file` of a task's official rows for one n, or of the default rows (None).

    Lists: the default file holds n = 3 to 6; other lengths are in folders such as `waiting_line_n15/`. Other tasks have one file per n
    (`easy_n3`), including the default n: `easy_n4` and `easy` are different files.
    Raises ValueError for a task without official data.
    """
    if spec.official is None:
        raise ValueError(f"{spec.name} has no official data; omit data_dir")
    group, name = spec.official.split("/")
    if n is None:
        return spec.official
    if spec.kind in LIST_GENERATORS:
        return spec.official if n in (spec.lengths or ()) else f"{group}_n{n}/{name}"
    return f"{group}/{re.sub(r'_n[0-9]+$', '', name)}_n{n}"


def official_rows(spec: TaskSpec, data_dir: Path, lengths: tuple[int, ...] | None) -> Iterable[Row]:
    """The official questions of a task with their numbers, filtered by `lengths` (None: the default file, unfiltered).

    The number is the row's position in its file. If the lengths are in several files, they alternate, smallest first, and are numbered in
    that order. Raises ValueError for a task or an n without official rows, FileNotFoundError for a missing folder or file.
    """
    if lengths is None:
        return read_rows(_file(spec, data_dir, None), spec)
    lengths_of: dict[Path, list[int]] = {}
    for n in lengths:
        lengths_of.setdefault(_file(spec, data_dir, n), []).append(n)
    rows = [row for path, ns in lengths_of.items() for row in read_rows(path, spec) if row[1].item.length in ns]
    by_length = {n: [row for row in rows if row[1].item.length == n] for n in lengths}
    for n, matches in by_length.items():
        if not matches:
            raise ValueError(f"{spec.name}: {_file(spec, data_dir, n)} has no sample with n = {n}; choose another n")
    if len(lengths_of) == 1:
        return rows
    alternating = chain.from_iterable(zip_longest(*by_length.values()))
    return enumerate(question for _, question in filter(None, alternating))


def _file(spec: TaskSpec, data_dir: Path, n: int | None) -> Path:
    place = official_place(spec, n)
    if not data_dir.is_dir():
        raise FileNotFoundError(
            f"no folder {data_dir}; data_dir must be the folder that contains waiting_line/, puzzle/ …"
        )
    path = data_dir / f"{place}.jsonl"
    if not path.is_file():
        group, name = str(spec.official).split("/")
        available = sorted(str(file.relative_to(data_dir)) for file in data_dir.glob(f"{group}*/{name}*.jsonl"))
        raise FileNotFoundError(
            f"{spec.name}: no file {path}; files of this task in {data_dir}: {', '.join(available) or 'none'}"
        )
    return path


def read_rows(path: Path, spec: TaskSpec) -> Iterator[Row]:
    """The questions of a file, one JSON object per line: `input` (the values of the prompt, and `icl_examples`), `answer`, `metadata`.

    Raises FileNotFoundError, or RowError that names file, line and fault.
    """
    if not path.is_file():
        raise FileNotFoundError(
            f"{spec.name}: no file {path}; give the path of a .jsonl file, relative to the tasks file"
        )
    lines = path.read_text(encoding="utf-8").split("\n")
    numbered = [(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not numbered:
        raise RowError(f"{path} has no rows; give one JSON object per line")
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
