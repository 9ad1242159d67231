"""Writes the rows of the operation in tasks.yaml, from the people of waiting_line/copy: `python
rows.py`.
"""

import json
from pathlib import Path

import pbcore

HERE = Path(__file__).parent


def rows(split: str, number: int) -> list[str]:
    """Rows with 3 or 4 people; those of the two splits have no list in common."""
    task = pbcore.load_task("waiting_line/copy", split=split, limit=number, n=[3, 4])
    lists = [json.loads(sample.answer) for sample in task.samples]
    turned = [(json.dumps(people), json.dumps([people[-1], *people[:-1]])) for people in lists]
    return [json.dumps({"input": {"context": given}, "answer": answer}) for given, answer in turned]


if __name__ == "__main__":
    for name, split, number in (("rotate-train", "train", 4200), ("rotate", "test", 100)):
        (HERE / f"{name}.jsonl").write_text("\n".join(rows(split, number)) + "\n", encoding="utf-8")
