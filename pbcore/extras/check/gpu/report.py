"""The results as a block of Markdown and as JSON, to paste into an issue."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from pbcore.base import tabular
from pbcore.base.printable import printable
from pbcore.base.text import md
from pbcore.extras.check.gpu.steps import Check, StepResult, outcome

SIGNS = {True: "✓", False: "✗", None: "·"}


def sign(check: Check) -> str:
    """✓ for what holds, ✗ for what doesn't, · for what isn't judged."""
    return SIGNS[check.holds]


def to_json(settings: Mapping[str, Any], results: Sequence[StepResult]) -> str:
    """All results as one line of JSON."""
    steps = []
    for result in results:
        step = {
            "step": result.name,
            "complete": result.complete,
            "seconds": round(result.seconds, 1),
            "checks": [asdict(check) for check in result.checks],
        }
        steps.append(step)
    whole = {"settings": dict(settings), "outcome": outcome(results), "steps": steps}
    return json.dumps(whole, ensure_ascii=False)


def markdown_report(settings: Mapping[str, Any], results: Sequence[StepResult]) -> str:
    """A table for each step, and the JSON folded away."""
    rehearsal = settings["device"] == "cpu"
    what = "rehearsal on a CPU, not a GPU" if rehearsal else str(settings["name"])
    lines = [
        f"### pbcore check gpu: {md(what)}",
        "",
        f"{checks_summary(results)}. Timed model: {md(settings['model'])}, {settings['dtype']}."
        " ✓ holds, ✗ doesn't, · isn't judged.",
    ]
    for result in results:
        rows = [
            [sign(check), printable(check.name, 300), printable(check.text, 600)]
            for check in result.checks
        ]
        if not result.complete:
            rows.append([SIGNS[None], "time", "was up before the end of this step"])
        table = tabular.markdown(tabular.Table(["", "", ""], rows))
        lines += ["", f"**{result.title}** ({result.seconds:.0f} s)", "", table]
    lines += ["", "<details><summary>JSON</summary>", "", "```json", to_json(settings, results)]
    lines += ["```", "", "</details>"]
    return "\n".join(lines)


def checks_summary(results: Sequence[StepResult]) -> str:
    """How many checks hold, in words."""
    checks = [check for result in results for check in result.checks]
    holding = sum(check.holds is True for check in checks)
    failing = sum(check.holds is False for check in checks)
    text = f"{outcome(results)}: ✓ {holding}, ✗ {failing}"
    unfinished = [result.name for result in results if not result.complete]
    if unfinished:
        text += f"; not finished: {', '.join(unfinished)}"
    return text
