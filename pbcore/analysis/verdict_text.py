"""The gate's verdict as text: one screen for the terminal, all of it in Markdown for a CI's step
summary.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean

from pbcore.analysis.further import has_only, reachable, too_few
from pbcore.analysis.new_names import compare_command
from pbcore.analysis.paired import Paired, detectable_drop, detectable_shift, questions_to_show
from pbcore.analysis.verdict import Judgement, Pooled, Verdict, shares
from pbcore.base.printable import command_line, counted, fixed, printable, some
from pbcore.base.tabular import Code, Table, markdown
from pbcore.base.text import first_lines, md
from pbcore.costs.kinds import COST_NAMES, Cost
from pbcore.results.baseline import BaselineCell
from pbcore.tasks.naming import short

LISTED = 12  # answers named per cell
LIMIT = 100  # questions that the text proposes where a cell has fewer
# What a failed gate is called, by the gravest of its cells' verdicts; {} stands for the baseline.
FAILED = {
    "worse": "worse than {}",
    "changed": "changed from {}",
    "slower": "slower than {}",
    "error": "cells of {} could not be run",
    "refused": "not comparable with {}",
    "missing": "cells of {} are missing",
    "floor": "below a floor, not worse than {}",
}
UNCOMPARED = ("error", "refused", "missing", "floor")
Rerun = Callable[[str, int], str]


def gate_text(
    verdict: Verdict,
    name: str = "baseline",
    run: Path | None = None,
    limit: int = 8,
    first: str = "",
) -> str:
    """The verdict on one screen: the headline, the cells behind it, what to do, and what a single
    cell would have shown.

    Args:
        name: the baseline, as the first line names it.
        run: the directory of the run, for the commands that look at it and accept it.
        limit: lines of each kind; the rest are counted.
        first: what stands in place of the first line.
    """
    lines = [first] if first else [headline(verdict, name), *judged_by(verdict)]
    lines += first_lines(_cell_lines(verdict), limit, " cells")
    lines += _correction(verdict)
    lines += first_lines(_uncompared_lines(verdict), limit)
    lines += _conditions_lines(verdict)
    if run is not None:
        lines += _new_setting(verdict, run, name)
    if run is not None and not verdict.ok:
        look = f"look: {command_line(['pbcore', 'view', str(run)])}"
        accept = "" if Path(name).is_dir() else f"accept: pytest … --update-baseline {name}"
        lines.append(f"{look}      {accept}".rstrip())
    power = power_text(verdict)
    if power:
        lines.append(power)
    return "\n".join(lines)


def _new_setting(verdict: Verdict, run: Path, name: str) -> list[str]:
    """The line with the command that judges new names by those that they replace."""
    command = compare_command(verdict, run, name)
    return [f"a new setting is judged by its scores: {command}"] if command else []


def gate_markdown(
    verdict: Verdict, rerun: Rerun, name: str = "baseline", run: Path | None = None
) -> str:
    """The verdict in Markdown: every cell in which something changed, or that was not judged.

    Args:
        verdict: on a run.
        rerun: cell id and sample → the command that runs this sample again.
        name: the baseline's, in the headline.
        run: the directory of the run, for a command that judges new names.
    """
    rows: list[list[str | Code]] = []
    commands = []
    for cell in verdict.judgements:
        why = reason_text(verdict, cell)
        if why:
            rows.append([Code(printable(cell.id, 300)), cell.status, printable(why, 600)])
        for sample in cell.paired.worse[:LISTED]:
            commands.append(printable(rerun(cell.id, sample), 1000))
    lines = [f"### {md(headline(verdict, name), 900)}", ""]
    if rows:
        lines += [markdown(Table(["cell", "verdict", "why"], rows)), ""]
    notes = [*judged_by(verdict), *_correction(verdict), *_conditions_lines(verdict)]
    for note in [*notes, power_text(verdict)]:
        if note:
            lines += [md(note, 900), ""]
    judging = "" if run is None else compare_command(verdict, run, name)
    if judging:
        lines += ["A new setting is judged by its scores:", "", "```", judging, "```", ""]
    if commands:
        lines += [f"Rerun the samples that got worse (the first {LISTED} of each cell):", ""]
        lines += ["```", *commands, "```"]
    return "\n".join(lines).rstrip() + "\n"


def headline(verdict: Verdict, name: str, judged_by: str = "gate") -> str:
    """`gate FAILED: worse than baseline.json (other weights): 9 of 32 answers to 6 questions broke,
    none mended (one-sided p = .016)`. `judged_by` is `comparison` where nobody asked for a gate,
    which a comparison in which nothing could be judged doesn't pass.
    """
    weights, _ = _weights(verdict)
    if weights:
        weights = f" ({weights})"
    parts = _sums(verdict)
    text = f"{judged_by} {_passed(verdict)}: {_outcome(verdict).format(name)}{weights}"
    return f"{text}: {'; '.join(parts)}" if parts else text


def short_headline(verdict: Verdict, name: str) -> str:
    """`gate FAILED: worse than baseline.json`."""
    return f"gate {_passed(verdict)}: {_outcome(verdict).format(name)}"


def _passed(verdict: Verdict) -> str:
    return "PASSED" if verdict.ok and verdict.judged else "FAILED"


def _weights(verdict: Verdict) -> tuple[str, str]:
    """`other weights`, and what differs of the model beside its weights: `config, tokenizer`."""
    words, _, parts = verdict.weights.partition(" (")
    others = [part for part in parts.removesuffix(")").split(", ") if part not in ("", "weights")]
    return words, ", ".join(others)


def _outcome(verdict: Verdict) -> str:
    """What the run is beside its baseline, which is `{}`."""
    if any(pooled.status == "worse" for pooled in verdict.pooled):
        return FAILED["worse"]
    for status, words in FAILED.items():
        if verdict.of(status):
            return words
    if not verdict.judged:
        return "nothing to compare with {}"
    lost = verdict.of("lost")
    if any(pooled.status == "better" for pooled in verdict.pooled):
        return "better than {}"
    if verdict.of("better") and not lost:
        return "better than {}"
    if verdict.of("faster") and not lost:
        return "faster than {}"
    tested = any(cell.tested for cell in verdict.judgements)
    return "not shown to be worse than {}" if tested else "no worse than {}"


def _sums(verdict: Verdict) -> list[str]:
    """What happened to the answers, in the repeatable cells and in the tested ones, and how many
    cells have a verdict of another kind.
    """
    parts = []
    exact = [cell for cell in verdict.judged if cell.exact]
    if exact:
        parts.append(_exact_sum(exact, verdict.judged_score))
    parts += [pooled_text(pooled, verdict.judged_score) for pooled in verdict.pooled]
    counts = Counter(cell.status for cell in verdict.judgements)
    others = []
    for status in ("worse", "changed", "slower", "faster", *UNCOMPARED, "new"):
        if counts[status]:
            others.append(f"{counts[status]:,} {status}")
    if others:
        parts.append(f"of {counted(len(verdict.judgements), 'cell')} {', '.join(others)}")
    return parts


def judged_by(verdict: Verdict) -> list[str]:
    """The line that says which score is judged, where another one fell or is not measured."""
    others = other_scores_text(verdict.judged)
    return [f"judged by {verdict.judged_score}; {others}"] if others else []


def other_scores_text(cells: Sequence[Judgement]) -> str:
    """`also lower: accuracy_strict 100.0 → 0.0 %`, of the scores beside the judged one that fell in
    these cells, and which are not measured any more; empty where there are none.
    """
    fallen: dict[str, list[Paired]] = {}
    unmeasured: dict[str, None] = {}
    for cell in cells:
        for name, paired in cell.others.items():
            fallen.setdefault(name, []).append(paired)
        unmeasured |= dict.fromkeys(cell.unmeasured)
    parts = []
    if fallen:
        texts = [_fallen(name, members) for name, members in sorted(fallen.items())]
        parts.append(f"also lower: {some(texts, LISTED)}")
    if unmeasured:
        parts.append(f"not measured any more: {some(list(unmeasured), LISTED)}")
    return "; ".join(parts)


def _fallen(name: str, cells: Sequence[Paired]) -> str:
    """`accuracy_strict 100.0 → 0.0 %`, the means of the cells in which it fell; the number of
    answers where these means hide it.
    """
    base = fixed(100 * fmean(paired.base for paired in cells))
    head = fixed(100 * fmean(paired.head for paired in cells))
    if sum(paired.change for paired in cells) < 0 and base != head:
        return f"{name} {base} → {head} %"
    answers = counted(sum(paired.n for paired in cells), "answer")
    return f"{name} in {sum(len(paired.worse) for paired in cells):,} of {answers}"


def _exact_sum(cells: Sequence[Judgement], metric: str) -> str:
    """`3 of 100 answers broke, none mended`; `all 100 answers repeat`; by the score `metric`."""
    answers = sum(cell.paired.n for cell in cells)
    worse = sum(len(cell.paired.worse) for cell in cells)
    better = sum(len(cell.paired.better) for cell in cells)
    if worse or better:
        return _flips(worse, better, f"{counted(answers, 'answer')}", _words(cells))
    if any(cell.changes or cell.texts or cell.others for cell in cells):
        return _unchanged(metric, answers)
    return f"all {counted(answers, 'answer')} repeat"


def _unchanged(metric: str, answers: int) -> str:
    """`accuracy unchanged in all 180 answers`."""
    return f"{metric} unchanged in all {counted(answers, 'answer')}"


def pooled_text(pooled: Pooled, metric: str) -> str:
    """`9 of 32 answers to 6 questions broke, none mended (one-sided p = .016)`; `metric` is the
    score by which they did.
    """
    answers = counted(pooled.answers, "answer")
    if not pooled.broke and not pooled.mended:
        return _unchanged(metric, pooled.answers)
    if pooled.broke:
        answers += f" to {counted(pooled.broken_questions, 'question')}"
    text = _flips(pooled.broke, pooled.mended, answers, _kinds(pooled.binary))
    if pooled.p <= pooled.p_gain:
        return f"{text} (one-sided {p_text(pooled.p)})"
    return f"{text} (one-sided {p_text(pooled.p_gain)} of a gain)"


def _flips(worse: int, better: int, answers: str, words: tuple[str, str]) -> str:
    """`9 of 32 answers broke, none mended`.

    Args:
        worse: how many fell.
        better: how many rose.
        answers: of how many.
        words: what both are called.
    """
    broke, mended = words
    return f"{f'{worse:,}' if worse else 'none'} of {answers} {broke}, {better or 'none'} {mended}"


def p_text(p: float) -> str:
    """`p = .016`, `p = 1`, `p < .001`."""
    if p < 0.001:
        return "p < .001"
    return f"p = {p:.2g}".replace(" 0.", " .")


def _words(cells: Sequence[Judgement]) -> tuple[str, str]:
    return _kinds(all(cell.paired.binary for cell in cells))


def _kinds(binary: bool) -> tuple[str, str]:
    """What scores that fell and that rose are called."""
    return ("broke", "mended") if binary else ("fell", "rose")


def _cell_lines(verdict: Verdict) -> list[str]:
    """A line for each compared cell in which answers broke or that is not what it was, those with
    the most broken answers first.
    """
    cells = [cell for cell in verdict.judged if cell.status != "refused"]
    cells = [cell for cell in cells if cell.paired.worse or cell.status not in ("passed", "better")]
    cells.sort(key=lambda cell: (-_loss(cell), cell.id))
    one_model = len({cell.pair.model for cell in verdict.judged if cell.pair}) == 1
    labels = [_label(cell, one_model) for cell in cells]
    widths = [max(map(len, column)) for column in zip(*labels, strict=True)]
    lines = []
    for cell, label in zip(cells, labels, strict=True):
        padded = [f"{part:{width}}" for part, width in zip(label, widths, strict=True)]
        reason = _judged_reason(verdict, cell)
        if cell.status in ("slower", "faster", "changed"):
            reason = f"{cell.status}: {reason}"
        lines.append(f"  {'  '.join(padded)}   {reason}")
    return lines


def _loss(cell: Judgement) -> float:
    """By how much a cell's scores fell."""
    return -sum(cell.paired.differences)


