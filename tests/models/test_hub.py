"""Fetching checkpoints: every failure says what to do."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
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
from huggingface_hub.utils import filter_repo_objects

from pbcore.models import hub, load_model, resolve_model
from pbcore.models.entry import LoadOptions
from pbcore.models.errors import ModelError
from pbcore.models.identity import model_files

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


FILES = {
    "config.json": True,
    "generation_config.json": True,
    "tokenizer_config.json": True,
    "tokenizer.json": True,
    "tokenizer.model": True,
    "spiece.model": True,
    "qwen.tiktoken": True,
    "vocab.bpe": True,
    "vocab.txt": True,
    "vocab.json": True,
    "merges.txt": True,
    "tekken.json": True,
    "added_tokens.json": True,
    "special_tokens_map.json": True,
    "chat_template.jinja": True,
    "chat_template.json": True,
    "additional_chat_templates/rag.jinja": True,
    "model.safetensors": True,
    "model-00001-of-00002.safetensors": True,
    "model.safetensors.index.json": True,
    "frequencies.json": True,
    "consolidated.safetensors": False,
    "consolidated-00001-of-00002.safetensors": False,
    "pytorch_model.bin": False,
    "pytorch_model.bin.index.json": False,
    "sub/model.safetensors": False,
    "sub/config.json": False,
    "original/tokenizer.model": False,
    "original/params.json": False,
    "onnx/vocab.json": False,
    "README.md": False,
    "modeling.py": False,
    "assets/picture.png": False,
}


class TestFiles:
    """One list says what is fetched and what identifies a model."""

    def fetched(self, trust: bool = False) -> set[str]:
        wanted, others = hub.patterns(trust)
        return set(filter_repo_objects(FILES, allow_patterns=wanted, ignore_patterns=others))

    def test_what_is_fetched(self) -> None:
        assert self.fetched() == {name for name, wanted in FILES.items() if wanted}

    def test_it_is_what_identifies_a_folder(self, tmp_path: Path) -> None:
        """But for weights that aren't loaded, and the table of frequencies, which a record has."""
        for name in FILES:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text("x")
        entry = replace(LLADA, source=None, folder=tmp_path)
        counted = {file.name for file in model_files(entry, tmp_path, LoadOptions()).files}
        others = {"pytorch_model.bin", "pytorch_model.bin.index.json"}
        assert counted - others == self.fetched() - {"frequencies.json"}

    def test_code_only_where_it_is_trusted(self) -> None:
        assert self.fetched(trust=True) - self.fetched() == {
            "modeling.py",
            "sub/config.json",
            "original/params.json",
            "original/tokenizer.model",
            "onnx/vocab.json",
            "pytorch_model.bin.index.json",
        }

    @pytest.mark.slow
    def test_from_a_hub(self, tmp_path: Path) -> None:
        """As above, by the hub's own client, from a hub on this machine."""
        with _hub() as address:
            env = {**os.environ, "HF_ENDPOINT": address, "HF_HOME": str(tmp_path)}
            env |= {"HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
            env.pop("HF_HUB_OFFLINE", None)
            code = (
                "from pbcore.models.hub import locate; from pbcore.models.entry import *\n"
                "entry = ModelEntry('o/n', loaded_as='unknown', source='o/n', revision='main')\n"
                "print(locate(entry, LoadOptions()))"
            )
            ran = subprocess.run(
                [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
            )
        folder = Path(ran.stdout.strip().splitlines()[-1])
        there = {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}
        assert there == self.fetched()


class _Answers(BaseHTTPRequestHandler):
    """A hub with one model, whose files are all `{}`."""

    protocol_version = "HTTP/1.1"
    COMMIT = "a" * 40

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.split("?")[0]
        if "/resolve/" in path:
            self._send(b"{}", {"ETag": f'"{path.encode().hex()[-40:]}"'})
        elif "/tree/" in path:
            files = [{"type": "file", "oid": "b" * 40, "size": 2, "path": name} for name in FILES]
            self._send(json.dumps(files).encode(), {})
        else:
            siblings = [{"rfilename": name} for name in FILES]
            about = {"id": "o/n", "sha": self.COMMIT, "private": False, "siblings": siblings}
            self._send(json.dumps(about).encode(), {})

    def _send(self, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(200)
        usual = {"X-Repo-Commit": self.COMMIT, "Content-Length": str(len(content))}
        for name, value in {**usual, "Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)


@contextmanager
def _hub() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
