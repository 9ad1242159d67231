"""`python -m pbcore.train --adapt MODEL --task TASK`: trains a LoRA adapter (a SEDD model: all
weights), or resumes an interrupted run.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd
import torch
import yaml
from matplotlib.figure import Figure

from pbcore.base.errors import InputError, PbcoreError
from pbcore.base.links import docs
from pbcore.base.tabular import Table, markdown
from pbcore.extras.train.loop import STATE, write_table
from pbcore.extras.train.lora.run import LoraRun, put, resume, save, start, train
from pbcore.extras.train.lora.settings import F4, OF_ADAPTERS, LoraSettings
from pbcore.extras.train.network import ScoreLoss
from pbcore.extras.train.sedd import model as sedd
from pbcore.models import resolve_model
from pbcore.models.identity import ModelFiles, adapter_files, digests
from pbcore.report.rerun import stock_run
from pbcore.tasks.naming import short
from pbcore.tasks.registry import add_tasks_file, all_task_names

WHOLE = """# `{settings.model}` fine-tuned on {settings.task}

Use it by its folder, DIR:

    pytest benches --model {settings.model} --model DIR --task {settings.task}

"""
ADAPTER = """---
library_name: peft
base_model: {settings.model}
---
# A LoRA adapter of `{settings.model}` for {settings.task}

Adapter `{digest}`: rank {settings.rank}, α {settings.alpha:g}, on {targets}. Use it as `{settings.model}+DIR`, where DIR is this folder:

    pytest benches --model {settings.model} --model {settings.model}+DIR --task {settings.task}

"""
CARD = """{table}

The weights are those of step {best[step]:,}, the best by score (of {scored:,} answers) and then by loss (of {validation:,}) on
the validation examples; step 0 is the model before. Trained on {train:,} examples in {run.step:,} of
{run.steps:,} steps, {minutes:.1f} minutes on {run.model.device.type} in {run.model.info[dtype]}; `loss.csv` and `loss.png` have every step's loss. The
loss is the {loss}, with t ~ U(0, 1) for each row.

Settings ({page} explains them):

```yaml
{values}```

