#!/usr/bin/env bash
# A regression gate as one script: runs the cells, judges them against a committed baseline, keeps the report whatever the verdict.
#
#   ./gate.sh [pytest options]          e.g. ./gate.sh --gpu -n 2
#
# Copy it into your project and run it there. What is measured stands in pytest.ini, for the baseline and the gate alike (docs/ci.md).
# Settings, by environment: BASELINE (a file of --update-baseline, or a run directory), OUT (run directory), CELLS (paths), PYTEST.
# Exit code: 0 passed, 1 a cell is worse or missing, anything else: the run itself failed.
set -euo pipefail

BASELINE=${BASELINE:-baseline.json}
OUT=${OUT:-reports/gate-$(date -u +%Y%m%d-%H%M%S)-$$}
PYTEST=${PYTEST:-pytest}
read -ra cells <<<"${CELLS:---pyargs pbcore.benches}" # the stock cells, unless the project has cells of its own

run=(--out "$OUT")
if [ -f "$OUT/run.json" ]; then run=(--resume "$OUT"); fi # an interrupted run is resumed
"$PYTEST" "${cells[@]}" "${run[@]}" --gate "$BASELINE" --junit-xml "$OUT.xml" "$@"
