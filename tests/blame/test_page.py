"""docs/why.md: its example is what blame says."""

from __future__ import annotations

import re
from pathlib import Path

import pbcore
from pbcore.blame import Continuing, blamed
from pbcore.decoding import decode
from pbcore.decoding.samplers import resolve
from pbcore.models.tokenizer import pieces
from pbcore.report.blame_text import blame_sentences
from pbcore.results.build import sample_record

PAGE = (Path(__file__).parents[2] / "docs" / "why.md").read_text(encoding="utf-8")


def test_the_example_by_hand() -> None:
    """The question, both canvases and the sentences."""
    model = pbcore.load_model("ideal")
    task = pbcore.load_task("list_ops/shuffle", n=3, limit=1)
    assert '["P", "X", "K"]' in task.samples[0].prompt
    (answer,) = decode(model, task.samples, "confidence-k2", record=True)
    (scored,) = task.score_many([answer.text], task.samples)
    shown = []
    for canvas in (answer.trajectory or ())[1:]:
        shown.append("".join("▒" if one == model.mask_id else model.text([one]) for one in canvas))
    assert all(f"`{text}`" in PAGE for text in shown)
    record = sample_record(0, answer, scored, 0, pieces(model))
    ((judged,), _) = blamed(Continuing(model, task, "accuracy"), resolve("confidence-k2"), [record])
    assert judged.blame is not None
    [printed] = re.findall(r"```\n(Step 1 .*?)```", PAGE, re.DOTALL)
    assert "\n".join(blame_sentences(judged.blame)) == printed.strip()
