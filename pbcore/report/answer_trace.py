"""One wrong answer on a screen: prompt, answer, label, why it is wrong, and the step and confidence of every token."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from pbcore.printable import counted, printable

if TYPE_CHECKING:
    from pbcore.models.base import Generation, Model
    from pbcore.tasks.base import Sample, Task
    from pbcore.tasks.scoring import Scored


LINES, WIDE = 60, 2000  # of a block on the screen; longer ones are shortened


def wrong(headline: str, score: float) -> bool:
    """Whether a score means a wrong answer: anything below 1, for graded scores 0."""
    from pbcore.results.stats import GRADED

    return score == 0 if headline in GRADED else score < 1


def story(model: Model, task: Task, sample: Sample, answer: Generation, result: Scored, command: str) -> Iterator[str]:
    """The screen for one wrong answer; its first line stands alone in pytest's short summary.

    `command` runs the sample again.
    """
    why = str(result.details.get("why") or f"{task.headline} is {result.scores[task.headline]:g}")
    yield f"sample {sample.index} of {task.name} is wrong: {printable(why, 400)}"
    yield ""
    yield from _block("prompt", sample.prompt)
    yield from _block("answer", answer.text or "(empty)")
    yield from _block("label", _label(sample))
    yield from _block("scores", "  ".join(f"{name} {value:g}" for name, value in result.scores.items()))
    yield from _block("trajectory", "\n".join(trajectory(model, answer)))
    yield f"rerun this sample:  {command}"


def _block(title: str, text: str) -> Iterator[str]:
    first, *rest = text.strip("\n").split("\n")
    yield f"{title:>10}  {printable(first, WIDE)}"
    yield from (f"{'':>10}  {printable(line, WIDE)}" for line in rest[: LINES - 1])
    if len(rest) >= LINES or max(map(len, (first, *rest))) > WIDE:
        more = f"… and {len(rest) + 1 - LINES:,} more lines; " if len(rest) >= LINES else ""
        yield f"{'':>10}  {more}the full {title}: {_kept(title, text)}"


def _kept(title: str, text: str) -> Path:
    """A new temporary file with a text that is too long for the screen."""
    with NamedTemporaryFile(
        "w",
        prefix=f"pbcore-{title}-",
        suffix=".txt",
        encoding="utf-8",
        errors="backslashreplace",
        newline="",
        delete=False,
    ) as stream:
        stream.write(text)
    return Path(stream.name)


def _label(sample: Sample) -> str:
    answer = sample.answer
    if isinstance(sample.label, str) or answer is None:
        return answer if answer is not None else str(sample.label)
    return f"{answer}  (one of several valid answers)"


def trajectory(model: Model, answer: Generation) -> Iterator[str]:
    """Which token was revealed at which step, with which confidence; runs of EOS are joined, tokens masked again are
    named.
    """
    if answer.trajectory is None and answer.steps and answer.token_ids:
        for step in sorted(set(answer.steps)):
            places = [i for i, at in enumerate(answer.steps) if at == step]
            yield f"step {step:>2}  " + "   ".join(_revealed(model, answer, answer.token_ids, places, step))
        return
    if answer.trajectory is None:
        forwards = "" if answer.nfe is None else f"; {counted(answer.nfe, 'forward')}"
        yield f"{model.name} decodes by itself and does not tell its steps{forwards}"
        return
    mask = getattr(model, "mask_id", None)
    canvases = [canvas[: len(answer.steps) or None] for canvas in answer.trajectory]  # a block model's are longer
    for step, (before, after) in enumerate(pairwise(canvases)):
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
