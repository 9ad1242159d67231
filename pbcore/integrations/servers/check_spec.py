"""What a declaration can't mean, named with file, model and key."""

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from pbcore.errors import InputError
from pbcore.integrations.servers.declaration import ServerSpec
from pbcore.printable import printable, shown
from pbcore.registry import hint

_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*")
# What extra_body can't set, and the key that does.
_RESERVED = {
    "model": "model",
    "messages": "none, the task's prompts are sent",
    "stream": "stream",
    "max_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "temperature": "temperature",
    "seed": "seed",
    "n": "none, one answer is taken",
}


def check_url(url: str, where: str) -> None:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid:
        raise InputError(f"{where}: base_url is no address; give e.g. http://localhost:8000/v1")
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise InputError(
            f"{where}: base_url holds a user, a password or a query, and addresses are recorded; give scheme, host, "
            "port and path, and under key the variable that holds the key"
        )


def check_values(spec: ServerSpec, where: str) -> None:
    if spec.key is not None and not _VARIABLE.fullmatch(spec.key):
        raise InputError(
            f"{where}: key is the name of an environment variable, in capitals, digits and _, such as OPENAI_API_KEY; "
            "never the key itself"
        )
    ranges: dict[str, tuple[float, float]] = {
        "max_tokens": (1, 1_000_000),
        "concurrency": (1, 1024),
        "timeout": (0.1, 86_400),
        "retries": (0, 100),
    }
    for name, (least, most) in ranges.items():
        if not least <= getattr(spec, name) <= most:
            raise InputError(f"{where}: {name} {shown(getattr(spec, name))}; give a number from {least} to {most}")
    if spec.prices is not None and min(spec.prices.input, spec.prices.output) < 0:
        raise InputError(f"{where}: prices are USD per million tokens, not below 0")
    if spec.max_tokens_field not in ("max_tokens", "max_completion_tokens"):
        given = shown(spec.max_tokens_field)
        raise InputError(f"{where}: max_tokens_field {given}; give max_tokens or max_completion_tokens")
    for name, most in spec.task_max_tokens.items():
        if not 1 <= most <= 1_000_000:
            raise InputError(f"{where}: task_max_tokens {printable(name)} {most}; give a number from 1 to 1000000")
    places = [(place, "sampler_fields") for fields in spec.sampler_fields.values() for place in fields.values()]
    for name, key in (*((name, "extra_body") for name in spec.extra_body), *places):
        head = name.partition(".")[0]
        if head in _RESERVED:
            raise InputError(f"{where}: {key} sets {head!r}, which has a key of its own: {_RESERVED[head]}")
        if key == "sampler_fields" and (not all(name.split(".")) or name in spec.extra_body):
            raise InputError(f"{where}: sampler_fields sets {name!r}; give a field's name that extra_body doesn't set")
    _check_steps(spec, where)
    if not spec.model:
        raise InputError(f"{where}: model is empty; give the id that the server knows it by")


def _check_steps(spec: ServerSpec, where: str) -> None:
    if spec.step_map_field is not None and (spec.stream or spec.nfe_field is not None):
        raise InputError(
            f"{where}: step_map_field is read from whole answers and counts forwards itself; "
            "declare stream: false, and no nfe_field"
        )
    for key, needed in (("tokens_field", "step_map_field"), ("tokenizer", "step_map_field")):
        if getattr(spec, key) is not None and getattr(spec, needed) is None:
            raise InputError(f"{where}: {key} is for the steps of the tokens; declare {needed}, too")


def check_tasks(read: Mapping[str, ServerSpec], file: Path) -> None:
    """Raises InputError for limits of tasks that don't exist."""
    from pbcore.tasks import all_task_names

    known = {part for task in all_task_names() for part in (task, *task.split("/", 1))}
    for name, spec in read.items():
        for task in spec.task_max_tokens:
            if task not in known:
                raise InputError(
                    f"{file}, model {name}: task_max_tokens {printable(task)}; {hint(task, sorted(known))}"
                )
