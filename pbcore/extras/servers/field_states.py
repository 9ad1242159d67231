"""Whether the fields that say a sampler have an effect on their server: what a check found, kept in
the user's cache folder, and the words for it. Without a check nothing is known of a field.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pbcore.base.cache_folder import cache_folder
from pbcore.base.check import LoadError, checked, read_json, validated
from pbcore.base.text import name
from pbcore.extras.servers.spec import ServerSpec

FieldState = Literal["effective", "inert", "unsettled", "unchecked"]
NOT_VERIFIED = "declared, not verified"
CHECK = "pbcore check engine --fields"
_WHY: Mapping[str, str] = {
    "inert": "without effect",
    "unsettled": "checked without a result",
    "unchecked": f"never checked ({CHECK})",
}


@checked
@dataclass(frozen=True)
class KeptFields:
    """What checks of a server found: policy → its field's place in the request → state. `version`
    is the server's, `date` the day of the last check.
    """

    date: str
    version: str | None = None
    policies: dict[str, dict[str, FieldState]] = field(default_factory=dict)


def _file(spec: ServerSpec) -> Path:
    """Where the findings on a server are kept."""
    parts = [spec.kind, spec.base_url, spec.model, spec.extra_body]
    digest = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]
    return cache_folder() / "server_fields" / f"{digest}.json"


def kept(spec: ServerSpec) -> KeptFields | None:
    """What is known of a server's fields; None where nothing is, or it can't be read."""
    with suppress(LoadError, OSError):
        path = _file(spec)
        if path.is_file():
            return validated(KeptFields, read_json(path), str(path))
    return None


def keep(
    spec: ServerSpec, version: str | None, found: Mapping[str, Mapping[str, FieldState]]
) -> Path:
    """Keeps findings, beside those on other policies of the same version of the server.

    Args:
        spec: the server.
        version: its version, where it tells one.
        found: policy → place → state.

    Returns:
        The file.
    """
    from pbcore.results.rundir import write_atomic

    before = kept(spec)
    policies = dict(before.policies) if before is not None and before.version == version else {}
    policies |= {policy: dict(states) for policy, states in found.items()}
    now = datetime.now(UTC).date().isoformat()
    path = _file(spec)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps(asdict(KeptFields(now, version, policies)), indent=1) + "\n")
    return path


def field_states(
    spec: ServerSpec, policy: str, version: str | None = None
) -> dict[str, FieldState]:
    """The state of each field that says a policy; those of another version of the server are not
    checked.

    Args:
        spec: the server.
        policy: of the sampler.
        version: the server's now, where it is known.
    """
    known = kept(spec)
    states: Mapping[str, FieldState] = {}
    if known is not None and (version is None or known.version == version):
        states = known.policies.get(policy, {})
    places = spec.sampler_fields.get(policy, {}).values()
    return {place: states.get(place, "unchecked") for place in places}


def not_verified(states: Mapping[str, str]) -> str:
    """`steps without effect; b never checked (…)`; empty where every field has an effect."""
    groups: dict[str, list[str]] = {}
    for place, state in states.items():
        if state != "effective":
            groups.setdefault(state, []).append(place)
    parts = [
        f"{', '.join(map(name, places))} {_WHY.get(state, state)}"
        for state, places in groups.items()
    ]
    return "; ".join(parts)


def row_text(spec: ServerSpec) -> str:
    """What a row says of its fields; empty where it has none."""
    parts: dict[str, None] = {}
    for policy in spec.sampler_fields:
        text = not_verified(field_states(spec, policy))
        if text:
            parts[text] = None
    if parts:
        return f"sampler {NOT_VERIFIED}: {'; '.join(parts)}"
    return "sampler verified" if spec.sampler_fields else ""


def notes(cells: Iterable[tuple[str, str, Mapping[str, str]]]) -> list[str]:
    """The notes under a table whose samplers are declared and not verified, a line per model.

    Args:
        cells: (model, sampler, states of its fields) of each cell.
    """
    models: dict[str, dict[str, dict[str, None]]] = {}
    for model, sampler, states in cells:
        why = not_verified(states)
        if why:
            models.setdefault(model, {}).setdefault(why, {})[sampler] = None
    return [
        f"{NOT_VERIFIED}: {_samplers(samplers)} of {name(model)}: {why}"
        for model, reasons in models.items()
        for why, samplers in reasons.items()
    ]


def _samplers(samplers: Collection[str]) -> str:
    first = [name(sampler) for sampler in samplers][:3]
    more = len(samplers) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")
