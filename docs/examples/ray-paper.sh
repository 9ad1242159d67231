#!/usr/bin/env bash
# The paper's grid on the Ray cluster that this machine belongs to; it goes on where an earlier run of the same directory stopped.
#
#   docs/examples/ray-paper.sh llada-1.5 reports/paper-llada
set -euo pipefail
cd "$(dirname "$0")/../.."

MODEL=${1:?name the model, e.g. llada-1.5}
OUT=${2:?name the run directory}

if [ -f "$OUT/run.json" ]; then place=(--resume "$OUT"); else place=(--out "$OUT"); fi
exec "${PYTEST:-pytest}" benches --model "$MODEL" --gpu --profile paper --ray "${place[@]}" "${@:3}"
