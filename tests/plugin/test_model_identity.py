"""Cells know a model by what its files contain, not by where they are."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

import pbcore
from pbcore.models import identity
from pbcore.models.adapter import CONFIG
from pbcore.models.registry import model_label
from pbcore.results import open_run
from pbcore.results.merge import MergeConflict, merge
from tests.models.shapes import checkpoint
from tests.models.test_adapter import write
from tests.plugin.conftest import Run

CELL = ("--task", "list_ops/shuffle", "--sampler", "random-k8", "--limit", "2")
COUNTED = """
from pathlib import Path
import pbcore.models.identity as module
read = module._sha256
def counted(file):
    with Path("reads").open("a") as stream:
        stream.write(f"{file.name}\\n")
    return read(file)
module._sha256 = counted
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache folder of the test's own; what a run inside replaces is put back."""
    monkeypatch.setenv("PBCORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(identity, "_sha256", identity._sha256)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint with every kind of file, one that its family doesn't read among them; beside it
    the run that the first test that needs one leaves for the others.
    """
    folder = tmp_path_factory.mktemp("kept")
    checkpoint(folder / "m", "llada")
    (folder / "m" / "generation_config.json").write_text("{}")
    return folder


@pytest.fixture
def model(project: pytest.Pytester, kept: Path) -> Path:
    """The checkpoint, for a test to change."""
    return shutil.copytree(kept / "m", project.path / "m")


@pytest.fixture
def begun(project: pytest.Pytester, in_process: Run, model: Path, kept: Path) -> None:
    """A finished run of the checkpoint in `a`."""
    if not (kept / "a").exists():
        in_process("--model m", *CELL, "--out a").assert_outcomes(passed=1)
        shutil.copytree(project.path / "a", kept / "a")
    else:
        shutil.copytree(kept / "a", project.path / "a")


def weights(folder: Path) -> None:
    file = folder / "model.safetensors"
    draws = torch.Generator().manual_seed(9)
    tensors = {
        name: tensor + 0.3 * torch.randn(tensor.shape, generator=draws)
        for name, tensor in load_file(file).items()
    }
    save_file(tensors, file, metadata={"format": "pt"})


def config(folder: Path) -> None:
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "about": "changed"}))


def generation(folder: Path) -> None:
    (folder / "generation_config.json").write_text('{"temperature": 1.0}')


def tokenizer(folder: Path) -> None:
    file = folder / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "about": "changed"}))


def template(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text(
        "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    )


def moved(folder: Path) -> None:
    other = folder.with_name("elsewhere")
    folder.rename(other)
    other.rename(folder)


def copied(folder: Path) -> None:
    other = folder.with_name("elsewhere")
    folder.rename(other)
    shutil.copytree(other, folder)
    shutil.rmtree(other)


def touched(folder: Path) -> None:
    for file in folder.iterdir():
        os.utime(file)


class TestResume:
    @pytest.mark.parametrize(
        ("change", "part"),
        [
            (weights, "weights"),
            (config, "config"),
            (generation, "generation config"),
            (tokenizer, "tokenizer"),
            (template, "chat template"),
        ],
    )
    def test_another_content_is_measured_again(
        self,
        in_process: Run,
        model: Path,
        begun: None,
        change: Callable[[Path], None],
        part: str,
    ) -> None:
        """Each kind of file, changed alone; a line says which it was."""
        change(model)
        output = in_process("--model m", *CELL, "--resume a")
        output.stdout.fnmatch_lines(
            [
                "resumed: 0 cells kept, 1 measured",
                f"measured again: 1 cell, m has other weights ({part})",
            ]
        )

    @pytest.mark.parametrize("change", [moved, copied, touched])
    def test_the_same_content_is_kept(
        self, in_process: Run, model: Path, begun: None, change: Callable[[Path], None]
    ) -> None:
        change(model)
        output = in_process("--model m", *CELL, "--resume a")
        output.stdout.fnmatch_lines(["resumed: 1 cell kept, 0 measured"])

    def test_an_adapter_counts(self, in_process: Run, model: Path) -> None:
        adapter = write(model.with_name("lora"))
        in_process("--model m --adapter lora", *CELL, "--out a").assert_outcomes(passed=1)
        file = adapter / CONFIG
        file.write_text(json.dumps({**json.loads(file.read_text()), "lora_alpha": 9}))
        output = in_process("--model m --adapter lora", *CELL, "--resume a")
        output.stdout.fnmatch_lines(["measured again: 1 cell, m has other weights (adapter)"])

    def test_records_of_earlier_versions_are_measured_again_once(
        self, in_process: Run, begun: None
    ) -> None:
        """They don't say what the files contained; one line says so."""
        (file,) = Path("a", "cells").glob("*.json")
        text = file.read_text()
        record = json.loads(text)
        del record["cell"]["conditions"]["model_identity"]
        record["cell"]["conditions"]["key"] = "of an earlier version"
        file.write_text(json.dumps(record))
        said = in_process("--model m", *CELL, "--resume a").stdout
        said.fnmatch_lines(
            ["measured again: 1 cell, whose records don't say what the model's files*"]
        )
        said = in_process("--model m", *CELL, "--resume a").stdout
        said.fnmatch_lines(["resumed: 1 cell kept, 0 measured"])
        said.no_fnmatch_line("measured again*")

    def test_merge_names_what_differs(self, in_process: Run, model: Path, begun: None) -> None:
        weights(model)
        in_process("--model m", *CELL, "--out b").assert_outcomes(passed=1)
        with pytest.raises(MergeConflict, match="the models differ: other weights"):
            merge(["a", "b"], "c")

    def test_a_file_that_cannot_be_read_is_one_line(
        self, in_process: Run, model: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The cell fails before it decodes."""

        def refuse(*arguments: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("hashlib.file_digest", refuse)
        output = in_process("--model m", *CELL, "--out a")
        output.assert_outcomes(failed=1)
        output.stdout.fnmatch_lines(["ModelError: */m/*can't be read (Permission denied)*"])
        output.stdout.no_fnmatch_line("*Traceback*")


class TestReads:
    def test_collection_reads_nothing(self, in_process: Run, model: Path) -> None:
        Path("conftest.py").write_text(Path("conftest.py").read_text() + COUNTED)
        in_process("--model m", *CELL, "--co", "-q")
        in_process("--model m", *CELL, "--estimate")
        assert not Path("reads").exists()

    @pytest.mark.slow
    def test_workers_read_once(self, in_process: Run, model: Path) -> None:
        """Both need the model; the second waits for the first."""
        Path("conftest.py").write_text(Path("conftest.py").read_text() + COUNTED)
        cells = ("--task list_ops/shuffle --sampler random-k8 --sampler random-k4 --limit 2",)
        in_process("--model m -n 2", *cells, "--out a").assert_outcomes(passed=2)
        records = open_run("a").read_cells()
        assert len({entry.cell.conditions.worker for entry in records}) == 2
        reads = Path("reads").read_text().split()
        assert len(reads) == len(set(reads)) > 3


class TestLabels:
    @pytest.mark.parametrize("given", ["m", "./m", "m/", "{cwd}/m", "{cwd}/m/", "../{last}/m"])
    def test_one_label_for_a_folder(self, in_process: Run, begun: None, given: str) -> None:
        """Below the working folder, however it is given; a resumed run keeps its cells."""
        name = given.format(cwd=Path.cwd(), last=Path.cwd().name)
        output = in_process("--model", name, *CELL, "--resume a")
        output.stdout.fnmatch_lines(["resumed: 1 cell kept, 0 measured"])
        assert pbcore.results.load("a")["id"].tolist() == ["m/list_ops/shuffle/random-k8"]

    def test_a_name_comes_before_a_folder(self, project: pytest.Pytester) -> None:
        """`./` keeps a folder that is called like a model."""
        checkpoint(project.path / "tiny", "llada")
        assert model_label("tiny") == "tiny"
        assert model_label("./tiny") == "./tiny"
        assert model_label(str(project.path / "tiny")) == "./tiny"

    def test_other_names(self, model: Path, tmp_path: Path) -> None:
        """A folder elsewhere is called by its path; both halves of MODEL+DIR have labels."""
        other = checkpoint(tmp_path / "other", "llada")
        write(model.with_name("lora"))
        assert model_label(f"{other}/") == str(other)
        assert model_label(f"./m/+{Path.cwd()}/lora/") == "m+lora"
        assert model_label("tiny+./lora") == "tiny+lora"
        assert model_label("owner/name") == "owner/name"
        assert model_label("no such/") == "no such/"
