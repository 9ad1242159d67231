"""`python -m pbcore.train`: trains an embedded model, resumes an interrupted run, or evaluates a
checkpoint.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import get_args

import torch
from transformers import PreTrainedTokenizerFast

from pbcore.base.tabular import terminal
from pbcore.extras.train import card, evaluate, loop, vocabulary
from pbcore.extras.train.recipe import RECIPES, Objective, Recipe, model_of, read_recipe
from pbcore.extras.train.sedd import GRAPHS

HERE = Path(__file__).parent
SAMPLES = 100  # that a checkpoint is scored on, of each task


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    if any(text == "--adapt" or text.startswith("--adapt=") for text in given):
        from pbcore.extras.train.lora import command

        return command.main(given)
    parser = _parser()
    options = parser.parse_args(given)
    if options.recipe is not None and options.objective is not None:
        parser.error(
            "--objective chooses one of the recipes here; a --recipe of your own has the key"
            " `objective`"
        )
    objective = options.objective or "diffusion"
    if options.graph is not None and objective != "sedd":
        parser.error("--graph is the noise of --objective sedd; add that, or leave it out")
    model = model_of(objective, options.graph)
    options.recipe = options.recipe or HERE / RECIPES[model]
    options.out = options.out or Path(f"reports/train-{model}")
    torch.set_num_threads(options.threads)
    if options.evaluate is not None:
        folder = options.evaluate or loop.embedded_folder(model)
        results = evaluate.evaluate(
            folder, samples=options.samples or SAMPLES, device=options.device
        )
        print(terminal(evaluate.scores_table(results)))
        return 0
    return _train(options)


def _train(options: argparse.Namespace) -> int:
    recipe = read_recipe(options.recipe)
    run = _started(recipe, options.out, options.device)
    saved = time.monotonic()

    def report(run: loop.TrainingRun) -> None:
        nonlocal saved
        row = run.log[-1]
        print(
            f"step {run.step}/{recipe.steps}  loss {row['loss']:.3f}  rate {row['rate']:g} "
            f" {run.seconds / 60:.1f} min",
            flush=True,
        )
        if time.monotonic() - saved > 60 * options.save_minutes:
            loop.save(run, options.out)
            saved = time.monotonic()

    try:
        loop.train(run, min(recipe.steps, options.steps or recipe.steps), report)
    except KeyboardInterrupt:
        print(f"stopped at step {run.step}; the same command resumes there")
        return 130
    finally:
        loop.save(run, options.out)
    folder = options.out / "checkpoint"
    card.export(run, folder)
    if run.step < recipe.steps and options.samples is None:
        print(
            f"written to {folder}, not scored, as step {run.step} is not the last of"
            f" {recipe.steps}; the same command without --steps goes on, `python -m pbcore.train"
            f" --evaluate {folder}` scores it"
        )
        return 0
    samples = options.samples or SAMPLES
    results = evaluate.evaluate(folder, samples=samples, tasks=recipe.tasks, device=options.device)
    (folder / "README.md").write_text(card.card(run, results, samples), encoding="utf-8")
    print(f"{terminal(evaluate.scores_table(results))}\n\nwritten to {folder}")
    return 0


def _started(recipe: Recipe, out: Path, device: str) -> loop.TrainingRun:
    """A new run, or the resumed run of `out`. The tokenizer is saved in `out` once and then
    reused.
    """
    if (out / "tokenizer.json").is_file():
        tokenizer = PreTrainedTokenizerFast.from_pretrained(out)
    else:
        if recipe.start is not None:
            tokenizer = PreTrainedTokenizerFast.from_pretrained(loop.embedded_folder(recipe.start))
        else:
            tokenizer = vocabulary.build_tokenizer(
                vocabulary.vocabulary(recipe.vocabulary_samples, names=recipe.tasks)
            )
        out.mkdir(parents=True, exist_ok=True)
        tokenizer.save_pretrained(out)
    run = loop.start(recipe, tokenizer, device)
    if (out / loop.STATE).is_file():
        loop.resume(run, out)
        print(f"resuming {out} at step {run.step}")
    return run


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pbcore.train", description=__doc__.split("\n\n")[0].strip()
    )
    add = parser.add_argument
    adapt = "train a LoRA adapter of a model on one --task instead; see --adapt MODEL --help"
    add("--adapt", metavar="MODEL", help=adapt)
    trained = (
        "diffusion trains `tiny` on masked tokens (default), block `tiny-block` on masked tokens"
        " behind clean blocks, causal `tiny-ar` on next tokens, sedd `tiny-sedd` on"
    )
    add("--objective", choices=get_args(Objective), help=f"{trained} scores")
    add(
        "--graph",
        choices=GRAPHS,
        help="noise of --objective sedd: absorb (default) or uniform",
    )
    add("--recipe", type=Path, help="YAML file with objective, sizes, seed and phases of your own")
    out = "folder of the run (default: reports/train-MODEL); resumes if it already holds a run"
    add("--out", type=Path, help=out)
    add(
        "--steps",
        type=int,
        help="stop after this step, without scoring (default: the recipe's last, with scores)",
    )
    add("--save-minutes", type=float, default=3.0, help="minutes between two saved states")
    score = "score a checkpoint instead of training (default: the embedded one)"
    add("--evaluate", type=Path, nargs="?", const="", metavar="DIR", help=score)
    samples = (
        f"test samples per task (default: {SAMPLES}; none where --steps ends a run before its last"
        " step)"
    )
    add("--samples", type=int, help=samples)
    add("--device", default="cpu", help="cpu or cuda")
    add("--threads", type=int, default=torch.get_num_threads(), help="CPU threads")
    return parser
