"""What a run was: command, versions, machine; and what was not measured."""

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pandas as pd

from pbcore.printable import command_line, counted, first_line
from pbcore.report.parts import lines, told
from pbcore.report.tables import prompts_note
from pbcore.results.record import absent_reasons


def facts(cells: pd.DataFrame, run: Mapping[str, Any]) -> dict[str, str]:
    """The run's facts by name; those that are unknown are left out."""
    command = run.get("command")
    rows = {"command": command_line(command) if isinstance(command, list) else command or ""}
    rows |= {name: str(run[name]) for name in ("started", "profile", "shard") if run.get(name) is not None}
    for name in ("seeds", "data_source", "prompts", "device", "dtype", "length"):
        values = sorted({str(value) for value in cells[name].dropna()} - {""}) if name in cells else []
        rows[name.replace("_", " ")] = ", ".join(values[:20]) + (" …" if len(values) > 20 else "")
    for name in ("machine", "versions"):
        if isinstance(run.get(name), Mapping):
            rows[name] = ", ".join(f"{key} {value}" for key, value in run[name].items() if value not in (None, "", []))
    failed = int((cells["status"] != "ok").sum())
    rows["cells"] = f"{len(cells)}" + (f", of which {failed} could not be run" if failed else "")
    return {name: value for name, value in rows.items() if value}


def gaps(cells: pd.DataFrame) -> list[str]:
    """What is not in the tables: failed cells, absent metrics, models with random weights; and notes on prompts and
    servers. Empty if there is nothing to say.
    """
    failed = cells[cells["status"] != "ok"]
    parts = [
        f"{name} could not be run: {first_line(str(error or 'no cause recorded'), 300)}"
        for name, error in zip(failed["id"], failed["error"], strict=True)
    ]
    reasons = Counter(item for one in cells.get("absent", ()) for item in absent_reasons(one).items())
    parts += [f"{metrics}: {why} ({counted(count, 'cell')})" for (metrics, why), count in sorted(reasons.items())]
    dummies = sorted(set(cells[cells["dummy"].isin([True])]["model"]))
    parts += [f"{model}: random weights, so its scores are left out" for model in dummies]
    parts += [*prompts_note(cells), *lines(told(cells))]
    return parts + ["timings are inexact: workers shared a device"] * int(cells["shared_device"].isin([True]).any())
