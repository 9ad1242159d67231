"""Experiment trackers, for `pbcore export --wandb` and `--mlflow`."""

ENTRY_POINTS = {"pbcore.exporters": {"trackers": "pbcore.extras.trackers.send:TRACKERS"}}
