#!/usr/bin/env bash
# The paper's grid over a SLURM array: one shard a task, one GPU each, merged at the end.
#
#   sbatch --array=1-8 slurm-array.sh llada-1.5 8
#   pbcore merge reports/paper-llada-1.5/shard-* -o reports/paper-llada-1.5/all      # when all are done
#
# A task that was killed is put back by its number (sbatch --array=3 slurm-array.sh llada-1.5 8): it goes on where it stopped.
#SBATCH --job-name=pbcore
#SBATCH --gres=gpu:1
#SBATCH --cpus-per-task=4
#SBATCH --mem=64G
#SBATCH --time=12:00:00
#SBATCH --requeue
set -euo pipefail

MODEL=${1:?name the model, e.g. llada-1.5}
SHARD=${SLURM_ARRAY_TASK_ID:?start this with sbatch --array=1-N}
SHARDS=${2:?say into how many shards the grid is split, e.g. 8}
OUT=reports/paper-${MODEL//\//_}/shard-$SHARD

options=(--model "$MODEL" --gpu --profile paper --shard "$SHARD/$SHARDS" --junit-xml "$OUT.xml")
if [ -f "$OUT/run.json" ]; then
  pytest --pyargs pbcore.benches "${options[@]}" --resume "$OUT"
else
  pytest --pyargs pbcore.benches "${options[@]}" --out "$OUT"
fi
