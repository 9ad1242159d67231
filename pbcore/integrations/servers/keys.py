"""Keys of servers: read from the environment, sent in one header, masked in every error and log, never in an answer."""

import logging
import os
import re
from functools import lru_cache
from html.entities import codepoint2name

from pbcore.integrations.servers.spec import ServerSpec
from pbcore.models.errors import ModelError

NO_KEY = "none"  # sent to servers that need no key: an SDK would otherwise look for one of its own in the environment
MASKED = "[key]"
SAFE = 8  # characters: a shorter key stands in texts by chance, so that none can be searched for it
WORD = 200  # characters of a model id, a version, a reason that a record keeps
_LOGGERS = (
    *("openai", "openai._base_client", "openai._response", "openai._legacy_response"),
    *("anthropic", "anthropic._base_client", "anthropic._response", "anthropic._legacy_response"),
    *("httpx2", *(f"httpcore2.{part}" for part in ("connection", "http11", "http2", "proxy", "socks"))),
)


def key_of(spec: ServerSpec) -> str:
    """The key from the environment. Raises ModelError that names the variable if it is not set."""
    if spec.key is None:
        return NO_KEY
    value = _value(spec)
    if not value:
        raise ModelError(f"model {spec.name} needs a key for {spec.base_url}: set the environment variable {spec.key}")
    if not value.isascii() or not value.isprintable():
        raise ModelError(f"model {spec.name}: the key in {spec.key} has characters that no header can hold")
    return value


def short_key(spec: ServerSpec) -> str | None:
    """A warning of a key that is too short to be told from other text; None for others."""
    if spec.key is None or not 0 < len(_value(spec)) < SAFE:
        return None
    return (
        f"model {spec.name}: the key in {spec.key} has fewer than {SAFE} characters, so answers are not searched for "
        "it; don't use a secret that short"
    )


def masked(text: str, spec: ServerSpec) -> str:
    """A text for an error or a log without the key, however it is written: as it is, or escaped for JSON, Python, an
    address or HTML.
    """
    key = _value(spec)
    return _pattern(key).sub(MASKED, text) if key else text


def told(text: str | None, spec: ServerSpec) -> str | None:
    """A short text that a server tells of itself, as records keep it: without the key."""
    if text is None:
        return None
    return (masked(text, spec) if len(_value(spec)) >= SAFE else text)[:WORD]


def check_answer(text: str, spec: ServerSpec) -> None:
    """Raises ModelError for an answer that repeats the key: answers are kept as they are, and no file holds a key."""
    key = _value(spec)
    if len(key) >= SAFE and _pattern(key).search(text):
        raise ModelError(
            f"model {spec.name} at {spec.base_url}: its answer repeats the key in {spec.key}, so it is not kept; "
            "find out what the server does with it, and replace the key"
        )


def mask_logs(spec: ServerSpec) -> None:
    """From now on the SDKs and their HTTP client log nothing with the key of this server."""
    if spec.key is None:
        return
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if not any(isinstance(one, _Masking) and one.spec == spec for one in logger.filters):
            logger.addFilter(_Masking(spec))


class _Masking(logging.Filter):
    def __init__(self, spec: ServerSpec) -> None:
        super().__init__()
        self.spec = spec

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = masked(record.getMessage(), self.spec), ()
        return True


def _value(spec: ServerSpec) -> str:
    return os.environ.get(spec.key, "").strip() if spec.key else ""


@lru_cache(maxsize=32)
def _pattern(key: str) -> re.Pattern[str]:
    """The key with each character as it is, after backslashes, or as a number of an address, of JSON or of HTML."""
    return re.compile("".join(_written(run) for run in re.findall(r"\\+|.", key)))


def _written(run: str) -> str:
    """One character of a key, or several backslashes."""
    code = ord(run[0])
    forms = [
        rf"(?i:\\+(?:u00|x){code:02x})",
        rf"\\*(?i:%(?:25)*{code:02x})",
        rf"\\*(?i:&(?:amp;)*#(?:0*{code}|x0*{code:x});)",
        *([rf"\\*&(?:amp;)*{codepoint2name[code]};"] if code in codepoint2name else []),
        *([r"\+"] if run == " " else []),
    ]
    if run[0] == "\\":
        return rf"(?:(?:{'|'.join(forms)}){{{len(run)},}}|\\{{{len(run)},}})"
    return rf"(?:{'|'.join(forms)}|\\*{re.escape(run)})"
