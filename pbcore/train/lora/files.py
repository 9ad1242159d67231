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
from pbcore.train.network import ScoreLoss

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
CARD = """| step | validation loss | {run.data.task.headline} under `{settings.sampler}` |
|---:|---:|---:|
{rows}

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


def write(run: LoraRun, best: dict[str, Any], folder: Path) -> None:
    """Writes the best adapter (of a model that was trained whole: its checkpoint), its card and its loss."""
    folder.mkdir(parents=True, exist_ok=True)
    put(run, best["weights"])
    if isinstance(run.plain, ScoreLoss):
        sedd.save(run.plain.network, folder)
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
    adapter = settings.method == "lora"
    judged = [row for row in run.log if "score" in row]
    return ((ADAPTER if adapter else WHOLE) + CARD).format(
        run=run,
        settings=settings,
        best=best,
        page=docs("fine-tune.md"),
        digest=digest(folder) if adapter else "",
        loss=LOSSES[settings.method],
        targets=", ".join(settings.targets),
        rows="\n".join(f"| {r['step']:,} | {r['validation_loss']:.4f} | {100 * r['score']:.1f} % |" for r in judged),
        scored=min(settings.scored, len(run.data.validation)),
        validation=len(run.data.validation),
        train=len(run.data.train),
        minutes=run.seconds / 60,
        values=yaml.safe_dump(settings.to_json(), sort_keys=False, width=110),
    )
