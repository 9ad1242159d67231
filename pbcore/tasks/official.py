"""Rows in the official layout: a folder of `<group>/<task>.jsonl` files, or a single such file
given by the user.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, zip_longest
from os.path import isfile  # unlike Path.is_file, it takes a name of any length
from pathlib import Path
from string import Formatter
from typing import Any

from pbcore.base.check import wrong
from pbcore.base.errors import InputError
from pbcore.base.printable import printable
from pbcore.tasks.files import UnreadableFile, check_value, read_json_lines
from pbcore.tasks.generators import Question, ShotQuestion
from pbcore.tasks.lists import LIST_GENERATORS
from pbcore.tasks.spec import TaskSpec

OfficialRow = tuple[int, ShotQuestion]

MOST_LENGTH = 10_000  # of rows of tasks without an n of their own
# The parts of a label that each scorer needs; none: the label is one text.
LABELS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("list_match", "list_sort", "sudoku"), ()),
    **dict.fromkeys(("list_shuffle", "list_permutation", "list_remove_random"), ("input",)),
    **dict.fromkeys(("list_insert_random", "list_replace_random"), ("input", "word")),
    "latin_square": ("symbols",),
    "words_to_sentence": ("words",),
    "summarization": ("summary",),
    "paraphrasing": ("text",),
}
TEXT = "a text"
TEXTS = "a list of texts"
FIELDS = {
    **dict.fromkeys(("input", "symbols", "words"), TEXTS),
    **dict.fromkeys(("word", "example", "summary", "text"), TEXT),
    "examples": f"{TEXT} or {TEXTS}",
}
_SUDOKU = re.compile(r"([1-4]{4}\n){3}[1-4]{4}\n?")


class RowError(InputError):
    """An invalid row; the message names the file and the line."""


def official_place(spec: TaskSpec, n: int | None) -> str:
    """The `folder/file` of a task's official rows for one n, or of the default rows (None).

    Lists: the default file holds n = 3 to 6; other lengths are in folders such as
    `waiting_line_n15/`. Other tasks have one file per n (`easy_n3`), including the default n:
    `easy_n4` and `easy` are different files. Raises InputError for a task without official data.
    """
    if spec.official is None:
        raise InputError(f"{spec.name} has no official data; omit data_dir")
    group, name = spec.official.split("/")
    if n is None:
        return spec.official
    if spec.kind in LIST_GENERATORS:
        return spec.official if n in (spec.lengths or ()) else f"{group}_n{n}/{name}"
    return f"{group}/{re.sub(r'_n[0-9]+$', '', name)}_n{n}"


def official_rows(
    spec: TaskSpec, data_dir: Path, lengths: tuple[int, ...] | None
) -> Iterable[OfficialRow]:
    """The official questions of a task with their numbers.

    A number is the row's position in its file. If the lengths are in several files, they alternate,
    smallest first, and are numbered in that order.

    Args:
        spec: the task.
        data_dir: a folder in the official layout.
        lengths: the lengths to keep; None: the default file, unfiltered.

    Raises:
        InputError: for a task or an n without official rows.
        FileNotFoundError: for a missing folder or file.
    """
    if lengths is None:
        return read_rows(_file(spec, data_dir, None), spec)
    lengths_of: dict[Path, list[int]] = {}
    for n in lengths:
        lengths_of.setdefault(_file(spec, data_dir, n), []).append(n)
    rows = []
    for path, wanted in lengths_of.items():
        rows += [row for row in read_rows(path, spec) if row[1].item.length in wanted]
    by_length = {n: [row for row in rows if row[1].item.length == n] for n in lengths}
    for n, matches in by_length.items():
        if not matches:
            raise InputError(
                f"{spec.name}: {_file(spec, data_dir, n)} has no sample with n = {n}; choose"
                " another n"
            )
    if len(lengths_of) == 1:
        return rows
    alternating = chain.from_iterable(zip_longest(*by_length.values()))
    return enumerate(question for _, question in filter(None, alternating))


def _file(spec: TaskSpec, data_dir: Path, n: int | None) -> Path:
    place = official_place(spec, n)
    if not data_dir.is_dir():
        raise FileNotFoundError(
            f"no folder {data_dir}; data_dir must be the folder that contains waiting_line/,"
            " puzzle/ …"
        )
    path = data_dir / f"{place}.jsonl"
    if not path.is_file():
        group, name = str(spec.official).split("/")
        available = sorted(
            str(file.relative_to(data_dir)) for file in data_dir.glob(f"{group}*/{name}*.jsonl")
        )
        raise FileNotFoundError(
            f"{spec.name}: no file {path}; files of this task in {data_dir}:"
            f" {', '.join(available) or 'none'}"
        )
    return path


def read_rows(path: Path, spec: TaskSpec) -> Iterator[OfficialRow]:
    """The questions of a file, one JSON object per line: `input` (the values of the prompt, and
    `icl_examples`), `answer`, `metadata`. Raises FileNotFoundError, or RowError that names file,
    line, field, the given value and the allowed ones.
    """
    if not isfile(path):
        raise FileNotFoundError(
            f"{spec.name}: no file {printable(str(path))}; give the path of a .jsonl file, relative"
            " to the tasks file"
        )
    index = -1
    try:
        for index, (number, row) in enumerate(read_json_lines(path)):
            place = f"{path}, line {number}"
            yield index, _question(row, spec, place)
    except UnreadableFile as error:
        raise RowError(str(error)) from None
    if index < 0:
        raise RowError(f"{path} has no rows; give one JSON object per line")


def own_rows(spec: TaskSpec) -> Iterator[OfficialRow]:
    """The questions of a user's task that has its own: of its file, or as they were given in
    Python. Raises as `read_rows`.
    """
    if spec.rows is not None:
        yield from read_rows(spec.rows, spec)
    for index, row in enumerate(spec.questions or ()):
        yield index, _question(row, spec, f"{spec.name}, question {index}")


def _question(row: Any, spec: TaskSpec, place: str) -> ShotQuestion:
    try:
        item = _item(row, spec)
        check_label(row["answer"], spec)
        examples = row["input"].get("icl_examples", [])
        if not isinstance(examples, list):
            raise wrong("input.icl_examples", examples, "a list of rows")
        question = ShotQuestion(item, tuple(_item(example, spec) for example in examples))
        spec.messages(question.item, question.shots)
    except KeyError as error:
        raise RowError(f"{place}: the prompt needs {error}, which the input lacks") from None
    except ValueError as error:
        raise RowError(f"{place}: {error}") from None
    return question


def _item(row: Any, spec: TaskSpec) -> Question:
    if not isinstance(row, dict):
        raise wrong("the row", row, "an object with input and answer")
    given = row_field(row, "input", dict, "an object with the values of the prompt")
    label = row_field(row, "answer", (str, dict), "a text or an object")
    metadata = row_field(
        {"metadata": None, **row}, "metadata", (dict, type(None)), "an object, or omit it"
    )
    values = {key: value for key, value in given.items() if key != "icl_examples"}
    _check_values(values, spec)
    _check_parts(label, spec)
    return Question(values, label, "", row_length(label, metadata or {}, spec))


def row_length(label: Any, metadata: Mapping[str, Any], spec: TaskSpec) -> int | None:
    """The n of a row: its number of words, as the official files of single words give 3; else
    `metadata.length`.

    Args:
        label: the row's label.
        metadata: the row's metadata.
        spec: the task.
    """
    name = "metadata.length"
    length = metadata.get("length")
    if isinstance(label, dict) and isinstance(label.get("words"), list):
        name = "the number of words"
        length = len(label["words"])
    allowed = (
        spec.generator.lengths
        if spec.generator and spec.generator.lengths
        else range(MOST_LENGTH + 1)
    )
    if length is not None:
        check_value(name, length, allowed)
    return length


def _check_values(values: Mapping[str, Any], spec: TaskSpec) -> None:
    for name in sorted(
        {name for _, name, _, _ in Formatter().parse(spec.prompt) if name and name in values}
    ):
        value = values[name]
        if type(value) not in (str, int, float):
            raise wrong(f"input.{name}", value, "a text or a number")
        if spec.generator is None:
            continue
        number = name in ("index", "size")
        if type(value) is not (int if number else str):
            raise wrong(f"input.{name}", value, "an integer" if number else "a text")
        if name == "context" and not _is_list(str(value)):
            raise wrong("input.context", value, 'a list of texts as text, such as ["A B", "C D"]')
        if name == "sudoku" and not re.fullmatch(r"([0-4]{4}\n){3}[0-4]{4}\n?", str(value)):
            raise wrong("input.sudoku", value, "four lines of four digits from 0 to 4")


def _is_list(text: str) -> bool:
    try:
        items = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(items, list) and all(isinstance(item, str) for item in items)


def check_label(label: Any, spec: TaskSpec) -> None:
    """Raises InputError for a label without what the task's scorer needs. Scorers of users check
    their labels themselves.
    """
    _check_parts(label, spec)
    needed = LABELS.get(spec.scorer)
    if needed == () and not isinstance(label, str):
        raise wrong("answer", label, f"a text, which the scorer {spec.scorer} needs")
    if spec.scorer == "sudoku" and not _SUDOKU.fullmatch(label):
        raise wrong("answer", label, "four lines of four digits from 1 to 4")
    if needed and not (isinstance(label, dict) and set(needed) <= set(label)):
        raise wrong(
            "answer",
            label,
            f"an object with {' and '.join(needed)}, which the scorer {spec.scorer} needs",
        )


def _check_parts(label: Any, spec: TaskSpec) -> None:
    if not isinstance(label, dict) or spec.scorer not in LABELS:
        return
    for key in FIELDS.keys() & label.keys():
        value = label[key]
        allowed = FIELDS[key]
        texts = (
            isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)
        )
        if not (isinstance(value, str) and allowed != TEXTS) and not (texts and allowed != TEXT):
            raise wrong(f"answer.{key}", value, allowed)


def row_field(
    row: Mapping[str, Any], name: str, types: type | tuple[type, ...], allowed: str
) -> Any:
    """One field of a row.

    Args:
        name: the field.
        types: the types that it may have.
        allowed: what is allowed, as a phrase for the error.

    Raises:
        ValueError: if it is missing or has another type.
    """
    if name not in row:
        raise InputError(f"{name} is missing; give {allowed}")
    if not isinstance(row[name], types):
        raise wrong(name, row[name], allowed)
    return row[name]
