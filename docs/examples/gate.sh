#!/usr/bin/env bash
# A regression gate as one script: run the cells, judge them against a committed baseline, keep the report whatever the verdict.
#
#   docs/examples/gate.sh [pytest options]          e.g. docs/examples/gate.sh --gpu --model ./my-checkpoint -n 2
#
# Settings, by environment: BASELINE (a file of reports/baselines/ or a run directory), PROFILE, OUT (run directory), PYTEST.
# Run it in your project's folder. The first time, make the baseline there (docs/ci.md says how) and commit it.
# Exit code: 0 passed, 1 a cell is worse or missing, anything else: the run itself failed.
set -euo pipefail

BASELINE=${BASELINE:-reports/baselines/embedded-cpu.json}
PROFILE=${PROFILE:-ci}
OUT=${OUT:-reports/gate-$(date -u +%Y%m%d-%H%M%S)-$$}
PYTEST=${PYTEST:-pytest}

run=(--out "$OUT")
if [ -f "$OUT/run.json" ]; then run=(--resume "$OUT"); fi # an interrupted run is resumed
cells=(--pyargs pbcore.benches) # the stock cells, unless the project has cells of its own
if [ -d benches ]; then cells=(benches); fi
"$PYTEST" "${cells[@]}" --profile "$PROFILE" "${run[@]}" --gate "$BASELINE" --junit-xml "$OUT.xml" "$@"
