"""Scores of puzzle answers: Latin squares of given symbols, sudokus with one solution, and walks on
a graph.
"""

from collections.abc import Sequence
from itertools import pairwise

from pbcore.metrics import answers
from pbcore.metrics.answers import JudgedScorer, ScoresAndDetails, label_part, label_text
from pbcore.tasks.base import Sample
from pbcore.tasks.puzzles import walked
from pbcore.tasks.scoring import Details, Repeated, register_scorer

LAYOUT = "right in another layout, but not as the official benchmark reads it:"


def judge_square(text: str, sample: Sample) -> ScoresAndDetails:
    """`accuracy`: the first n valid rows form a Latin square. Any square of the symbols is correct;
    text between the rows is ignored. `accuracy_strict` is the same, because the official benchmark
    has no stricter reading. In both, a row may repeat a symbol in an extra cell;
    `accuracy_as_asked` accepts only rows of n cells. `accuracy_any_layout` also accepts blanks,
    bars or semicolons between cells, quotes and brackets; it is never lower than `accuracy`.
    """
    symbols = label_part(sample, "symbols", list)
    rows = answers.csv_rows(text, symbols)
    wrong = latin_fault(rows, symbols)
    exact = latin_fault([row for row in rows if len(row) == len(symbols)], symbols)
    free = wrong and latin_fault(answers.any_layout_rows(text, symbols), symbols)
    faults = {
        "accuracy": wrong,
        "accuracy_strict": wrong,
        "accuracy_any_layout": free,
        "accuracy_as_asked": exact,
    }
    scores = {name: float(not fault) for name, fault in faults.items()}
    if wrong and not free:
        return scores, {
            "failure": "layout",
            "why": f"{LAYOUT} bare cells between commas, a row a line",
        }
    if wrong:
        details: Details = {"failure": wrong[0] if rows else "malformed", "why": wrong[1]}
        twice = repeated_symbols(text, symbols)
        if twice:
            details["repeated"] = twice
        return scores, details
    return scores, (
        {"why": f"accepted as by the official benchmark, but {exact[1]}"} if exact else {}
    )


def repeated_symbols(text: str, symbols: Sequence[str]) -> list[Repeated]:
    """The symbols that stand twice in a row or column of an answer, among its first n lines of n
    cells with symbols.
    """
    side = len(symbols)
    rows = []
    for row in answers.placed_cells(text):
        if len(row) == side and all(cell in symbols for cell, _ in row):
            rows.append(row)
    twice = []
    for kind, lines in (("row", rows[:side]), ("column", list(zip(*rows[:side], strict=True)))):
        for number, line in enumerate(lines, 1):
            twice += answers.repeated(line, {}, f"{kind} {number}")
    return twice


def latin_fault(rows: Sequence[Sequence[str]], symbols: Sequence[str]) -> tuple[str, str] | None:
    """Why the first n rows are not a Latin square, as a kind and a sentence; None if they are one.
    The number of columns is the length of the shortest row: if every row has an extra cell, these
    form a further column, which must contain every symbol too (the official rule).
    """
    side = len(symbols)
    if len(rows) < side:
        return (
            "row missing",
            f"only {len(rows)} of {side} rows contain every symbol and nothing else",
        )
    for number, column in enumerate(zip(*rows[:side], strict=False), 1):
        if set(column) != set(symbols):
            kind = "column repeats" if number <= side else "extra cell"
            return kind, f"column {number} does not contain every symbol once"
    return None


def judge_sudoku(text: str, sample: Sample) -> ScoresAndDetails:
    """`accuracy`: the lines with exactly four digits, read without other characters, equal the
    solution. `accuracy_strict`: all lines do. Decimal digits of every script count, as in the
    official benchmark. `accuracy_any_layout`: all digits of the answer in order equal the solution,
    whatever its line breaks; it is never lower than `accuracy`.
    """
    solution = answers.lines(label_text(sample))
    rows = answers.digit_rows(text)
    right = rows == solution
    strict = answers.lines(answers.ascii_digits(text)) == solution
    free = right or answers.digits(text) == "".join(solution)
    scores = {
        "accuracy": float(right),
        "accuracy_strict": float(strict),
        "accuracy_any_layout": float(free),
    }
    if free and not right:
        return scores, {"failure": "layout", "why": f"{LAYOUT} lines of exactly four digits"}
    if not right:
        failure, why = sudoku_fault(
            rows, solution, answers.lines(str(sample.input.get("sudoku", "")))
        )
        return scores, {"failure": failure, "why": why}
    return scores, {} if strict else {"why": "right, but with more than four lines of four digits"}


def sudoku_fault(
    rows: Sequence[str], solution: Sequence[str], puzzle: Sequence[str]
) -> tuple[str, str]:
    """The diagnosis of a wrong answer.

    Args:
        rows: the rows of the answer.
        solution: the rows of the solution.
        puzzle: the rows of the question.

    Returns:
        The kind of failure and a sentence.
    """
    if not rows:
        return "malformed", "the answer contains no row of four digits"
    if len(rows) != len(solution):
        failure = "row missing" if len(rows) < len(solution) else "extra row"
        return failure, f"{len(rows)} rows of four digits instead of {len(solution)}"
    cells = [(row, column) for row in range(len(solution)) for column in range(len(solution[row]))]
    wrong = [(row, column) for row, column in cells if rows[row][column] != solution[row][column]]
    if list(map(len, puzzle)) == list(map(len, solution)):
        changed = [
            (row, column)
            for row, column in wrong
            if puzzle[row][column] not in ("0", rows[row][column])
        ]
        if changed:
            return (
                "given changed",
                f"row {changed[0][0] + 1}, column {changed[0][1] + 1}: a given digit was changed",
            )
    row, column = wrong[0]
    return (
        "wrong digit",
        (
            f"row {row + 1}, column {column + 1}: {rows[row][column]} instead of"
            f" {solution[row][column]}"
        ),
    )


def judge_walk(text: str, sample: Sample) -> ScoresAndDetails:
    """`accuracy`: the walk begins where it should, has the asked length, and each step follows an
    edge (its validity in arXiv 2606.22976). `edges`: the share of its steps that follow an edge.
    How often it goes where is for many answers together: `metrics.answer_law`.
    """
    label = sample.label
    nodes = walked(sample.label, text)
    edges = {frozenset(edge) for edge in label["edges"]}
    steps = [frozenset(step) in edges for step in pairwise(nodes)]
    scores = {"accuracy": 0.0, "edges": sum(steps) / max(1, label["length"] - 1, len(steps))}
    if len(nodes) != label["length"]:
        return scores, {
            "failure": "wrong length",
            "why": f"{len(nodes)} nodes instead of {label['length']}",
        }
    if nodes[0] != label["start"]:
        return scores, {"failure": "wrong start", "why": "it begins at another node"}
    if not all(steps):
        place = steps.index(False) + 1
        return scores, {
            "failure": "no edge",
            "why": f"no edge leads from node {place} of the walk to the next",
        }
    return {**scores, "accuracy": 1.0}, {}


register_scorer(
    "latin_square",
    JudgedScorer(
        judge_square, ("accuracy", "accuracy_strict", "accuracy_any_layout", "accuracy_as_asked")
    ),
)
register_scorer(
    "sudoku", JudgedScorer(judge_sudoku, ("accuracy", "accuracy_strict", "accuracy_any_layout"))
)
register_scorer("walk", JudgedScorer(judge_walk, ("accuracy", "edges")))
