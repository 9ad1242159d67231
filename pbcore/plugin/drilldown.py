"""The drill-down (`-x`, `--sample`): a test per sample, which fails at a wrong answer and shows how
it came about.
"""

from collections.abc import Sequence

import pytest

from pbcore.decoding.samplers import Sampler
from pbcore.grid.settings import Settings
from pbcore.models.base import Model
from pbcore.models.tokenizer import pieces
from pbcore.plugin.answering import Answered
from pbcore.plugin.blaming import why_wrong
from pbcore.plugin.options import rerun
from pbcore.report.answer_trace import story
from pbcore.results.build import sample_record
from pbcore.results.stats import is_wrong_score
from pbcore.tasks.base import Task
from pbcore.tasks.scoring import Scored


def judge_answers(
    item: pytest.Item,
    requested: Settings,
    sampler: Sampler,
    model: Model,
    task: Task,
    answers: Sequence[Answered],
    scored: Sequence[Scored],
) -> None:
    """Fails at the first wrong answer, and shows how it came about and the command that runs it
    again (right ones with -rP); skips if the headline score could not be measured.

    Args:
        item: the test.
        requested: the cell's settings.
        sampler: the cell's.
        model: what answered.
        task: the cell's task.
        scored: their scores, in the same order.
    """
    shows_passes = bool({"P", "A"} & set(item.config.getoption("reportchars", "")))  # -rP, -rA
    for (sample, seed, answer), result in zip(answers, scored, strict=True):
        if task.headline not in result.scores:
            reason = result.details.get("absent", {}).get(task.headline, "no reason given")
            pytest.skip(f"sample {sample.index}: {task.headline} was not measured ({reason})")
        entry = sample_record(sample.index, answer, result, seed, pieces(model))
        item.user_properties.append(("sample", entry.index))
        if entry.nfe is not None:
            item.user_properties.append(("nfe", entry.nfe))
        if entry.tokens_forwarded is not None:
            item.user_properties.append(("tokens_forwarded", entry.tokens_forwarded))
        item.user_properties.extend(entry.scores.items())
        failed = is_wrong_score(task.headline, result.scores[task.headline])
        if not (failed or shows_passes):
            continue
        command = rerun(item.config, requested, item.nodeid, sample.index, seed)
        why = None
        if failed:
            why = why_wrong(model, task, sampler, entry, requested.official_text)
        text = "\n".join(story(model, task, sample, answer, result, command, why))
        if failed:
            pytest.fail(text, pytrace=False)
        item.add_report_section("call", "stdout", f"{text}\n")
