"""Reading users' YAML and JSONL files: what can't be read is an UnreadableFile, whose one line names the file and the
place in it.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from pbcore.errors import InputError
from pbcore.printable import shown

MOST_LEVELS = 20  # of nesting in a tasks file
MOST_ALIASES = 1_000
MOST_VALUES = 100_000  # in a tasks file, with every alias written out
_UNREADABLE = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
)  # what PyYAML's constructors raise on odd scalars


class UnreadableFile(InputError):
    """A file that can't be read; the message names it and the line."""


def read_text(path: Path) -> str:
    """A file's text. Raises UnreadableFile if it is not UTF-8."""
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UnreadableFile(
            f"{path}, line {line}: not UTF-8 (byte 0x{data[error.start]:02x}); save the file as UTF-8"
        ) from None


def read_json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Line numbers and JSON values of the lines that aren't blank. Raises UnreadableFile for any other line."""
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if line.strip(" \t\r"):
            try:
                value = json.loads(line)
            except RecursionError:
                raise UnreadableFile(
                    f"{path}, line {number}: JSON is nested too deeply; give one flat object per line"
                ) from None
            except ValueError as error:
                raise UnreadableFile(
                    f"{path}, line {number}: not valid JSON ({error}); give one object per line"
                ) from None
            yield number, value


def read_yaml(text: str, where: str) -> Any:
    """The value of a YAML text; `where` names it in errors.

    Raises UnreadableFile for invalid YAML, a key given twice, and texts nested or aliased beyond the limits above.
    """
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise UnreadableFile(f"{where}{line}: not valid YAML: {error.problem or error.context}") from None
    except yaml.reader.ReaderError as error:
        raise UnreadableFile(f"{where}: not valid YAML: {error.reason} at character {error.position}") from None
    except _UNREADABLE as error:
        raise UnreadableFile(f"{where}: not valid YAML: {' '.join(str(error).split())[:200]}") from None


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with limits, and without silent replacement of keys that are given twice."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._levels = self._aliases = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
        self._aliases += self.check_event(yaml.AliasEvent)
        if self._levels == MOST_LEVELS or self._aliases > MOST_ALIASES:
            limit = (
                f"more than {MOST_LEVELS} levels of nesting"
                if self._levels == MOST_LEVELS
                else f"over {MOST_ALIASES} aliases"
            )
            raise yaml.MarkedYAMLError(problem=f"{limit}; write the entries out", problem_mark=mark)
        self._levels += 1
        node = super().compose_node(parent, index)
        self._levels -= 1
        return node

    def compose_mapping_node(self, anchor: Any) -> Any:
        node = super().compose_mapping_node(anchor)
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen and key.value != "<<":
                    problem = f"{shown(key.value)} is given twice; remove one or rename it"
                    raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
                seen.add((key.tag, key.value))
        return node

    def get_single_data(self) -> Any:
        node = self.get_single_node()
        if node is None:
            return None
        _count(node, {})
        return self.construct_document(node)


def _count(node: yaml.Node, counts: dict[int, int]) -> int:
    """Values below a node with aliases written out. Raises MarkedYAMLError for too many, or a node inside itself."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) not in counts:
        counts[id(node)] = MOST_VALUES  # found again below itself: a cycle
        parts = [part for pair in node.value for part in pair] if isinstance(node, yaml.MappingNode) else node.value
        counts[id(node)] = 1 + sum(_count(part, counts) for part in parts)
    if counts[id(node)] > MOST_VALUES:
        problem = f"more than {MOST_VALUES} values, counting every alias; write fewer"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
    return counts[id(node)]
