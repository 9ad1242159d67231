"""Where things are kept: downloads and caches per user, running servers per machine."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from pbcore.metrics.languagetool.errors import Unavailable


def cache_folder() -> Path:
    """The user's cache of this package: $PBCORE_CACHE, else $XDG_CACHE_HOME/pbcore, else ~/.cache/pbcore."""
    own = os.environ.get("PBCORE_CACHE")
    if own:
        return Path(own).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pbcore"


def runtime_folder(name: str) -> Path:
    """A folder for `name` on this machine's temporary disk, open to this user alone.

    Locks and ports mean nothing on another machine, so this is never the cache, which may be on a network disk.
    Raises Unavailable if the folder belongs to someone else.
    """
    base = Path(tempfile.gettempdir()) / f"pbcore-{os.getuid()}"
    for folder in (base, base / name):
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            raise Unavailable(f"{folder} belongs to another user; remove it or set TMPDIR to a folder of your own")
    return base / name
