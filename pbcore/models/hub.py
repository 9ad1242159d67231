"""Finds a checkpoint's folder on this machine: given, cached, or downloaded from the hub. Errors
say what to do.
"""

import errno
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import constants, hf_hub_download, snapshot_download
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from pbcore.models.entry import FREQUENCIES, LoadOptions, ModelEntry
from pbcore.models.errors import ModelError
from pbcore.models.families import read_config
from pbcore.models.identity import COPIES, KINDS


def patterns(trust_remote_code: bool = False) -> tuple[list[str], list[str]]:
    """Patterns of the files of a hub's model that are fetched, and of those that are not all the
    same: the first are those that decide its answers (`identity`), as far as they are loaded. On
    the hub a `*` also stands for folders, where other models' files lie.

    Args:
        trust_remote_code: fetches the code in it, too, and what that may read.
    """
    wanted = [pattern for kind in KINDS.values() for pattern in kind]
    wanted = [pattern for pattern in wanted if ".bin" not in pattern] + [FREQUENCIES]
    below = [f"*/{pattern}" for pattern in wanted if not pattern.endswith(".jinja")]
    if trust_remote_code:
        wanted += ["*.py", "*.json", "*.txt"]
        below = [pattern for pattern in below if ".safetensors" in pattern]
    return wanted, [*below, *COPIES]


def locate(entry: ModelEntry, options: LoadOptions) -> Path:
    """The folder that holds an entry's checkpoint, downloaded if necessary (weights as safetensors;
    code only with trust_remote_code). Raises ModelError for a gated or unknown repository, an
    unreachable hub, a full disk.
    """
    if entry.folder is not None:
        return entry.folder
    revision = options.revision or entry.revision
    wanted, others = patterns(options.trust_remote_code)
    try:
        return Path(
            snapshot_download(
                str(entry.source),
                revision=revision,
                allow_patterns=wanted,
                ignore_patterns=others,
            )
        )
    except OSError as error:  # the hub's own errors are OSErrors, too
        raise ModelError(_reason(entry, revision, error)) from error


def fetch_config(entry: ModelEntry, options: LoadOptions) -> Mapping[str, Any]:
    """The config.json of a hub's model, downloaded if necessary; nothing else is. Raises ModelError
    as `locate`.
    """
    revision = options.revision or entry.revision
    retries = logging.getLogger("huggingface_hub")  # it warns of each
    before = retries.level
    retries.setLevel(logging.ERROR)
    try:
        path = Path(hf_hub_download(str(entry.source), "config.json", revision=revision))
    except OSError as error:
        raise ModelError(_reason(entry, revision, error)) from error
    finally:
        retries.setLevel(before)
    return read_config(path.parent)


def _reason(entry: ModelEntry, revision: str | None, error: OSError) -> str:
    """Why a hub's model can't be had, and what to do."""
    source = str(entry.source)
    at = source if revision is None else f"{source}@{revision}"
    of_revision = "" if revision is None else f" --revision {revision}"
    hub = constants.ENDPOINT
    cache = constants.HF_HUB_CACHE
    match error:
        case GatedRepoError():
            return (
                f"{source} is gated: accept its terms on {hub}/{source} and log in with `hf"
                " auth login`"
            )
        case RevisionNotFoundError():
            return f"{source} has no revision {revision!r}; pass revision='main' for the newest one"
        case RepositoryNotFoundError():
            return (
                f"{source} is not on the hub, or private: check the name, or log in with `hf"
                " auth login`"
            )
        case EntryNotFoundError() if not isinstance(error, LocalEntryNotFoundError):
            return f"{at} has no config.json; give a checkpoint of transformers"
        case LocalEntryNotFoundError() | OfflineModeIsEnabled():
            offline = (
                "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else "the hub can't be reached"
            )
            dummy = entry.dummy_name
            instead = f"; {dummy} has the same shape with random weights" if dummy else ""
            return (
                f"{at} is not in the cache ({cache}) and {offline}. Download it on a machine with"
                f" network access (`hf download {source}{of_revision}`), or give a"
                f" checkpoint folder's path{instead}"
            )
        case HfHubHTTPError():
            return f"{at}: the hub answered {error}. Try again later"
        case OSError(errno=errno.ENOSPC | errno.EDQUOT):
            return (
                f"{source}: the disk of the cache {cache} is full; free space or point HF_HOME"
                " elsewhere"
            )
        case _:
            return f"{at} can't be downloaded ({error}); check the network and {cache}"
