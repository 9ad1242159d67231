"""A run folder of the benchmark's 2026 rewrite as data: its samples files contain every question
verbatim, with its label.

The rewrite's questions differ from v1's (blank lines in list prompts; many new lists, sudokus and
texts), so its scores are comparable only with answers to the same questions. A folder is
`<model>/<method>/<param>/<date>_all/` with `samples_parallelbench_<task>.jsonl`.
"""

import re
import string
from functools import cache
from pathlib import Path
from typing import Any

from pbcore.base.check import wrong
from pbcore.base.errors import InputError
from pbcore.extras.paper.published import NAMES
from pbcore.tasks.base import Message, Sample
from pbcore.tasks.files import UnreadableFile, read_json_lines
from pbcore.tasks.lists import formatted
from pbcore.tasks.naming import REWRITE
from pbcore.tasks.official import RowError, check_label, row_field, row_length
from pbcore.tasks.spec import TaskSpec

_PREFIX = "samples_parallelbench_"
_ROLES = ("system", "user", "assistant")


def samples_file(folder: Path, task: str) -> Path:
    """Where a run folder has the samples of one of our tasks."""
    return folder / f"{_PREFIX}{NAMES[task]}.jsonl"


class RewriteFolders:
    """Run folders of the rewrite as a source of questions (`tasks.spec.Folders`)."""

    def reads(self, folder: Path) -> bool:
        """Whether a folder contains samples files of the rewrite."""
        return any(folder.glob(f"{_PREFIX}*.jsonl"))

    def samples(
        self, spec: TaskSpec, folder: Path, lengths: tuple[int, ...] | None
    ) -> list[Sample]:
        """The questions of a task in a run folder, in the order of their `doc_id`, which is their
        number. The answers of that run are not read.

        Args:
            spec: the task.
            folder: a run folder of the rewrite.
            lengths: the n to keep; None: all.

        Raises:
            InputError: for a task that the rewrite doesn't have, and for an n without rows.
            FileNotFoundError: if the folder has no file of the task.
            RowError: for an invalid row; names file and line.
        """
        if spec.name not in NAMES:
            raise InputError(f"{spec.name} is not a task of the rewrite; omit data_dir")
        path = samples_file(folder, spec.name)
        if not path.is_file():
            available = sorted(
                file.stem.removeprefix(_PREFIX) for file in folder.glob(f"{_PREFIX}*.jsonl")
            )
            raise FileNotFoundError(
                f"{spec.name}: no file {path}; the folder has samples of {', '.join(available)}"
            )
        try:
            rows = list(read_json_lines(path))
        except UnreadableFile as error:
            raise RowError(str(error)) from None
        samples: dict[int, Sample] = {}
        for number, row in rows:
            try:
                sample = _sample(spec, row)
                if sample.index in samples:
                    raise InputError(f"doc_id {sample.index} occurs twice")
                samples[sample.index] = sample
            except ValueError as error:
                raise RowError(f"{path}, line {number}: {error}") from None
        for n in lengths or ():
            if all(sample.length != n for sample in samples.values()):
                raise InputError(
                    f"{spec.name}: {path} has no sample with n = {n}; choose another n"
                )
        return [
            samples[index]
            for index in sorted(samples)
            if lengths is None or samples[index].length in lengths
        ]


FOLDERS = RewriteFolders()


def _sample(spec: TaskSpec, row: Any) -> Sample:
    if not isinstance(row, dict):
        raise wrong("the row", row, "an object with doc and doc_id")
    doc = row_field(row, "doc", dict, "an object with messages and label")
    if doc.get("output_prefix") is not None:
        raise InputError("output_prefix: questions with a pre-filled answer are not supported")
    messages = tuple(
        _message(message) for message in row_field(doc, "messages", list, "a list of messages")
    )
    if not messages or messages[-1]["role"] != "user":
        raise InputError("messages must end with a user turn")
    if type(row_field(row, "doc_id", int, "an integer")) is bool:
        raise wrong("doc_id", row["doc_id"], "an integer")
    label = _label(
        row_field(doc, "label", (str, list, dict), "a text, a list of texts, or an object")
    )
    check_label(label, spec)
    metadata = row_field(
        {"metadata": None, **doc}, "metadata", (dict, type(None)), "an object, or omit it"
    )
    length = row_length(label, metadata or {}, spec)
    return Sample(
        task=spec.name,
        index=row["doc_id"],
        messages=messages,
        input=values_of(spec, messages[-1]["content"]),
        label=label,
        max_new_tokens=spec.tokens(length),
        length=length,
        source=REWRITE,
        limited=spec.canvas is not None,
    )


def _message(message: Any) -> Message:
    expected = f"an object with role ({', '.join(_ROLES)}) and content, a text"
    if not isinstance(message, dict):
        raise wrong("message", message, expected)
    role = message.get("role")
    content = message.get("content")
    if role not in _ROLES or not isinstance(content, str):
        raise wrong("message", message, expected)
    return {"role": str(role), "content": content}


def _label(label: Any) -> str | dict[str, Any]:
    """The label in v1's form: a JSON list becomes its printed form, and null entries of an object
    are dropped.
    """
    if isinstance(label, str):
        return label
    if isinstance(label, list) and label and all(isinstance(item, str) for item in label):
        return formatted(label)
    if isinstance(label, dict):
        return {key: value for key, value in label.items() if value is not None}
    raise wrong("label", label, "a text, a list of texts, or an object")


def values_of(spec: TaskSpec, question: str) -> dict[str, Any]:
    """The values of the prompt, extracted from a question that differs from v1's prompt only in
    white space; empty for other wordings. They are used for diagnoses of wrong answers, not for
    scores.
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
    """A pattern for a prompt's questions with any white space, and 0 or `_` for 0: some runs write
    the blanks of a sudoku as `_`.
    """
    parts = []
    seen = set()
    for text, name, _, _ in string.Formatter().parse(prompt.replace("\\n", "\n").strip()):
        for word in re.split(r"(\s+)", text):
            parts.append(r"\s+" if word.isspace() else re.escape(word).replace("0", "[0_]"))
        if name is not None:
            number = r"\d+" if name in ("index", "size") else r".+?"
            parts.append(f"(?P={name})" if name in seen else f"(?P<{name}>{number})")
            seen.add(name)
    return re.compile("".join(parts), re.DOTALL)
