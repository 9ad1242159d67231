"""Trade-off curves, PBx, AUP, oracle, parallelizability."""

from pbcore.analysis.oracle import block_slope, oracle, parallelizability
from pbcore.analysis.tradeoff import aup, curve_rows, mean_points, pareto, pbx, pbx_rows

__all__ = [
    "aup",
    "block_slope",
    "curve_rows",
    "mean_points",
    "oracle",
    "parallelizability",
    "pareto",
    "pbx",
    "pbx_rows",
]
