"""What the captions of a run's tables say in LaTeX, the same wherever they are written."""

from collections.abc import Iterable

from pbcore.report.cells import samples_a_cell
from pbcore.report.headline import HeadlineInWords
from pbcore.report.rows import CellRow


def scores_caption(cells: Iterable[CellRow], part: str = "") -> str:
    """What a table of scores shows, and of how many questions.

    Args:
        cells: those of the table.
        part: of which part of a run they are; empty for the whole.
    """
    text = "scores in % [95 % interval]"
    text = f"{part}: {text}" if part else text.capitalize()
    counted = samples_a_cell(cells).replace("samples a cell", "questions a cell")
    return f"{text}, n = {counted}" if counted else text


def proof_caption(verdicts: Iterable[HeadlineInWords]) -> str:
    """What is bold, and the test over all tasks of a run with its outcome for each model."""
    sentences = ["Bold: the best of each model."]
    outcomes = []
    for verdict in verdicts:
        told = verdict.title
        if verdict.chosen:
            told = f"{verdict.sampler}, {'; '.join([verdict.lines[0], verdict.lines[-1]])}"
        outcomes.append(f"{verdict.model}: {told}.")
    if outcomes:
        sentences.append(
            "Test over all tasks: each sampler against the reference, question by question,"
            " one-sided non-inferiority."
        )
    return " ".join([*sentences, *outcomes])
