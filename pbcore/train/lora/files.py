"""Files of a trained adapter: peft's weights and config, the model card, the loss as a table and a plot."""

from pathlib import Path
from statistics import fmean
from typing import Any

import yaml
from matplotlib.figure import Figure

from pbcore.links import docs
from pbcore.models.adapter import digest
from pbcore.models.sedd import model as sedd
from pbcore.train.loop import write_table
from pbcore.train.lora.run import LoraRun, put

WHOLE = """# `{model}` fine-tuned on {task}

Use it by its folder, DIR:

    pytest benches --model {model} --model DIR --task {task}

"""
ADAPTER = """---
library_name: peft
base_model: {model}
---
# A LoRA adapter of `{model}` for {task}

Adapter `{digest}`: rank {rank}, α {alpha:g}, on {targets}. Use it as `{model}+DIR`, where DIR is this folder:

    pytest benches --model {model} --model {model}+DIR --task {task}

"""
CARD = """| step | validation loss | {headline} under `{sampler}` |
|---:|---:|---:|
{rows}

The weights are those of step {step}, the best by score (of {scored:,} answers) and then by loss (of {validation:,}) on
the validation examples; step 0 is the model before. Trained on {train:,} examples in {steps:,} of
{planned:,} steps, {minutes:.1f} minutes on {device} in {dtype}; `loss.csv` and `loss.png` have every step's loss. The
loss is the {loss}, with t ~ U(0, 1) for each row.

Settings ({page} explains them):

```yaml
{settings}```

![loss](loss.png)
"""
LOSSES = {
    "lora": "cross-entropy of masked answer tokens (nats)",
    "full": "score entropy of noisy answer tokens, times σ′(t)·t",
}


def write(run: LoraRun, folder: Path) -> None:
    """Writes the best adapter so far (a model that was trained whole: its checkpoint), its card and its loss.

    Raises ValueError before anything was judged.
    """
    if run.best is None:
        raise ValueError(f"{folder}: nothing was judged yet, so no adapter is the best")
    folder.mkdir(parents=True, exist_ok=True)
    last = {name: value.detach().clone() for name, value in run.weights().items()}
    put(run, run.best["weights"])
    if run.wrapper is None:
        sedd.save(run.model.network, folder)
        run.model.tokenizer.save(folder)
    else:
        run.wrapper.save_pretrained(folder, save_embedding_layers=False)
    put(run, last)
    write_table(run.log, folder)
    _plot(run, folder / "loss.png")
    (folder / "README.md").write_text(_card(run, run.best, folder), encoding="utf-8")


def _plot(run: LoraRun, path: Path) -> None:
    """The loss over steps, its mean over 50 steps, and what the validation examples gave."""
    figure = Figure(figsize=(7, 4), dpi=80, layout="constrained")
    axes = figure.add_subplot()
    steps, losses = zip(*((row["step"], row["loss"]) for row in run.log if "loss" in row), strict=True)
    axes.plot(steps, losses, linewidth=0.5, alpha=0.4, color="C0")
    means = [fmean(losses[max(0, end - 50) : end]) for end in range(1, len(losses) + 1)]
    axes.plot(steps, means, color="C0", label="training, mean of 50 steps")
    judged = [(row["step"], row["validation_loss"], 100 * row["score"]) for row in run.log if "score" in row]
    steps, losses, percents = zip(*judged, strict=True)
    axes.plot(steps, losses, "o-", color="C1", label="validation")
    axes.set(xlabel="step", ylabel=LOSSES[run.settings.method], yscale="log")
    scores = axes.twinx()
    scores.plot(steps, percents, "s--", color="C2")
    scores.set(ylabel=f"{run.data.task.headline} under {run.settings.sampler} (%, dashed)", ylim=(0, 102))
    axes.legend()
    figure.savefig(path)


def _card(run: LoraRun, best: dict[str, Any], folder: Path) -> str:
    settings = run.settings
    judged = [row for row in run.log if "score" in row]
    adapter = settings.method == "lora"
    return ((ADAPTER if adapter else WHOLE) + CARD).format(
        page=docs("fine-tune.md"),
        model=settings.model,
        task=settings.task,
        digest=digest(folder) if adapter else "",
        loss=LOSSES[settings.method],
        rank=settings.rank,
        alpha=settings.alpha,
        targets=", ".join(settings.targets),
        headline=run.data.task.headline,
        sampler=settings.sampler,
        rows="\n".join(f"| {r['step']:,} | {r['validation_loss']:.4f} | {100 * r['score']:.1f} % |" for r in judged),
        step=f"{best['step']:,}",
        scored=min(settings.scored, len(run.data.validation)),
        validation=len(run.data.validation),
        train=len(run.data.train),
        steps=run.step,
        planned=run.steps,
        minutes=run.seconds / 60,
        device=run.model.device.type,
        dtype=run.model.info["dtype"],
        settings=yaml.safe_dump(settings.to_json(), sort_keys=False, width=110),
    )
