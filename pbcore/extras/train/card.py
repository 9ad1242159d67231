"""Writes the folder of the trained checkpoint: weights, tokenizer, loss curve and model card."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd
import torch
import yaml
from matplotlib.figure import Figure
from safetensors.torch import save_file

from pbcore.base.links import docs
from pbcore.base.tabular import markdown
from pbcore.extras.train.evaluate import TaskResult, scores_table
from pbcore.extras.train.loop import CLIP, TrainingRun, write_table
from pbcore.extras.train.recipe import BLOCK_FAMILY, RECIPES, model_of
from pbcore.extras.train.sedd.model import save_sedd
from pbcore.extras.train.sedd.network import SeddNetwork
from pbcore.models.families import FAMILIES

CARD = """# {name}: a small {kind} language model

`{name}` answers the 17 tasks of this benchmark. It is a `LlamaForCausalLM` with {attention} attention ({parameters:,} parameters: {recipe.layers} layers
of width {recipe.width}, {recipe.heads} heads, inner width {recipe.inner}; {words:,} word-level tokens), trained from {origin} by

    {command}

on this project's own data (train split, {ends}). Its vocabulary covers these tasks only: prompts with other
words raise an error. It is meant for testing samplers and the benchmark itself, not for use as a language model.

## Scores

Test split, {samples} samples per task (lists: n = 3, 4, 5, 6), greedy, {decoding}

{table}

Printed by `{command} --evaluate`. Text tasks have two scores: grammar by LanguageTool (en-US), and inclusion, ROUGE-L or
inverse BLEU.

## Training

- Objective: {objective}
- Muon for the layers' matrices, AdamW for embeddings and norms, one learning rate, gradients clipped at norm {clip:g}.
- {run.step:,} steps, {rows:,} rows, {hours} on a CPU ({seconds_per_step:.2f} s per step); last loss {last:.3f}. Loss curve: `loss.csv`,
  `loss.png`.
"""
SEDD_CARD = """# {name}: a small SEDD model with {graph} noise

`{name}` does list operations on single symbols by infilling (tasks {tasks}). It is the network of SEDD ({parameters:,} parameters:
{recipe.layers} blocks of width {recipe.width}, {recipe.heads} heads; {words:,} word-level tokens), trained from scratch by

    {command}

on this project's own data (train split). Its vocabulary covers these tasks only. It shows how the answers of score-based diffusion with
absorbing or uniform noise depend on the number of steps; it is no language model.

## Scores

Test split, {samples} samples per task, drawn (temperature 1), in percent. `analytic-s4` takes four steps and a denoising one.

{table}

Printed by `python -m pbcore.train --evaluate DIR`.

## Training

- Objective: score entropy (arXiv 2310.16834) times σ′(t)·t, log-linear noise, {graph} graph.
- Muon for the blocks' matrices, AdamW for the rest, one learning rate, gradients clipped at norm {clip:g}.
- {run.step:,} steps, {rows:,} rows, {hours} on a CPU ({seconds_per_step:.2f} s per step, beside other work); last loss {last:.3f}.
"""
END = """- Seed {recipe.seed}; a row depends on seed and step alone.
{notes}
The recipe (`pbcore/extras/train/{file}`):

```yaml
{settings}```

