"""What the keys of a model behind a server may be: types of fields, each with its error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import urlsplit

from pbcore.base.check import Must, Packed, wrong
from pbcore.base.errors import InputError
from pbcore.base.printable import printable

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
# What extra_body can't set, and the key that does.
RESERVED = {
    "model": "model",
    "messages": "none, the task's prompts are sent",
    "prompt": "none, the task's prompts are sent",
    "stream": "stream",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "temperature": "temperature",
    "seed": "seed",
    "n": "none, one answer is taken",
}
_MOST_TOKENS = 1_000_000
_MOST_PRICE = 1_000_000  # USD per million tokens


@dataclass(frozen=True)
class TokenPrices:
    """USD per million tokens of prompts (`input`) and of answers (`output`)."""

    input: float
    output: float


def between(least: float, most: float) -> Must:
    """A number of this range."""
    return Must(lambda number: least <= number <= most, f"a number from {least} to {most}")


def _prices(given: Mapping[str, float]) -> TokenPrices:
    if given.keys() != {"input", "output"}:
        raise ValueError("give input and output, in USD per million tokens")
    for price in given.values():
        if not 0 <= price <= _MOST_PRICE:
            raise wrong("prices", price, f"USD per million tokens, from 0 to {_MOST_PRICE:,}")
    return TokenPrices(**given)


def _limits(given: dict[str, int]) -> dict[str, int]:
    for task, tokens in given.items():
        if not 1 <= tokens <= _MOST_TOKENS:
            name = f"task_max_tokens {printable(task)}"
            raise wrong(name, tokens, f"a number from 1 to {_MOST_TOKENS}")
    return given


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def _is_plain(address: str) -> bool:
    parts = urlsplit(address)
    secret = parts.username is not None or parts.password is not None
    return not (secret or parts.query or parts.fragment)


def _is_variable(given: Any) -> bool:
    return given is None or (isinstance(given, str) and _VARIABLE.fullmatch(given) is not None)


def _body(given: dict[str, Any]) -> dict[str, Any]:
    for name in given:
        if name in RESERVED:
            raise InputError(
                f"extra_body sets {name!r}, which has a key of its own: {RESERVED[name]}"
            )
    return given


Id = Annotated[
    str, Must(bool, "model is empty; give the id that the server knows it by", whole=True)
]
Address = Annotated[
    str,
    Must(_is_address, "base_url is no address; give e.g. http://localhost:8000/v1", whole=True),
    Must(
        _is_plain,
        "base_url holds a user, a password or a query, and addresses are recorded; give scheme,"
        " host, port and path, and under key the variable that holds the key",
        whole=True,
    ),
]
_KEY = Must(  # a key itself, pasted there, is not shown
    _is_variable,
    "key is the name of an environment variable, in capitals, digits and _, such as OPENAI_API_KEY;"
    " never the key itself",
    whole=True,
)
Variable = Annotated[str | None, Packed(Any, _KEY.check)]
Body = Annotated[dict[str, Any], Packed(dict[str, Any], _body)]
TokenLimit = Annotated[int, between(1, _MOST_TOKENS)]
Limits = Annotated[dict[str, int], Packed(dict[str, int], _limits)]
LimitField = Annotated[
    str,
    Must(
        ("max_tokens", "max_completion_tokens").__contains__, "max_tokens or max_completion_tokens"
    ),
]
DeclaredPrices = Annotated[TokenPrices, Packed(dict[str, float], _prices)]
BodyPath = Annotated[
    str,
    Must(lambda place: all(place.split(".")), "a place in the answer such as usage.num_forwards"),
]
