"""Rows in the official layout: a folder of `<group>/<task>.jsonl` files, or one such file of a user's own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pbcore.tasks.generators import Asked, Item
from pbcore.tasks.lists import LIST_GENERATORS
from pbcore.tasks.spec import TaskSpec

Row = tuple[int, Asked]


class RowError(ValueError):
    """A row that can't be read; the message names the file and its line."""


def official_path(spec: TaskSpec, data_dir: Path, lengths: tuple[int, ...] | None) -> Path:
    """Where the official rows of a task lie; other sizes than the usual ones are in files or folders named `…_n15`.

    Raises ValueError for a task or sizes that have no official data, FileNotFoundError for a missing folder or file.
    """
    if spec.official is None:
        raise ValueError(f"{spec.name} has no official data; leave data_dir out")
    if not data_dir.is_dir():
        raise FileNotFoundError(
            f"no folder {data_dir}; give the folder that holds waiting_line/, puzzle/ … as data_dir"
        )
    place = spec.official
    if lengths is not None and not set(lengths) <= set(spec.lengths or ()):
        if len(lengths) > 1:
            usual = list(spec.lengths or ())
            raise ValueError(
                f"{spec.name}: n = {list(lengths)} lies in several official files; give one n, or some of {usual}"
            )
        group, name = place.split("/")
        by_folder = spec.kind in LIST_GENERATORS
        place = (
            f"{group}_n{lengths[0]}/{name}" if by_folder else re.sub(r"(_n\d+)?$", f"_n{lengths[0]}", place, count=1)
        )
    path = data_dir / f"{place}.jsonl"
    if not path.is_file():
        group, name = spec.official.split("/")
        found = sorted(str(file.relative_to(data_dir)) for file in data_dir.glob(f"{group}*/{name}*.jsonl"))
        raise FileNotFoundError(
            f"{spec.name}: no file {path}; of this task {data_dir} holds {', '.join(found) or 'nothing'}"
        )
    return path


def official_rows(spec: TaskSpec, data_dir: Path, lengths: tuple[int, ...] | None) -> Iterator[Row]:
    """The official questions of a task with their row numbers; of some lengths only where `lengths` says so."""
    path = official_path(spec, data_dir, lengths)
    rows = read_rows(path, spec)
    return rows if lengths is None else (row for row in rows if row[1].item.length in lengths)


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
    if length is None and isinstance(label, dict) and isinstance(label.get("words"), list):
        length = len(label["words"])
    if length is not None and type(length) is not int:
        raise ValueError(f"metadata.length {length!r} must be an integer")
    filled = {key: value for key, value in row["input"].items() if key != "icl_examples"}
    return Item(filled, label, "", length)
