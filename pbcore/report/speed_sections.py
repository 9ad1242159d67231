"""report.md's sections on time: speed, speed under load, shared forwards."""

import pandas as pd

from pbcore.analysis.order import natural
from pbcore.printable import fixed
from pbcore.report.frame_table import frame_table
from pbcore.report.row_counts import NOTE, differ
from pbcore.report.under_load import bends, levels
from pbcore.text import md


def rows_note(cells: pd.DataFrame) -> list[str]:
    """The sentence on rows and calls, where a cell's differ."""
    return [f"{NOTE[0].upper()}{NOTE[1:]}."] if differ(cells).any() else []


def speed_section(cells: pd.DataFrame) -> str:
    ran = (
        cells[(cells["status"] == "ok") & cells.get("seconds", pd.Series(dtype=float)).notna()]
        if "seconds" in cells
        else cells[:0]
    )
    if ran.empty:
        return ""
    rows, told = [], rows_note(ran)
    for names, group in ran.groupby(["model", "sampler"], sort=False):
        model, sampler = map(str, names)
        seconds, samples = group["seconds"].sum(), group["n"].sum()
        forwards, canvases = ((group[kind] * group["n"]).sum(min_count=len(group)) for kind in ("nfe", "rows"))
        shared = "*" if group["shared_device"].any() else ""
        rows.append(
            {
                "model": model,
                "sampler": sampler,
                "cells": len(group),
                "NFE": forwards / samples,
                **({"rows": canvases / samples} if told else {}),
                "seconds": f"{fixed(seconds, 2)}{shared}",
                "samples/s": f"{fixed(samples / seconds)}{shared}" if seconds else "–",
                "tokens/s": f"{fixed((group['tokens_per_second'] * group['seconds']).sum() / seconds, 0)}{shared}"
                if seconds
                else "–",
            }
        )
    rows.sort(key=lambda row: (str(row["model"]), natural(str(row["sampler"]))))
    note = "\\* inexact: measured while workers shared a device.\n" if ran["shared_device"].any() else ""
    text = frame_table(pd.DataFrame(rows))
    return (
        f"## Speed\n\n{text}\n\n{' '.join(['Tokens are counted in the answers, before the first EOS.', *told])}\n{note}"
    )


def under_load_section(cells: pd.DataFrame) -> str:
    """Cells at several numbers of rows or requests at a time."""
    table = levels(cells)
    if table.empty:
        return ""
    text = frame_table(table.dropna(axis="columns", how="all"), significant=4)
    lines = [f"- {md(line, 300)}" for line in bends(table)]
    return "\n".join(
        [
            f"## Speed under load\n\n{text}\n",
            "At once: rows decoded together, or requests sent together (`+x4`). First token and percentiles are means "
            "over tasks of each cell's. Where an answer takes A / B + C seconds at B at a time (least squares), rates "
            "stay about below the lines B / A and 1 / C of the roofline, which meet at B = A / C.\n",
            *lines,
            *([""] if lines else []),
        ]
    )


def shared_forwards_section(cells: pd.DataFrame) -> str:
    """Cells that shared forwards, whose seconds are estimates and in no other table."""
    ran = cells[cells["forwards_computed"].notna()] if "forwards_computed" in cells else cells[:0]
    if ran.empty:
        return ""
    rows = [
        {
            "model": str(names[0]),
            "sampler": str(names[1]),
            "cells": len(group),
            "forwards": f"{group['forwards_shared'].sum() + group['forwards_computed'].sum():,.0f}",
            "computed": f"{group['forwards_computed'].sum():,.0f}",
            "seconds, estimated": fixed(group["seconds_estimated"].sum(), 2),
        }
        for names, group in ran.groupby(["model", "sampler"], sort=False)
    ]
    rows.sort(key=lambda row: (str(row["model"]), natural(str(row["sampler"]))))
    text = frame_table(pd.DataFrame(rows))
    return (
        f"## Shared forwards\n\n{text}\n\nThese cells shared forwards (`--share-forwards`) and have no time of their "
        "own. Estimated: all their forwards × seconds per forward of the model on the task.\n"
    )