def _label(cell: Judgement, one_model: bool) -> list[str]:
    """A cell's task and sampler, with its model where there are several."""
    pair = cell.pair
    if pair is None or pair.renamed:
        return [printable(cell.id if pair is None else pair.name, 200), ""]
    sampler = f"{pair.sampler[0]}/{pair.level}" if pair.level else pair.sampler[0]
    task = short(pair.task)
    name = task if one_model else f"{pair.model[0]}/{task}"
    return [printable(name, 200), printable(sampler, 200)]


def reason_text(verdict: Verdict, cell: Judgement) -> str:
    """Why a cell has its verdict: `4 of 8 broke: 1 4 6 7`, `forwards 16 → 17 in 1 of 20 answers:
    3`, and which other scores fell; empty where nothing changed.

    Args:
        verdict: the verdict on the run.
        cell: one of its judgements.
    """
    reason = _judged_reason(verdict, cell)
    return "; ".join(filter(None, [reason, other_scores_text([cell])]))


def _judged_reason(verdict: Verdict, cell: Judgement) -> str:
    """What its judged score, forwards and texts say of a cell."""
    if not cell.judged or cell.status == "refused":
        return cell.reason
    flips = []
    broke, mended = _kinds(cell.paired.binary)
    for word, answers in ((broke, cell.paired.worse), (mended, cell.paired.better)):
        if answers:
            flips.append(f"{len(answers)} of {cell.paired.n} {word}: {_indices(answers)}")
    if cell.tested:
        return "; ".join([*_slower_text(cell), *flips]) + _test_text(verdict, cell)
    counts = _count_texts(cell)
    parts = [*counts, *flips] if cell.status == "slower" else [*flips, *counts]
    if cell.texts and not (cell.paired.worse or cell.paired.better):
        parts.append(f"other text in {len(cell.texts)} of {cell.paired.n}: {_indices(cell.texts)}")
    return "; ".join(parts)