![loss](loss.png)
"""

# What differs between the models.
_WORDS = {
    "diffusion": {
        "loss": "cross-entropy of masked tokens (nats)",
        "kind": "masked diffusion",
        "attention": "full",
        "ends": "answers padded with EOS to the canvas",
        "decoding": "one block, in percent. `confidence-k4` reveals the four most\nconfident tokens per step.",
        "objective": "absorbing-state diffusion, cross-entropy over masked tokens. The noise and the token weights change "
        "from phase to phase; see\n  the recipe below, whose keys "
        f"{docs('train.md')} explains. EOS tokens after the first "
        "one have weight 0.1.",
    },
    "block": {
        "loss": "cross-entropy of masked tokens (nats)",
        "kind": "block diffusion",
        "attention": "block-causal",
        "ends": "answers padded with EOS to the canvas",
        "decoding": "blocks of 4, in percent. `confidence-k2` reveals the two most\nconfident tokens of the block per step.",
        "objective": "block diffusion: each block is predicted from its own visible tokens and the clean blocks before it,"
        "\n  cross-entropy over masked tokens. The recipe's keys are explained in "
        f"{docs('train.md')}.",
    },
    "causal": {
        "loss": "cross-entropy of answers' tokens (nats)",
        "kind": "autoregressive",
        "attention": "causal",
        "ends": "answers ended by one EOS",
        "decoding": "in percent.",
        "objective": "next-token prediction, cross-entropy over the tokens of the answer and its EOS and, in a share of "
        "rows (`masked_shots`), of\n  the solved example in the prompt.",
    },
    "sedd": {"loss": "score entropy × σ′(t)·t"},
}


def export(run: TrainingRun, folder: Path) -> None:
    """Writes the checkpoint: config.json, weights in float16, tokenizer files, loss.csv and
    loss.png.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if isinstance(run.model, SeddNetwork):
        save_sedd(run.model, folder, torch.float16)
    else:
        run.model.config.dtype = torch.float16
        block = run.recipe.block is not None
        architectures = FAMILIES[BLOCK_FAMILY].architectures if block else ("LlamaForCausalLM",)
        run.model.config.architectures = list(architectures)
        run.model.config.save_pretrained(folder)
        weights = {
            name: tensor.to("cpu", torch.float16) for name, tensor in run.model.state_dict().items()
        }
        weights.pop("lm_head.weight")  # tied to the embeddings
        save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    run.tokenizer.save_pretrained(folder, save_jinja_files=False)
    write_table(run.log, folder)
    plot(run, folder / "loss.png")


def plot(run: TrainingRun, path: Path) -> None:
    """Plots the loss over steps: the mean, and a thin line for each task."""
    figure = Figure(figsize=(7, 4), dpi=80, layout="constrained")
    axes = figure.add_subplot()
    log = pd.DataFrame(run.log).set_index("step")
    for name in sorted(log.columns[log.columns.str.contains("/")]):
        axes.plot(log[name].dropna(), linewidth=0.5, alpha=0.5)
    axes.plot(log["loss"], color="black", label="all tasks")
    axes.set(xlabel="step", ylabel=_WORDS[run.recipe.objective]["loss"], yscale="log")
    axes.legend()
    figure.savefig(path)


def card(run: TrainingRun, results: Sequence[TaskResult], samples: int) -> str:
    """The model card of a trained checkpoint, in Markdown.

    Args:
        run: the finished run.
        results: what the checkpoint reaches.
        samples: on how many samples of each task.
    """
    recipe = run.recipe
    name = model_of(recipe.objective, recipe.graph)
    options = "" if recipe.objective == "diffusion" else f" --objective {recipe.objective}"
    text = CARD
    if recipe.objective == "sedd":
        text = SEDD_CARD
        options = f"{options} --graph {recipe.graph}"
    return (text + END).format(
        **_WORDS[recipe.objective],
        run=run,
        recipe=recipe,
        name=name,
        file=RECIPES[name],
        command=f"python -m pbcore.train{options}",
        graph={"absorb": "absorbing"}.get(recipe.graph, recipe.graph),
        tasks=", ".join(f"`{task}`" for task in recipe.tasks or ()),
        origin="scratch" if recipe.start is None else f"the weights of `{recipe.start}`",
        parameters=sum(parameter.numel() for parameter in run.model.parameters()),
        words=len(run.tokenizer),
        samples=samples,
        table=markdown(scores_table(results)),
        clip=CLIP,
        rows=sum(recipe.phases[recipe.at(step)[0]].rows for step in range(run.step)),
        hours=f"{run.seconds / 60:.0f} minutes",
        seconds_per_step=run.seconds / run.step,
        last=run.log[-1]["loss"],
        notes="".join(f"- {note}\n" for note in recipe.notes),
        settings=yaml.safe_dump(asdict(recipe), sort_keys=False, width=110),
    )
