"""Names of models on a page: a checkpoint's folder by its name, not by its path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

import pandas as pd


def short_models(cells: pd.DataFrame) -> dict[str, str]:
    """Model → its name on the page, for models whose record says that they came from a folder: as
    many of the path's last parts as tell it from the others; none for other models.
    """
    if "model_info" not in cells:
        return {}
    folders: dict[str, tuple[str, ...]] = {}
    for model, info in zip(cells["model"], cells["model_info"], strict=True):
        source = str(info.get("source") or "") if isinstance(info, Mapping) else ""
        path = PurePath(source)
        if path.is_absolute() and path.parts[-1:] == PurePath(model).parts[-1:]:
            folders[model] = path.parts[1:]
    others = set(cells["model"]) - folders.keys()
    return {model: _shortest(model, folders, others) for model in folders}


def _shortest(model: str, folders: Mapping[str, tuple[str, ...]], others: set[str]) -> str:
    """The fewest last parts of a model's path that no other model has.

    Args:
        model: one of the folders.
        folders: the parts of each model's path.
        others: names of models that are no folders.
    """
    parts = folders[model]
    for count in range(1, len(parts) + 1):
        ends = {other[-count:] for name, other in folders.items() if name != model}
        name = "/".join(parts[-count:])
        if parts[-count:] not in ends and name not in others:
            return name
    return model
