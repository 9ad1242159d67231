"""report.md: the tables, curves and facts of a run on one page."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from pbcore.analysis.factors import FactorChange, factor_changes
from pbcore.analysis.frontier_gap import Room
from pbcore.analysis.tradeoff import pbx_table
from pbcore.printable import command_line, counted, first_line, fixed
from pbcore.report.ceilings import ceiling_section
from pbcore.report.exploration import exploration_section
from pbcore.report.factors import factor_section
from pbcore.report.frame_table import frame_table
from pbcore.report.frontier_section import frontier_section
from pbcore.report.headline import findings, measured
from pbcore.report.page.data import Answers
from pbcore.report.page.figures import overview, scopes
from pbcore.report.page.frontier_table import rooms
from pbcore.report.page.write import read
from pbcore.report.parts import sections, told
from pbcore.report.plots import MEANS, write_plots
from pbcore.report.speed import write_speed
from pbcore.report.speed_sections import rows_note, shared_forwards_section, speed_section, under_load_section
from pbcore.report.tables import markdown, prompts_note, trade_off_tables
from pbcore.report.under_load import write_under_load
from pbcore.results.record import absent_reasons
from pbcore.results.rundir import RunDir, write_atomic
from pbcore.text import NAME, code, listed, md


def write_report(run_dir: str | Path, found: tuple[pd.DataFrame, list[Answers]] | None = None) -> list[Path]:
    """Writes report.md and the trade-off curves (PNG) into a run directory and returns their paths, report.md first.

    An unfinished run is reported as far as it got; `found` is what `read` gave of it before. Raises the errors of
    `results.load`.
    """
    run = RunDir(Path(run_dir))
    cells, answers = found or read(run.path)
    plots = [*write_plots(cells, run.path), *write_speed(cells, run.path), *write_under_load(cells, run.path)]
    changes = factor_changes(answers)
    page = report_text(cells, run.path.name, run.read_run(), [plot.name for plot in plots], rooms(answers), changes)
    return [write_atomic(run.path / "report.md", page), *plots]


def report_text(
    cells: pd.DataFrame,
    name: str,
    facts: Mapping[str, Any],
    plots: list[str],
    gaps: Sequence[Room] = (),
    changes: Sequence[FactorChange] = (),
) -> str:
    """The page for a frame of `results.load`: what was measured and found, the plot and table of means, a table per
    category, further curves, what factors change (`changes`), order and variety of answers, ceilings, the frontier
    (`gaps`), PBx, speed, wrong answers, errors, absent scores, facts.
    """
    told = [md(f"Measured: {measured(cells, facts)}.", 2000)]
    told += [f"**{md(sentence, 2000)}.**" for sentence in findings(cells)]
    parts = [f"# {md(name)}\n", "\n\n".join(told) + "\n"]
    first = [plot for plot in plots if plot == MEANS]
    parts += [_images(first), _means(cells)]
    parts += [
        f"## {md(table.title.replace(' [95 % interval]', ''))}\n\n{markdown(table)}"
        for table in trade_off_tables(cells)
    ]
    if rest := [plot for plot in plots if plot not in first]:
        parts.append("## Trade-off curves\n\n" + "\n".join([_images(rest), *rows_note(cells)]) + "\n")
    parts += [
        section
        for section in (
            factor_section(changes),
            exploration_section(cells),
            ceiling_section(cells),
            frontier_section(gaps),
            _pbx(cells),
            speed_section(cells),
            under_load_section(cells),
            shared_forwards_section(cells),
            _served(cells),
            _failures(cells),
            _errors(cells),
            _absent(cells),
            _facts(cells, facts),
        )
        if section
    ]
    return "\n".join(part for part in parts if part)


def _images(plots: Sequence[str]) -> str:
    return "".join(f"![{plot.removesuffix('.png')}]({plot})\n\n" for plot in plots).removesuffix("\n")


def _means(cells: pd.DataFrame) -> str:
    """A row per model and sampler: means over the model's tasks, as report.html has them."""
    rows = [
        {
            "model": row["model"],
            "sampler": row["sampler"],
            "mean score %": None if row["score"] is None else fixed(row["score"]),
            "95 % interval": None if row["low"] is None else f"{fixed(row['low'], 0)}–{fixed(row['high'], 0)}",
            **{
                title: None if row[key] is None else fixed(row[key], 2)
                for key, title in (("tokens_per_step", "tokens/step"), ("tokens_per_forward", "tokens/forward"))
            },
            "tasks scored": row["tasks"],
        }
        for row in overview(scopes(cells)[0])
    ]
    if not rows:
        return ""
    text = frame_table(pd.DataFrame(rows, dtype=object))
    return f"## Means over each model's own tasks\n\n{text}\n\n–: a task has no score; its reason is below.\n"


