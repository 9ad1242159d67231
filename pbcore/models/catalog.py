"""What is told of a model before it is loaded: its source, and whether it is on this machine."""

from pbcore.models.entry import ModelEntry
from pbcore.models.errors import ModelError
from pbcore.models.families import FAMILIES, cached_config
from pbcore.models.registry import missing_here
from pbcore.models.shards import shards


def availability(entry: ModelEntry) -> str:
    """One of: ready, cached, download (weights are missing here), not in this installation."""
    if entry.embedded:
        return "not in this installation" if missing_here(entry) else "ready"
    if entry.status is not None:
        return entry.status()
    if entry.source is None:
        return "ready"
    config = cached_config(entry.source, entry.revision)
    if config is None:
        return "download"
    try:
        shards(config.parent)
    except ModelError:  # an estimate reads config.json alone, and a download can be cut
        return "download"
    return "cached"


def source_of(entry: ModelEntry) -> str:
    """Where a model comes from."""
    return entry.source or ("registered by a package or conftest" if entry.factory else entry.about)


def details(entry: ModelEntry) -> str:
    """What is known of a model, a line each."""
    weights = None
    if entry.shape is not None and entry.loaded_as == "masked":
        from pbcore.models.sizes import sized_model

        sized = sized_model(entry)
        count = f"{sized.parameters / 1e9:.2f} billion parameters"
        weights = f"{count}, {sized.weights / 1e9:.1f} GB in bfloat16"
    known = FAMILIES.get(entry.architecture or "")
    columns = {} if known is None else known.columns()
    fields = {
        "family": entry.loaded_as,
        "source": source_of(entry),
        "revision": entry.revision,
        "availability": availability(entry),
        "mask id": entry.mask_id,
        "eos id": entry.eos_id,
        "block length": entry.block,
        "logits": {None: None, True: "shifted: position i is predicted at i - 1", False: "as is"}[
            entry.shift
        ],
        "chat": entry.chat,
        **{
            name: columns.get(name)
            for name in ("loaded as", "cache", "threshold", "samplers", "known from")
        },
        "weights": weights,
        "published settings": (
            ", ".join(f"{key} {value}" for key, value in entry.settings.items()) or None
        ),
    }
    return "\n".join(f"  {key}: {value}" for key, value in fields.items() if value is not None)