def _slower_text(cell: Judgement) -> list[str]:
    """`forwards 16 → 17 (one-sided p = .02)`, of the count that made a tested cell slower."""
    if cell.status != "slower":
        return []
    kinds: tuple[Cost, ...] = ("calls", "rows")
    kind = min(kinds, key=lambda name: cell.p.get(name, 1.0))
    change = cell.changes[kind]
    means = f"{change.base:.6g} → {change.head:.6g}"
    return [f"{COST_NAMES[kind]} {means} (one-sided {p_text(cell.p[kind])})"]


def _count_texts(cell: Judgement) -> list[str]:
    """`forwards 16 → 17 in 1 of 20 answers: 3`."""
    texts = []
    for kind, change in cell.changes.items():
        where = sorted((*change.more, *change.fewer))
        answers = f"{len(where)} of {cell.paired.n} answers: {_indices(where)}"
        if len(where) == cell.paired.n:
            answers = f"all {cell.paired.n} answers"
        texts.append(f"{COST_NAMES[kind]} {change.base:.6g} → {change.head:.6g} in {answers}")
    return texts


def _test_text(verdict: Verdict, cell: Judgement) -> str:
    """What a cell's own tests say, in parentheses; empty where the test of all cells says it."""
    if cell.status == "worse":
        return f" (one-sided {p_text(cell.p['score'])})"
    shown = any(pooled.status == "worse" for pooled in verdict.pooled)
    if cell.status != "lost" or shown:
        return ""
    needed = questions_to_show(cell.paired, level=_strictest(verdict))
    if needed is None:
        return " (lost, not shown)"
    lacking = too_few(_sizes([cell]), needed)
    ends = f", and {has_only(lacking)}" if lacking else ""
    return f" (lost, not shown: about {needed:,} questions would show it{ends})"


