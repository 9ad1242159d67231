"""Nothing is imported under the clock, nothing that a run doesn't need, and plots after the last
record.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environment import own_environment
from tests.plugin.conftest import ROOT

WATCH = """
import json
import sys
from pathlib import Path

from pytest_benchmark.fixture import BenchmarkFixture

timed, under, records = BenchmarkFixture.pedantic, [], []

def pedantic(self, *args, **options):
    before = set(sys.modules)
    try:
        return timed(self, *args, **options)
    finally:
        under.extend(set(sys.modules) - before)

BenchmarkFixture.pedantic = pedantic

def pytest_runtest_logreport(report):
    if report.when == "teardown":
        records.append([len(list(Path("out/cells").glob("*.json"))), "matplotlib" in sys.modules])

def pytest_unconfigure(config):
    with open("records", "w") as file:
        json.dump(records, file)
    with open("under", "w") as file:
        file.write("\\n".join(sorted(under)))
    with open("imported", "w") as file:
        file.write("\\n".join(sorted(sys.modules)))
"""


def imported(folder: Path, *arguments: str) -> tuple[set[str], set[str]]:
    """What the repository's own cells import under the clock, and all modules of their process."""
    (folder / "watch_imports.py").write_text(WATCH)
    command = [
        sys.executable,
        "-m",
        "pytest",
        str(ROOT / "benches"),
        "-q",
        "-p",
        "watch_imports",
        "--out",
        "out",
    ]
    place = (
        "-p",
        "no:cacheprovider",
        "-p",
        "no:hypothesispytest",
        "-p",
        "no:xdist",
        "-c",
        str(ROOT / "pyproject.toml"),
    )
    alone = own_environment()
    environment = {
        **alone,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)]),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        [*command, *place, *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    under, everything = ((folder / name).read_text().split("\n") for name in ("under", "imported"))
    return set(under) - {""}, set(everything)


@pytest.mark.slow
def test_ideal_needs_no_transformers(tmp_path: Path) -> None:
    """Two cells of `ideal`: the clock holds no import, and transformers, what comes with it, and
    the package of users' frames stay out.
    """
    arguments = ("--model", "ideal", "--sampler", "confidence-k2", "--limit", "2")
    under, everything = imported(
        tmp_path, *arguments, "--task", "copy", "--task", "list_ops/shuffle"
    )
    assert "pbcore.models.ideal" in everything
    assert not under
    assert not everything & {"transformers", "tokenizers", "accelerate", "sklearn", "torch._dynamo"}
    assert json.loads((tmp_path / "records").read_text()) == [[1, False], [2, False]]
    assert "matplotlib" in everything
    assert "pandas" not in everything


@pytest.mark.slow
def test_other_models_import_before(tmp_path: Path) -> None:
    """A masked, an autoregressive and a score-based model, with samplers and a cache of their
    own.
    """
    models = ("--model", "tiny", "--model", "tiny-ar", "--model", "tiny-sedd", "--limit", "1")
    samplers = (
        "--sampler",
        "wino-0.6+b8",
        "--sampler",
        "confidence-k2+b8+dual",
        "--sampler",
        "ar-lookup4",
    )
    tasks = ("--task", "copy", "--task", "list_ops/copy")
    asked = (*models, *samplers, "--sampler", "analytic-s2", *tasks)
    under, everything = imported(tmp_path, *asked, "-k", "not (sedd and waiting_line)")
    assert {
        "pbcore.models.causal",
        "pbcore.extras.train.sedd.model",
        "pbcore.models.masked",
    } <= everything
    assert not under
