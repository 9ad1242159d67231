"""Users' YAML and JSONL files and the values in them: what can't be read is an UnreadableFile,
whose one line names the file and the place in it.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from pbcore.base.check import Must, NotAllowed, Packed, wrong
from pbcore.base.errors import InputError
from pbcore.base.printable import printable, shown

MOST_LEVELS = 20  # of nesting in a tasks file
MOST_ALIASES = 1_000
MOST_VALUES = 100_000  # in a tasks file, with every alias written out


class UnreadableFile(InputError):
    """A file that can't be read; the message names it and the line."""


def only(allowed: Any) -> Packed:
    """Annotates a key of a file that has only values of these.

    Args:
        allowed: a type (`str`, which is not empty, `bool` or `int`), a range, or several names.
    """
    if isinstance(allowed, range):
        return _must(
            lambda given: type(given) is int and given in allowed,
            f"an integer from {allowed[0]} to {allowed[-1]}",
        )
    if isinstance(allowed, type):
        return _must(
            lambda given: type(given) is allowed and given != "",
            {str: "a text", bool: "true or false", int: "an integer"}[allowed],
        )
    return _must(
        lambda given: isinstance(given, str) and given in allowed,
        f"one of {', '.join(sorted(allowed))}",
    )


def _must(right: Callable[[Any], object], words: str) -> Packed:
    return Packed(Any, Must(right, words).check)


def check_value(name: str, given: Any, allowed: Any) -> None:
    """Raises InputError unless a value, called `name` in its file, is one that `only(allowed)`
    allows.
    """
    try:
        only(allowed).unpack(given)
    except NotAllowed as error:
        raise wrong(name, given, error) from None


def check_keys(entry: Mapping[Any, Any], keys: Sequence[str], where: str) -> None:
    """Raises InputError for keys of a file's entry that are not among these."""
    unknown = sorted(printable(str(key)) for key in entry if key not in keys)
    if unknown:
        raise InputError(
            f"{where}: unknown key {', '.join(unknown)}; the keys are {', '.join(keys)}"
        )


def read_text(path: Path) -> str:
    """A file's text. Raises UnreadableFile if it is not UTF-8."""
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        byte = f"0x{data[error.start]:02x}"
        raise UnreadableFile(
            f"{path}, line {line}: not UTF-8 (byte {byte}); save the file as UTF-8"
        ) from None


def read_json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """Line numbers and JSON values of the lines that aren't blank. Raises UnreadableFile for any
    other line.
    """
    for number, line in enumerate(read_text(path).split("\n"), 1):
        if line.strip(" \t\r"):
            try:
                value = json.loads(line)
            except RecursionError:
                problem = "JSON is nested too deeply; give one flat object per line"
                raise UnreadableFile(f"{path}, line {number}: {problem}") from None
            except ValueError as error:
                problem = f"not valid JSON ({error}); give one object per line"
                raise UnreadableFile(f"{path}, line {number}: {problem}") from None
            yield number, value


def read_yaml(text: str, where: str) -> Any:
    """The value of a YAML text; `where` names it in errors. Raises UnreadableFile for invalid YAML,
    a key given twice, and texts nested or aliased beyond the limits above.
    """
    try:
        _check_size(text)
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _check_node(node, {})
        return loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise UnreadableFile(
            f"{where}{line}: not valid YAML: {error.problem or error.context}"
        ) from None
    except yaml.reader.ReaderError as error:
        raise UnreadableFile(
            f"{where}: not valid YAML: {error.reason} at character {error.position}"
        ) from None
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as error:
        # On odd scalars.
        reason = " ".join(str(error).split())[:200]
        raise UnreadableFile(f"{where}: not valid YAML: {reason}") from None


def _check_size(text: str) -> None:
    levels = 0
    aliases = 0
    for event in yaml.parse(text, yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            levels += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            levels -= 1
        elif isinstance(event, yaml.AliasEvent):
            aliases += 1
        if levels > MOST_LEVELS or aliases > MOST_ALIASES:
            deep = f"more than {MOST_LEVELS} levels of nesting"
            limit = deep if levels > MOST_LEVELS else f"over {MOST_ALIASES} aliases"
            mark: Any = event.start_mark
            raise yaml.MarkedYAMLError(problem=f"{limit}; write the entries out", problem_mark=mark)


def _check_node(node: yaml.Node, counts: dict[int, int]) -> int:
    """The values below a node, aliases written out. Raises MarkedYAMLError for too many and a key
    given twice.
    """
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) not in counts:
        counts[id(node)] = MOST_VALUES  # found again below itself: a cycle
        if isinstance(node, yaml.MappingNode):
            _check_keys(node)
            below = [part for pair in node.value for part in pair]
        else:
            below = node.value
        counts[id(node)] = 1 + sum(_check_node(part, counts) for part in below)
    if counts[id(node)] > MOST_VALUES:
        problem = f"more than {MOST_VALUES} values, counting every alias; write fewer"
        raise yaml.MarkedYAMLError(problem=problem, problem_mark=node.start_mark)
    return counts[id(node)]


def _check_keys(node: yaml.MappingNode) -> None:
    """Raises MarkedYAMLError for a key given twice."""
    seen: set[tuple[str, str]] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        if (key.tag, key.value) in seen and key.value != "<<":
            problem = f"{shown(key.value)} is given twice; remove one or rename it"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
        seen.add((key.tag, key.value))
