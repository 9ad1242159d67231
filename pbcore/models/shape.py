"""The shape of a model's network by its name, read from its config without loading weights, and how
many parameters a checkpoint's files have.
"""

from math import prod
from pathlib import Path

from safetensors import SafetensorError, safe_open

from pbcore.base.errors import InputError
from pbcore.costs.shape import ModelShape, of_config
from pbcore.models.entry import ModelEntry
from pbcore.models.errors import ModelError
from pbcore.models.families import KINDS, config_at_hand, recognised
from pbcore.models.identity import COPIES
from pbcore.models.registry import resolve_model


def shape_of(model: str) -> ModelShape:
    """The shape of a model by its name. Raises InputError for one whose shape isn't known here:
    without a network, served elsewhere, registered by a package, or not downloaded yet.
    """
    entry = resolve_model(model)
    raw = config_at_hand(entry)
    if raw is None:
        raise InputError(
            f"{model}: the shape of its network isn't known here, and a price needs it;"
            f" {_remedy(entry)}"
        )
    try:
        added = KINDS.all().get(str(recognised(raw)))
        if added is not None:
            shape: ModelShape = added.shape(raw, entry.name)
            return shape
        from pbcore.models.architecture import architecture

        return of_config(architecture(raw, entry.name, entry.layers).config)
    except ModelError as error:
        raise InputError(
            f"{entry.name}: its shape can't be read, so it has no price: {error}"
        ) from error


def known_shape(model: str) -> ModelShape | None:
    """As `shape_of`; None for a model whose shape isn't known here."""
    try:
        return shape_of(model)
    except InputError:
        return None


def _remedy(entry: ModelEntry) -> str:
    if entry.source is not None:
        return f"download it first: hf download {entry.source}"
    return "prices are for models of the table (pbcore list models), checkpoint folders and hub ids"


def stored_parameters(folder: Path) -> int:
    """How many numbers the weights of a checkpoint have, by the headers of its files. Those of a
    file that can't be read don't count: loading says what is wrong with it.
    """
    copies = {file for pattern in COPIES for file in folder.glob(pattern)}
    total = 0
    for file in {*folder.glob("*.safetensors")} - copies:
        try:
            with safe_open(file, framework="np") as weights:
                names = weights.keys()
                total += sum(prod(weights.get_slice(name).get_shape()) for name in names)
        except (OSError, SafetensorError):
            continue
    return total
