"""The look of all PNG figures: colours, markers, and the frame of a panel."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from numpy.typing import ArrayLike

from pbcore.printable import printable

# Okabe and Ito's colours, which colour-blind readers can distinguish, without yellow, which is faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8B6914")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
PANEL = (3.3, 2.75)  # inches


def label(text: str) -> str:
    """Text for a figure: short, without control characters, and `$` as itself instead of a formula's beginning."""
    return printable(text, 60).replace("$", r"\$")


def finish(axis: Axes, title: str) -> None:
    """Title (as it is), grid and ticks of a panel."""
    axis.set_title(title, fontsize=9, pad=4)
    axis.tick_params(labelsize=8, length=2.5)
    axis.grid(True, color="#E4E4E4", linewidth=0.6)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def percent(axis: Axes) -> None:
    """A y-axis from 0 to 100 %."""
    axis.set_ylim(-4, 104)
    axis.set_yticks([0, 20, 40, 60, 80, 100])


def points(axis: Axes, x: ArrayLike, y: ArrayLike, low: ArrayLike, high: ArrayLike, **look: Any) -> ErrorbarContainer:
    """Points with their intervals; an interval that isn't known has no bar."""
    middle = np.asarray(y, dtype=float)
    spread = np.nan_to_num(np.clip(np.vstack([middle - np.asarray(low), np.asarray(high) - middle]), 0, None))
    return axis.errorbar(np.asarray(x, dtype=float), middle, yerr=spread, **{"elinewidth": 0.8, "capsize": 1.8, **look})
