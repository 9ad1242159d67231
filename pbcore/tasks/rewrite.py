"""A run folder of the benchmark's 2026 rewrite as data: its samples files contain every question verbatim, with its label.

The rewrite's questions differ from v1's (blank lines in list prompts; many new lists, sudokus and texts), so its scores are comparable
only with answers to the same questions. A folder is `<model>/<method>/<param>/<date>_all/` with `samples_parallelbench_<task>.jsonl`.
"""

from __future__ import annotations

import json
import re
import string
from functools import cache
from pathlib import Path
from typing import Any

from pbcore.tasks.base import Message, Sample
from pbcore.tasks.lists import OPERATIONS, formatted
from pbcore.tasks.official import RowError
from pbcore.tasks.spec import TaskSpec

SOURCE = "rewrite-2026"
NAMES = {
    **{f"waiting_line/{operation}": f"waiting_line_{operation}" for operation in OPERATIONS},
    **{f"text_writing/w2s_{level}": f"text_writing_words_to_sentence_{level}" for level in ("easy", "medium", "hard")},
    "text_writing/summarization": "text_writing_summarization",
    "text_writing/paraphrasing": "text_writing_paraphrasing",
    "puzzle/latin_square": "puzzles_latin_square_n4",
    "puzzle/sudoku": "puzzles_sudoku_n4",
}
_PREFIX = "samples_parallelbench_"
_ROLES = ("system", "user", "assistant")


def is_run_folder(folder: Path) -> bool:
    """Whether a folder contains samples files of the rewrite."""
    return any(folder.glob(f"{_PREFIX}*.jsonl"))


def rewrite_samples(spec: TaskSpec, folder: Path, lengths: tuple[int, ...] | None) -> list[Sample]:
    """The questions of a task in a run folder, in the order of their `doc_id`, which is their number, filtered by `lengths`.

    The answers of that run are not read. Raises FileNotFoundError if the folder has no file of the task, RowError that names file and
    line for an invalid row, and ValueError for an n without rows.
    """
    if spec.name not in NAMES:
        raise ValueError(f"{spec.name} is not a task of the rewrite; omit data_dir")
    path = folder / f"{_PREFIX}{NAMES[spec.name]}.jsonl"
    if not path.is_file():
        available = sorted(file.stem.removeprefix(_PREFIX) for file in folder.glob(f"{_PREFIX}*.jsonl"))
        raise FileNotFoundError(f"{spec.name}: no file {path}; the folder has samples of {', '.join(available)}")
    samples: dict[int, Sample] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
        if not line.strip():
            continue
        try:
            sample = _sample(spec, json.loads(line))
            if sample.index in samples:
                raise ValueError(f"doc_id {sample.index} occurs twice")
        except (ValueError, KeyError, TypeError) as error:
            fault = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise RowError(f"{path}, line {number}: {fault}") from None
        samples[sample.index] = sample
    for n in lengths or ():
        if all(sample.length != n for sample in samples.values()):
            raise ValueError(f"{spec.name}: {path} has no sample with n = {n}; choose another n")
    return [samples[index] for index in sorted(samples) if lengths is None or samples[index].length in lengths]


def _sample(spec: TaskSpec, row: Any) -> Sample:
    doc = row["doc"]
    if doc.get("output_prefix") is not None:
        raise ValueError("output_prefix: questions with a pre-filled answer are not supported")
    messages = tuple(_message(message) for message in doc["messages"])
    if not messages or messages[-1]["role"] != "user":
        raise ValueError("messages must end with a user turn")
    if type(row["doc_id"]) is not int:
        raise ValueError(f"doc_id {row['doc_id']!r} must be an integer")
    label = _label(doc["label"])
    words = label.get("words") if isinstance(label, dict) else None
    length = (doc.get("metadata") or {}).get("length") if words is None else len(words)
    if length is not None and type(length) is not int:
        raise ValueError(f"metadata.length {length!r} must be an integer")
    return Sample(
        task=spec.name,
        index=row["doc_id"],
        messages=messages,
        input=values_of(spec, messages[-1]["content"]),
        label=label,
        max_new_tokens=spec.tokens(length),
        length=length,
        source=SOURCE,
    )


def _message(given: Any) -> Message:
    if given["role"] not in _ROLES or not isinstance(given["content"], str):
        raise ValueError(f"a message needs a role ({', '.join(_ROLES)}) and a text as content, given {str(given)[:80]}")
    return {"role": given["role"], "content": given["content"]}


def _label(given: Any) -> str | dict[str, Any]:
    """The label in v1's form: a JSON list becomes its printed form, and null entries of an object are dropped."""
    if isinstance(given, str):
        return given
    if isinstance(given, list) and given and all(isinstance(item, str) for item in given):
        return formatted(given)
    if isinstance(given, dict):
        return {key: value for key, value in given.items() if value is not None}
    raise ValueError(f"label {given!r}: must be a text, a list of texts, or an object")


def values_of(spec: TaskSpec, question: str) -> dict[str, Any]:
    """The values of the prompt, extracted from a question that differs from v1's prompt only in white space; empty for other wordings.

    They are used for diagnoses of wrong answers, not for scores.
    """
    match = _pattern(spec.prompt).fullmatch(question.strip())
    values: dict[str, Any] = match.groupdict() if match else {}
    for name in ("index", "size"):
        if name in values:
            values[name] = int(values[name])
    if "sudoku" in values:
        values["sudoku"] = values["sudoku"].replace("_", "0")
    return values


@cache
def _pattern(prompt: str) -> re.Pattern[str]:
    """A pattern for a prompt's questions with any white space. `_` matches 0, because some runs write the blanks of a sudoku as `_`."""
    parts, seen = [], set()
    for text, name, _, _ in string.Formatter().parse(prompt.replace("\\n", "\n").strip()):
        words = re.split(r"(\s+)", text)
        parts.append("".join(r"\s+" if word.isspace() else re.escape(word).replace("0", "[0_]") for word in words))
        if name is not None:
            number = r"\d+" if name in ("index", "size") else r".+?"
            parts.append(f"(?P={name})" if name in seen else f"(?P<{name}>{number})")
            seen.add(name)
    return re.compile("".join(parts), re.DOTALL)
