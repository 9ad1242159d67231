"""The training loop: runs a recipe's steps, saves states to resume from, and logs the loss."""

import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from pbcore.base.errors import InputError
from pbcore.extras.train.blocks import BlockLoss
from pbcore.extras.train.network import AnswerLoss, ScoreLoss, new_network, process
from pbcore.extras.train.noise import TrainingBatch
from pbcore.extras.train.optimizers import optimizers
from pbcore.extras.train.recipe import Phase, Recipe
from pbcore.extras.train.rows import Batches
from pbcore.extras.train.sedd.network import SeddNetwork
from pbcore.models.network import NativeNetwork
from pbcore.models.registry import all_entries, missing_here

CLIP = 1.0
STATE = "state.pt"


@dataclass(slots=True)
class TrainingRun:
    """A training run: the network, its loss and optimizers, steps done, seconds spent, and the
    log.
    """

    recipe: Recipe
    tokenizer: PreTrainedTokenizerFast
    model: LlamaForCausalLM | SeddNetwork
    loss: AnswerLoss | BlockLoss | ScoreLoss
    optimizers: tuple[torch.optim.Optimizer, ...]
    step: int = 0
    seconds: float = 0.0
    log: list[dict[str, Any]] = field(default_factory=list)


def start(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, device: str = "cpu") -> TrainingRun:
    """A run at step 0.

    Args:
        recipe: what is trained and how.
        tokenizer: the model's.
        device: where it is trained.

    Raises:
        InputError: if this installation lacks the model that it starts from.
    """
    model = new_network(recipe, tokenizer)
    if recipe.start is not None:
        weights = load_file(embedded_folder(recipe.start) / "model.safetensors")
        model.load_state_dict(
            {name: tensor.float() for name, tensor in weights.items()}, strict=False
        )
    model.to(device)  # type: ignore[arg-type]
    loss: AnswerLoss | BlockLoss | ScoreLoss
    if isinstance(model, SeddNetwork):
        loss = ScoreLoss(model)
    elif recipe.block is not None:
        loss = BlockLoss(NativeNetwork(model), model, recipe.block)
    else:
        loss = AnswerLoss(NativeNetwork(model), model, causal=recipe.causal)
    return TrainingRun(recipe, tokenizer, model, loss, optimizers(model, recipe.phases[0].rate))


def embedded_folder(name: str) -> Path:
    """The folder of an embedded model. Raises InputError if this installation has none of that
    name.
    """
    entry = next((entry for entry in all_entries() if entry.name == name and entry.embedded), None)
    if entry is None or entry.folder is None or missing_here(entry):
        raise InputError(
            f"recipe: start {name!r} is not an embedded model of this installation; give e.g. tiny"
        )
    return entry.folder


def save(run: TrainingRun, folder: Path) -> None:
    """Writes the state for `resume` and the log."""
    state = {
        "model": run.model.state_dict(),
        "optimizers": [optimizer.state_dict() for optimizer in run.optimizers],
        "step": run.step,
        "seconds": run.seconds,
        "log": run.log,
        "words": len(run.tokenizer),
    }
    save_state(state, folder)
    write_table(run.log, folder)


def save_state(state: Mapping[str, Any], folder: Path) -> None:
    """Writes a state into a folder; the old one is replaced only when the new one is complete."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(state, folder / f"{STATE}.new")
    os.replace(folder / f"{STATE}.new", folder / STATE)


def write_table(log: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Writes the log of a run as loss.csv."""
    pd.DataFrame(log).to_csv(folder / "loss.csv", index=False, lineterminator="\n")


def resume(run: TrainingRun, folder: Path) -> None:
    """Restores the saved state into a new run. Raises InputError if the vocabulary has changed
    since.
    """
    state = torch.load(
        folder / STATE, map_location=next(run.model.parameters()).device, weights_only=True
    )
    if state["words"] != len(run.tokenizer):
        raise InputError(
            f"{folder}: its run has {state['words']} tokens, the tasks now have"
            f" {len(run.tokenizer)}; start again in another folder"
        )
    run.model.load_state_dict(state["model"])
    for optimizer, saved in zip(run.optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(saved)
    run.step = state["step"]
    run.seconds = state["seconds"]
    run.log = state["log"]


def rate_at(phase: Phase, step: int, warmup: float) -> float:
    """The learning rate at a step of a phase: half a cosine from `rate` to `end_rate`.

    Args:
        step: the step within it.
        warmup: a factor, 0 to 1.
    """
    progress = 0.5 - 0.5 * math.cos(math.pi * step / phase.steps)
    return warmup * (phase.rate + (phase.end_rate - phase.rate) * progress)


def train(
    run: TrainingRun, until: int, report: Callable[[TrainingRun], None], every: int = 100
) -> None:
    """Trains up to step `until`.

    Args:
        run: the run, which moves on.
        until: the last step.
        report: called after each new row of the log.
        every: steps between rows of the log; the last step has one, too.
    """
    recipe = run.recipe
    warmup = max(1, run.recipe.warmup)
    noise = process(run.model) if isinstance(run.model, SeddNetwork) else None
    batches_of = cache(lambda number: Batches(recipe, number, run.tokenizer, noise))
    losses: dict[str, list[Tensor]] = defaultdict(list)
    run.model.train()
    while run.step < until:
        started = time.perf_counter()
        number, within = recipe.at(run.step)
        phase = recipe.phases[number]
        batch = batches_of(number)[within]
        learning_rate = rate_at(phase, within, min(1.0, (run.step + 1) / warmup))
        for task, loss in zip(
            batch.tasks, _step(run, batch, learning_rate, phase.balance), strict=True
        ):
            losses[task].append(loss)
        run.step += 1
        run.seconds += time.perf_counter() - started
        if run.step % every == 0 or run.step == until:
            row = {
                "step": run.step,
                "seconds": round(run.seconds, 1),
                "rate": round(learning_rate, 6),
            }
            row["loss"] = _mean(loss for rows in losses.values() for loss in rows)
            run.log.append(row | {task: _mean(rows) for task, rows in sorted(losses.items())})
            losses.clear()
            report(run)


def _step(run: TrainingRun, batch: TrainingBatch, learning_rate: float, balance: float) -> Tensor:
    """Takes one optimizer step. Returns the mean loss (R,) of each row's targets before it."""
    run.model.zero_grad(set_to_none=True)
    losses = run.loss(*batch.inputs(next(run.model.parameters()).device))  # (M,)
    torch.autograd.backward((losses * batch.shares(balance).to(losses.device)).sum())
    descend(run.optimizers, run.model.parameters(), learning_rate, CLIP)
    return batch.by_row(losses.detach().cpu() * batch.weights) / batch.by_row(batch.weights)


def descend(
    optimizers: Iterable[torch.optim.Optimizer], weights: Iterable[Tensor], rate: float, clip: float
) -> None:
    """One step of the optimizers.

    Args:
        weights: whose gradients are clipped.
        rate: the learning rate.
        clip: the largest norm of the gradients together.
    """
    torch.nn.utils.clip_grad_norm_(weights, clip)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()


def _mean(losses: Iterable[Tensor]) -> float:
    return round(float(torch.stack(list(losses)).mean()), 4)
