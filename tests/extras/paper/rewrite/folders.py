"""Run folders of the 2026 rewrite, made of questions of ours and answers with scores."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pbcore.extras.paper.published import NAMES
from pbcore.tasks import load_task

PARTS = ("org__model-7B", "confidence_threshold", "t0.9", "20260319_172837_all")


def row(number: int, question: str, label: Any, answer: str, **values: Any) -> dict[str, Any]:
    """A row as the rewrite writes it; `values` are its scores and counts."""
    messages = [{"role": "user", "content": question}]
    doc = {
        "messages": messages,
        "label": label,
        "metadata": {},
        "index": number,
        "output_prefix": None,
    }
    generation = {"gen_args_0": {"arg_0": "…", "arg_1": {"max_tokens": 32, "alg_threshold": 0.9}}}
    return {"doc_id": number, "doc": doc, "arguments": generation, "resps": [[answer]], **values}


def rows(task: str, right: Sequence[bool], nfe: int = 8) -> list[dict[str, Any]]:
    """Rows of a task with right and wrong answers to our own questions, every third number left
    out.
    """
    samples = load_task(task, limit=2 * len(right)).samples
    numbers = [i for i in range(2 * len(right)) if i % 3 != 2][: len(right)]
    counts = {
        "nfe": float(nfe),
        "tokens_per_step": 32.0 / nfe,
        "output_length": 20.0,
        "dec_order_kendall": float("nan"),
    }
    return [
        row(
            number,
            samples[number].prompt,
            samples[number].label,
            str(samples[number].answer) if good else "nothing",
            score=float(good),
            score_strict=float(good),
            **counts,
        )
        for number, good in zip(numbers, right, strict=True)
    ]


def write(root: Path, tasks: dict[str, list[dict[str, Any]]], parts: Sequence[str] = PARTS) -> Path:
    folder = root.joinpath(*parts)
    folder.mkdir(parents=True)
    for task, lines in tasks.items():
        file = folder / f"samples_parallelbench_{NAMES[task]}.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder
