"""A record as one short text for reports that people look at: its JSON by zlib, in base64."""

from __future__ import annotations

import binascii
import json
import zlib
from base64 import b64decode, b64encode
from typing import Any

from pbcore.base.check import LoadError, parse_json
from pbcore.base.printable import shown

LONGEST = 100_000_000  # bytes of a record that a small text may unpack to


def packed(record: Any) -> str:
    """The JSON value in printable ASCII without blanks."""
    text = json.dumps(record, ensure_ascii=True, separators=(",", ":"))
    return b64encode(zlib.compress(text.encode(), 9)).decode("ascii")


def unpacked(text: str, where: str) -> Any:
    """The value that `packed` made a text of; also that of a text of plain JSON, which earlier
    versions wrote. Raises LoadError, which begins with `where`, for anything else.
    """
    if text.startswith("{"):
        return parse_json(text, where)
    try:
        unpacking = zlib.decompressobj()
        data = unpacking.decompress(b64decode(text, validate=True), LONGEST)
    except (binascii.Error, ValueError, zlib.error):
        data = b""
    if not data or not unpacking.eof:
        raise LoadError(
            f"{where} is {shown(text)}; it should be a record as pbcore packs it: the file was cut"
            " or changed, so load the run's directory instead"
        )
    return parse_json(data.decode("utf-8", "replace"), where)
