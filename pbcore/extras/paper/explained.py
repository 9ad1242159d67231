"""`pbcore explain RUN --published MODEL`: a published number as the setting to go to."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pbcore.base.errors import InputError
from pbcore.base.printable import some
from pbcore.explain.sides import Side, changed
from pbcore.extras.paper.against import DIFFUSION, PAPER
from pbcore.extras.paper.published import figures
from pbcore.grid.profiles import presets
from pbcore.tasks.naming import REWRITE, short

TABLES = "parallelbench-tables-k2"  # the preset of the paper's tables, for its diffusion LLMs


def of_published(first: Side, model: str, sampler: str | None) -> Side:
    """The setting of a published number; what it leaves open is as in the first side. Raises
    InputError naming the models, tasks or samplers that there are.
    """
    table = figures()
    known = list(dict.fromkeys(table["model"]))
    if model not in known:
        raise InputError(f"--published {model}: there are {', '.join(sorted(known))}")
    rows = table[(table["model"] == model) & table["task"].isin(first.tasks)]
    rows = rows[rows["score"].notna()]
    if rows.empty:
        tasks = sorted(map(short, set(table[table["model"] == model]["task"])))
        raise InputError(f"--published {model}: it has scores of {', '.join(tasks)}")
    rows = rows.assign(sampler=[_sampler_of(row) for row in rows.to_dict("records")])
    wanted = sampler or first.setting.sampler
    named = rows[(rows["sampler"] == wanted) & (rows["sampler"] != PAPER)]
    if named.empty:
        there = sorted({*rows["sampler"]} - {PAPER}) or ["none: its sampler isn't stated"]
        raise InputError(
            f"--published {model}: no {wanted} for these tasks; name one of {some(there, 12)} by"
            " --sampler FIRST=SECOND"
        )
    scores = {str(row["task"]): float(row["score"]) for _, row in named.iterrows()}
    missing = [task for task in first.tasks if task not in scores]
    if missing:
        raise InputError(
            f"--published {model}: {wanted} has no score of {', '.join(map(short, missing))}; leave"
            " it out by --task"
        )
    if not first.setting.asked["data_dir"]:
        raise InputError(
            f"--published {model} was measured on the official questions, and {first.name} on the"
            " project's own; measure with --data-dir DIR, the folder that holds them"
        )
    stated = {}
    if any("n=15" in str(text) for text in named["setting"]):
        stated["n"] = (15,)
    side = changed(first, f"published {model}", stated, wanted)
    notes = ["weights, dtype and machine of the published number"]
    if REWRITE in set(named["prompts"]):
        notes.append("questions in the words of the 2026 rewrite")
    return replace(side, means=scores, notes=notes)


def _sampler_of(row: Mapping[Any, Any]) -> str:
    """The sampler of a published row; the paper's tables say it for all their diffusion LLMs."""
    name = str(row["sampler"])
    if name == PAPER and row["model"] in DIFFUSION:
        (name,) = presets()[TABLES].options["sampler"]
    return name


class PublishedSide:
    """An `explain.sides.AddedSide`."""

    metavar = "MODEL"
    help = "go to a published number of MODEL, of the paper or the official site"
    side = staticmethod(of_published)


SIDE = PublishedSide()
