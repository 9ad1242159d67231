"""Experiment trackers, for `pbcore export --wandb` and `--mlflow`."""

from pbcore.base.extensions import Integration

INTEGRATION = Integration(exporter="pbcore.extras.trackers.send:TRACKERS")
