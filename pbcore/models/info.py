"""What a model says of itself, as its records keep it."""

from collections.abc import Mapping
from typing import TypedDict


class ModelInfo(TypedDict, total=False):
    """A model's entry in the record. A kind of model adds keys of its own in a subclass.

    - `source`, `revision`: where its weights are from; a model without files may say what they are
      by `fingerprint`, `digest` or `sha256`, too;
    - `family`: its architecture, or its kind; `architecture` what the user said that it is;
    - `parameters`, how many; `layers`; `dtype` of its weights, `quantization` how they are packed;
    - `attention`: the kernel; `computes_on` the device of a network that is not its tensors';
    - `embedded`: whether it comes with the package; `dummy` whether its weights are random;
      `remote_code` whether a checkpoint's own code runs;
    - `autoregressive`, with the length of answers (`max_new_tokens`), the settings of
      generation_config.json that don't hold here, and facts of the model that drafts (`draft`);
    - `block`: the length of a block model's blocks; `stop_ids`, `delimiter_ids`, `top_k` as
      decoding has them; `frequencies` a digest of the table; `lora` what of an adapter was merged.
    """

    source: str | None
    revision: str | None
    fingerprint: str | None
    digest: str | None
    sha256: str | None
    family: str
    architecture: str
    parameters: int
    layers: int
    dtype: str
    quantization: str | None
    attention: str
    computes_on: str
    embedded: bool
    dummy: bool
    remote_code: bool
    autoregressive: bool
    max_new_tokens: int | None
    generation_config_overridden: Mapping[str, object]
    draft: Mapping[str, object]
    block: int
    stop_ids: list[int]
    delimiter_ids: list[int]
    top_k: int | None
    frequencies: str | None
    lora: Mapping[str, object]
