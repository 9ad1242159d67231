"""What a server tells of itself beside its answers: its version, and counters of its `/metrics` page."""

from __future__ import annotations

import re
from typing import Any

from pbcore.integrations.servers.failures import masked
from pbcore.integrations.servers.kinds import KINDS
from pbcore.integrations.servers.reply import field_of, word
from pbcore.integrations.servers.spec import ServerSpec

_LINE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{.*\})?\s+([-+0-9.eE]+)")
SECONDS = 10.0


def version(spec: ServerSpec) -> str | None:
    """The server's version, where its kind tells one."""
    kind = KINDS[spec.kind]
    body = _page(spec, kind.version_path)
    if body is None or kind.version_field is None:
        return None
    try:
        told = word(field_of(body.json(), kind.version_field))
    except ValueError:
        return None
    return None if told is None else masked(told, spec)


def counters(spec: ServerSpec) -> dict[str, float]:
    """The counters that this kind of server has, summed over their labels; empty where it has none."""
    wanted = KINDS[spec.kind].counters
    page = _page(spec, "/metrics") if wanted else None
    if page is None:
        return {}
    sums: dict[str, float] = {}
    for line in page.text.splitlines():
        match = _LINE.match(line)
        if match:
            name = match[1].removesuffix("_total")
            sums[name] = sums.get(name, 0.0) + float(match[2])
    return {name: sums[counter] for name, counter in wanted if counter in sums}


def _page(spec: ServerSpec, path: str | None) -> Any:
    """A page of the server's host; None if it has none."""
    import httpx2

    if path is None:
        return None
    try:
        page = httpx2.get(spec.base_url.removesuffix("/v1") + path, timeout=SECONDS)
    except httpx2.HTTPError:
        return None
    return page if page.status_code == 200 else None
