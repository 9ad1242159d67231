"""What a server tells of itself beside its answers: version, how it decodes, and counters of its `/metrics` page."""

import math
import os
import re
from collections.abc import Iterable
from typing import Any

from pbcore.integrations.servers.failures import ReplyError
from pbcore.integrations.servers.keys import key_of, told
from pbcore.integrations.servers.kinds import KINDS
from pbcore.integrations.servers.reply import field_of, word
from pbcore.integrations.servers.spec import ServerSpec

_LINE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{.*\})?\s+(\S+)")
SECONDS, BYTES = 10.0, 16 << 20


def version(spec: ServerSpec) -> str | None:
    """The server's version, where its kind tells one."""
    kind = KINDS[spec.kind]
    return told(word(field_of(_body(spec, kind.version_paths), kind.version_field)), spec)


def settings(spec: ServerSpec) -> dict[str, Any]:
    """How the server says that it decodes: the last name of a place → its value; empty where it doesn't tell."""
    kind = KINDS[spec.kind]
    page = _body(spec, kind.settings_paths)
    found = {}
    for place in kind.settings:
        parent, _, name = place.rpartition(".")
        holder = field_of(page, parent) if parent else page
        if isinstance(holder, dict) and name in holder:
            value = holder[name]
            found[name] = value if value is None or isinstance(value, (bool, int, float)) else told(str(value), spec)
    return found


def counters(spec: ServerSpec) -> dict[str, float]:
    """The counters that this kind of server has, summed over their labels; those that are not finite left out."""
    wanted = KINDS[spec.kind].counters
    page = _page(spec, "/metrics") if wanted else None
    if page is None:
        return {}
    names = {counter for _, counter in wanted}
    sums: dict[str, float] = {}
    for line in page.text.splitlines():
        match = _LINE.match(line)
        name = match[1].removesuffix("_total") if match else None
        if match and name in names:
            sums[name] = sums.get(name, 0.0) + _number(match[2])
    return {name: sums[counter] for name, counter in wanted if math.isfinite(sums.get(counter, math.nan))}


def _number(value: str) -> float:
    """A counter's value; NaN for what is not a number."""
    try:
        return float(value)
    except ValueError:
        return math.nan


def _body(spec: ServerSpec, paths: Iterable[str]) -> Any:
    """The JSON of the first of these pages that the server has; None if it has none, or another content."""
    page = next(filter(None, (_page(spec, path) for path in paths)), None)
    try:
        return None if page is None else page.json()
    except ValueError:
        return None


def _page(spec: ServerSpec, path: str) -> Any:
    """A page of the server's host; None if it has none."""
    import httpx2

    from pbcore.integrations.servers.http import Limits, http_client

    keyed = spec.key is not None and os.environ.get(spec.key)
    headers = {"authorization": f"Bearer {key_of(spec)}"} if keyed else {}
    try:
        with http_client(spec, Limits(SECONDS, BYTES), headers) as client:
            page = client.get(spec.base_url.removesuffix("/v1") + path)
    except (httpx2.HTTPError, ReplyError):
        return None
    return page if page.status_code == 200 else None
