"""The identity of a model: a digest of what the files that decide its answers contain, or of the
commit of a hub's model. Its path is only a label. Doesn't import torch.
"""

import hashlib
import json
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from filelock import FileLock

from pbcore.base.cache_folder import CACHE_VARIABLE, cache_folder
from pbcore.models.cache import usable_cores
from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.errors import ModelError
from pbcore.models.info import ModelInfo

STORE = "model-files.json"  # in the cache folder: what was read on this machine
THREADS = 4  # read at once, so that hashing one file doesn't hold up the disk
TICK = 0.1  # seconds: a file changed again so soon may keep its times
# Kind of file → patterns of names below a checkpoint's folder.
KINDS: Mapping[str, tuple[str, ...]] = {
    "weights": ("*.safetensors", "*.safetensors.index.json", "*.bin", "*.bin.index.json"),
    "config": ("config.json",),
    "generation config": ("generation_config.json",),
    "tokenizer": (
        "tokenizer*.json",
        "vocab.*",
        "merges.txt",
        "*.model",
        "*.tiktoken",
        "tekken.json",
        "added_tokens.json",
        "special_tokens_map.json",
    ),
    "chat template": ("*.jinja", "chat_template.json", "additional_chat_templates/*.jinja"),
}
CODE = ("**/*.py",)
# The same weights for another program, beside those that are loaded.
COPIES = ("consolidated*.safetensors",)
ADAPTER = ("adapter_config.json", "adapter_model.safetensors")
# What the `info` of a model without files may say of its weights.
DECLARED = ("source", "revision", "fingerprint", "digest", "sha256")


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file that decides a model's answers, as it was when the model was loaded.

    `kind` is one of `KINDS`, `code`, `adapter` or `draft`, `name` its path below its folder.
    """

    kind: str
    name: str
    path: Path
    stat: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """What a loaded model came from: its files, and kind → commit (`owner/name@commit`) of what the
    hub identifies.
    """

    files: tuple[ModelFile, ...] = ()
    commits: tuple[tuple[str, str], ...] = ()

    @property
    def revision(self) -> str | None:
        """The commit of a hub's model; None for a folder."""
        commit = dict(self.commits).get("revision")
        return None if commit is None else commit.rpartition("@")[2]

    def and_tokenizer(self, source: str, folder: Path) -> "ModelFiles":
        """With a tokenizer that comes from the hub model `source`, found in `folder`."""
        files = _files(folder, {"tokenizer": KINDS["tokenizer"]})
        commit = _commit(source, folder)
        if commit is None:
            return ModelFiles((*self.files, *files), self.commits)
        return ModelFiles(self.files, (*self.commits, ("tokenizer", commit)))

    def and_draft(self, draft: "ModelFiles") -> "ModelFiles":
        """With those of the model that drafts."""
        files = [
            ModelFile("draft", f"{file.kind}/{file.name}", file.path, file.stat)
            for file in draft.files
        ]
        commits = [("draft", commit) for _, commit in draft.commits]
        return ModelFiles((*self.files, *files), (*self.commits, *commits))


def model_files(entry: ModelEntry, folder: Path, options: LoadOptions) -> ModelFiles:
    """What decides the answers of a checkpoint that is about to be loaded. Nothing is read yet.

    Args:
        entry: the model.
        folder: its files.
        options: the adapter, and whether code that came with the checkpoint runs.
    """
    files: list[ModelFile] = []
    commits: list[tuple[str, str]] = []
    commit = _commit(entry.source, folder)
    if commit is not None:
        commits.append(("revision", commit))
    else:
        kinds = {**KINDS, "code": CODE} if options.trust_remote_code else KINDS
        files += _files(folder, kinds)
    if options.adapter is not None:
        files += adapter_files(Path(options.adapter).expanduser())
    return ModelFiles(tuple(files), tuple(commits))


def adapter_files(folder: Path) -> list[ModelFile]:
    """The files of a LoRA adapter."""
    return _files(folder, {"adapter": ADAPTER})


def identity(model: Any) -> dict[str, str]:
    """What a model is, for keys, records and baselines: `digest`, and what it is a digest of: a
    digest for each kind of file, or the hub's commit (`revision`). Models without files have what
    their `info` declares. Empty for a model behind a server, whose weights nobody here sees.

    Reads each file once on a machine: the cache folder keeps its digest by path, size, times and
    inode. Raises ModelError for a file that can't be read, or that changed after it was loaded.
    """
    if getattr(model, "served", False):
        return {}
    info: ModelInfo = getattr(model, "info", ModelInfo())
    files = getattr(model, "files", None)
    if isinstance(files, ModelFiles):
        parts = dict(digests(files))
    else:
        told = {name: info.get(name) for name in DECLARED}
        parts = {name: str(value) for name, value in told.items() if value is not None}
        if not parts:
            parts = {"name": str(model.name)}
    delimiters = info.get("delimiter_ids")
    if delimiters is not None:  # they decide where AdaBlock's blocks end
        parts["delimiter ids"] = " ".join(map(str, delimiters))
    return {"digest": _digest(parts), **parts}


