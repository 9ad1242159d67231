"""Rows beside calls: samplers that ask about what-if rows forward more canvases than their NFE says."""

import pandas as pd

NOTE = (
    "rows are all canvases forwarded, what-if rows too, and calls (NFE) the forwards in sequence: at batch 1 on a GPU "
    "calls are time, on a CPU or in large batches rows are"
)


def differ(cells: pd.DataFrame) -> pd.Series:
    """Which cells of a frame of `results.load` forwarded more rows than their calls, or fewer."""
    if not {"rows", "nfe"} <= set(cells):
        return pd.Series(False, index=cells.index)
    known = cells["rows"].notna() & cells["nfe"].notna()
    return known & (cells["rows"] != cells["nfe"])


def only_where_they_differ(cells: pd.DataFrame) -> pd.DataFrame:
    """The frame with its columns `rows` and `tokens_per_row`; without any value if no cell has more rows than calls."""
    return cells if differ(cells).any() else cells.assign(rows=float("nan"), tokens_per_row=float("nan"))
