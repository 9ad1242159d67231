"""`pbcore install bertscore`: downloads BERTScore's model."""

import argparse

from pbcore.metrics.semantic import DEFAULT_MODEL, BertScoreUnavailable, install_model


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument("--model", default=DEFAULT_MODEL, help="default: %(default)s")


def run(args: argparse.Namespace) -> int:
    """Exit status 0, or 1 if the model can't be had."""
    try:
        source = install_model(args.model)
    except (BertScoreUnavailable, OSError) as error:
        print(error)
        return 1
    print(f"BERTScore: {source}, in {source.folder}")
    return 0
