"""Drill-down: a wrong answer fails its own item, and shows what was asked, answered and expected, and how it came about."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pbcore.plugin.options import OPTIONS, settings

if TYPE_CHECKING:
    from pbcore.models.base import Generation, Model
    from pbcore.tasks.base import Sample, Task
    from pbcore.tasks.scoring import Scored

SELECTS = {
    "model",
    "sampler",
    "task",
    "sample",
    "per-sample",
    "limit",
    "profile",
    "out",
    "rounds",
    "shard",
    "resume",
    "gate",
    "gate-level",
    "gate-time",
    "against",
    "floor",
    "update-baseline",
}  # the node id says it all, and a single sample is not judged by a gate


def judge(item: pytest.Item, model: Model, task: Task, answers: Sequence[Generation], scored: Sequence[Scored]) -> None:
    """Fails at the first wrong answer; skips where the headline score could not be measured. Answers come seed by seed."""
    from pbcore.results.build import sample_record

    seeds = settings(item.config).seeds_of(len(answers))
    for sample, answer, result, seed in zip(task.samples, answers, scored, seeds, strict=True):
        if task.headline not in result.scores:
            why = result.details.get("absent", {}).get(task.headline, "no reason given")
            pytest.skip(f"sample {sample.index}: {task.headline} was not measured ({why})")
        entry = sample_record(sample.index, answer, result)
        item.user_properties.extend([("sample", entry.index), ("nfe", entry.nfe), *entry.scores.items()])
        if wrong(task.headline, result.scores[task.headline]):
            pytest.fail("\n".join(story(item, model, task, sample, answer, result, seed)), pytrace=False)


def wrong(headline: str, score: float) -> bool:
    """Whether a score means a wrong answer: anything below 1, for graded scores 0."""
    from pbcore.results.stats import GRADED

    return score == 0 if headline in GRADED else score < 1


def story(
    item: pytest.Item, model: Model, task: Task, sample: Sample, answer: Generation, result: Scored, seed: int
) -> Iterator[str]:
    """The screen for one wrong answer; its first line stands alone in pytest's short summary."""
    why = str(result.details.get("why") or f"{task.headline} is {result.scores[task.headline]:g}")
    yield f"sample {sample.index} of {task.name} is wrong: {why}"
    yield ""
    yield from _block("prompt", sample.prompt)
    yield from _block("answer", answer.text or "(empty)")
    yield from _block("label", _label(sample))
    yield from _block("scores", "  ".join(f"{name} {value:g}" for name, value in result.scores.items()))
    yield from _block("trajectory", "\n".join(trajectory(model, answer)))
    yield f"rerun this sample:  {rerun(item.config, item.nodeid, sample.index, seed)}"


def _block(title: str, text: str) -> Iterator[str]:
    first, *rest = text.strip("\n").splitlines() or [""]
    yield f"{title:>10}  {first}"
    yield from (f"{'':>10}  {line}" for line in rest)


def _label(sample: Sample) -> str:
    answer = sample.answer
    if isinstance(sample.label, str) or answer is None:
        return answer if answer is not None else str(sample.label)
    return f"{answer}  (one of several valid answers)"


def trajectory(model: Model, answer: Generation) -> Iterator[str]:
    """Which token was revealed at which step, with which confidence; runs of EOS are joined, tokens masked again are named."""
    if answer.trajectory is None:
        yield f"{model.name} decodes by itself and does not tell its steps; {answer.nfe} forwards"
        return
    mask = getattr(model, "mask_id", None)
    for step, (before, after) in enumerate(zip(answer.trajectory, answer.trajectory[1:], strict=False)):
        shown = [i for i, (old, new) in enumerate(zip(before, after, strict=True)) if old != new and new != mask]
        hidden = [i for i, (old, new) in enumerate(zip(before, after, strict=True)) if old != new and new == mask]
        parts = list(_revealed(model, answer, after, shown, step))
        if hidden:
            parts.append("masked again: " + ", ".join(map(str, hidden)))
        yield f"step {step:>2}  " + "   ".join(parts)


def _revealed(model: Model, answer: Generation, canvas: Sequence[int], places: list[int], step: int) -> Iterator[str]:
    """`4 ' Garcia' .93` for each position, `18-31 <eos> 1.00` for a run of ends with its least confidence."""
    eos = getattr(model, "eos_id", None)
    ends = [i for i in places if canvas[i] == eos]
    for i in places:
        if canvas[i] != eos:
            yield f"{i} {_token(model, canvas[i])}{_confidence(answer, [i], step)}"
    if ends:
        span = (
            f"{ends[0]}-{ends[-1]}"
            if len(ends) > 1 and ends[-1] - ends[0] == len(ends) - 1
            else ",".join(map(str, ends))
        )
        yield f"{span} <eos>{_confidence(answer, ends, step)}"


def _token(model: Model, token: int) -> str:
    text = getattr(model, "text", None)
    shown = text([token]) if callable(text) else ""
    return repr(shown) if shown else f"<{token}>"


def _confidence(answer: Generation, places: list[int], step: int) -> str:
    """The least confidence of these positions, where this step revealed them for good."""
    if not answer.confidences or any(answer.steps[i] != step for i in places):
        return ""
    return f" {min(answer.confidences[i] for i in places):.2f}"


def rerun(config: pytest.Config, node_id: str, sample: int, seed: int | None = None) -> str:
    """The command that runs one sample again: its node id, and the options that decide the answer; by `seed` alone, where given."""
    head, _, name = node_id.rstrip("]").partition("[")
    known = name.rpartition("/")[2].isdecimal()
    words = ["pytest", f"{head}[{name if known else f'{name}/{sample}'}]"]
    for option in OPTIONS:
        value: Any = config.getoption(option.dest, None)
        if option.name == "seed" and value is not None and seed is not None:
            value = (seed,)
        if option.name in SELECTS or value in (None, [], False):
            continue
        for one in value if option.many else [value]:
            words += [f"--{option.name}"] if option.kind is None else [f"--{option.name}", _text(one)]
    return shlex.join(words)


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
