"""The config of a small checkpoint, whose config.json says all."""

from typing import ClassVar

from transformers import PretrainedConfig


class Config(PretrainedConfig):
    """The keys of config.json as attributes, also by Llama's names."""

    model_type = "made"
    attribute_map: ClassVar[dict[str, str]] = {}