def _facts(cells: pd.DataFrame, facts: Mapping[str, Any]) -> str:
    command = facts.get("command")
    words = command_line(command) if isinstance(command, list) else command
    rows = {"command": code(words, 2000, cell=True) if words else None}
    rows |= {key: md(str(facts[key])) for key in ("started", "profile", "shard") if facts.get(key) is not None}
    rows |= {
        key.replace("_", " "): _joined(cells, key)
        for key in ("seeds", "data_source", "prompts", "device", "dtype", "length")
    }
    for key in ("machine", "versions"):
        if isinstance(facts.get(key), Mapping):
            rows[key] = ", ".join(
                md(f"{name} {value}") for name, value in facts[key].items() if value not in (None, "", [])
            )
    if "model_info" in cells:
        remote = [isinstance(info, Mapping) and bool(info.get("remote_code")) for info in cells["model_info"]]
        rows["ran code that came with the checkpoint"] = _joined(cells[remote], "model")
    rows["cells"] = f"{len(cells)}, of which {int((cells['status'] != 'ok').sum())} could not be run"
    return "## The run\n\n| | |\n|---|---|\n" + "".join(
        f"| {key} | {value} |\n" for key, value in rows.items() if value
    )


def _joined(cells: pd.DataFrame, column: str) -> str:
    texts = sorted({str(value) for value in cells[column].dropna()} - {""}) if column in cells else []
    return ", ".join(listed([md(text, NAME) for text in texts], 20))


def _pbx(cells: pd.DataFrame) -> str:
    tables = []
    for category, group in cells.groupby("category", sort=False):
        table = pbx_table(group)
        if not table.empty:
            tables.append(table.assign(category=category).set_index(["category", "model", "family"]).reset_index())
    if not tables:
        return ""
    text = frame_table(pd.concat(tables))
    return (
        "## PBx: the largest tokens per step at which the category's mean score is at least x %\n\n"
        f"{text}\n\n"
        + "  \n".join(["–: never reached. Measured points only, without interpolation.", *prompts_note(cells)])
        + "\n"
    )


def _served(cells: pd.DataFrame) -> str:
    texts = []
    for section in sections():
        lines = [f"- {md(line, 600)}" for line in section.lines(told(cells))]
        texts += [f"## {section.title}\n\n" + "\n".join(lines) + f"\n\n{section.note}\n"] if lines else []
    return "\n".join(texts)


def _failures(cells: pd.DataFrame) -> str:
    counts: dict[str, Counter[str]] = {}
    for record in cells[~cells["dummy"].isin([True])].to_dict("records"):
        if isinstance(record.get("failures"), dict):
            counts.setdefault(f"{record['model']} {record['category']}", Counter()).update(record["failures"])
    lines = [
        f"- {md(name)}: " + ", ".join(f"{md(kind)} {count}" for kind, count in kinds.most_common(20))
        for name, kinds in counts.items()
        if kinds
    ]
    return "## Wrong answers by kind\n\n" + "\n".join(lines) + "\n" if lines else ""


def _errors(cells: pd.DataFrame) -> str:
    failed = cells[cells["status"] != "ok"]
    lines = (
        [
            f"- {code(name)}: {md(first_line(str(error or 'no cause recorded'), 300))}"
            for name, error in zip(failed["id"], failed["error"], strict=True)
        ]
        if len(failed)
        else []
    )
    return "## Cells that could not be run\n\n" + "\n".join(lines) + "\n" if lines else ""


def _absent(cells: pd.DataFrame) -> str:
    reasons = Counter(item for one in cells.get("absent", ()) for item in absent_reasons(one).items())
    lines = [
        f"- {md(metrics)}: {md(reason)} ({counted(count, 'cell')})"
        for (metrics, reason), count in sorted(reasons.items())
    ]
    dummies = sorted(set(cells[cells["dummy"].isin([True])]["model"]))
    lines += [f"- {md(model)}: random weights, so its scores are left out of the tables" for model in dummies]
    return "## Not measured\n\n" + "\n".join(lines) + "\n" if lines else ""
