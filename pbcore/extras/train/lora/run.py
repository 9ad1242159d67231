"""The run of an adapter, or of a whole SEDD model: steps, validation, and a state to resume from
bit for bit.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pbcore.base.errors import InputError
from pbcore.base.links import install_command
from pbcore.decoding import decode
from pbcore.extras.train.loop import STATE, descend, save_state
from pbcore.extras.train.lora.data import Examples, examples
from pbcore.extras.train.lora.settings import LoraSettings
from pbcore.extras.train.network import AnswerLoss, ScoreLoss
from pbcore.extras.train.noise import TrainingBatch
from pbcore.extras.train.sedd.model import Sedd
from pbcore.models import load_model
from pbcore.models.masked import MaskedModel
from pbcore.models.network import NativeNetwork


@dataclass(slots=True)
class LoraRun:
    """A run: the model with its adapter, the optimizer, steps done, seconds spent, the log, and the
    best weights. `loss` is the module as `accelerate` prepared it, `plain` the same without its
    wrapper.
    """

    settings: LoraSettings
    model: Any  # a MaskedModel, or a Sedd that is trained whole
    data: Examples
    plain: AnswerLoss | ScoreLoss
    loss: Any
    optimizer: torch.optim.Optimizer
    accelerator: Any
    step: int = 0
    seconds: float = 0.0
    log: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Any] | None = None  # step, score, loss and weights

    @property
    def steps(self) -> int:
        return self.settings.epochs * self.data.steps_per_epoch

    def weights(self) -> dict[str, Tensor]:
        """The trained weights by their names in the module: the adapter's, or all."""
        return {name: value for name, value in self.plain.named_parameters() if value.requires_grad}


def start(settings: LoraSettings) -> LoraRun:
    """A run at step 0, whose adapter changes nothing yet. Raises InputError and ModelError."""
    try:
        from accelerate import Accelerator
    except ImportError as error:
        raise InputError(
            f"adapters are trained with accelerate and peft: {install_command('lora')}"
        ) from error
    accelerator = Accelerator(cpu=settings.device == "cpu")
    parts = settings.accumulate * accelerator.num_processes
    if settings.batch % parts:
        raise InputError(
            f"a batch of {settings.batch} rows can't be shared by {accelerator.num_processes}"
            f" processes with {settings.accumulate} forwards each; give a batch that {parts}"
            " divides"
        )
    device = str(accelerator.device) if settings.device != "cpu" else "cpu"
    model, plain = (
        adapted(settings, device) if settings.method == "lora" else whole(settings, device)
    )
    weights = [value for value in plain.parameters() if value.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=settings.rate, weight_decay=settings.weight_decay)
    loss = accelerator.prepare_model(plain)
    return LoraRun(settings, model, examples(model, settings), plain, loss, optimizer, accelerator)


def adapted(settings: LoraSettings, device: str) -> tuple[MaskedModel, AnswerLoss]:
    """The model and its loss, with an adapter whose weights are drawn by the seed; the model
    decodes with it from now on. Raises InputError for a model that is not a native masked one with
    full attention, if peft is missing, and for modules that the model lacks.
    """
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise InputError(f"adapters are trained with peft: {install_command('lora')}") from error
    kept = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = False  # type: ignore[assignment]  # PyTorch's own linear layers, which peft wraps
    try:
        model = load_model(settings.model, device, settings.dtype)
    finally:
        torch.backends.mkldnn.enabled = kept
    network = getattr(model, "network", None)
    if (
        not isinstance(model, MaskedModel)
        or not isinstance(network, NativeNetwork)
        or model.block is not None
    ):
        raise InputError(
            f"--adapt {settings.model}: adapters are trained for masked diffusion models with full"
            " attention that load natively, such as tiny, llada-1.5 and dream; SEDD models are"
            " trained whole"
        )
    module: Any = network.module
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=list(settings.targets),
    )
    torch.manual_seed(settings.seed)
    try:
        with warnings.catch_warnings():
            # peft asks transformers in a way that is going out of use.
            warnings.simplefilter("ignore", FutureWarning)
            wrapper = get_peft_model(module, config)
    except ValueError as error:
        raise InputError(f"--targets {' '.join(settings.targets)}: {error}") from error
    wrapper.peft_config["default"].base_model_name_or_path = settings.model
    if settings.gradient_checkpointing:
        enable = (
            getattr(module, "activation_checkpointing_enable", None)
            or module.gradient_checkpointing_enable
        )
        enable({"use_reentrant": False})
    return model, AnswerLoss(network, wrapper, shift=model.shift)


def whole(settings: LoraSettings, device: str) -> tuple[Sedd, ScoreLoss]:
    """The model, all of whose weights are trained in float32, and its loss. Raises InputError for
    another model.
    """
    model = load_model(settings.model, device)
    if not isinstance(model, Sedd):
        raise InputError(
            f"--adapt {settings.model}: only SEDD models are trained whole; others get an adapter"
        )
    torch.manual_seed(settings.seed)
    model.network.requires_grad_(True)
    return model, ScoreLoss(model.network)


def train(run: LoraRun, until: int, report: Callable[[LoraRun], None]) -> None:
    """Trains up to step `until`.

    Before the first step, at the end of an epoch (or every `every` steps of the settings) and of
    the run the validation examples are judged; the best of the trained adapters is kept.

    Args:
        run: the run, which moves on.
        until: the last step.
        report: called after each step.
    """
    every = run.settings.every or run.data.steps_per_epoch
    if not run.log:
        # The model itself, to compare with.
        run.log.append({"step": 0, **_judged(run), "seconds": 0.0})
        report(run)
    while run.step < min(until, run.steps):
        started = time.perf_counter()
        rate = run.settings.rate_at(run.step, run.steps)
        loss = _step(run, rate)
        run.step += 1
        row: dict[str, Any] = {"step": run.step, "rate": rate, "loss": loss}
        if run.step % every == 0 or run.step == run.steps:
            row |= _judged(run)
        run.seconds += time.perf_counter() - started
        run.log.append(row | {"seconds": round(run.seconds, 2)})
        report(run)


