"""The results in words, as JSON, and as an exit status."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pbcore.base.check import dump_json
from pbcore.base.printable import counted
from pbcore.extras.check.engine.judge import NONE_FITS, CaseResult

SIGNS = {"equal": "✓", "fault": "✗", "not tried": "·", "failed": "✗"}


def line(result: CaseResult) -> str:
    """A case in a line; of a fault the first difference and what it is as with."""
    head = f"{SIGNS[result.verdict]} {result.case.id}: "
    if result.verdict in ("not tried", "failed"):
        return f"{head}{result.verdict}, {result.text}"
    text = f"{head}{result.equal} of {result.of} equal"
    if result.text:
        text += f"; {result.text}"
    first = result.first
    if first is not None:
        token = "nothing" if first.token is None else first.token
        expected = "the end" if first.expected is None else first.expected
        margin = "no alternative" if first.margin is None else f"margin {first.margin:g}"
        text += (
            f"; prompt {first.prompt}, place {first.place}, step {first.step}: {token} instead of"
            f" {expected}, {margin}"
        )
        text += f"; {diagnosis_text(result)}"
    return text


def diagnosis_text(result: CaseResult) -> str:
    """The deviations of a case."""
    if result.diagnosis == [NONE_FITS]:
        return NONE_FITS
    names = " or ".join(result.diagnosis)
    return f"as with: {names} ({result.of} of {result.of})"


def summary(results: Sequence[CaseResult]) -> str:
    """How many answers are equal, and the deviations that fit all faults, or most of them."""
    tried = [result for result in results if result.verdict in ("equal", "fault")]
    equal = sum(result.equal for result in tried)
    of = sum(result.of for result in tried)
    text = f"{equal} of {of} equal"
    for verdict in ("failed", "not tried"):
        count = sum(result.verdict == verdict for result in results)
        if count:
            text += f"; {counted(count, 'case')} {verdict}"
    faults = [result for result in results if result.diagnosis]
    names = fitting(faults)
    if names == [NONE_FITS]:
        text += f"; {NONE_FITS}"
    elif names:
        fitted = sum(result.of for result in faults if set(names) & set(result.diagnosis))
        whole = sum(result.of for result in faults)
        text += f"; as with: {' or '.join(names)} ({fitted} of {whole})"
    return text


def fitting(faults: Sequence[CaseResult]) -> list[str]:
    """The deviations that fit most of the faults; none without faults.

    Args:
        faults: with their diagnoses.
    """
    counts = Counter(name for result in faults for name in result.diagnosis)
    best = max(counts.values(), default=0)
    names = [name for name, count in counts.items() if count == best]
    return names if names == [NONE_FITS] else [name for name in names if name != NONE_FITS]


def json_text(results: Sequence[CaseResult]) -> str:
    """All results as JSON."""
    return dump_json({"cases": [_plain(result) for result in results]}, indent=1)


def _plain(result: CaseResult) -> dict[str, Any]:
    setting = asdict(result.case.setting)
    return {
        "id": result.case.id,
        "setting": setting,
        "property": result.case.property,
        "verdict": result.verdict,
        "equal": result.equal,
        "of": result.of,
        "first": None if result.first is None else asdict(result.first),
        "diagnosis": result.diagnosis,
        "text": result.text,
    }


def exit_status(results: Sequence[CaseResult]) -> int:
    """0: all that was tried is equal; 1: a fault, or a case that failed; 5: nothing was tried."""
    verdicts = {result.verdict for result in results}
    if verdicts & {"fault", "failed"}:
        return 1
    return 0 if "equal" in verdicts else 5
