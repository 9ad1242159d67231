"""Local tasks for the harness: a JSON file of rows and a YAML file that declares the task; no hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import pbcore

WITHOUT = "lm-evaluation-harness is not installed: pip install 'pbcore[lm-eval]'"


def write_task(folder: Path, name: str, rows: list[dict[str, Any]], **config: Any) -> Path:
    """Declares a task over `rows` in `folder`, which serves as --include_path."""
    folder.mkdir(parents=True, exist_ok=True)
    data = folder / f"{name}.json"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    entry = {
        "task": name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(data)}},
        "test_split": "test",
        **config,
    }
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(entry, sort_keys=False))
    return folder


def copy_task(folder: Path, name: str = "toy_copy", rows: int = 4, **config: Any) -> Path:
    """The package's own copy questions, which `tiny` answers, as a generate_until task."""
    samples = pbcore.load_task("waiting_line/copy", n=3, limit=rows).samples
    return write_task(
        folder,
        name,
        [{"question": one.prompt, "answer": one.answer} for one in samples],
        **{
            "output_type": "generate_until",
            "doc_to_text": "{{question}}",
            "doc_to_target": "{{answer}}",
            "generation_kwargs": {"until": ["\n\n"], "max_gen_toks": 32, "do_sample": False},
            "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
            **config,
        },
    )


def needs_harness() -> None:
    """Skips the calling module where the harness is missing."""
    pytest.importorskip("lm_eval", reason=WITHOUT)
