"""Names of models on a page: a checkpoint's folder by its name, not by its path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath

from pbcore.report.rows import CellRow


def short_models(cells: Sequence[CellRow]) -> dict[str, str]:
    """Model → its name on the page, for models whose record says that they came from a folder: as
    many of the path's last parts as tell it from the others; none for other models.
    """
    folders: dict[str, tuple[str, ...]] = {}
    for row in cells:
        model = row["model"]
        source = (row["model_info"] or {}).get("source") or ""
        path = PurePath(source)
        if path.is_absolute() and path.parts[-1:] == PurePath(model).parts[-1:]:
            folders[model] = path.parts[1:]
    others = {row["model"] for row in cells} - folders.keys()
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
