"""The look of all PNG figures: colours, markers, and the frame of a panel."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from numpy.typing import ArrayLike

from pbcore.printable import printable
from pbcore.report.looks import COLOURS, DASHES, MARKERS, Look

PANEL = (3.3, 2.75)  # inches


def label(text: str) -> str:
    """Text for a figure: short, without control characters, and `$` as itself instead of a formula's beginning."""
    return printable(text, 60).replace("$", r"\$")


def drawn_as(look: Look) -> dict[str, Any]:
    """A look as matplotlib's keywords."""
    colour = COLOURS[look.colour]
    fill = "white" if look.hollow else colour
    return {"color": colour, "marker": MARKERS[look.marker], "linestyle": DASHES[look.dash], "mfc": fill}


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