def _step(run: LoraRun, rate: float) -> float:
    """One optimizer step; returns the loss before it. Processes and forwards share it, which
    changes its gradient by rounding and dropout alone.
    """
    settings = run.settings
    accelerator = run.accelerator
    batch = run.data.batch(run.step)
    run.loss.train()
    run.optimizer.zero_grad(set_to_none=True)
    parts = settings.accumulate * accelerator.num_processes
    mine = range(
        accelerator.process_index * settings.accumulate,
        (accelerator.process_index + 1) * settings.accumulate,
    )
    total = torch.zeros((), device=run.model.device)
    for number, (part, share) in enumerate(_parts(batch, batch.shares(settings.balance), parts)):
        if number not in mine:
            continue
        torch.manual_seed(settings.seed * 1_000_003 + run.step * 1_009 + number)  # of dropout
        last = number == mine[-1]
        with run.loss.no_sync() if not last and hasattr(run.loss, "no_sync") else nullcontext():
            loss = (run.loss(*part.inputs(run.model.device)) * share.to(run.model.device)).sum()
            # Processes' gradients are averaged, and these are parts of one sum.
            accelerator.backward(loss * accelerator.num_processes)
        total += loss.detach()
    descend([run.optimizer], run.weights().values(), rate, settings.clip)
    return float(accelerator.reduce(total, "sum"))


def _parts(
    batch: TrainingBatch, shares: Tensor, number: int
) -> Iterator[tuple[TrainingBatch, Tensor]]:
    """The batch in `number` parts of as many rows each, without columns that are padding in all of
    them.
    """
    size = len(batch.ids) // number
    of_target = batch.masked.nonzero()[:, 0] // size  # (M,): the part that each target is in
    for part in range(number):
        rows = slice(part * size, (part + 1) * size)
        mine = of_target == part
        left = int(batch.attend[rows].any(0).int().argmax())
        ids, attend, masked = (
            tensor[rows, left:] for tensor in (batch.ids, batch.attend, batch.masked)
        )
        time = None if batch.time is None else batch.time[rows]
        yield (
            TrainingBatch(
                ids,
                attend,
                masked,
                batch.targets[mine],
                batch.weights[mine],
                batch.tasks[rows],
                time,
            ),
            shares[mine],
        )


@torch.no_grad()
def _judged(run: LoraRun) -> dict[str, float]:
    """Loss and score of the validation examples, shared by processes; after a step the best weights
    are kept, by score, then by loss.
    """
    run.loss.eval()
    rank = run.accelerator.process_index
    world = run.accelerator.num_processes
    # Losses, batches, scores, answers.
    sums = torch.zeros(4, dtype=torch.float64, device=run.model.device)
    for number in range(rank, -(-len(run.data.validation) // run.settings.batch), world):
        batch = run.data.validation_batch(number)
        shares = batch.shares(run.settings.balance).to(run.model.device)
        sums[0] += (run.plain(*batch.inputs(run.model.device)) * shares).sum()
        sums[1] += 1
    samples = run.data.validation[: run.settings.scored][rank::world]
    if samples:
        texts = [answer.text for answer in decode(run.model, samples, run.settings.sampler)]
        task = run.data.task
        scores = [
            scored.scores.get(task.headline)
            for scored in task.score_many(texts, samples, metrics=[task.headline])
        ]
        measured = [score for score in scores if score is not None]
        sums[2:] += torch.tensor([sum(measured), len(measured)], device=sums.device)
    losses, batches, total, answers = run.accelerator.reduce(sums, "sum").tolist()
    loss = losses / batches
    if not answers:
        raise InputError(
            f"{run.settings.task}: none of its scores can be measured here; see `pbcore check"
            " machine`"
        )
    score = total / answers
    if run.step and (run.best is None or (score, -loss) > (run.best["score"], -run.best["loss"])):
        weights = {name: value.detach().cpu().clone() for name, value in run.weights().items()}
        run.best = {"step": run.step, "score": score, "loss": loss, "weights": weights}
    return {"validation_loss": loss, "score": score}


def save(run: LoraRun, folder: Path) -> None:
    """Writes the state for `resume`."""
    state = {
        "settings": run.settings.to_json(),
        "data": run.data.digest,
        "weights": run.weights(),
        "optimizer": run.optimizer.state_dict(),
        "step": run.step,
        "seconds": run.seconds,
        "log": run.log,
        "best": run.best,
    }
    save_state(state, folder)


def resume(run: LoraRun, folder: Path) -> None:
    """Restores the saved state into a new run. Raises InputError if its settings or examples were
    others.
    """
    state = torch.load(folder / STATE, map_location=run.model.device, weights_only=True)
    differing = run.settings.differences(state["settings"])
    if state["data"] != run.data.digest:
        differing.append("its examples were others")
    if differing:
        raise InputError(
            f"{folder} holds another run: {'; '.join(differing)}. Give its settings, or another"
            " --out"
        )
    put(run, state["weights"])
    run.optimizer.load_state_dict(state["optimizer"])
    run.step = state["step"]
    run.seconds = state["seconds"]
    run.log = state["log"]
    run.best = state["best"]


@torch.no_grad()
def put(run: LoraRun, weights: dict[str, Tensor]) -> None:
    """Gives the adapter these weights."""
    for name, value in run.weights().items():
        value.copy_(weights[name])
