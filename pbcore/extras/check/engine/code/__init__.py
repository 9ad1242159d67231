"""Writes a modelling file into a made checkpoint, for engines that run a checkpoint's own code:
`network.py` and `configuration.py` of this folder, under the names that its config.json gives.
"""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from pprint import pformat
from typing import Any

from pbcore.extras.check.engine.published import PUBLISHED
from pbcore.models.families import FAMILIES
from pbcore.results.rundir import write_atomic

_HERE = Path(__file__).parent
_CLASS = '''

class {name}({base}):
    """As the family's own code calls it."""
'''


def write_code(
    folder: Path, family: str, config: Mapping[str, Any], tensors: Collection[str]
) -> None:
    """Writes the files that the `auto_map` of config.json names.

    Args:
        folder: of the checkpoint.
        family: a key of PUBLISHED.
        config: its config.json.
        tensors: the names of its tensors.
    """
    auto = dict(config["auto_map"])
    of = PUBLISHED[family]
    own = auto.pop("AutoConfig", None)
    models = dict.fromkeys(auto.values())
    (module,) = {reference.partition(".")[0] for reference in models}
    text = _with((_HERE / "network.py").read_text(encoding="utf-8"), _facts(family, tensors))
    if own is None:  # transformers has the config
        text = text.replace("from .configuration import Config", "from transformers import Config")
        name = f"{config['model_type'].capitalize()}Config"
    else:
        name = own.rpartition(".")[2]
        beside = module.replace("modeling", "configuration")
        text = text.replace("from .configuration", f"from .{beside}")
        about = {"model_type": config["model_type"], "attribute_map": dict(of.keys)}
        written = _with((_HERE / "configuration.py").read_text(encoding="utf-8"), about)
        write_atomic(folder / f"{beside}.py", re.sub(r"\bConfig\b", name, written))
    text = re.sub(r"\bConfig\b", name, text)
    heads = [auto[kind] for kind in auto if kind.startswith("AutoModelFor")] or [*models]
    for reference in models:
        base = "MaskedNetwork" if reference in heads else "Network"
        text += _CLASS.format(name=reference.rpartition(".")[2], base=base)
    write_atomic(folder / f"{module}.py", text)


def _facts(family: str, tensors: Collection[str]) -> dict[str, Any]:
    """The constants of `network.py`."""
    of = PUBLISHED[family]
    attention = "model.layers.0.self_attn"
    from_start = FAMILIES[of.kind].grid.start != "prompt"
    return {
        "NAMES": dict(of.names),
        "FUSED": of.published_name(f"{attention}.qkv_proj.weight") in tensors,
        "BIAS": of.published_name(f"{attention}.q_proj.bias") in tensors,
        "NORMED": of.published_name(f"{attention}.q_norm.weight") in tensors,
        "TIED": of.published_name("lm_head.weight") not in tensors,
        "BLOCK": of.block if from_start else None,
    }


def _with(text: str, values: Mapping[str, Any]) -> str:
    """A file's text with other values of its constants."""
    for name, value in values.items():
        line = re.search(rf"^ *{name}\b.* = (.*?)(?:  #.*)?$", text, re.MULTILINE)
        assert line is not None, name
        text = text[: line.start(1)] + pformat(value, sort_dicts=False) + text[line.end(1) :]
    return text
