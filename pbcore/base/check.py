"""JSON of results: values that are written as exact builtin types, and strict validation of what
may be edited, cut or damaged, whose one-line errors name the place and what is allowed.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from annotated_types import Interval

from pbcore.base.errors import InputError
from pbcore.base.printable import printable, shown

if TYPE_CHECKING:
    from pydantic import ConfigDict, GetCoreSchemaHandler, TypeAdapter
    from pydantic_core import CoreSchema, ErrorDetails

Read = TypeVar("Read")
STRICT: ConfigDict = {"strict": True, "extra": "forbid", "allow_inf_nan": False}
# pydantic's names of the error, in a dataclass and in a TypedDict
_UNKNOWN_FIELD = ("unexpected_keyword_argument", "extra_forbidden")
_SURROGATES = re.compile("[\ud800-\udfff]")
# Ranges that hold for every real run; reading checks them, together with the types.
RecordedCount = Annotated[int, Interval(ge=0, le=10**15)]
RecordedAmount = Annotated[float, Interval(ge=0, le=1e15)]


class LoadError(InputError):
    """A path has no results that this package can read."""


class NotAllowed(ValueError):
    """A value that a key of a user's file can't have; the text says what is allowed."""


class NewerSchemaError(LoadError):
    """Results of a schema that this version doesn't know. They are whole: nothing sets them
    aside.
    """


def wrong(name: str, given: Any, allowed: object) -> InputError:
    """The error for a value that is not allowed.

    Args:
        name: what the value is called in its file.
        given: the value.
        allowed: what is allowed, as a phrase.
    """
    return InputError(f"{name} {shown(given)}; give {allowed}")


def read_utf8(path: Path) -> str:
    """A file's text with its own line ends. Raises LoadError unless it is UTF-8, OSError if it
    can't be read.
    """
    try:
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise LoadError(
            f"{path} is not UTF-8 text ({error.reason} at byte {error.start})"
        ) from error


def read_json(path: Path) -> Any:
    """The JSON value in a file. Raises the errors of `read_utf8` and `parse_json`."""
    return parse_json(read_utf8(path), str(path))


def parse_json(text: str, where: str) -> Any:
    """The value of a JSON text. Raises LoadError, which begins with `where`, unless it is valid
    JSON with finite numbers and without keys that are there twice.
    """
    twice: list[tuple[dict[str, Any], str]] = []

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        mapping = dict(pairs)
        if len(mapping) != len(pairs):
            counts = Counter(key for key, _ in pairs)
            twice.append((mapping, next(key for key, count in counts.items() if count > 1)))
        return mapping

    try:
        value = json.loads(
            text, parse_float=_finite, parse_constant=_finite, object_pairs_hook=once
        )
    except RecursionError as error:
        raise LoadError(f"{where} can't be read: its lists or mappings nest too deeply") from error
    except ValueError as error:
        raise LoadError(f"{where} is not valid JSON ({error})") from error
    if twice:
        mapping, key = twice[-1]  # the last that ended: nothing around it replaced it
        raise LoadError(
            f"{where}: {_place(value, mapping, key)} is there twice, as a merge can leave it;"
            " delete one of the two"
        )
    return value


def _place(value: Any, wanted: dict[str, Any], key: str) -> str:
    """A key of a mapping within `value` in words: `cell X`, `cell X: field a.b` or `field a.b`."""
    todo: list[tuple[Any, str, tuple[str, ...]]] = [(value, "", ())]
    while todo:
        part, cell, path = todo.pop()
        if isinstance(part, dict):
            inner = part.get("cell")
            ids = (part.get("id"), inner, inner.get("id") if isinstance(inner, dict) else None)
            cell, path = next(((name, ()) for name in ids if isinstance(name, str)), (cell, path))
        if part is wanted:
            if _is_cell(key):
                return f"cell {printable(key)}"
            field = f"field {printable('.'.join((*path, key)), 120)}"
            return f"cell {printable(cell)}: {field}" if cell else field
        if isinstance(part, dict):
            items = list(part.items())
        else:
            items = list(enumerate(part)) if isinstance(part, list) else []
        for at, item in items:
            name = str(at)
            if _is_cell(name):
                todo.append((item, name, ()))
            else:
                todo.append((item, cell, (*path, name)))
    raise AssertionError("the mapping is not in the value")


def _is_cell(key: str) -> bool:
    return key.count("/") >= 2


def json_lines(path: Path) -> list[tuple[str, Any]]:
    """(place, value) of every line that isn't blank. They end at `\\n` only: JSON texts may hold
    U+2028 and U+0085.
    """
    lines = enumerate(read_utf8(path).split("\n"), 1)
    places = [(f"{path}, line {number}", line) for number, line in lines if line.strip()]
    return [(place, parse_json(line, place)) for place, line in places]


def _field(problem: ErrorDetails) -> str:
    return printable(".".join(map(str, problem["loc"])), 120)


def check_schema(data: Any, known: int, where: str) -> dict[str, Any]:
    """The mapping in a file of the known schema.

    Args:
        data: the file's JSON value.
        known: the schema that this version reads and writes.
        where: the file, with which an error begins.

    Returns:
        `data` as it is.

    Raises:
        LoadError: it is not a mapping, or has no schema or an earlier one.
        NewerSchemaError: it has a later schema.
    """
    if not isinstance(data, dict):
        raise LoadError(f"{where} holds {shown(data)}; it should be a mapping with a field schema")
    schema = data.get("schema")
    if type(schema) is not int or schema < known:
        raise LoadError(f"{where}: field schema is {shown(schema)}; this version reads {known}")
    if schema > known:
        newer = f"written by a newer version of pbcore; this version reads {known}: update pbcore"
        raise NewerSchemaError(f"{where} has schema {schema}, {newer}")
    return data


class FromMapping:
    """Annotates a dataclass in the fields of a `checked` one: it is built from a mapping, too."""

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        schema = handler(source)
        # Of a strict dataclass pydantic takes instances only; its fields stay strict.
        built: Any = handler.resolve_ref_schema(schema)
        built["strict"] = False
        return schema


@dataclass(frozen=True)
class Packed:
    """Annotates a field that a file holds in another form: `kind` is its type there, which `unpack`
    turns into the field's; its ValueErrors say what is allowed, and an InputError is told as it is.
    """

    kind: Any
    unpack: Callable[[Any], Any]

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core.core_schema import no_info_after_validator_function

        return no_info_after_validator_function(self.unpack, handler.generate_schema(self.kind))


@dataclass(frozen=True)
class Must:
    """Annotates a field that has only some values of its type, those for which `right` holds. Of
    any other the error says `words`, what is allowed, as `wrong` does; with `whole` they are all
    that it says.
    """

    right: Callable[[Any], object]
    words: str
    whole: bool = False

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core.core_schema import no_info_after_validator_function

        return no_info_after_validator_function(self.check, handler(source))

    def check(self, value: Any) -> Any:
        """The value, if it is right. Raises InputError with `whole`, else NotAllowed."""
        if not self.right(value):
            raise (InputError if self.whole else NotAllowed)(self.words)
        return value


def checked(
    cls: type[Read],
    extra: Literal["forbid", "ignore"] = "forbid",
    names: Mapping[str, str] = MappingProxyType({}),
) -> type[Read]:
    """A dataclass that `validated` builds from JSON: its fields have the types that it declares,
    without conversions, NaN or (unless `extra` is "ignore") unknown fields; `names` are those that
    some have there. Dataclasses in its fields are `checked`, too, or annotated with FromMapping.
    """

    def schema(
        own: type[Read],
        source: Any,
        handler: GetCoreSchemaHandler,
    ) -> CoreSchema:
        return FromMapping().__get_pydantic_core_schema__(source, handler)

    pydantic: Any = cls
    in_json = {"alias_generator": lambda name: names.get(name, name)} if names else {}
    pydantic.__pydantic_config__ = {**STRICT, "extra": extra, **in_json}
    pydantic.__get_pydantic_core_schema__ = classmethod(schema)
    return cls


def validated(kind: type[Read], data: Any, where: str) -> Read:
    """JSON as a type that pydantic reads. Its schema is built at the first use: writing records
    needs no validation.

    Args:
        kind: a `checked` dataclass or a TypedDict.
        data: the JSON value.
        where: the file, and the place in it, with which an error begins.

    Returns:
        An instance of `kind`.

    Raises:
        NewerSchemaError: for an unknown field.
        LoadError: for a field that is missing or not as it should be: what is there, what is
            allowed, and how many more such fields there are.
    """
    value, problems = _read(kind, data)
    if value is not None:
        return value
    unknown = [_field(problem) for problem in problems if problem["type"] in _UNKNOWN_FIELD]
    if unknown:
        names = ", ".join(unknown[:3]) + (" …" if len(unknown) > 3 else "")
        raise NewerSchemaError(
            f"{where}: unknown fields {names}: written by a newer version of pbcore, or damaged"
        )
    more = f" (and {len(problems) - 1} more such fields)" if len(problems) > 1 else ""
    raise LoadError(f"{where}: {_said(problems[0])}{more}")


def usable_part(kind: type[Read], data: Mapping[str, Any]) -> tuple[Read | None, Mapping[str, str]]:
    """A `checked` dataclass from JSON of which single fields may be damaged.

    Args:
        kind: the class.
        data: the JSON mapping; what is no field is passed over.

    Returns:
        An instance in which each damaged field has its default (None: one without a default is
        damaged or missing), and of each of those fields what is there and what is allowed.
    """
    declared: Any = kind
    names = [field.name for field in fields(declared)]
    given = {name: data[name] for name in names if name in data}
    value, problems = _read(kind, given)
    damaged: dict[str, str] = {}
    for problem in problems:
        damaged.setdefault(str(problem["loc"][0]), _said(problem))
    if damaged:
        value, _ = _read(kind, {name: given[name] for name in given if name not in damaged})
    return value, damaged


def _read(kind: type[Read], data: Any) -> tuple[Read | None, list[ErrorDetails]]:
    """JSON as a type; None with what is not as it should be."""
    from pydantic import ValidationError

    key: Any = kind
    adapter: TypeAdapter[Read] = _adapter(key)
    try:
        return adapter.validate_python(data), []
    except ValidationError as error:
        return None, error.errors(include_url=False)


def _said(problem: ErrorDetails) -> str:
    """A field, what is there, and what is allowed."""
    field = _field(problem)
    if problem["type"] == "missing":
        return f"field {field} is missing"
    error = problem.get("ctx", {}).get("error")
    if isinstance(error, NotAllowed):
        return str(wrong(field, problem["input"], error))
    if isinstance(error, InputError):
        return str(error)
    place = f"field {field} is" if field else "it is"
    return f"{place} {shown(problem['input'])}; {_allowed(problem)}"


def _allowed(problem: ErrorDetails) -> str:
    """What pydantic allows in a place, in words."""
    if problem["type"] == "dataclass_type":
        return "it should be a valid dictionary"
    message = problem["msg"].replace("Input should be", "it should be")
    return message.removeprefix("Value error, ")


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def refuse(message: str) -> None:
    """A `say` for `RunDir.read_cells` where a cell that can't be read would change the outcome.
    Raises LoadError.
    """
    raise LoadError(message)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:40]} is not a finite number")
    return value


def plain(value: Any, where: str = "value") -> Any:
    """`value` as exact builtins, which pytest-xdist's reports need: converts numpy scalars, enums,
    tuples, sets, mappings and paths. Raises TypeError for other types, ValueError for a number that
    is not finite; both name the place (`where`).
    """
    if value is None or type(value) in (bool, int):
        return value
    if isinstance(value, Enum):
        return plain(value.value, where)
    if isinstance(value, str):
        return _joined(str.__str__(value))
    if isinstance(value, Mapping):
        return {
            str(plain(key, f"a key of {where}")): plain(item, f"{where}[{key!r}]")
            for key, item in value.items()
        }
    if isinstance(value, PurePath):
        return _joined(str(value))
    if isinstance(value, bytes):
        raise TypeError(f"{where} is bytes, which JSON can't represent; decode it to text first")
    if isinstance(value, Sequence):
        return [plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, Set):
        return sorted(plain(item, f"an item of {where}") for item in value)
    if hasattr(value, "tolist"):
        return plain(value.tolist(), where)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(
                f"{where} is {value}: records hold finite numbers only; leave out values not"
                " measured"
            )
        return float(value)
    raise TypeError(
        f"{where} has the type {type(value).__name__}, which a record can't hold; give numbers,"
        " text, lists or mappings"
    )


def dump_json(data: Any, indent: int | None = None) -> str:
    """JSON that can be written as UTF-8: lone surrogates in texts are escaped. Raises ValueError
    for NaN.
    """
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, indent=indent)
    return _SURROGATES.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def encodable(value: Any) -> Any:
    """A text with lone surrogates, which UTF-8 can't hold, as `\\udc80`; other values as they
    are.
    """
    odd = isinstance(value, str) and _SURROGATES.search(value)
    return value.encode("utf-8", "backslashreplace").decode() if odd else value


def _joined(text: str) -> str:
    """`text` with surrogate pairs as the characters they stand for, which JSON can't tell apart;
    lone ones stay.
    """
    if _SURROGATES.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
