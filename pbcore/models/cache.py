"""Model cache of a worker: one model, loaded for its first cell and freed before the next model
loads.
"""

import gc
import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pbcore.models.base import Model


LoadKey = tuple[str, str | None, tuple[tuple[str, Any], ...]]  # name, dtype, options


def usable_cores() -> int:
    """How many cores this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    if affinity:
        return len(affinity(0))
    return os.cpu_count() or 1


def share_cores(workers: int) -> int:
    """Leaves each of `workers` processes its part of the cores, at most what torch takes now;
    returns its threads.
    """
    import torch

    threads = max(1, min(torch.get_num_threads(), usable_cores() // workers))
    torch.set_num_threads(threads)
    return threads


class ModelCache:
    """Holds at most one model. One that could not be loaded is not tried again: each of its cells
    gets the first error. `release` is called before a model is freed, to drop what else refers to
    it.
    """

    def __init__(
        self,
        device: str,
        dtype: str | None,
        release: Callable[[], None] = lambda: None,
    ) -> None:
        self._device = device
        self._dtype = dtype
        self._release = release
        self._held: LoadKey | None = None
        self._model: Model | None = None
        self._errors: dict[LoadKey, Exception] = {}

    def get(
        self, name: str, dtype: str | None = None, options: Mapping[str, Any] | None = None
    ) -> "Model":
        """A model.

        Args:
            name: its name.
            dtype: another one than the cache's.
            options: further options of `load_model`.

        Raises:
            Exception: what loading it raised.
        """
        from pbcore.models import load_model

        given = options or {}
        wanted = name, dtype or self._dtype, tuple(sorted(given.items()))
        if wanted in self._errors:
            raise self._errors[wanted]
        if self._model is None or self._held != wanted:
            self.clear()
            try:
                self._model = load_model(name, device=self._device, dtype=wanted[1], **given)
            except Exception as error:
                # Whatever went wrong once goes wrong again, after minutes of loading;
                # KeyboardInterrupt passes.
                self._errors[wanted] = error
                raise
            self._held = wanted
        return self._model

    def clear(self) -> None:
        """Gives the held model's memory back."""
        if self._model is None:
            return
        self._release()
        self._model = self._held = None
        gc.collect()
        if self._device == "cuda":
            import torch

            torch.cuda.empty_cache()
