"""Experiment trackers, for `pbcore export --wandb` and `--mlflow`."""

from pbcore.base.extensions import Integration

INTEGRATION = Integration(exporter="pbcore.integrations.trackers.send:TRACKERS")
