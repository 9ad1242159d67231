"""How many bytes a model's forward takes beside its weights, by its shape.

Each count is of the tensors that are alive together where most are. They are read off the
layers of transformers and of SEDD, and `tests/decoding/test_batch_size.py` holds them against what
torch really allocates.
"""

from dataclasses import dataclass, replace
from typing import Any

from pbcore.models.causal import CausalModel
from pbcore.models.masked import MaskedModel
from pbcore.models.network import NativeNetwork
from pbcore.models.sedd.model import Sedd
from pbcore.models.shape import of_config

NORM = 12  # bytes for each number that a layer norm works on: three tensors in float32
SCORE = 4  # bytes of an attention score in float32
SEDD_SCORE = 36  # bytes for each score of SEDD's: float32 and float64 tensors of a step


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes that a forward takes beside the weights.

    - `column`: for each column that runs, where a layer is widest;
    - `hidden`: for each column of what the last layer returns;
    - `pair`: for each pair of a row's columns: attention masks, and scores that are tensors;
    - `cached`: for each column in a KV cache, of all layers;
    - `stored`: for each column while one layer reads its part of that cache;
    - `read`: for each pair of a query and a column whose attention weight is read;
    - `logit`: of one logit as the network returns it; `vocabulary` are a position's logits.
    """

    column: int
    hidden: int
    pair: int
    cached: int
    stored: int
    read: int
    logit: int
    vocabulary: int


def footprint(model: object) -> Footprint | None:
    """The footprint of a model of this package; None for others, whose shape isn't known."""
    if isinstance(model, MaskedModel):
        result = _transformer(model.network.module, model.vocab_size)
        if result is None or isinstance(model.network, NativeNetwork):
            return result
        return _of_own_code(result)
    if isinstance(model, CausalModel):
        return _transformer(model.module, model.vocab_size)
    if isinstance(model, Sedd):
        return _sedd(model)
    return None


def _transformer(module: Any, vocabulary: int) -> Footprint | None:
    """A transformer of Llama's build, dense or with experts; None if its config lacks a size."""
    config = module.config.get_text_config()
    needed = ("hidden_size", "num_attention_heads", "num_hidden_layers")
    if not all(getattr(config, name, None) for name in needed):
        return None
    shape = of_config(config)
    size = module.dtype.itemsize
    # Queries, keys and values, and three tensors of the rotation, which are also room for keys and
    # values once for each head; or gate, up and their product; or of each expert that a column goes
    # through input, gate, up, product and output, and the shared one's.
    attention = 4 * shape.queries + 2 * shape.keys
    mlp = 3 * (shape.inner or shape.width)
    experts = shape.chosen * (3 * shape.width + 4 * shape.expert_inner) + 3 * shape.shared_inner
    # Beside them the embeddings, the layer's input and its norm, and the rotation's angles.
    widest = 3 * shape.width + 2 * shape.head_width + max(attention, mlp, experts)
    eager = getattr(config, "_attn_implementation", "sdpa") == "eager"
    return Footprint(
        column=max(widest * size, shape.width * (2 * size + NORM)),
        hidden=shape.width * size,
        pair=3 + 3 * size + (shape.heads * (2 * size + SCORE) if eager else 0),
        cached=shape.cached * size,
        stored=2 * (shape.keys + shape.queries) * size,
        read=3 * shape.heads * SCORE,
        logit=size,
        vocabulary=vocabulary,
    )


def _of_own_code(network: Footprint) -> Footprint:
    """A checkpoint's own code, which returns logits at every column."""
    logits = network.logit * network.vocabulary
    return replace(network, column=max(network.column, logits), hidden=logits)


def _sedd(model: Sedd) -> Footprint:
    """SEDD's blocks: queries, keys and values, as they come and rotated, or the MLP's two tensors
    of four times the width; beside the input and its changed norm.
    """
    config = model.network.config
    size = next(model.network.parameters()).dtype.itemsize
    return Footprint(
        column=max(14 * config.width * size, config.width * (size + NORM)),
        hidden=config.width * size,
        pair=3 + 3 * size,
        cached=0,
        stored=0,
        read=0,
        logit=SEDD_SCORE,
        vocabulary=config.columns,
    )
