"""Finds a checkpoint's folder on this machine: given, cached, or downloaded from the hub. Errors
say what to do.
"""

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
    """The folder that holds an entry's checkpoint, downloaded if necessary (weights as safetensors;
    code only with trust_remote_code). Raises ModelError for a gated or unknown repository, an
    unreachable hub, a full disk.
    """
    if entry.folder is not None:
        return entry.folder
    source = str(entry.source)
    revision = options.revision or entry.revision
    at = f"{source}@{revision}"
    hub = constants.ENDPOINT
    cache = constants.HF_HUB_CACHE
    patterns = _FILES + ["*.py"] * options.trust_remote_code
    try:
        return Path(snapshot_download(source, revision=revision, allow_patterns=patterns))
    except OSError as error:
        match error:  # the hub's own errors are OSErrors, too
            case GatedRepoError():
                why = (
                    f"{source} is gated: accept its terms on {hub}/{source} and log in with `hf"
                    " auth login`"
                )
            case RevisionNotFoundError():
                why = (
                    f"{source} has no revision {revision!r}; pass revision='main' for the"
                    " newest one"
                )
            case RepositoryNotFoundError():
                why = (
                    f"{source} is not on the hub, or private: check the name, or log in with `hf"
                    " auth login`"
                )
            case LocalEntryNotFoundError() | OfflineModeIsEnabled():
                offline = (
                    "HF_HUB_OFFLINE is set"
                    if constants.HF_HUB_OFFLINE
                    else "the hub can't be reached"
                )
                why = (
                    f"{at} is not in the cache ({cache}) and {offline}. Download it on a machine"
                    f" with network access (`hf download {source} --revision {revision}`), or give"
                    " a checkpoint folder's path"
                    + (
                        f"; {entry.name}:dummy has the same shape with random weights"
                        if entry.shape
                        else ""
                    )
                )
            case HfHubHTTPError():
                why = f"{at}: the hub answered {error}. Try again later"
            case OSError(errno=errno.ENOSPC | errno.EDQUOT):
                why = (
                    f"{source}: the disk of the cache {cache} is full; free space or point HF_HOME"
                    " elsewhere"
                )
            case _:
                why = f"{at} can't be downloaded ({error}); check the network and {cache}"
        raise ModelError(why) from error
