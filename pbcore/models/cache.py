"""Model cache of a worker: one model, loaded for its first cell and freed before the next model loads."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pbcore.models.base import Model


def share_cores(workers: int) -> int:
    """Leaves each of `workers` processes its part of the cores, at most what torch takes now; returns the number of
    threads.
    """
    import torch

    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    threads = max(1, min(torch.get_num_threads(), cores // workers))
    torch.set_num_threads(threads)
    return threads


class ModelCache:
    """Holds at most one model.

    A model that could not be loaded is not tried again: each of its cells gets the first error. `release` is called
    before a model is freed, to drop what else refers to it.
    """

    def __init__(
        self,
        device: str,
        dtype: str | None,
        options: Mapping[str, Any] | None = None,
        release: Callable[[], None] = lambda: None,
    ) -> None:
        self._device, self._release = device, release
        self._options = {**(options or {}), **({} if dtype is None else {"dtype": dtype})}
        self._name: str | None = None
        self._model: Model | None = None
        self._errors: dict[str, Exception] = {}
        self.loads = 0

    def get(self, name: str) -> Model:
        """The model `name`. Raises what loading it raised."""
        if name in self._errors:
            raise self._errors[name]
        if self._model is None or self._name != name:
            self.clear()
            self._model, self._name = self._load(name), name
        return self._model

    def clear(self) -> None:
        """Gives the held model's memory back."""
        if self._model is None:
            return
        self._release()
        self._model = self._name = None
        gc.collect()
        if self._device == "cuda":
            import torch

            torch.cuda.empty_cache()

    def _load(self, name: str) -> Model:
        from pbcore.models import load_model

        try:
            model = load_model(name, device=self._device, **self._options)
        except Exception as error:
            # Whatever went wrong once goes wrong again, after minutes of loading; KeyboardInterrupt passes.
            self._errors[name] = error
            raise
        self.loads += 1
        return model
