"""`pbcore rescore`: the kept answers of a run scored again, without its models, as a new run."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from pbcore.base.errors import InputError
from pbcore.exchange.rescore import rescore, rescored_text
from pbcore.metrics import semantic
from pbcore.metrics.languagetool.install import NO_DOWNLOAD_VARIABLE, URL_VARIABLE
from pbcore.tasks.cot import ANSWERS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument("source", type=Path, metavar="RUN", help="run directory")
    parser.add_argument(
        "-o", "--out", type=Path, metavar="DIR", help="the new run directory (default: beside RUN)"
    )
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="folder with the run's questions, if it is elsewhere now",
    )
    parser.add_argument(
        "--tasks",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="YAML file with tasks of your own",
    )
    parser.add_argument(
        "--cot-answer",
        choices=ANSWERS,
        help=(
            "of answers with steps: score what follows 'The answer is:', or the whole text"
            " (default: as the run did)"
        ),
    )
    parser.add_argument(
        "--languagetool-url", metavar="URL", help="LanguageTool server (default: the installed one)"
    )
    parser.add_argument(
        "--bertscore-model",
        metavar="DIR",
        help="folder of BERTScore's model (default: roberta-large)",
    )
    parser.add_argument(
        "--no-download",
        action="store_true",
        help="download nothing: scores without a tool are absent",
    )


def run(args: argparse.Namespace) -> int:
    """Exit status 0 whether or not scores changed; 2 for unusable input (raised as InputError)."""
    if args.no_download:
        os.environ[NO_DOWNLOAD_VARIABLE] = "1"
    if args.languagetool_url:
        os.environ[URL_VARIABLE] = args.languagetool_url
    if args.bertscore_model:
        os.environ[semantic.MODEL_VARIABLE] = args.bertscore_model
        try:
            semantic.chosen_model()
        except semantic.BertScoreUnavailable as error:
            raise InputError(str(error)) from error
    made, results = rescore(args.source, args.out, args.data_dir, args.tasks, args.cot_answer)
    print(rescored_text(results))
    print(made.path)
    return 0
