"""Fetching checkpoints: every failure says what to do."""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from pbcore.models import hub, load_model, resolve_model
from pbcore.models.entry import LoadOptions
from pbcore.models.errors import ModelError

RESPONSE = Mock(headers={}, status_code=403)
LLADA = resolve_model("llada-8b")


def failing(error: Exception) -> Callable[..., str]:
    def download(*_: Any, **__: Any) -> str:
        raise error

    return download


class TestLocate:
    """hub.locate."""

    @pytest.mark.parametrize(
        ("error", "advice"),
        [
            (GatedRepoError("gated", response=RESPONSE), "accept its terms .*hf auth login"),
            (RepositoryNotFoundError("none", response=RESPONSE), "check the name"),
            (RevisionNotFoundError("none", response=RESPONSE), "revision='main'"),
            (
                LocalEntryNotFoundError("offline"),
                "hf download GSAI-ML/LLaDA-8B-Instruct --revision 08b83a.*llada-8b:dummy",
            ),
            (HfHubHTTPError("503", response=RESPONSE), "Try again later"),
            (OSError(errno.ENOSPC, "No space left on device"), "full; free space"),
            (OSError("connection reset"), "check the network"),
        ],
    )
    def test_failures_say_what_to_do(
        self, error: Exception, advice: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each way of failing is a ModelError with its advice, never the hub's own traceback."""
        monkeypatch.setattr(hub, "snapshot_download", failing(error))
        with pytest.raises(ModelError, match=advice):
            hub.locate(LLADA, LoadOptions())

    def test_no_network(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """Offline, load_model of a model that isn't cached fails at once with how to get it."""
        monkeypatch.setattr(hub.constants, "HF_HUB_OFFLINE", True)
        monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path))
        with pytest.raises(ModelError, match=r"HF_HUB_OFFLINE is set.*hf download"):
            load_model("llada-8b")

    @pytest.mark.parametrize(("trust", "code"), [(False, False), (True, True)])
    def test_code_is_fetched_only_when_trusted(
        self, trust: bool, code: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Python files stay out of the download unless the user trusts them; the pinned commit is
        asked for.
        """
        asked: dict[str, Any] = {}
        monkeypatch.setattr(
            hub, "snapshot_download", lambda source, **options: asked.update(options) or "/nowhere"
        )
        assert hub.locate(LLADA, LoadOptions(trust_remote_code=trust)) == Path("/nowhere")
        assert ("*.py" in asked["allow_patterns"]) is code
        assert asked["revision"] == LLADA.revision
