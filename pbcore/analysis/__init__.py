"""Trade-off curves, PBx, AUP, oracle, parallelizability. Curves are imported on first use: they
take pandas, which a cell's record doesn't need.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pbcore.analysis.oracle import block_slope, oracle, parallelizability

if TYPE_CHECKING:
    from pbcore.analysis.tradeoff import aup, curves, means, pareto, pbx, pbx_table

__all__ = [
    "aup",
    "block_slope",
    "curves",
    "means",
    "oracle",
    "parallelizability",
    "pareto",
    "pbx",
    "pbx_table",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("pbcore.analysis.tradeoff"), name)
    raise AttributeError(
        f"module 'pbcore.analysis' has no attribute {name!r}; it has {', '.join(__all__)}"
    )
