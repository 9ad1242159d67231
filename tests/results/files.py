"""What tests of result files share: digests of a folder, a change to a cell file, arguments of the
commands.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from pbcore.cli import main
from pbcore.results import RunDir


def fingerprint(folder: Path) -> dict[str, str]:
    """Every file below a folder with a digest of its bytes."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def written(run: RunDir, change: Any) -> Path:
    """The file of a run's only cell, with its JSON changed."""
    (file,) = run.cells_dir.glob("*.json")
    data = json.loads(file.read_text())
    change(data)
    file.write_text(json.dumps(data))
    return file


def run_command(name: str, *words: object) -> int:
    """`pbcore report`, `merge` or `compare` with these arguments; returns its exit status."""
    return main([name, *map(str, words)])
