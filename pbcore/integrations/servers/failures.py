"""What went wrong at a server, in one line that names it and what to do, and holds no key."""

from __future__ import annotations

import os
from importlib import import_module
from types import ModuleType
from typing import Any
from urllib.parse import quote

from pbcore.integrations.servers.spec import ServerSpec
from pbcore.models.errors import ModelError
from pbcore.printable import printable

NO_KEY = "none"  # sent to servers that need no key: an SDK would otherwise look for one of its own in the environment
MASKED = "[key]"


def imported(package: str, spec: ServerSpec) -> ModuleType:
    """An SDK, which is an optional extra of the same name. Raises ModelError that says how to install it."""
    try:
        return import_module(package)
    except ImportError as error:
        raise ModelError(
            f"model {spec.name} is asked through the package {package}, which is not installed: "
            f"pip install 'pbcore[{package}]'"
        ) from error


def key_of(spec: ServerSpec) -> str:
    """The key from the environment. Raises ModelError that names the variable if it is not set."""
    if spec.key is None:
        return NO_KEY
    value = os.environ.get(spec.key, "").strip()
    if not value:
        raise ModelError(f"model {spec.name} needs a key for {spec.base_url}: set the environment variable {spec.key}")
    if not value.isascii() or not value.isprintable():
        raise ModelError(f"model {spec.name}: the key in {spec.key} has characters that no header can hold")
    return value


def masked(text: str, spec: ServerSpec) -> str:
    """A text from a server without the key, which some servers repeat."""
    key = os.environ.get(spec.key, "").strip() if spec.key else ""
    for form in {key, quote(key, safe=""), repr(key)[1:-1]} if key else ():
        text = text.replace(form, MASKED)
    return text


def failure(error: Exception, spec: ServerSpec, done: str = "") -> ModelError:
    """An exception of an SDK, or of reading a reply, as an error of the model; `done` is what had come by then."""
    status = getattr(error, "status_code", None)
    said = printable(masked(" ".join(_said(error).split()), spec), 300)
    where, tries = f"model {spec.name} at {spec.base_url}", _tries(spec)
    kind = type(error).__name__
    if isinstance(status, int):
        return ModelError(f"{where}: {_advice(status, spec, tries)} ({status}: {said})")
    if "Timeout" in kind:
        return ModelError(
            f"{where}: no whole answer within {spec.timeout:g} s{tries}{done}; raise timeout, or lower concurrency"
        )
    if kind in ("APIConnectionError", "ConnectError"):
        if done:
            return ModelError(f"{where}: the connection broke{done}")
        return ModelError(f"{where}: no connection{tries}; is the server running there?")
    if kind in ("ReadError", "RemoteProtocolError", "ProtocolError"):
        return ModelError(f"{where}: the connection broke{done}")
    return ModelError(f"{where}: its reply can't be read{done} ({said or kind})")


def _tries(spec: ServerSpec) -> str:
    return f" in {spec.retries + 1} tries" if spec.retries else ""


def _advice(status: int, spec: ServerSpec, tries: str) -> str:
    variable = f"the key in {spec.key}" if spec.key else "requests without a key; name its variable under key"
    if status in (401, 403):
        return f"it refuses {variable}"
    if status == 404:
        return f"it has no such address, or no model {spec.model!r}; check base_url and model"
    if status == 429:
        return f"it limits the rate or the quota{tries}; lower concurrency, or wait and use --resume"
    if status in (400, 413, 422):
        sent = ["max_tokens", *(["temperature"] if spec.temperature else []), *(["seed"] if spec.seed else [])]
        return f"it refuses the request, which sets {', '.join([*sent, *spec.extra_body])}"
    return f"it failed{tries}"


def _said(error: Exception) -> str:
    """The server's own words, if it had any."""
    body: Any = getattr(error, "body", None)
    for name in ("error", "detail", "message"):
        if isinstance(body, dict) and name in body:
            body = body[name]
    return body if isinstance(body, str) and body else str(error) if body is None else str(body)
