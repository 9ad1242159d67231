"""The files of a checkpoint that hold its weights. Doesn't import torch."""

import json
import warnings
from pathlib import Path

from pbcore.base.printable import shown
from pbcore.models.errors import ModelError
from pbcore.models.file_keys import INDEX, judge
from pbcore.models.identity import COPIES


def shards(folder: Path) -> list[Path]:
    """The safetensors files of a checkpoint, as transformers chooses them: model.safetensors, else
    those of the index in its order, else all. Raises ModelError naming those that are missing.
    """
    single = folder / "model.safetensors"
    if single.is_file():
        return [single]
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        return [folder / name for name in _indexed(index)]
    copies = {path for pattern in COPIES for path in folder.glob(pattern)}
    files = sorted({*folder.glob("*.safetensors")} - copies)
    if not files:
        others = [path.name for path in folder.glob("*.bin")]
        hint = (
            f"it has {', '.join(others)}; convert them to safetensors"
            if others
            else "download the checkpoint again"
        )
        raise ModelError(f"{folder} has no *.safetensors; {hint}")
    return files


def _indexed(index: Path) -> list[str]:
    """The files that an index names. Raises ModelError for those that are not there."""
    folder = index.parent
    try:
        content = json.loads(index.read_text(encoding="utf-8"))
        names = list(dict.fromkeys(map(str, content["weight_map"].values())))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{index} can't be read ({error!r}); download the checkpoint again"
        ) from error
    outside = [name for name in names if not name or Path(name).name != name]
    if outside:
        raise ModelError(f"{index} names {shown(outside[0])}, which is not a file of this folder")
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        count = f"{len(missing)} of {len(names)} shards are missing ({', '.join(missing)})"
        raise ModelError(f"{folder} is incomplete: {count}; download them again")
    if named := judge(content, INDEX).named:
        warnings.warn(
            f"{index}: nothing here knows these keys, which are not honoured: {'; '.join(named)}",
            stacklevel=2,
        )
    return names
