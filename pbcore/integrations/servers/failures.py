"""What went wrong at a server, in one line that names it and what to do, and holds no key."""

from importlib import import_module
from types import ModuleType
from typing import Any

from pbcore.integrations.servers.keys import masked
from pbcore.integrations.servers.spec import ServerSpec
from pbcore.models.errors import ModelError
from pbcore.printable import printable


class ReplyError(Exception):
    """A reply that is not read to its end; the text says why."""


def imported(package: str, spec: ServerSpec) -> ModuleType:
    """An SDK, which is an optional extra of the same name. Raises ModelError that says how to install it."""
    try:
        return import_module(package)
    except ImportError as error:
        raise ModelError(
            f"model {spec.name} is asked through the package {package}, which is not installed: "
            f"pip install 'pbcore[{package}]'"
        ) from error


def failure(error: Exception, spec: ServerSpec, done: str = "") -> ModelError:
    """An exception of an SDK, or of reading a reply, as an error of the model; `done` is what had come by then."""
    status = getattr(error, "status_code", None)
    said = printable(" ".join(masked(_said(error), spec).split()), 300)
    where, tries = f"model {spec.name} at {spec.base_url}", _tries(spec)
    kind = type(error).__name__
    unread = _unread(error)
    if unread is not None:
        return ModelError(f"{where}: its reply can't be read{done} ({unread})")
    if isinstance(status, int) and 300 <= status < 400:
        return ModelError(f"{where}: it redirects elsewhere, and no key is carried along; give that address ({status})")
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


def _unread(error: BaseException | None) -> ReplyError | None:
    """The ReplyError that an SDK's exception stands for, if it is one."""
    while error is not None and not isinstance(error, ReplyError):
        error = error.__cause__
    return error


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
