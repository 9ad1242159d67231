"""Models that misbehave in one way each, around `ideal`; registered by the conftest.py that tests
write.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from pbcore.models import register_model
from pbcore.models.base import Context, Generation, Prompt, Request
from pbcore.models.ideal import Ideal
from pbcore.models.info import ModelInfo
from pbcore.names import SamplerName
from pbcore.tasks import Sample


class Around:
    """`ideal`, with `before` called on each batch's task."""

    def __init__(self, before: Any) -> None:
        self._ideal = Ideal()
        self._before = before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ideal, name)

    def prepare(self, requests: Sequence[Request], *, cache: str | None, seed: int) -> Context:
        sample = requests[0].sample
        assert sample is not None
        self._before(sample.task)
        return self._ideal.prepare(requests, cache=cache, seed=seed)


def slow(task: str) -> None:
    """Takes its time, so that a run can be killed, but none where $AT_ONCE is set; at the task
    $STAYS it stays for ever.
    """
    if "AT_ONCE" not in os.environ:
        time.sleep(0.2)
    while task == os.environ.get("STAYS"):
        time.sleep(0.05)


def dies_on_sort(task: str) -> None:
    if task == "waiting_line/sort":
        os.kill(os.getpid(), signal.SIGKILL)


def breaks_on_sort(task: str) -> None:
    if task == "waiting_line/sort":
        raise MemoryError("no more of it")


def breaks_always(task: str) -> None:
    raise MemoryError("no more of it")


def make_slow(**options: Any) -> Around:
    return Around(slow)


def make_dying(**options: Any) -> Around:
    return Around(dies_on_sort)


def dies_once(task: str) -> None:
    """Kills its process at `sort`, the first time that anyone runs it: the file $DIED says so."""
    mark = Path(os.environ["DIED"])
    if task == "waiting_line/sort" and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def make_dying_once(**options: Any) -> Around:
    return Around(dies_once)


def make_big(**options: Any) -> Around:
    return Around(lambda task: None)


make_big.gpus = 2  # type: ignore[attr-defined]


def make_breaking(**options: Any) -> Around:
    return Around(breaks_on_sort)


def make_broken(**options: Any) -> Around:
    return Around(breaks_always)


def make_telling(**options: Any) -> Around:
    raise RuntimeError(f"loaded with {options}")


class Weightless:
    """`ideal`, said to have random weights or to have run a checkpoint's code."""

    def __init__(self, **info: Any) -> None:
        self._ideal = Ideal()
        self.info = {**self._ideal.info, **info}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ideal, name)


def make_dummy(**options: Any) -> Weightless:
    return Weightless(dummy=True)


def make_remote(**options: Any) -> Weightless:
    return Weightless(remote_code=True)


class Speaker:
    """Decodes by itself: says $SPEAKER_SAYS to whatever it is asked, in one forward.

    It takes `eb` alone, with any parameters.
    """

    name = "speaker"
    info: ClassVar[ModelInfo] = {"source": "toys", "family": "speaker", "dummy": False}

    def check(self, sampler: SamplerName) -> None:
        if sampler.policy != "eb":
            raise ValueError(f"sampler {sampler}: speaker decodes by itself; use eb-0.1")

    def generate(
        self,
        prompts: Sequence[Prompt],
        sampler: SamplerName,
        *,
        max_new_tokens: int | None,
        seed: int,
    ) -> list[Generation]:
        return [
            Generation(os.environ.get("SPEAKER_SAYS", ""), (1, 2), nfe=1, answer_tokens=2)
            for _ in prompts
        ]


def make_speaker(**options: Any) -> Speaker:
    return Speaker()


class Late:
    """Decodes by itself: says the right answer, but only after an EOS."""

    name = "late"
    info: ClassVar[ModelInfo] = {"source": "toys", "family": "late", "dummy": False}

    def check(self, sampler: SamplerName) -> None:
        pass

    def generate(
        self,
        prompts: Sequence[Prompt],
        sampler: SamplerName,
        *,
        max_new_tokens: int | None,
        seed: int,
    ) -> list[Generation]:
        samples = [prompt for prompt in prompts if isinstance(prompt, Sample)]
        return [
            Generation("Well.", (1, 2), nfe=1, answer_tokens=1, official_text=str(sample.answer))
            for sample in samples
        ]


def make_late(**options: Any) -> Late:
    return Late()


def make_missing(**options: Any) -> Around:
    raise RuntimeError("weights not here")


def make_moody(**options: Any) -> Any:
    """`ideal`, unless $MOODY is set."""
    if os.environ.get("MOODY"):
        raise RuntimeError("weights not here")
    return Ideal()


def register() -> None:
    register_model("moody", make_moody)
    register_model("slow", make_slow)
    register_model("dying", make_dying)
    register_model("dying-once", make_dying_once)
    register_model("big", make_big)
    register_model("breaking", make_breaking)
    register_model("broken", make_broken)
    register_model("missing", make_missing)
    register_model("telling", make_telling)
    register_model("weightless", make_dummy)
    register_model("remote", make_remote)
    register_model("speaker", make_speaker)
    register_model("late", make_late)
