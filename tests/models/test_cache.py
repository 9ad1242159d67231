"""pbcore.models.cache: one model at a time, cores shared out, errors kept."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pbcore.models import cache
from pbcore.models.cache import ModelCache, share_cores


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What is loaded and let go; a model named `broken` can't be loaded."""
    calls: list[Any] = []

    def load(name: str, **options: Any) -> Any:
        calls.append((name, options))
        if name == "broken":
            raise RuntimeError("no weights")
        return SimpleNamespace(name=name)

    monkeypatch.setattr("pbcore.models.load_model", load)
    return calls


class TestModelCache:
    def test_a_model_is_kept_until_the_next(self, log: list[Any]) -> None:
        """What refers to it is let go first."""
        held = ModelCache("cpu", None, release=lambda: log.append("released"))
        held.clear()
        first = held.get("a")
        assert held.get("a") is first
        held.get("b")
        assert held.get("a") is not first
        assert [call[0] if isinstance(call, tuple) else call for call in log] == [
            "a",
            "released",
            "b",
            "released",
            "a",
        ]

    def test_options_go_with_the_load(self, log: list[Any]) -> None:
        """With the dtype, if one was given."""
        ModelCache("cpu", "float64").get("a", options={"chat": "plain"})
        ModelCache("cpu", None).get("a")
        assert [options for _, options in log] == [
            {"device": "cpu", "chat": "plain", "dtype": "float64"},
            {"device": "cpu", "dtype": None},
        ]

    def test_what_failed_is_not_tried_again(self, log: list[Any]) -> None:
        """The same error comes back; other models load."""
        held = ModelCache("cpu", None)
        held.get("a")
        errors = []
        for _ in range(2):
            with pytest.raises(RuntimeError) as raised:
                held.get("broken")
            errors.append(raised.value)
        assert errors[0] is errors[1]
        assert held.get("a").name == "a"
        assert [name for name, _ in log] == ["a", "broken", "a"]

    def test_a_gpus_memory_is_given_back(
        self, log: list[Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Only there."""
        monkeypatch.setattr("torch.cuda.empty_cache", lambda: log.append("emptied"))
        for device in ("cpu", "cuda"):
            held = ModelCache(device, None)
            held.get("a")
            held.clear()
        assert [call for call in log if call == "emptied"] == ["emptied"]
        assert log[-1] == "emptied"


class TestShareCores:
    @pytest.mark.parametrize(
        ("cores", "workers", "now", "threads"),
        [(8, 2, 8, 4), (8, 3, 8, 2), (2, 4, 2, 1), (8, 2, 3, 3), (8, 1, 8, 8)],
    )
    @pytest.mark.parametrize("affinity", [True, False])
    def test_a_workers_part(
        self,
        monkeypatch: pytest.MonkeyPatch,
        cores: int,
        workers: int,
        now: int,
        threads: int,
        affinity: bool,
    ) -> None:
        """At least one thread, at most as many as torch takes now."""
        chosen: list[int] = []
        system: Any = SimpleNamespace(cpu_count=lambda: cores)
        if affinity:
            system = SimpleNamespace(
                cpu_count=lambda: 99, sched_getaffinity=lambda process: set(range(cores))
            )
        monkeypatch.setattr(cache, "os", system)
        monkeypatch.setattr("torch.get_num_threads", lambda: now)
        monkeypatch.setattr("torch.set_num_threads", chosen.append)
        assert share_cores(workers) == threads
        assert chosen == [threads]
