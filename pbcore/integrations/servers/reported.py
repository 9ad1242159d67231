"""What a server tells of itself beside its answers: its version, and counters of its `/metrics` page."""

from __future__ import annotations

import math
import re
from typing import Any

from pbcore.integrations.servers.failures import ReplyError
from pbcore.integrations.servers.keys import told
from pbcore.integrations.servers.kinds import KINDS
from pbcore.integrations.servers.reply import field_of, word
from pbcore.integrations.servers.spec import ServerSpec

_LINE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{.*\})?\s+(\S+)")
SECONDS, BYTES = 10.0, 16 << 20


def version(spec: ServerSpec) -> str | None:
    """The server's version, where its kind tells one."""
    kind = KINDS[spec.kind]
    body = _page(spec, kind.version_path)
    if body is None or kind.version_field is None:
        return None
    try:
        return told(word(field_of(body.json(), kind.version_field)), spec)
    except ValueError:
        return None


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


def _page(spec: ServerSpec, path: str | None) -> Any:
    """A page of the server's host; None if it has none."""
    import httpx2

    from pbcore.integrations.servers.http import Limits, http_client

    if path is None:
        return None
    try:
        with http_client(spec, Limits(SECONDS, BYTES)) as client:
            page = client.get(spec.base_url.removesuffix("/v1") + path)
    except (httpx2.HTTPError, ReplyError):
        return None
    return page if page.status_code == 200 else None
