"""Analysis of results: trade-off curves, PBx, AUP, oracle, parallelizability, paired comparison, gates."""

from pbcore.analysis.oracle import block_slope, oracle, parallelizability
from pbcore.analysis.tradeoff import aup, curves, means, pareto, pbx, pbx_table

__all__ = ["aup", "block_slope", "curves", "means", "oracle", "parallelizability", "pareto", "pbx", "pbx_table"]