@cache
def digests(files: ModelFiles) -> Mapping[str, str]:
    """Kind → digest of the contents of its files, or commit. Raises ModelError as `identity`."""
    contents = _contents(files.files)
    by_kind: dict[str, dict[str, str]] = {}
    for file in files.files:
        by_kind.setdefault(file.kind, {})[file.name] = contents[file]
    parts = {kind: _digest(named) for kind, named in by_kind.items()}
    return {**parts, **dict(files.commits)}


def _digest(parts: Mapping[str, str]) -> str:
    """16 hexadecimal digits of named values, whatever their order."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _commit(source: str | None, folder: Path) -> str | None:
    """`owner/name@commit` of a folder of the hub's cache; None for others."""
    if source is None or folder.parent.name != "snapshots":
        return None
    return f"{source}@{folder.name}"


def _files(folder: Path, kinds: Mapping[str, Sequence[str]]) -> list[ModelFile]:
    """A folder's files of these kinds, by kind and name."""
    files = []
    for kind, patterns in kinds.items():
        paths = {path for pattern in patterns for path in folder.glob(pattern) if path.is_file()}
        paths -= {path for pattern in COPIES for path in folder.glob(pattern)}
        for path in sorted(paths):
            name = path.relative_to(folder).as_posix()
            files.append(ModelFile(kind, name, path.resolve(), _stat(path)))
    return files


def _stat(path: Path) -> tuple[int, ...]:
    """What changes with a file's content: size, times of modification and change, inode."""
    facts = path.stat()
    return facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_ino


def _contents(files: Sequence[ModelFile]) -> dict[ModelFile, str]:
    """File → SHA-256 of its content. Workers that need the same wait for the first that reads
    it.
    """
    store = cache_folder() / STORE
    with _locked(store):
        known = _remembered(store)
        contents = {}
        unread = []
        for file in files:
            entry = known.get(str(file.path))
            if entry is not None and entry[0] == list(file.stat):
                contents[file] = entry[1]
            else:
                unread.append(file)
        if not unread:
            return contents
        begun = time.time()
        with ThreadPoolExecutor(min(THREADS, usable_cores())) as pool:
            read = dict(zip(unread, pool.map(_sha256, unread), strict=True))
        settled = {
            str(file.path): [list(file.stat), content]
            for file, content in read.items()
            if max(file.stat[1:3]) / 1e9 < begun - TICK
        }
        _remember(store, {**known, **settled})
    return {**contents, **read}


def _sha256(file: ModelFile) -> str:
    try:
        with file.path.open("rb") as stream:
            content = hashlib.file_digest(stream, "sha256").hexdigest()
        changed = _stat(file.path) != file.stat
    except OSError as error:
        raise ModelError(
            f"{file.path} can't be read ({error.strerror or error}); it decides the model's answers"
            f" ({file.kind}), so make it readable or remove it"
        ) from error
    if changed:
        raise ModelError(
            f"{file.path} changed after the model was loaded; run again when nothing writes to it"
        )
    return content


@contextmanager
def _locked(store: Path) -> Iterator[None]:
    """Holds the lock of the file of digests. Where its folder can't be written, warns and goes on
    without.
    """
    lock = FileLock(f"{store}.lock")
    try:
        store.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        _not_kept(store, error)
    try:
        yield
    finally:
        lock.release()


def _remembered(store: Path) -> dict[str, list[Any]]:
    """Path → [stat, SHA-256] of files that were read before; nothing where the file is missing or
    damaged.
    """
    try:
        entries = json.loads(store.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(entries, dict):
        return {}
    return {
        path: entry
        for path, entry in entries.items()
        if isinstance(entry, list) and len(entry) == 2 and isinstance(entry[1], str)
    }


def _remember(store: Path, entries: Mapping[str, list[Any]]) -> None:
    """Keeps the digests of files that are still there. A reader sees the old or the new file."""
    there = {path: entry for path, entry in entries.items() if Path(path).is_file()}
    temporary = store.with_suffix(".new")
    try:
        temporary.write_text(json.dumps(there, indent=0), encoding="utf-8")
        temporary.replace(store)
    except OSError as error:
        _not_kept(store, error)


def _not_kept(store: Path, error: OSError) -> None:
    warnings.warn(
        f"{store} can't be written ({error.strerror or error}), so each process reads the model's"
        f" files again. Set {CACHE_VARIABLE} to another folder.",
        stacklevel=2,
    )
