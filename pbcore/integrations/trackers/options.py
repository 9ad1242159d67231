"""The options of `pbcore export` for trackers."""

import argparse
from pathlib import Path


class Trackers:
    """Weights & Biases and MLflow (`exchange.export.Exporter`)."""

    usage = "--wandb PROJECT, --mlflow URI"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--wandb",
            metavar="PROJECT",
            help="project of Weights & Biases (pbcore[wandb]); WANDB_MODE=offline sends nothing",
        )
        parser.add_argument(
            "--mlflow", metavar="URI", help="MLflow's tracking server or store, e.g. http://host:5000 (pbcore[mlflow])"
        )
        parser.add_argument(
            "--experiment", default="pbcore", metavar="NAME", help="MLflow's experiment (default: pbcore)"
        )

    def asked(self, args: argparse.Namespace) -> bool:
        return bool(args.wandb or args.mlflow)

    def send(self, path: Path, args: argparse.Namespace) -> list[str]:
        from pbcore.integrations.trackers.send import to_mlflow, to_wandb

        lines = [f"Weights & Biases: {to_wandb(path, args.wandb)}"] if args.wandb else []
        return lines + ([f"MLflow: run {to_mlflow(path, args.mlflow, args.experiment)}"] if args.mlflow else [])


TRACKERS = Trackers()
