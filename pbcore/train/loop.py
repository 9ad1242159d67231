"""The training loop: runs a recipe's steps, saves states to resume from, and logs the loss."""

import csv
import math
import os
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

from pbcore.errors import InputError
from pbcore.models.registry import all_entries, missing_here
from pbcore.models.sedd.network import SeddNetwork
from pbcore.train import sedd
from pbcore.train.network import masked_logits, network
from pbcore.train.noise import Batch, target_weights
from pbcore.train.optimizers import optimizers
from pbcore.train.recipe import Phase, Recipe
from pbcore.train.rows import Batches, Draw
from pbcore.train.sedd import NoisyBatch

CLIP = 1.0
STATE = "state.pt"
LOG = "loss.csv"


@dataclass(slots=True)
class Run:
    """A training run: the network, its optimizers, steps done, seconds spent, and the log."""

    recipe: Recipe
    tokenizer: PreTrainedTokenizerFast
    model: LlamaForCausalLM | SeddNetwork
    optimizers: tuple[torch.optim.Optimizer, ...]
    step: int = 0
    seconds: float = 0.0
    log: list[dict[str, Any]] = field(default_factory=list)


def start(recipe: Recipe, tokenizer: PreTrainedTokenizerFast, device: str = "cpu") -> Run:
    """A run at step 0. Raises InputError if this installation lacks the model that it starts from."""
    model = _network(recipe, tokenizer)
    if recipe.start is not None:
        weights = load_file(embedded(recipe.start) / "model.safetensors")
        model.load_state_dict({name: tensor.float() for name, tensor in weights.items()}, strict=False)
    model.to(device)  # type: ignore[arg-type]
    return Run(recipe, tokenizer, model, optimizers(model, recipe.phases[0].rate))


def embedded(name: str) -> Path:
    """The folder of an embedded model. Raises InputError if this installation has none of that name."""
    entry = next((entry for entry in all_entries() if entry.name == name and entry.embedded), None)
    if entry is None or entry.folder is None or missing_here(entry):
        raise InputError(f"recipe: start {name!r} is not an embedded model of this installation; give e.g. tiny")
    return entry.folder


