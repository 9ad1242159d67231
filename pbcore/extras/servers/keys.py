"""Keys of servers: read from the environment, sent in one header, masked in every error and log,
never in an answer.
"""

import logging
import os
import re
from base64 import b64encode, urlsafe_b64encode
from functools import lru_cache
from importlib import import_module
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from pbcore.base.links import install_command
from pbcore.base.printable import printable
from pbcore.extras.servers.spec import ServerSpec
from pbcore.models.errors import ModelError

# Sent to servers that need no key: an SDK would otherwise look for one of its own in the
# environment.
NO_KEY = "none"
MASKED = "[key]"
SAFE = 8  # characters: a shorter key stands in texts by chance, so that none can be searched for it
WORD = 200  # characters of a model id, a version, a reason that a record keeps
# Ends of a connection that was there.
_BROKEN = ("ReadError", "WriteError", "CloseError", "RemoteProtocolError", "ReplyError")
_PARTS = ("", "._base_client", "._response", "._legacy_response")
_LOGGERS = (
    *(f"openai{part}" for part in _PARTS),
    *(f"anthropic{part}" for part in _PARTS),
    "httpx2",
    *(f"httpcore2.{part}" for part in ("connection", "http11", "http2", "proxy", "socks")),
)


def key_of(spec: ServerSpec) -> str:
    """The key from the environment. Raises ModelError that names the variable if it is not set."""
    if spec.key is None:
        return NO_KEY
    value = _value(spec)
    if not value:
        raise ModelError(
            f"model {spec.name} needs a key for {spec.base_url}: set the environment variable"
            f" {spec.key}"
        )
    if not value.isascii() or not value.isprintable():
        raise ModelError(
            f"model {spec.name}: the key in {spec.key} has characters that no header can hold"
        )
    return value


def short_key(spec: ServerSpec) -> str | None:
    """A warning of a key that is too short to be told from other text; None for others."""
    if spec.key is None or not 0 < len(_value(spec)) < SAFE:
        return None
    return (
        f"model {spec.name}: the key in {spec.key} has fewer than {SAFE} characters, so answers are"
        " not searched for it; don't use a secret that short"
    )


def masked(text: str, spec: ServerSpec) -> str:
    """A text for an error or a log without the key: as it is, escaped for JSON or an address, and
    as a whole in hexadecimal digits or in base64.
    """
    key = _value(spec)
    return _pattern(key).sub(MASKED, text) if key else text


def told(text: str | None, spec: ServerSpec) -> str | None:
    """A short text that a server tells of itself, as records keep it: without the key."""
    if text is None:
        return None
    if len(_value(spec)) >= SAFE:
        text = masked(text, spec)
    return text[:WORD]


def check_answer(text: str, spec: ServerSpec) -> None:
    """Raises ModelError for an answer that repeats the key: answers are kept as they are, and no
    file holds a key.
    """
    key = _value(spec)
    if len(key) >= SAFE and _pattern(key).search(text):
        raise ModelError(
            f"model {spec.name} at {spec.base_url}: its answer repeats the key in {spec.key}, so it"
            " is not kept; find out what the server does with it, and replace the key"
        )


def mask_logs(spec: ServerSpec) -> None:
    """From now on the SDKs and their HTTP client log nothing with the key of this server."""
    if spec.key is None:
        return
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(f, _Masking) and f.spec == spec for f in logger.filters):
            logger.addFilter(_Masking(spec))


class _Masking(logging.Filter):
    def __init__(self, spec: ServerSpec) -> None:
        super().__init__()
        self.spec = spec

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = masked(record.getMessage(), self.spec)
        record.args = ()
        return True


def _value(spec: ServerSpec) -> str:
    return os.environ.get(spec.key, "").strip() if spec.key else ""


@lru_cache(maxsize=32)
def _pattern(key: str) -> re.Pattern[str]:
    """The key as it is or escaped; a key that is no short one in hexadecimal digits and in base64,
    too.
    """
    forms = [_escaped(key)]
    if len(key) >= SAFE:
        data = key.encode()
        forms.append(f"(?i:{data.hex()})")
        for encode in (b64encode, urlsafe_b64encode):
            forms.append(_escaped(encode(data).decode().rstrip("=")) + "(?:=|%3[dD]){0,2}")
    return re.compile("|".join(forms))


def _escaped(text: str) -> str:
    """A pattern of a text in which any character may be escaped for JSON or an address."""
    signs = []
    for sign in text:
        code = f"{ord(sign):02x}"
        signs.append(rf"(?:(?i:%{code}|\\u00{code})|\\?{re.escape(sign)})")
    return "".join(signs)


class ReplyError(Exception):
    """A reply that is not read to its end; the text says why."""


