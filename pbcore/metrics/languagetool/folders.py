"""Folders: downloads and caches per user, the state of running servers per machine."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import platformdirs

from pbcore.metrics.languagetool.errors import Unavailable


def cache_folder() -> Path:
    """The user's cache folder for pbcore: $PBCORE_CACHE, else the system's place for caches, such as ~/.cache/pbcore on
    Linux.
    """
    own = os.environ.get("PBCORE_CACHE")
    return Path(own).expanduser() if own else platformdirs.user_cache_path("pbcore", appauthor=False)


def runtime_folder(name: str) -> Path:
    """A folder for `name` in this machine's temporary directory, accessible only to this user.

    It is outside the cache, which may be on a network disk: locks and ports are valid on one machine only.
    Raises Unavailable if the folder belongs to another user.
    """
    base = Path(tempfile.gettempdir()) / f"pbcore-{os.getuid()}"
    for folder in (base, base / name):
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            raise Unavailable(f"{folder} belongs to another user; remove it or set TMPDIR to a folder of your own")
    return base / name
