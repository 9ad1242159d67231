"""Experiment trackers, for `pbcore export --wandb` and `--mlflow`."""

from pbcore.extensions import Integration

INTEGRATION = Integration(exporter="pbcore.integrations.trackers.send:TRACKERS")
