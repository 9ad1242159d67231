"""Where pbcore keeps what it makes once for a user: LanguageTool, its verdicts, measured prices."""

import os
from pathlib import Path

import platformdirs

CACHE_VARIABLE = "PBCORE_CACHE"


def cache_folder() -> Path:
    """The user's cache folder for pbcore: $PBCORE_CACHE, else the system's place for caches."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    return platformdirs.user_cache_path("pbcore", appauthor=False)
