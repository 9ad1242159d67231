"""Converts values to exact builtin types, as JSON, JUnit properties and pytest reports need them."""

import json
import math
import re
from collections.abc import Mapping, Sequence, Set
from enum import Enum
from pathlib import PurePath
from typing import Any

_SURROGATES = re.compile("[\ud800-\udfff]")


def plain(value: Any, where: str = "value") -> Any:
    """`value` as exact builtins: converts numpy scalars, enums, tuples, sets, mappings and paths. Raises TypeError for
    other types, ValueError for a number that is not finite; both name the place (`where`)."""
    if value is None or type(value) in (bool, int):
        return value
    if isinstance(value, Enum):
        return plain(value.value, where)
    if isinstance(value, str):
        return _joined(str.__str__(value))
    if isinstance(value, Mapping):
        return {str(plain(key, f"a key of {where}")): plain(item, f"{where}[{key!r}]") for key, item in value.items()}
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
            raise ValueError(f"{where} is {value}: records hold finite numbers only; leave out values not measured")
        return float(value)
    raise TypeError(
        f"{where} has the type {type(value).__name__}, which a record can't hold; give numbers, text, lists or mappings"
    )


def dump_json(data: Any, indent: int | None = None) -> str:
    """JSON that can be written as UTF-8: lone surrogates in texts are escaped. Raises ValueError for NaN."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, indent=indent)
    return _SURROGATES.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def encodable(text: str) -> str:
    """`text` with lone surrogates, which UTF-8 can't hold, as `\\udc80`."""
    return text.encode("utf-8", "backslashreplace").decode() if _SURROGATES.search(text) else text


def _joined(text: str) -> str:
    """`text` with surrogate pairs as the characters they stand for, which JSON can't tell apart; lone ones stay."""
    if _SURROGATES.search(text) is None:
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
