"""Local tasks for the harness: a JSON file of rows and a YAML file that declares the task; no
hub.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

import pbcore

WITHOUT = (
    "lm-evaluation-harness is not installed: pip install -c constraints.txt -e '.[lm-eval]' in"
    " pbcore's folder"
)


def write_task(
    folder: Path,
    name: str,
    rows: list[dict[str, Any]],
    shots: list[dict[str, Any]] | None = None,
    **config: Any,
) -> Path:
    """Declares a task over `rows` in `folder`, which serves as --include_path; with `shots` as
    solved examples.
    """
    folder.mkdir(parents=True, exist_ok=True)
    files = {}
    for split, given in {"test": rows, "train": shots or []}.items():
        if given:
            data = folder / f"{name}-{split}.json"
            data.write_text("".join(json.dumps(row) + "\n" for row in given))
            files[split] = str(data)
    entry = {
        "task": name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": files},
        "test_split": "test",
        **({"fewshot_split": "train", "num_fewshot": len(shots)} if shots else {}),
        **config,
    }
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(entry, sort_keys=False))
    return folder


def copy_task(
    folder: Path, name: str = "toy_copy", rows: int = 4, shots: int = 1, **config: Any
) -> Path:
    """The package's own copy questions, which `tiny` answers, as a generate_until task with solved
    examples.

    As a chat the harness's prompts are those of `waiting_line/copy`.
    """
    samples = pbcore.load_task("waiting_line/copy", n=3, limit=rows + shots).samples
    asked = [{"question": one.prompt, "answer": one.answer} for one in samples]
    return write_task(
        folder,
        name,
        asked[:rows],
        asked[rows:],
        **{
            "output_type": "generate_until",
            "doc_to_text": "{{question}}",
            "doc_to_target": "answer",
            "generation_kwargs": {"until": ["\n\n"], "max_gen_toks": 32, "do_sample": False},
            "metric_list": [{"metric": "exact_match"}],
            **config,
        },
    )


def needs_harness() -> None:
    """Skips the calling module where the harness is missing."""
    pytest.importorskip("lm_eval", reason=WITHOUT)
