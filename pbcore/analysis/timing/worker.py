"""Times the decoding of one checkout: a script that calls nothing but pbcore's public functions, so
that any revision runs it. It reads a job a line on stdin and answers a line on stdout, both JSON;
the first line it writes says which pbcore it has imported.
"""

import json
import os
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import pbcore

WARM = 16  # samples decoded before the clock starts, where a job doesn't say its batch size


@dataclass(slots=True)
class WarmCell:
    """State kept between jobs: one model, one task, and which cell is warm."""

    held: dict[str, tuple[str, Any]] = field(default_factory=dict)
    warm: str = ""

    def seconds(self, job: dict[str, Any]) -> float:
        """Decodes a cell's samples once and says how long it took. A cell's first round comes after
        one that is not timed.
        """
        model = self._held("model", job["model"], pbcore.load_model)
        task = self._held("task", job["task"], _load_task)
        size = job["batch_size"]
        cell = json.dumps(job, sort_keys=True)
        if self.warm != cell:
            pbcore.decode(
                model,
                task.samples[: size or WARM],
                job["sampler"],
                seed=job["seed"],
                batch_size=size,
            )
            self.warm = cell
        _wait(model)
        start = time.perf_counter()
        pbcore.decode(model, task.samples, job["sampler"], seed=job["seed"], batch_size=size)
        _wait(model)
        return time.perf_counter() - start

    def _held(self, kind: str, options: dict[str, Any], load: Any) -> Any:
        """The model or task of these options; the one before it is let go first, so that two never
        share the memory.
        """
        key = json.dumps(options, sort_keys=True)
        if kind not in self.held or self.held[kind][0] != key:
            self.held.pop(kind, None)
            self.held[kind] = key, load(**options)
        return self.held[kind][1]


def _load_task(files: list[str], **options: Any) -> Any:
    if files:
        from pbcore.tasks import add_tasks_file

        for file in files:
            add_tasks_file(file)
    return pbcore.load_task(**options)


def _wait(model: Any) -> None:
    """Until the GPU has done what it was given."""
    device = getattr(model, "device", None)
    if device is not None and device.type == "cuda":
        import torch

        torch.cuda.synchronize(device)


def main() -> None:
    """Answers jobs until stdin ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    # What libraries print goes to stderr, so that it can't stand between the answers.
    os.dup2(2, 1)
    print(json.dumps({"pbcore": pbcore.__file__}), file=answers, flush=True)
    cell = WarmCell()
    for line in sys.stdin:
        reply: dict[str, Any]
        try:
            reply = {"seconds": cell.seconds(json.loads(line))}
        except Exception as error:  # noqa: BLE001  whatever a revision raises is its answer, and the next cell may work
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), file=answers, flush=True)


if __name__ == "__main__":
    main()
