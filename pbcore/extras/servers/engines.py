"""What a server tells of itself beside its answers: version, how it decodes, and counters of its
`/metrics` page.
"""

import json
import math
import os
import re
import warnings
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from pbcore.base.printable import printable, shown
from pbcore.extras.servers.keys import ReplyError, key_of, told
from pbcore.extras.servers.reply import LeftOutWarning, body_field
from pbcore.extras.servers.spec import KINDS, ServerSpec
from pbcore.models.ar import POLICY as AR
from pbcore.models.errors import ModelError
from pbcore.names import SamplerName, parse

SECONDS = 10.0
BYTES = 16 << 20
MOST = 1e15  # of what a record holds of settings and counters
UNNAMED = "server"  # the declared sampler that says nothing of how the server decodes
# SGLang's algorithms: the policy that each is, and its parameters without --dllm-algorithm-config.
_SGLANG = {
    "LowConfidence": ("threshold", "0.95"),
    "JointThreshold": ("joint", "0.5"),
    "Gemma4Renoise": ("eb", "0.1"),
}
_LINE = re.compile(r"([A-Za-z_:][\w:]*)(?:\{.*\})?\s+(\S+)")


def version(spec: ServerSpec) -> str | None:
    """The server's version, where its kind tells one."""
    kind = KINDS[spec.kind]
    text = body_field(_body(spec, kind.version_paths), kind.version_field)
    return told(text, spec) if isinstance(text, str) and text else None


def server_settings(spec: ServerSpec) -> dict[str, Any]:
    """How the server says that it decodes: the last name of a place → its value; empty where it
    doesn't tell. Numbers that no record can hold are left out with a warning.
    """
    kind = KINDS[spec.kind]
    page = _body(spec, kind.settings_paths)
    values: dict[str, Any] = {}
    for place in kind.settings:
        parent, _, name = place.rpartition(".")
        holder = body_field(page, parent) if parent else page
        if not isinstance(holder, dict) or name not in holder:
            continue
        value = holder[name]
        if isinstance(value, (int, float)) and not abs(value) <= MOST:
            _left_out(spec, f"the setting {name}", value)
        elif value is None or isinstance(value, (bool, int, float)):
            values[name] = value
        else:
            with suppress(RecursionError):  # lists without end, which say nothing
                values[name] = told(str(value), spec)
    return values


def counters(spec: ServerSpec) -> dict[str, float]:
    """The counters that this kind of server has, summed over their labels; those that no record can
    hold are left out with a warning.
    """
    wanted = KINDS[spec.kind].counters
    page = _page(spec, "/metrics") if wanted else None
    sums = {} if page is None else _sums(page)
    values = {}
    for name, counter in wanted:
        if counter not in sums:
            continue
        if 0 <= sums[counter] <= MOST:
            values[name] = sums[counter]
        else:
            _left_out(spec, f"the counter {counter}", sums[counter])
    return values


def _sums(page: str) -> dict[str, float]:
    """The counters of a Prometheus page, summed over their labels; NaN where a line has no
    number.
    """
    sums: dict[str, float] = {}
    for line in page.splitlines():
        match = _LINE.match(line)
        if match is None:
            continue
        name = match[1].removesuffix("_total")
        value = math.nan
        with suppress(ValueError):
            value = float(match[2])
        sums[name] = sums.get(name, 0.0) + value
    return sums


def _left_out(spec: ServerSpec, what: str, value: float) -> None:
    warnings.warn(
        f"model {spec.name} at {spec.base_url}: {what} is {shown(value)}, which no record can hold;"
        " left out",
        LeftOutWarning,
        stacklevel=3,
    )


def _body(spec: ServerSpec, paths: Iterable[str]) -> Any:
    """The JSON of the first of these pages that the server has; None if it has none, or another
    content.
    """
    for path in paths:
        page = _page(spec, path)
        if page is None:
            continue
        try:
            return json.loads(page)
        except (ValueError, RecursionError):  # another content, or nested without end
            return None
    return None


def _page(spec: ServerSpec, path: str) -> str | None:
    """A page of the server's host, as UTF-8 whatever charset it names; None if it has none."""
    import httpx2

    from pbcore.extras.servers.http import http_client

    keyed = spec.key is not None and os.environ.get(spec.key)
    headers = {"authorization": f"Bearer {key_of(spec)}"} if keyed else {}
    try:
        with http_client(spec, headers, SECONDS, BYTES) as client:
            page = client.get(spec.root + path)
    except (httpx2.HTTPError, httpx2.InvalidURL, ReplyError):
        return None
    if page.status_code != 200:
        return None
    text: str = page.content.decode("utf-8", "replace")
    return text


def check_sampler(spec: ServerSpec) -> None:
    """Asks the server how it decodes. Raises ModelError where that contradicts the declaration; a
    server that takes its sampler with each request, or doesn't tell, contradicts nothing.
    """
    if spec.sampler_fields:
        return
    said = server_settings(spec)
    name = parse(spec.sampler)
    contradiction = None
    if spec.kind == "sglang":
        contradiction = _sglang(name, said)
    elif spec.kind == "vllm":
        contradiction = _vllm(spec, name, said)
    if contradiction is None:
        return
    says, advice = contradiction
    raise ModelError(
        f"model {spec.name} is declared with sampler {spec.sampler}, and {spec.base_url} says"
        f" {printable(says)}; {printable(advice)}"
    )


def _sglang(name: SamplerName, said: dict[str, Any]) -> tuple[str, str] | None:
    """What SGLang's /server_info says otherwise, and what to do."""
    if "dllm_algorithm" not in said or name.policy == UNNAMED:
        return None
    algorithm = said["dllm_algorithm"]
    config = said.get("dllm_algorithm_config")
    if algorithm is None:
        if name.policy == AR:
            return None
        return (
            "dllm_algorithm None: it decodes one token at a time",
            "declare sampler: ar, or start the server with --dllm-algorithm",
        )
    policy, default = _SGLANG.get(algorithm, (None, ""))
    declared = f"sampler: {policy}-{default}" if policy else f"sampler: {UNNAMED}"
    if name.policy == AR or (policy is not None and name.policy != policy):
        return (
            f"dllm_algorithm {algorithm}",
            f"declare {declared} with its parameters, or start it with another one",
        )
    numbers = [value for word, value in name.arguments if not word]
    if policy is not None and config is None and numbers and float(numbers[0]) != float(default):
        return (
            f"dllm_algorithm {algorithm} without dllm_algorithm_config, whose number is {default}",
            f"declare {declared}, or start it with --dllm-algorithm-config",
        )
    return None


def _vllm(spec: ServerSpec, name: SamplerName, said: dict[str, Any]) -> tuple[str, str] | None:
    """What vLLM's configuration or counters say otherwise, and what to do."""
    canvas = said.get("canvas_length")
    if name.policy == AR:
        advice = f"declare the sampler of the diffusion model, or sampler: {UNNAMED}"
        if canvas is not None:
            return f"canvas_length {canvas}", advice
        if counters(spec):
            return "that it counts denoising steps (/metrics)", advice
    if name.block is not None and canvas is not None and name.block != canvas:
        return (
            f"canvas_length {canvas}",
            f"declare +b{canvas}, or start it with another --diffusion-config",
        )
    return None
