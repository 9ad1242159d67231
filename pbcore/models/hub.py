"""Finds a checkpoint's folder on this machine: given, cached, or downloaded from the hub. Errors say what to do."""

import errno
from pathlib import Path

from huggingface_hub import constants, snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.errors import ModelError

_FILES = ["*.json", "*.safetensors", "*.txt", "*.jinja"]


def locate(entry: ModelEntry, options: LoadOptions) -> Path:
    """The folder that holds an entry's checkpoint, downloaded if necessary (weights as safetensors; code only with
    trust_remote_code). Raises ModelError for a gated or unknown repository, an unreachable hub, a full disk.
    """
    if entry.folder is not None:
        return entry.folder
    source, revision = str(entry.source), options.revision or entry.revision
    patterns = _FILES + ["*.py"] * options.trust_remote_code
    try:
        return Path(snapshot_download(source, revision=revision, allow_patterns=patterns))
    except GatedRepoError as error:
        raise ModelError(
            f"{source} is gated: accept its terms on {constants.ENDPOINT}/{source} and log in with `hf auth login`"
        ) from error
    except RevisionNotFoundError as error:
        raise ModelError(f"{source} has no revision {revision!r}; pass revision='main' for the newest one") from error
    except RepositoryNotFoundError as error:
        raise ModelError(
            f"{source} is not on the hub, or private: check the name, or log in with `hf auth login`"
        ) from error
    except (LocalEntryNotFoundError, OfflineModeIsEnabled) as error:
        why = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else "the hub can't be reached"
        raise ModelError(
            f"{source}@{revision} is not in the cache ({constants.HF_HUB_CACHE}) and {why}. Download it on a machine "
            f"with network access (`hf download {source} --revision {revision}`), or give a checkpoint folder's path"
            + (f"; {entry.name}:dummy has the same shape with random weights" if entry.shape else "")
        ) from error
    except HfHubHTTPError as error:
        raise ModelError(f"{source}@{revision}: the hub answered {error}. Try again later") from error
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            full = f"the disk of the cache {constants.HF_HUB_CACHE} is full"
            raise ModelError(f"{source}: {full}; free space or point HF_HOME elsewhere") from error
        raise ModelError(
            f"{source}@{revision} can't be downloaded ({error}); check the network and {constants.HF_HUB_CACHE}"
        ) from error