def _sizes(cells: Sequence[Judgement]) -> dict[str, int | None]:
    """Task → how many questions its data has, as the run knows it, or else the baseline."""
    sizes: dict[str, int | None] = {}
    for cell in cells:
        rows = (cell.pair.head, cell.pair.base) if cell.pair is not None else ()
        for row in rows:
            if row is not None and sizes.get(row.task) is None:
                sizes[row.task] = row.available
    return sizes


def _indices(answers: Sequence[int]) -> str:
    """`1 4 6 7`."""
    return some([str(index) for index in answers], LISTED).replace(", ", " ")


def _correction(verdict: Verdict) -> list[str]:
    """The line that says for how many tests the p of single cells are corrected, where one is
    shown.
    """
    shown = any(cell.tested for cell in verdict.of("worse", "slower"))
    if not shown or verdict.tests < 2:
        return []
    return [f"the p of single cells are corrected for their {verdict.tests:,} tests (Holm)"]


def _uncompared_lines(verdict: Verdict) -> list[str]:
    """Cells that were not judged and broken floors, each reason once with its cells; then new
    cells.
    """
    groups: dict[tuple[str, str], list[str]] = {}
    for status in UNCOMPARED:
        for cell in verdict.of(status):
            groups.setdefault((status, printable(cell.reason, 600)), []).append(printable(cell.id))
    lines = []
    for (status, reason), names in groups.items():
        lines.append(f"  {status} {some(names, 4)}: {reason}")
    new = [printable(cell.id) for cell in verdict.of("new")]
    if new:
        lines.append(f"  new, not judged: {some(new, 4)}")
    return lines


