"""`pbcore check engine --fields`: the results in words and as JSON, and where they are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, cast, get_args

from pbcore.base.check import dump_json
from pbcore.base.printable import counted, printable
from pbcore.extras.servers.engines import version
from pbcore.extras.servers.field_check import (
    PROMPTS,
    FieldResult,
    check_fields,
    most_requests,
)
from pbcore.extras.servers.field_states import NOT_VERIFIED, FieldState, keep
from pbcore.models.base import Prompt

if TYPE_CHECKING:
    from pbcore.extras.servers.served_engine import MadeCheckpoint, ServedEngine

TASK = "waiting_line/shuffle"  # whose questions are asked without a made checkpoint
SIGNS = {"effective": "✓", "inert": "✗", "failed": "✗", "unsettled": "·"}


def run_fields(engine: ServedEngine, material: MadeCheckpoint | None, out: Path | None) -> int:
    """Checks the fields of a row, prints what came, keeps it, and returns the exit status: 0 if
    every field has an effect, 5 if none could be tried, else 1.

    Args:
        engine: the server.
        material: whose prompts are asked; None: questions of a task.
        out: a file for the results as JSON.
    """
    from pbcore.results.rundir import write_atomic

    results = []
    prompts = prompts_of(engine, material)
    print(f"pbcore: {printable(engine.spec.name)}: {most_requests(engine.spec, len(prompts))}")
    for result in check_fields(engine, prompts):
        results.append(result)
        print(field_line(result), flush=True)
    found: dict[str, dict[str, FieldState]] = {}
    for result in results:
        if result.verdict in get_args(FieldState):
            states = found.setdefault(result.policy, {})
            states[result.field] = cast("FieldState", result.verdict)
    print(f"\n{fields_summary(results)}")
    if found:
        path = keep(engine.spec, version(engine.spec), found)
        print(f"kept in {printable(str(path))}, so that later runs and lists tell it")
    if out is not None:
        write_atomic(out, dump_json({"fields": [asdict(one) for one in results]}, indent=1) + "\n")
    verdicts = {result.verdict for result in results}
    if verdicts == {"effective"}:
        return 0
    return 5 if verdicts == {"unsettled"} else 1


def prompts_of(engine: ServedEngine, material: MadeCheckpoint | None) -> Sequence[Prompt]:
    """A dozen prompts, each once."""
    if material is None:
        from pbcore.tasks import load_task

        return load_task(TASK, limit=PROMPTS).samples
    return [engine.prompt(ids) for ids in material.prompts()[:PROMPTS]]


def field_line(result: FieldResult) -> str:
    """A field in a line."""
    values = " and ".join(printable(str(value)) for value in result.values)
    head = f"{SIGNS[result.verdict]} {result.policy}: {printable(result.field)}"
    head += f" ({values})" if values else ""
    if result.text:
        return f"{head}: {result.verdict}, {result.text}"
    word = "inert, " if result.verdict == "inert" else ""
    return f"{head}: {word}{result.changed} of {result.of} answers changed"


def fields_summary(results: Sequence[FieldResult]) -> str:
    """How many fields have an effect, and what rows say of the others."""
    effective = sum(result.verdict == "effective" for result in results)
    text = f"{effective} of {counted(len(results), 'field')} with an effect"
    others = [f"{one.policy}: {one.field}" for one in results if one.verdict != "effective"]
    if others:
        text += f"; {NOT_VERIFIED}: {printable(', '.join(others), 300)}"
    return text
