"""Data for the page's script: cells with their facts, questions, and as many answers as fit."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pbcore.printable import first_line, fixed, printable
from pbcore.report.page.html import as_json
from pbcore.report.page.samples import LONGEST, Answers, chosen, is_wrong
from pbcore.results.questions import Question
from pbcore.results.record import CellRecord, absent_reasons
from pbcore.results.stats import GRADED

NAME = 300  # characters of a name
LEAST = 300_000  # bytes for answers, however long the tables are
AROUND = 70  # bytes of the element around a cell's answers


def page_data(cells: Sequence[Answers], run: str, room: int, remote: bool) -> tuple[dict[str, Any], list[list[Any]]]:
    """The page's data, and the answers of each cell, if they are part of it (not `remote`): all in about `room` bytes
    of JSON, but at least `LEAST` of them for answers."""
    pools, numbers = _pools(cells)
    data: dict[str, Any] = {
        "run": printable(run, NAME),
        "remote": remote,
        "cells": [_cell(one, number) for one, number in zip(cells, numbers, strict=True)],
        "tokens": [],
        "questions": [] if remote else [packed_questions(pool) for pool in pools],
    }
    if remote:
        return data, [[] for _ in cells]
    room -= len(as_json(data).encode()) + AROUND * len(cells)
    answers, tokens = chosen(cells, max(room, LEAST))
    for number, pool in enumerate(pools):
        wanted = {answer[0] for one, at in zip(answers, numbers, strict=True) if at == number for answer in one}
        data["questions"][number] = packed_questions({at: asked for at, asked in pool.items() if at in wanted})
    return data | {"tokens": tokens}, answers


def cell_data(one: Answers) -> str:
    """All answers of one cell as JSON, for a page that asks for them."""
    answers, tokens = chosen([one], 1 << 62)
    return as_json({"answers": answers[0], "tokens": tokens, "questions": packed_questions(one.questions)})


def _cell(one: Answers, questions: int) -> dict[str, Any]:
    cell = one.cell
    judged = [is_wrong(cell, sample) for sample in one.samples]
    extra: dict[str, Any] = {}
    if one.side:
        extra = {"side": one.side, "flips": {"worse": one.worse, "better": one.better}}
        extra |= {} if one.pair is None else {"pair": one.pair}
    return {
        "id": printable(one.id, NAME),
        "model": printable(one.model, NAME),
        "task": printable(cell.task, NAME),
        "sampler": printable(cell.sampler, NAME),
        "headline": cell.headline,
        "graded": cell.headline in GRADED,
        "metrics": list(cell.scores),
        "scores": {
            name: [round(value, 6) for value in (score.mean, score.low, score.high)]
            for name, score in cell.scores.items()
        },
        "n": len(one.samples),
        "kinds": [printable(kind, NAME) for kind in cell.failures],
        "facts": [[name, printable(value, NAME)] for name, value in _facts(cell, judged) if value],
        "questions": questions,
        **extra,
    }


def _facts(cell: CellRecord, judged: Sequence[bool | None]) -> list[tuple[str, str]]:
    conditions = cell.conditions
    nfe = cell.nfe_mean
    spread = "" if nfe is None else f"{fixed(nfe)} (median {cell.nfe_median or 0:g}, most {cell.nfe_max})"
    same = cell.rows_mean in (None, nfe)
    rates = {
        "rows": None if same else cell.rows_mean,
        "tokens/step": cell.tokens_per_step,
        "tokens/row": None if same else cell.tokens_per_row,
        "tokens/forward": cell.tokens_per_forward,
        "samples/s": cell.samples_per_second,
        "seconds": cell.seconds,
    }
    return [
        ("error", first_line(cell.error or "") if cell.status != "ok" else ""),
        ("wrong answers", f"{judged.count(True)} of {len(judged)}" if any(one is not None for one in judged) else ""),
        ("NFE", spread),
        *((name, "" if value is None else fixed(value, 2)) for name, value in rates.items()),
        ("failures", ", ".join(f"{kind} {count}" for kind, count in cell.failures.items())),
        ("not measured", "; ".join(f"{name}: {first_line(why)}" for name, why in absent_reasons(cell.absent).items())),
        ("seeds", ", ".join(map(str, conditions.seeds)) if len(conditions.seeds) > 1 else ""),
        ("device", " ".join(filter(None, (conditions.device, conditions.dtype)))),
        ("data", conditions.data_source or ""),
        ("run it again", f"pytest {cell.id}"),
    ]


def _pools(cells: Iterable[Answers]) -> tuple[list[dict[int, Question]], list[int]]:
    """The questions of all cells without repetitions, and for each cell the number of its pool; −1 without questions.

    Cells share a pool if their questions agree wherever they have the same index."""
    pools: list[dict[int, Question]] = []
    of_task: dict[str, list[int]] = {}
    numbers = []
    for one in cells:
        if not one.questions:
            numbers.append(-1)
            continue
        known = of_task.setdefault(one.cell.task, [])
        fits = (i for i in known if all(pools[i].get(at, asked) == asked for at, asked in one.questions.items()))
        found = next(fits, len(pools))
        if found == len(pools):
            pools.append({})
            known.append(found)
        pools[found].update(one.questions)
        numbers.append(found)
    return pools, numbers


def packed_questions(pool: Mapping[int, Question]) -> dict[str, Any]:
    """Questions for the page's script; what all prompts of a task begin and end with stands once."""
    prompts = [one.prompt[:LONGEST] for one in pool.values()]
    before = _common(prompts)
    rests = [prompt[len(before) :] for prompt in prompts]
    after = _common([rest[::-1] for rest in rests])[::-1]
    of = {
        index: [
            rest[: len(rest) - len(after)],
            None if one.answer is None else one.answer[:LONGEST],
            one.only,
            one.length,
            len(one.prompt) if len(one.prompt) > LONGEST else 0,
        ]
        for (index, one), rest in zip(pool.items(), rests, strict=True)
    }
    return {"before": before, "after": after, "shots": max((one.shots for one in pool.values()), default=0), "of": of}


def _common(texts: Sequence[str]) -> str:
    """What all texts begin with."""
    first, last = min(texts, default=""), max(texts, default="")
    return next((first[:i] for i, sign in enumerate(first) if sign != last[i]), first)
