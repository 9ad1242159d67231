"""Threads that work through calls and hold no exit of the process."""

import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class Crew(Generic[T]):
    """Threads that take `calls` one by one and give each to `work`, until one of them raises.

    They are daemons: after Ctrl-C the process ends without them, where those of
    `concurrent.futures` would be waited for as long as their requests take.
    """

    def __init__(
        self, name: str, threads: int, work: Callable[[T], None], calls: Iterable[T]
    ) -> None:
        self._work = work
        self._calls: SimpleQueue[T] = SimpleQueue()
        for call in calls:
            self._calls.put(call)
        self._ended: SimpleQueue[BaseException | None] = SimpleQueue()  # a thread each
        self._threads = [
            threading.Thread(target=self._run, name=f"{name}_{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def busy(self) -> int:
        """How many threads still work."""
        return sum(thread.is_alive() for thread in self._threads)

    def finish(self, seconds: float | None = None) -> bool:
        """Waits until all calls are done, at most so long, and returns whether they are. Raises the
        first error of a call, at once.
        """
        end = None if seconds is None else time.monotonic() + seconds
        for _ in self._threads:
            try:
                error = self._ended.get(
                    timeout=None if end is None else max(0.0, end - time.monotonic())
                )
            except Empty:
                return False
            if error is not None:
                raise error
        return True

    def wait(self, seconds: float | None = None) -> None:
        """Waits for the calls under way, at most so long together; no other is begun."""
        with suppress(Empty):
            while True:
                self._calls.get_nowait()
        end = None if seconds is None else time.monotonic() + seconds
        for thread in self._threads:
            thread.join(None if end is None else max(0.0, end - time.monotonic()))

    def _run(self) -> None:
        try:
            while True:
                try:
                    call = self._calls.get_nowait()
                except Empty:
                    break
                self._work(call)
        except BaseException as error:  # noqa: BLE001  raised again where it is waited for
            self._ended.put(error)
        else:
            self._ended.put(None)