![loss](loss.png)
"""
LOSSES = {
    "lora": "cross-entropy of masked answer tokens (nats)",
    "full": "score entropy of noisy answer tokens, times σ′(t)·t",
}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    try:
        for file in options.tasks:
            add_tasks_file(file)
        return _train(_settings(options), options)
    except (PbcoreError, FileNotFoundError) as error:
        parser.error(str(error))


def _settings(options: argparse.Namespace) -> LoraSettings:
    """The settings that are given; of the others a SEDD model has those of F.4. Raises InputError
    for settings of an adapter with such a model, which is trained whole.
    """
    given = {
        field.name: getattr(options, field.name)
        for field in fields(LoraSettings)
        if hasattr(options, field.name)
    }
    given["task"] = next(
        (name for name in all_task_names() if short(name) == options.task), options.task
    )
    if resolve_model(options.adapt).loaded_as == "sedd":
        odd = [f"--{name.replace('_', '-')}" for name in OF_ADAPTERS if name in given]
        if odd:
            raise InputError(
                f"{', '.join(odd)}: {options.adapt} is a SEDD model, which is trained whole; leave it out"
            )
        given = {**F4, **given}
    return LoraSettings(model=options.adapt, **given)


def _train(settings: LoraSettings, options: argparse.Namespace) -> int:
    out = options.out or Path("adapters") / short(settings.task).replace("/", "-")
    run = start(settings)
    say = partial(run.accelerator.print, flush=True)
    if (out / STATE).is_file():
        resume(run, out)
        say(f"resuming {out} at step {run.step}")
    adapter = settings.method == "lora"
    what = "the adapter has" if adapter else "all weights are trained,"
    size = sum(value.numel() for value in run.weights().values())
    say(f"{len(run.data.train):,} examples, {run.steps:,} steps; {what} {size:,} parameters")
    try:
        train(run, options.steps or run.steps, _reporter(out, options.save_minutes))
    except KeyboardInterrupt:
        say(f"stopped at step {run.step}; the same command resumes there")
        return 130
    finally:
        if run.accelerator.is_main_process:
            save(run, out)
    if run.step < run.steps:
        say(f"stopped at step {run.step} of {run.steps}; the same command without --steps goes on")
    if run.accelerator.is_main_process and run.best is not None:
        _write(run, run.best, out)
        say(
            f"step {run.best['step']} is the best, {100 * run.best['score']:.1f} %; written to {out}"
        )
        name = f"{settings.model}+{out}" if adapter else out
        say(f"use it: {stock_run('--model', settings.model, '--model', name)}")
    return 0


def _reporter(out: Path, minutes: float) -> Callable[[LoraRun], None]:
    """Prints a line every 50 steps and after validations, and saves the state every so many
    minutes.
    """
    saved = time.monotonic()

    def report(run: LoraRun) -> None:
        nonlocal saved
        row = run.log[-1]
        judged = (
            f"validation {row['validation_loss']:.4f}, {100 * row['score']:.1f} %"
            if "score" in row
            else ""
        )
        if "loss" not in row:
            run.accelerator.print(
                f"{'without an adapter' if run.settings.method == 'lora' else 'before'}: {judged}"
            )
        elif run.step % 50 == 0 or judged:
            left = run.seconds / run.step * (run.steps - run.step)
            loss = fmean(row["loss"] for row in run.log[-50:] if "loss" in row)
            parts = [f"step {run.step}/{run.steps}", f"loss {loss:.4f}", f"rate {row['rate']:.2e}"]
            parts += [*filter(None, [judged]), f"{run.seconds / 60:.1f} min, {left / 60:.1f} left"]
            run.accelerator.print("  ".join(parts), flush=True)
        if run.accelerator.is_main_process and time.monotonic() - saved > 60 * minutes:
            save(run, out)
            saved = time.monotonic()

    return report


def _write(run: LoraRun, best: dict[str, Any], folder: Path) -> None:
    """Writes the best adapter (of a model that was trained whole: its checkpoint), its card and its
    loss.
    """
    folder.mkdir(parents=True, exist_ok=True)
    put(run, best["weights"])
    if isinstance(run.plain, ScoreLoss):
        sedd.save_sedd(run.plain.network, folder)
        run.model.tokenizer.save(folder)
    else:
        adapter: Any = run.plain.adapted
        adapter.save_pretrained(folder, save_embedding_layers=False)
    write_table(run.log, folder)
    _plot(run, folder / "loss.png")
    (folder / "README.md").write_text(_card(run, best, folder), encoding="utf-8")


def _plot(run: LoraRun, path: Path) -> None:
    """The loss over steps, its mean over 50 steps, and what the validation examples gave."""
    figure = Figure(figsize=(7, 4), dpi=80, layout="constrained")
    axes = figure.add_subplot()
    log = pd.DataFrame(run.log).set_index("step")
    loss = log["loss"].dropna()
    judged = log.dropna(subset="score")
    axes.plot(loss, linewidth=0.5, alpha=0.4, color="C0")
    axes.plot(
        loss.rolling(50, min_periods=1).mean(), color="C0", label="training, mean of 50 steps"
    )
    axes.plot(judged["validation_loss"], "o-", color="C1", label="validation")
    axes.set(xlabel="step", ylabel=LOSSES[run.settings.method], yscale="log")
    scores = axes.twinx()
    scores.plot(100 * judged["score"], "s--", color="C2")
    scores.set(
        ylabel=f"{run.data.task.headline} under {run.settings.sampler} (%, dashed)", ylim=(0, 102)
    )
    axes.legend()
    figure.savefig(path)


def _scores(run: LoraRun) -> str:
    """Loss and score on the validation examples by step, in Markdown."""
    heads = ["step", "validation loss", f"{run.data.task.headline} under {run.settings.sampler}"]
    rows = [
        [f"{row['step']:,}", f"{row['validation_loss']:.4f}", f"{100 * row['score']:.1f} %"]
        for row in run.log
        if "score" in row
    ]
    return markdown(Table(heads, rows, "rrr"))


def _card(run: LoraRun, best: dict[str, Any], folder: Path) -> str:
    settings = run.settings
    adapter = settings.method == "lora"
    return ((ADAPTER if adapter else WHOLE) + CARD).format(
        run=run,
        settings=settings,
        best=best,
        page=docs("train.md"),
        digest=digests(ModelFiles(tuple(adapter_files(folder))))["adapter"] if adapter else "",
        loss=LOSSES[settings.method],
        targets=", ".join(settings.targets),
        table=_scores(run),
        scored=min(settings.scored, len(run.data.validation)),
        validation=len(run.data.validation),
        train=len(run.data.train),
        minutes=run.seconds / 60,
        values=yaml.safe_dump(settings.to_json(), sort_keys=False, width=110),
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pbcore.train",
        description=__doc__.split(": ", 1)[1],
        epilog=f"More: {docs('train.md')}",
    )
    parser.add_argument(
        "--adapt", required=True, metavar="MODEL", help="masked diffusion or SEDD model to adapt"
    )
    parser.add_argument("--task", required=True, help="task to learn, e.g. waiting_line/shuffle")
    parser.add_argument(
        "--tasks", type=Path, action="append", default=[], metavar="FILE", help="tasks of your own"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder of adapter and run (default: adapters/TASK)"
    )
    for item in fields(LoraSettings):
        name = f"--{item.name.replace('_', '-')}"
        words = dict(item.metadata)
        if item.default is False:
            parser.add_argument(name, action="store_true", default=argparse.SUPPRESS, **words)
        elif words:
            words["help"] += "" if item.default is None else f" (default: {item.default})"
            parser.add_argument(name, default=argparse.SUPPRESS, **words)
    parser.add_argument(
        "--steps", type=int, metavar="N", help="stop after this step; the same command goes on"
    )
    parser.add_argument(
        "--save-minutes",
        type=float,
        default=3.0,
        metavar="M",
        help="minutes between two saved states",
    )
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument(
        "--threads", type=int, default=torch.get_num_threads(), metavar="N", help="CPU threads"
    )
    return parser