def _conditions_lines(verdict: Verdict) -> list[str]:
    """Conditions that may have moved answers by rounding, beside a red verdict; and those because
    of which scores were tested.
    """
    lines = []
    _, of_model = _weights(verdict)
    if of_model:
        lines.append(f"of the model's files these differ: {of_model}")
    if verdict.rounding:
        lines.append(f"judged by tests of the scores: {', '.join(verdict.rounding)}")
    if verdict.conditions and not verdict.ok:
        lines.append(f"also other than the baseline's: {', '.join(verdict.conditions)}")
    return [printable(line, 600) for line in lines]


def power_text(verdict: Verdict) -> str:
    """Which drop a single tested cell would have shown with 80 % power, in a sentence; empty where
    every answer counts. Of 0/1 scores in the cell with the fewest samples, if no answer improves
    but as many flip both ways as in this run; of means over seeds and graded scores in the cell
    where it is largest.
    """
    tested = [cell for cell in verdict.judgements if cell.tested]
    if not tested:
        return ""
    level = _strictest(verdict)
    compared = [cell.paired for cell in tested]
    binary = [cell for cell in tested if cell.paired.binary]
    parts = []
    if binary:
        parts.append(_binary_power(binary, level))
    shifts = []
    for paired in compared:
        if not paired.binary:
            shifts.append(detectable_shift(paired.n, paired.spread, level=level) or 1.0)
    if shifts and max(shifts) > 0:
        parts.append(
            f"means over seeds and graded scores: a drop of up to {100 * max(shifts):.1f} points,"
            " depending on the cell, would show"
        )
    return "; ".join(parts)


def baseline_text(cells: Sequence[BaselineCell], level: float) -> list[str]:
    """Which fall a gate against these cells finds with 80 % power where answers need not repeat, in
    one of them and over all, by its own tests; no lines where scores are graded, of which the
    scatter decides.

    Over all, a question's answers break together: where they break apart, less shows.

    Args:
        cells: of the baseline.
        level: the chance of any false alarm of the gate.
    """
    binary = [cell for cell in cells if set(cell.scores.get(cell.headline, (0.5,))) <= {0, 1}]
    if not binary:
        return []
    sizes = {cell.task: cell.available for cell in binary}
    limit = reachable(sizes, LIMIT)
    questions = {(cell.task, cell.data_hash): len(cell.indices) for cell in binary}
    now = _falls(len(cells), questions, level)
    text = f"with other weights a gate against it sees a fall {now}"
    fewest = min(questions.values())
    if fewest < limit:
        text += f"; --limit {limit}: {_falls(len(cells), dict.fromkeys(questions, limit), level)}"
    return [text]


def _falls(cells: int, questions: Mapping[tuple[str, str], int], level: float) -> str:
    """`of 90 points in a cell, of 12 over all`."""
    over_all, of_cells = shares(level, cells)
    of_cell = detectable_drop(min(questions.values()), level=of_cells / cells)
    text = "of no size in a cell" if of_cell is None else f"of {_points(of_cell)} points in a cell"
    if cells == 1:
        return text
    drop = detectable_drop(sum(questions.values()), level=over_all)
    return f"{text}, of {'no size' if drop is None else _points(drop)} over all"


def _points(drop: float) -> int:
    """Rounded up, so that it holds."""
    return math.ceil(100 * drop - 1e-9)


def _binary_power(tested: Sequence[Judgement], level: float) -> str:
    compared = [cell.paired for cell in tested]
    fewest = min(paired.n for paired in compared)
    churn = _two_way_flips(compared)
    drop = detectable_drop(fewest, churn=churn, level=level)
    text = f"{counted(fewest, 'question')} a cell: in a single cell "
    if drop is None:
        text += "no drop would show"
    else:
        text += f"only a drop of about {100 * drop:.0f} points would show"
    sizes = _sizes([cell for cell in tested if cell.paired.n == fewest])
    limit = reachable(sizes, LIMIT)
    if limit <= fewest < LIMIT:
        return f"{text}; {has_only(too_few(sizes, fewest + 1))}"
    more = detectable_drop(limit, churn=churn, level=level)
    if fewest < limit and more is not None:
        text += f"; --limit {limit} shows {100 * more:.0f}"
    return text


def _strictest(verdict: Verdict) -> float:
    """The level of the first test in Holm's procedure."""
    return verdict.cells_level / max(1, verdict.tests)


def _two_way_flips(compared: Sequence[Paired]) -> float:
    """The share of samples that flip in both directions by chance; at most .45, beyond which the
    tests detect nothing.
    """
    flips = sum(min(len(paired.worse), len(paired.better)) for paired in compared)
    samples = sum(paired.n for paired in compared)
    return min(0.45, flips / max(1, samples))
