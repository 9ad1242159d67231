"""Models that misbehave in one way each, around `ideal`; registered by the conftest.py that tests write."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from typing import Any

from pbcore.models import register_model
from pbcore.models.base import Context, Request
from pbcore.models.ideal import load_ideal


class Around:
    """`ideal`, with `before` called on each batch's task."""

    def __init__(self, before: Any) -> None:
        self._ideal = load_ideal()
        self._before = before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ideal, name)

    def prepare(self, requests: Sequence[Request], *, cache: str | None, seed: int) -> Context:
        sample = requests[0].sample
        assert sample is not None
        self._before(sample.task)
        return self._ideal.prepare(requests, cache=cache, seed=seed)


def slow(task: str) -> None:
    time.sleep(0.4)


def dies_on_sort(task: str) -> None:
    if task == "waiting_line/sort":
        os.kill(os.getpid(), signal.SIGKILL)


def breaks_on_sort(task: str) -> None:
    if task == "waiting_line/sort":
        raise MemoryError("no more of it")


def make_slow(**options: Any) -> Around:
    return Around(slow)


def make_dying(**options: Any) -> Around:
    return Around(dies_on_sort)


def make_breaking(**options: Any) -> Around:
    return Around(breaks_on_sort)


def make_missing(**options: Any) -> Around:
    raise RuntimeError("weights not here")


def register() -> None:
    register_model("slow", make_slow)
    register_model("dying", make_dying)
    register_model("breaking", make_breaking)
    register_model("missing", make_missing)
