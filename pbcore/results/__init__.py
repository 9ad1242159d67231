"""Results of runs: records, the run directory, loading, merging, resuming."""

from pbcore.results.build import build_cell, error_cell
from pbcore.results.load import load, load_cells, load_many, load_samples
from pbcore.results.record import SCHEMA, CellRecord, Conditions, SampleRecord, Score
from pbcore.results.rundir import RunDir, create, open_run
from pbcore.results.table_row import frame, properties

__all__ = [
    "SCHEMA",
    "CellRecord",
    "Conditions",
    "RunDir",
    "SampleRecord",
    "Score",
    "build_cell",
    "create",
    "error_cell",
    "frame",
    "load",
    "load_cells",
    "load_many",
    "load_samples",
    "open_run",
    "properties",
]
