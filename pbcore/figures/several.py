"""Tokens per step over k, the number of independent questions that are answered on one canvas (`questions/…-xk`)."""

import re
from collections import defaultdict
from typing import Any

from matplotlib.ticker import FuncFormatter

from pbcore.analysis.order import natural
from pbcore.errors import InputError
from pbcore.figures.figure_io import Drawing, Row, captions, colour, legend, marker, panels
from pbcore.figures.runs import Cells, headline
from pbcore.report.style import finish, label

_TASK = re.compile(r"questions/(.+)-x(\d+)$")


def over_questions(cells: Cells) -> Drawing:
    """A panel per operation, a curve per model and sampler, k = 1 included; dotted: the ideal speed-up k, since the
    questions are independent (DAPD, arXiv 2603.12996, asks five at once).

    `speed-up` is k × the forwards of one question over those of all k. Raises InputError without cells for k = 1 and
    another k.
    """
    found: defaultdict[tuple[str, str, str], dict[int, Row]] = defaultdict(dict)
    for one in cells:
        cell, score, named = one.cell, headline(one.cell), _TASK.match(one.cell.task)
        if named and score is not None and cell.nfe_mean and cell.tokens_per_step:
            row: Row = {"operation": named[1], "model": cell.model_at, "sampler": cell.sampler, "k": int(named[2])}
            row |= {"tokens per step": cell.tokens_per_step, "forwards": cell.nfe_mean}
            row |= {name: 100 * one.mean for name, one in cell.scores.items()}
            found[named[1], cell.model_at, cell.sampler][int(named[2])] = row
    curves = {name: dict(sorted(of.items())) for name, of in found.items() if 1 in of and len(of) > 1}
    if not curves:
        raise InputError(
            "the figure needs one question and several: pytest --pyargs pbcore.benches --task 'questions/shuffle-x*' …"
        )
    for of in curves.values():
        for k, row in of.items():
            row["speed-up"] = k * of[1]["forwards"] / row["forwards"]
    operations = list(dict.fromkeys(operation for operation, _, _ in curves))
    names = sorted({(model, sampler) for _, model, sampler in curves}, key=lambda one: (one[0], natural(one[1])))
    foot = 0.75 + 0.2 * ((len(names) - 1) // 4)
    figure, [axes] = panels(1, len(operations), foot)
    for axis, operation in zip(axes, operations, strict=True):
        for number, (model, sampler) in enumerate(names):
            line = list(curves.get((operation, model, sampler), {}).values())
            if line:
                ks = [row["k"] for row in line]
                steps = [row["tokens per step"] for row in line]
                look: dict[str, Any] = {
                    "color": colour(number),
                    "marker": marker(number),
                    "markersize": 4,
                    "linewidth": 1.1,
                }
                axis.plot(ks, steps, label=f"{model} {sampler}", **look)
                axis.plot(ks, [steps[0] * k for k in ks], ":", color=colour(number), linewidth=0.8)
        axis.set_xscale("log", base=2)
        axis.set_yscale("log", base=2)
        for side in (axis.xaxis, axis.yaxis):
            side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        finish(axis, label(operation))
    captions(figure, "questions on the canvas, k (dotted: the ideal speed-up)", "tokens per step", foot)
    legend(figure, axes, 4)
    rows = [row for of in curves.values() for row in of.values()]
    said = [
        f"{row['operation']}-x{row['k']} {row['model']} {row['sampler']}: {row['forwards']:.1f} forwards, "
        f"speed-up {row['speed-up']:.2f} of {row['k']}, {row['accuracy']:.0f} % right, all {row['accuracy_all']:.0f} %"
        for row in rows
        if row["k"] > 1
    ]
    return Drawing("questions", figure, rows, "\n".join(said))
