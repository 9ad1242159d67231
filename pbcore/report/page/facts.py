"""What a run was: command, versions, machine; and what was not measured, as parts of the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pandas as pd

from pbcore.printable import command_line, counted, first_line
from pbcore.report.page.svg import text
from pbcore.report.parts import lines, told
from pbcore.report.tables import prompts_note
from pbcore.results.record import absent_reasons


def facts(cells: pd.DataFrame, run: Mapping[str, Any]) -> str:
    """A list of the run's facts; those that are unknown are left out."""
    command = run.get("command")
    words = command_line(command) if isinstance(command, list) else command
    rows: dict[str, str] = {"command": f"<code>{text(words, 2000)}</code>" if words else ""}
    rows |= {name: text(str(run[name])) for name in ("started", "profile", "shard") if run.get(name) is not None}
    for name in ("seeds", "data_source", "prompts", "device", "dtype", "length"):
        values = sorted({str(value) for value in cells[name].dropna()} - {""}) if name in cells else []
        rows[name.replace("_", " ")] = text(", ".join(values[:20]) + (" …" if len(values) > 20 else ""), 400)
    for name in ("machine", "versions"):
        if isinstance(run.get(name), Mapping):
            known = [f"{key} {value}" for key, value in run[name].items() if value not in (None, "", [])]
            rows[name] = text(", ".join(known), 1500)
    failed = int((cells["status"] != "ok").sum())
    rows["cells"] = f"{len(cells)}" + (f", of which {failed} could not be run" if failed else "")
    return "<dl>" + "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows.items() if value) + "</dl>"


def gaps(cells: pd.DataFrame) -> str:
    """What is not in the tables: failed cells, absent metrics, models with random weights; and notes on prompts and
    servers. Empty if there is nothing to say.
    """
    failed = cells[cells["status"] != "ok"]
    causes = [first_line(str(error or "no cause recorded"), 300) for error in failed["error"]]
    parts = [
        f"<li><code>{text(name)}</code> could not be run: {text(why)}</li>"
        for name, why in zip(failed["id"], causes, strict=True)
    ]
    reasons = Counter(item for one in cells.get("absent", ()) for item in absent_reasons(one).items())
    parts += [
        f"<li>{text(metrics)}: {text(why)} ({counted(count, 'cell')})</li>"
        for (metrics, why), count in sorted(reasons.items())
    ]
    dummies = sorted(set(cells[cells["dummy"].isin([True])]["model"]))
    parts += [f"<li>{text(model)}: random weights, so its scores are left out</li>" for model in dummies]
    parts += [f"<li>{text(note)}</li>" for note in prompts_note(cells)]
    parts += [f"<li>{text(one, 600)}</li>" for one in lines(told(cells))]
    if cells["shared_device"].isin([True]).any():
        parts.append("<li>timings are inexact: workers shared a device</li>")
    return f"<ul>{''.join(parts)}</ul>" if parts else ""