def _network(recipe: Recipe, tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM | SeddNetwork:
    if recipe.objective == "sedd":
        return sedd.sedd_network(
            len(tokenizer),
            width=recipe.width,
            layers=recipe.layers,
            heads=recipe.heads,
            condition=recipe.condition,
            graph=recipe.graph,
            seed=recipe.seed,
        )
    return network(
        len(tokenizer),
        width=recipe.width,
        layers=recipe.layers,
        heads=recipe.heads,
        inner=recipe.inner,
        mask_id=None if recipe.causal else int(tokenizer.mask_token_id),
        eos_id=int(tokenizer.eos_token_id),
        seed=recipe.seed,
    )


def save(run: Run, folder: Path) -> None:
    """Writes the state for `resume`; the old state is replaced only when the new one is complete."""
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
    """Writes a state into a folder, atomically."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(state, folder / f"{STATE}.new")
    os.replace(folder / f"{STATE}.new", folder / STATE)


def write_table(log: Sequence[Mapping[str, Any]], folder: Path) -> None:
    """Writes the log of a run as loss.csv."""
    with (folder / LOG).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(dict.fromkeys(key for row in log for key in row)), lineterminator="\n")
        writer.writeheader()
        writer.writerows(log)


def resume(run: Run, folder: Path) -> None:
    """Restores the saved state into a new run. Raises ValueError if the vocabulary has changed since."""
    state = torch.load(folder / STATE, map_location=next(run.model.parameters()).device, weights_only=True)
    if state["words"] != len(run.tokenizer):
        raise ValueError(
            f"{folder}: its run has {state['words']} tokens, the tasks now have {len(run.tokenizer)}; start again in "
            "another folder"
        )
    run.model.load_state_dict(state["model"])
    for optimizer, saved in zip(run.optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(saved)
    run.step, run.seconds, run.log = state["step"], state["seconds"], state["log"]


def rate(phase: Phase, step: int, warmup: float) -> float:
    """The learning rate at a step of a phase: half a cosine from `rate` to `end_rate`, times the warm-up factor (0 to
    1).
    """
    progress = 0.5 - 0.5 * math.cos(math.pi * step / phase.steps)
    return warmup * (phase.rate + (phase.end_rate - phase.rate) * progress)


def train(run: Run, until: int, report: Callable[[Run], None], every: int = 100) -> None:
    """Trains up to step `until`. Every `every` steps and at the end the log gets a row and `report` is called."""
    recipe = run.recipe
    batches: dict[int, Batches] = {}
    losses: dict[str, list[Tensor]] = defaultdict(list)
    run.model.train()
    while run.step < until:
        started = time.perf_counter()
        number, within = recipe.at(run.step)
        phase = recipe.phases[number]
        if number not in batches:
            draw = Draw(
                tasks=phase.tasks(recipe.tasks),
                rows=phase.rows,
                full_canvas=phase.full_canvas,
                masked_shots=phase.masked_shots,
                pairs=phase.pairs,
                power=phase.power,
                lengths=phase.lengths,
                seed=recipe.seed + number,
                causal=recipe.causal,
                noisy=sedd.process(run.model) if isinstance(run.model, SeddNetwork) else None,
            )
            batches[number] = Batches(draw, run.tokenizer)
        learning_rate = rate(phase, within, min(1.0, (run.step + 1) / max(1, recipe.warmup)))
        batch = batches[number][within]
        per_row = _step(run, batch, learning_rate, phase.balance)
        for task, loss in zip(batch.tasks, per_row, strict=True):
            losses[task].append(loss)
        run.step += 1
        run.seconds += time.perf_counter() - started
        if run.step % every == 0 or run.step == until:
            means = {task: round(float(torch.stack(rows).mean()), 4) for task, rows in sorted(losses.items())}
            overall = round(float(torch.stack([loss for rows in losses.values() for loss in rows]).mean()), 4)
            run.log.append(
                {
                    "step": run.step,
                    "seconds": round(run.seconds, 1),
                    "rate": round(learning_rate, 6),
                    "loss": overall,
                    **means,
                }
            )
            losses.clear()
            report(run)


def _losses(model: LlamaForCausalLM | SeddNetwork, batch: Batch | NoisyBatch) -> tuple[Tensor, Tensor, Tensor]:
    """The loss (M,) of each target, its row (M,) and its weight (M,)."""
    if isinstance(model, SeddNetwork):
        assert isinstance(batch, NoisyBatch)
        return sedd.losses(model, batch, *sedd.process(model))
    assert isinstance(batch, Batch)
    masked = batch.masked.to(model.device)
    logits = masked_logits(model, batch.ids.to(model.device), batch.attend.to(model.device), masked)  # (M, V)
    losses = F.cross_entropy(logits, batch.targets.to(model.device), reduction="none")  # (M,)
    return losses, masked.nonzero()[:, 0], batch.weights.to(model.device)


def _step(run: Run, batch: Batch | NoisyBatch, learning_rate: float, balance: float) -> Tensor:
    """Takes one optimizer step. Returns the mean loss (R,) of each row's targets before it."""
    losses, row, weights = _losses(run.model, batch)
    counts, shares = target_weights(row, weights, len(batch.tasks), balance)
    for optimizer in run.optimizers:
        optimizer.zero_grad(set_to_none=True)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate
    torch.autograd.backward((losses * shares).sum() / shares.sum())
    torch.nn.utils.clip_grad_norm_(run.model.parameters(), CLIP)
    for optimizer in run.optimizers:
        optimizer.step()
    return torch.zeros_like(counts).index_add_(0, row, (losses * weights).detach()) / counts