class ReportedError(Exception):
    """What a server says in the place of an answer, under status 200."""

    def __init__(self, body: Any) -> None:
        super().__init__()
        self.body = body
        self.code = body.get("code") if isinstance(body, dict) else None


def imported(package: str, spec: ServerSpec) -> ModuleType:
    """An SDK, which is an optional extra of the same name. Raises ModelError that says how to
    install it.
    """
    try:
        return import_module(package)
    except ImportError as error:
        raise ModelError(
            f"model {spec.name} is asked through the package {package}, which is not installed: "
            f"{install_command(package)}"
        ) from error


def failure(error: Exception, spec: ServerSpec, done: str = "") -> ModelError:
    """An exception of an SDK, or of reading a reply, as an error that says what to do.

    Args:
        error: the exception; keys in its text are masked.
        spec: the server that was asked.
        done: what had come by then, in words; empty: nothing.
    """
    status = getattr(error, "status_code", None)
    kind = type(error).__name__
    proxy = proxy_of(spec)
    through = f" through the proxy {proxy}, which the environment names" if proxy else ""
    said = printable(" ".join(masked(_said(error), spec).split()), 300)
    tries = f" in {spec.retries + 1} tries" if spec.retries else ""
    unread: BaseException | None = error
    while unread is not None and not isinstance(unread, ReplyError):
        unread = unread.__cause__
    if unread is not None:
        why = f"its reply can't be read{done} ({unread})"
    elif isinstance(error, ReportedError) or kind == "APIError" or status == 200:
        why = f"it reports an error{done} ({said or 'without a word'})"
    elif isinstance(status, int) and 300 <= status < 400:
        why = f"it redirects elsewhere, and no key is carried along; give that address ({status})"
    elif isinstance(status, int):
        why = f"{_advice(status, spec, tries)} ({status}: {said})"
    elif "Timeout" in kind:
        why = (
            f"no whole answer within {spec.timeout:g} s{tries}{done}{through}; raise timeout, or"
            " lower concurrency"
        )
    elif kind in ("APIConnectionError", "ConnectError") and not done and proxy:
        why = f"no connection{tries}{through}; if it is not meant for this server, set NO_PROXY"
    elif kind in ("APIConnectionError", "ConnectError") and not done:
        why = f"no connection{tries}; is the server running there?"
    elif kind in (
        "APIConnectionError",
        "ConnectError",
        "ReadError",
        "RemoteProtocolError",
        "ProtocolError",
    ):
        why = f"the connection broke{done}"
    else:
        why = f"its reply can't be read{done} ({said or kind})"
    return ModelError(f"model {spec.name} at {spec.base_url}: {why}")


def unlearned(error: Exception, spec: ServerSpec) -> str:
    """What came in place of what was asked before a run, in words without the key."""
    status = getattr(error, "status_code", None)
    said = printable(" ".join(masked(_said(error), spec).split()), 120)
    if isinstance(status, int) and 300 <= status < 400:
        return f"{status}: it redirects elsewhere"
    if isinstance(status, int) and status != 200:
        return f"{status}: {said}" if said else str(status)
    return said or type(error).__name__


def unreachable(error: Exception) -> bool:
    """Whether an exception of an SDK says that there is no server: a connection that broke, or a
    reply that didn't come, says less.
    """
    if type(error).__name__ != "APIConnectionError":
        return type(error).__name__ == "ConnectError"
    return type(error.__cause__).__name__ not in _BROKEN


def proxy_of(spec: ServerSpec) -> str | None:
    """Host and port of the proxy through which the environment has the server asked, if any."""
    address = urlsplit(spec.base_url)
    proxies = getproxies()
    proxy = proxies.get(address.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(address.netloc):
        return None
    return printable(proxy.rpartition("@")[2].rpartition("//")[2])


def _advice(status: int, spec: ServerSpec, tries: str) -> str:
    """What to do about an HTTP status."""
    if status in (401, 403) and spec.key:
        return f"it refuses the key in {spec.key}"
    if status in (401, 403):
        return "it refuses requests without a key; name its variable under key"
    if status == 404:
        return f"it has no such address, or no model {spec.model!r}; check base_url and model"
    if status == 429:
        return (
            f"it limits the rate or the quota{tries}; lower concurrency, or wait and use --resume"
        )
    if status in (400, 413, 422):
        sent = ["max_tokens"]
        if spec.temperature:
            sent.append("temperature")
        if spec.seed:
            sent.append("seed")
        sent.extend(spec.extra_body)
        return f"it refuses the request, which sets {', '.join(sent)}"
    return f"it failed{tries}"


def _said(error: Exception) -> str:
    """The server's own words, if it had any."""
    body: Any = getattr(error, "body", None)
    for name in ("error", "detail", "message"):
        if isinstance(body, dict) and name in body:
            body = body[name]
    if body is None:
        return str(error)
    return str(body)
