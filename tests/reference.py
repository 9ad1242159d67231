"""Reference data: figures and checkpoints of tests/reference, official texts of $PBCORE_REFERENCE
or ../shared.
"""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).with_suffix("")
KEPT = slice(6, None, 8)  # the vocabulary columns of the reference logits
ROOT = Path(os.environ.get("PBCORE_REFERENCE") or Path(__file__).resolve().parents[2] / "shared")


def reference(*parts: str) -> Path:
    """The path of an official file or folder; skips the test where it is absent."""
    return _found(ROOT.joinpath(*parts), "set PBCORE_REFERENCE to the folder that holds it")


def bundled(*parts: str) -> Path:
    """A file or folder of tests/reference, which a clone has and a source distribution leaves
    out.
    """
    _found(HERE, "a clone of the repository has it")
    return HERE.joinpath(*parts)


def reference_cases(name: str) -> Any:
    """The content of a JSON file of reference cases."""
    return json.loads(gzip.decompress(bundled(f"{name}.json.gz").read_bytes()))


def _found(path: Path, remedy: str) -> Path:
    if not path.exists():
        pytest.skip(f"reference data not here: {'/'.join(path.parts[-2:])} ({remedy})")
    return path
