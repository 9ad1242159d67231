"""Nothing is imported under the clock, and nothing that a run doesn't need."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.models.servers.fake import FakeServer
from tests.plugin.conftest import ROOT

WATCH = """
import sys
from pytest_benchmark.fixture import BenchmarkFixture

timed, under = BenchmarkFixture.pedantic, []

def pedantic(self, *args, **options):
    before = set(sys.modules)
    try:
        return timed(self, *args, **options)
    finally:
        under.extend(set(sys.modules) - before)

BenchmarkFixture.pedantic = pedantic

def pytest_unconfigure(config):
    with open("under", "w") as file:
        file.write("\\n".join(sorted(under)))
    with open("imported", "w") as file:
        file.write("\\n".join(sorted(sys.modules)))
"""


def imported(folder: Path, *arguments: str) -> tuple[set[str], set[str]]:
    """What the repository's own cells import under the clock, and all in all, in a process of their own."""
    (folder / "watch_imports.py").write_text(WATCH)
    command = [sys.executable, "-m", "pytest", str(ROOT / "benches"), "-q", "-p", "watch_imports", "--out", "out"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)]), "OMP_NUM_THREADS": "1"}
    place = ("-p", "no:cacheprovider", "-p", "no:xdist", "--rootdir", str(folder), "-c", os.devnull)
    done = subprocess.run([*command, *place, *arguments], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    under, everything = ((folder / name).read_text().split("\n") for name in ("under", "imported"))
    return set(under) - {""}, set(everything)


def test_ideal_needs_no_transformers(tmp_path: Path) -> None:
    """Two cells of `ideal`: the clock holds no import, and transformers and what comes with it stay out."""
    arguments = ("--model", "ideal", "--sampler", "confidence-k2", "--limit", "2")
    under, everything = imported(tmp_path, *arguments, "--task", "copy", "--task", "list_ops/shuffle")
    assert "pbcore.models.ideal" in everything
    assert not under
    assert not everything & {"transformers", "tokenizers", "accelerate", "sklearn", "torch._dynamo"}


@pytest.mark.parametrize(
    ("model", "sampler", "task"),
    [
        ("tiny", "wino-0.6+b8", "copy"),
        ("tiny", "confidence-k2+b8+dual", "copy"),
        ("tiny-ar", "ar-lookup4", "copy"),
        ("tiny-sedd", "analytic-s2", "list_ops/copy"),
    ],
)
def test_other_models_import_before(model: str, sampler: str, task: str, tmp_path: Path) -> None:
    under, _ = imported(tmp_path, "--model", model, "--sampler", sampler, "--task", task, "--limit", "2")
    assert not under


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_the_packages_that_ask_servers_too(kind: str, tmp_path: Path, server: FakeServer) -> None:
    path = "" if kind == "anthropic" else "/v1"
    key = "\n  key: A_KEY" if kind == "anthropic" else ""
    entry = f"mine:\n  kind: {kind}\n  base_url: {server.url}{path}\n  model: the-model{key}\n"
    (tmp_path / "models.yaml").write_text(entry)
    os.environ["A_KEY"] = "0123456789"
    under, _ = imported(tmp_path, "--models", "models.yaml", "--model", "mine", "--task", "copy", "--limit", "2")
    assert not under
