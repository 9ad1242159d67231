"""One answer on a screen: prompt, answer, label, why it is wrong if it is, and the step and
confidence of every token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING

from pbcore.base.printable import counted, printable, step_number
from pbcore.models.tokenizer import stops_of
from pbcore.report.blame_text import Broken
from pbcore.results.stats import is_wrong_score

if TYPE_CHECKING:
    from pbcore.models.base import Generation, Model
    from pbcore.tasks.base import Sample, Task
    from pbcore.tasks.scoring import Scored


# Of a block on the screen; longer ones are shortened.
LINES = 60
WIDE = 2000


def story(
    model: Model,
    task: Task,
    sample: Sample,
    answer: Generation,
    result: Scored,
    command: str,
    why: Broken | None = None,
) -> Iterator[str]:
    """The screen for one answer. Its first line stands alone in pytest's short summary of those
    that are wrong.

    Args:
        model: what answered.
        task: of the sample.
        sample: the question.
        answer: what was decoded.
        result: the answer's scores.
        command: runs the sample again.
        why: what broke it.
    """
    label = str(sample.label) if sample.answer is None else sample.answer
    if sample.answer is not None and not isinstance(sample.label, str):
        label += "  (one of several valid answers)"
    score = result.scores[task.headline]
    if is_wrong_score(task.headline, score):
        fault = str(result.details.get("why") or f"{task.headline} is {score:g}")
        yield f"sample {sample.index} of {task.name} is wrong: {printable(fault, 400)}"
    else:
        yield f"sample {sample.index} of {task.name} is right"
    yield ""
    yield from _block("prompt", sample.prompt)
    yield from _block("answer", answer.text or "(empty)")
    yield from _block("label", label)
    yield from _block(
        "scores", "  ".join(f"{name} {value:g}" for name, value in result.scores.items())
    )
    yield from _block("trajectory", "\n".join(trajectory(model, answer)))
    if why is not None:
        yield from _block("blame", "\n".join(why.lines))
    yield f"rerun this sample:  {command}"


def _block(title: str, text: str) -> Iterator[str]:
    """A titled text; one that is too long for the screen is kept whole in a new temporary file."""
    lines = text.strip("\n").split("\n")
    for number, line in enumerate(lines[:LINES]):
        name = title if number == 0 else ""
        yield f"{name:>10}  {printable(line, WIDE)}"
    if len(lines) > LINES or max(len(line) for line in lines) > WIDE:
        with NamedTemporaryFile(prefix=f"pbcore-{title}-", suffix=".txt", delete=False) as stream:
            stream.write(text.encode(errors="backslashreplace"))
        more = f"… and {len(lines) - LINES:,} more lines; " if len(lines) > LINES else ""
        yield f"{'':>10}  {more}the full {title}: {stream.name}"


def trajectory(model: Model, answer: Generation) -> Iterator[str]:
    """Which token was revealed at which step, with which confidence; runs of EOS are joined, tokens
    masked again are named.
    """
    if answer.trajectory is None and answer.steps and answer.token_ids:
        for step in sorted(set(answer.steps)):
            places = [i for i, at in enumerate(answer.steps) if at == step]
            parts = _revealed(model, answer, answer.token_ids, places, step)
            yield f"step {step_number(step):>2}  {'   '.join(parts)}"
        return
    if answer.trajectory is None:
        forwards = "" if answer.nfe is None else f"; {counted(answer.nfe, 'forward')}"
        yield f"{model.name} decodes by itself and does not tell its steps{forwards}"
        return
    mask = getattr(model, "mask_id", None)
    canvases = list(answer.trajectory)
    if answer.steps:
        # a block model's canvases are longer than its answer
        canvases = [canvas[: len(answer.steps)] for canvas in canvases]
    for step, (before, after) in enumerate(pairwise(canvases)):
        revealed: list[int] = []
        masked: list[str] = []
        for i, (old, new) in enumerate(zip(before, after, strict=True)):
            if old != new and new == mask:
                masked.append(str(i))
            elif old != new:
                revealed.append(i)
        changes = list(_revealed(model, answer, after, revealed, step))
        if masked:
            changes.append(f"masked again: {', '.join(masked)}")
        yield f"step {step_number(step):>2}  {'   '.join(changes)}"


def _revealed(
    model: Model, answer: Generation, canvas: Sequence[int], places: list[int], step: int
) -> Iterator[str]:
    """`4 ' Garcia' .93` for each position, `18-31 <eos> 1.00` for a run of ends with its least
    confidence. A confidence stands where this step revealed the token for good.
    """

    def least_confidence(of_places: list[int]) -> str:
        if not answer.confidences or any(answer.steps[i] != step for i in of_places):
            return ""
        return f" {min(answer.confidences[i] for i in of_places):.2f}"

    text_of = getattr(model, "text", lambda ids: "")
    stops = stops_of(model)
    ends = [i for i in places if canvas[i] in stops]
    for i in places:
        if canvas[i] not in stops:
            text = text_of([canvas[i]])
            shown = repr(text) if text else f"<{canvas[i]}>"
            yield f"{i} {shown}{least_confidence([i])}"
    if ends:
        joined = len(ends) > 1 and ends[-1] - ends[0] == len(ends) - 1
        span = f"{ends[0]}-{ends[-1]}" if joined else ",".join(map(str, ends))
        yield f"{span} <eos>{least_confidence(ends)}"
