"""pbcore.models.identity: which files make a model what it is, and that each is read once."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from pbcore.models import identity as module
from pbcore.models import load_model
from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.errors import ModelError
from pbcore.models.identity import STORE, ModelFiles, identity, model_files
from tests.models.block_models import block_model

# Kind → its files.
FILES = {
    "weights": ["model-1.safetensors", "model.safetensors.index.json", "pytorch_model.bin"],
    "config": ["config.json"],
    "generation config": ["generation_config.json"],
    "tokenizer": [
        "tokenizer.json",
        "tokenizer_config.json",
        "tokenizer.model",
        "vocab.json",
        "merges.txt",
        "spiece.model",
        "added_tokens.json",
        "special_tokens_map.json",
    ],
    "chat template": ["chat_template.jinja", "additional_chat_templates/tools.jinja"],
    "code": ["modeling_own.py", "parts/attention.py"],
    "adapter": ["lora/adapter_config.json", "lora/adapter_model.safetensors"],
}
EVERY = [(kind, name) for kind, names in FILES.items() for name in names]


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own."""
    monkeypatch.setenv("PBCORE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / STORE


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file of each sort."""
    folder = tmp_path / "m"
    for _, name in EVERY:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"content of {name}")
    (folder / "README.md").write_text("about it")
    return folder


@pytest.fixture
def settled(folder: Path) -> Path:
    """Old enough for what was read to be remembered."""
    time.sleep(2 * module.TICK)
    return folder


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are read."""
    names: list[str] = []
    read = module._sha256

    def counted(file: module.ModelFile) -> str:
        names.append(file.path.name)
        return read(file)

    monkeypatch.setattr(module, "_sha256", counted)
    return names


def files_of(folder: Path, *, trust: bool = True, source: str | None = None) -> ModelFiles:
    entry = ModelEntry("m", "masked", folder=folder, source=source)
    options = LoadOptions(trust_remote_code=trust, adapter=str(folder / "lora"))
    return model_files(entry, folder, options)


def of(folder: Path, *, trust: bool = True, source: str | None = None) -> dict[str, str]:
    """The identity in a new process, which remembers what the cache folder does."""
    module.digests.cache_clear()
    return identity(SimpleNamespace(files=files_of(folder, trust=trust, source=source)))


class TestIdentity:
    @pytest.mark.parametrize(("kind", "name"), EVERY)
    def test_each_file_counts_and_says_its_kind(self, folder: Path, kind: str, name: str) -> None:
        """A content of the same size changes the digest, and the digest of its kind alone."""
        before = of(folder)
        text = (folder / name).read_text()
        (folder / name).write_text(text.replace("content", "CONTENT"))
        after = of(folder)
        assert {part for part in after if after[part] != before[part]} == {"digest", kind}

    @pytest.mark.parametrize("name", ["README.md", "trainer_state.json", "optimizer.pt", "run.log"])
    def test_other_files_do_not_count(self, folder: Path, name: str) -> None:
        before = of(folder)
        (folder / name).write_text("something else")
        assert of(folder) == before

    def test_code_counts_only_where_it_runs(self, folder: Path) -> None:
        assert "code" not in of(folder, trust=False)

    def test_a_file_more_counts(self, folder: Path) -> None:
        before = of(folder)
        (folder / "model-2.safetensors").write_text("more")
        assert of(folder)["weights"] != before["weights"]

    def test_moved_copied_and_touched_files_stay_the_same(
        self, folder: Path, tmp_path: Path
    ) -> None:
        before = of(folder)
        copy = shutil.copytree(folder, tmp_path / "copy")
        assert of(copy) == before
        os.utime(folder / "config.json", (1, 1))
        assert of(folder) == before
        (tmp_path / "deep").mkdir()
        assert of(folder.rename(tmp_path / "deep" / "other")) == before
        (tmp_path / "link").symlink_to(copy)
        assert of(tmp_path / "link") == before

    def test_a_hub_model_is_its_commit(self, folder: Path, tmp_path: Path) -> None:
        """Its files aren't read; an adapter's are."""
        snapshot = tmp_path / "snapshots" / "0123abc"
        snapshot.parent.mkdir()
        folder.rename(snapshot)
        parts = of(snapshot, source="owner/name")
        assert parts["revision"] == "owner/name@0123abc"
        assert set(parts) == {"digest", "revision", "adapter"}
        assert files_of(snapshot, source="owner/name").revision == "0123abc"

    def test_a_draft_counts_as_one_part(self, folder: Path, tmp_path: Path) -> None:
        small = shutil.copytree(folder, tmp_path / "small")
        both = files_of(folder).and_draft(files_of(small))
        before = identity(SimpleNamespace(files=both))
        (small / "config.json").write_text("{}")
        after = identity(SimpleNamespace(files=files_of(folder).and_draft(files_of(small))))
        assert {part for part in after if after[part] != before[part]} == {"digest", "draft"}

    def test_models_without_files(self) -> None:
        """What they declare, else their name; nothing for one behind a server."""
        declared = SimpleNamespace(name="own", info={"fingerprint": "f1", "layers": 3})
        assert set(identity(declared)) == {"digest", "fingerprint"}
        assert set(identity(SimpleNamespace(name="own", info={}))) == {"digest", "name"}
        assert identity(SimpleNamespace(name="own", info={"source": "a"}, served=True)) == {}

    def test_loaded_models_have_their_files(self) -> None:
        assert {"weights", "config", "tokenizer"} < set(identity(load_model("tiny")))
        assert set(identity(load_model("ideal"))) == {"digest", "source"}
        assert identity(block_model("sdar"))["source"] == "sdar"  # random weights, no files


class TestReadOnce:
    def test_the_next_process_reads_nothing(self, settled: Path, reads: list[str]) -> None:
        before = of(settled)
        assert sorted(reads) == sorted(Path(name).name for _, name in EVERY)
        reads.clear()
        assert of(settled) == before
        assert reads == []

    def test_replaced_content_of_the_same_size_and_time_is_read(
        self, settled: Path, reads: list[str]
    ) -> None:
        file = settled / "model-1.safetensors"
        before = of(settled)
        reads.clear()
        times = file.stat().st_atime_ns, file.stat().st_mtime_ns
        file.write_text(file.read_text().upper())
        os.utime(file, ns=times)
        assert of(settled)["weights"] != before["weights"]
        assert reads == [file.name]

    def test_a_file_changed_just_now_is_not_remembered(self, settled: Path, store: Path) -> None:
        """It may be changed again within the same tick of the clock that stamps files."""
        file = settled / "config.json"
        file.write_text("new")
        os.utime(file, (time.time() + 60, time.time() + 60))
        of(settled)
        known = json.loads(store.read_text())
        assert str(file) not in known
        assert str(settled / "tokenizer.json") in known

    def test_files_that_are_gone_are_forgotten(
        self, settled: Path, tmp_path: Path, store: Path
    ) -> None:
        of(settled)
        moved = settled.rename(tmp_path / "moved")
        of(moved)
        assert {Path(path).is_relative_to(moved) for path in json.loads(store.read_text())} == {
            True
        }

    @pytest.mark.parametrize("text", ["", "[]", "{", '{"a": 1}', '{"a": ["b"]}', "\udc80"])
    def test_a_damaged_store_is_written_anew(
        self, settled: Path, store: Path, reads: list[str], text: str
    ) -> None:
        before = of(settled)
        store.write_bytes(text.encode(errors="surrogateescape"))
        assert of(settled) == before
        reads.clear()
        assert of(settled) == before
        assert reads == []

    def test_without_a_cache_folder_it_warns_and_reads(
        self, settled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = of(settled)
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("PBCORE_CACHE", str(tmp_path / "file" / "cache"))
        with pytest.warns(UserWarning, match=r"can't be written .*PBCORE_CACHE"):
            assert of(settled) == before


class TestRefusals:
    def test_a_file_that_cannot_be_read(self, folder: Path) -> None:
        files = files_of(folder)
        (folder / "merges.txt").unlink()
        with pytest.raises(ModelError, match=r"merges.txt can't be read \(No such file.*tokenizer"):
            identity(SimpleNamespace(files=files))

    def test_a_file_that_changed_after_loading(self, folder: Path) -> None:
        """What is on disk now isn't what answers."""
        files = files_of(folder)
        (folder / "config.json").write_text("other")
        with pytest.raises(ModelError, match=r"config.json changed after the model was loaded"):
            identity(SimpleNamespace(files=files))
