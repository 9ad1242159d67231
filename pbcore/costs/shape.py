"""The sizes of a model's network, on which its seconds and its memory depend, read from its config
without loading weights.

L layers, H width, h heads of width D, g key-value heads, I width of the MLP, V tokens, E experts of
which k take part for a token.

Each count of bytes is of the tensors that are alive together where most are. They are read off the
layers of transformers, and `tests/decoding/test_batch_size.py` holds them against what
torch really allocates.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

NORM = 12  # bytes for each number that a layer norm works on: three tensors in float32
SCORE = 4  # bytes of an attention score in float32


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A transformer's sizes, and how it is held.

    - `inner` is the width I of a dense MLP, `matrices` how many matrices H × I it has;
    - with `experts`, `chosen` of them take part for each token, each of width `expert_inner`,
      beside shared ones of `shared_inner` together; the first `dense_layers` layers have the dense
      MLP instead.

    Files have these. The bytes depend on how a model is held, too:

    - `number`: bytes of a number that it computes with, those of bfloat16 if nothing else is said;
    - `eager`: whether attention scores are tensors;
    - `own_code`: whether a checkpoint's own code runs, which returns logits at every column.
    """

    layers: int
    width: int
    heads: int
    key_heads: int
    head_width: int
    inner: int
    vocabulary: int
    matrices: int = 3
    experts: int = 0
    chosen: int = 0
    expert_inner: int = 0
    shared_inner: int = 0
    dense_layers: int = 0
    number: int = 2
    eager: bool = False
    own_code: bool = False

    @property
    def queries(self) -> int:
        """Numbers of a position's queries in a layer, h · D."""
        return self.heads * self.head_width

    @property
    def keys(self) -> int:
        """Numbers of a position's keys in a layer, g · D."""
        return self.key_heads * self.head_width

    @property
    def attention(self) -> int:
        """Weights of the attention of all layers: queries and output, keys and values."""
        return self.layers * self.width * 2 * (self.queries + self.keys)

    @property
    def head(self) -> int:
        """Weights of the output projection, V · H."""
        return self.vocabulary * self.width

    def touched(self, tokens: float) -> float:
        """The experts of a layer that `tokens` tokens read if they are routed evenly and
        independently: E(1 − (1 − k/E)^T). Measured routings touch fewer, about half at T = 32.
        """
        if not self.experts:
            return 0.0
        untouched: float = (1 - self.chosen / self.experts) ** tokens
        return self.experts * (1 - untouched)

    def weights_read(self, tokens: float) -> float:
        """Weights of the layers that a call of `tokens` tokens reads."""
        return self._weights(self.touched(tokens))

    @property
    def active(self) -> float:
        """Weights of the layers that each token goes through."""
        return self._weights(self.chosen)

    @property
    def parameters(self) -> float:
        """All weights of the layers and the output projection, embeddings and norms left out."""
        return self._weights(self.experts) + self.head

    def _weights(self, experts: float) -> float:
        """Weights of the layers with so many experts of each."""
        sparse = self.layers - self.dense_layers if self.experts else 0
        dense = (self.layers - sparse) * self.inner
        width = dense + sparse * (experts * self.expert_inner + self.shared_inner)
        return self.attention + self.matrices * self.width * width

    @property
    def cached(self) -> int:
        """Numbers that a position takes in a KV cache, of all layers."""
        return 2 * self.layers * self.keys

    @property
    def column_bytes(self) -> int:
        """Bytes for each column that runs, where a layer is widest."""
        normed = self.width * (2 * self.number + NORM)
        widest = max(self._widest * self.number, normed)
        return max(widest, self.hidden_bytes) if self.own_code else widest

    @property
    def _widest(self) -> int:
        """Numbers for each column of the widest layer's tensors."""
        # Queries, keys and values, and three tensors of the rotation, which are also room for keys
        # and values once for each head; or gate, up and their product; or of each expert that a
        # column goes through input, gate, up, product and output, and the shared one's.
        attention = 4 * self.queries + 2 * self.keys
        mlp = 3 * (self.inner or self.width)
        experts = self.chosen * (3 * self.width + 4 * self.expert_inner) + 3 * self.shared_inner
        # Beside them the embeddings, the layer's input and its norm, and the rotation's angles.
        return 3 * self.width + 2 * self.head_width + max(attention, mlp, experts)

    @property
    def hidden_bytes(self) -> int:
        """Bytes for each column of what the last layer returns."""
        return self.logit_bytes * self.vocabulary if self.own_code else self.width * self.number

    @property
    def pair_bytes(self) -> int:
        """Bytes for each pair of a row's columns: attention masks, and scores that are tensors."""
        scores = self.heads * (2 * self.number + SCORE) if self.eager else 0
        return 3 + 3 * self.number + scores

    @property
    def cached_bytes(self) -> int:
        """Bytes for each column in a KV cache, of all layers."""
        return self.cached * self.number

    @property
    def stored_bytes(self) -> int:
        """Bytes for each column while one layer reads its part of that cache."""
        return 2 * (self.keys + self.queries) * self.number

    @property
    def attended_bytes(self) -> int:
        """Bytes for each pair of a query and a column whose attention weight is read."""
        return 3 * self.heads * SCORE

    @property
    def logit_bytes(self) -> int:
        """Bytes of one logit as the network returns it."""
        return self.number

    def as_dict(self) -> dict[str, int]:
        """Its sizes, for a file."""
        return {name: getattr(self, name) for name in _FILED}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """The shape that `as_dict` wrote. Raises ValueError for other data."""
        wrong = [
            name for name, value in data.items() if name not in _FILED or type(value) is not int
        ]
        if wrong or not {"layers", "width", "vocabulary"} <= data.keys():
            raise ValueError(f"not a model's shape: {dict(data)}")
        return cls(**data)


_HELD = ("number", "eager", "own_code")
_FILED = [item.name for item in fields(ModelShape) if item.name not in _HELD]


def of_config(config: Any) -> ModelShape:
    """The shape of a transformers config, dense or with experts."""
    heads = config.num_attention_heads
    head_width = getattr(config, "head_dim", None) or config.hidden_size // heads
    sizes: dict[str, Any] = {}
    inner = getattr(config, "moe_intermediate_size", None)
    experts = getattr(config, "num_experts", None) or getattr(config, "n_routed_experts", None)
    if inner and experts:
        listed = getattr(config, "mlp_only_layers", None) or ()
        sizes = {
            "experts": experts,
            "chosen": getattr(config, "num_experts_per_tok", None) or 1,
            "expert_inner": inner,
            "shared_inner": inner * (getattr(config, "n_shared_experts", None) or 0),
            "dense_layers": len(listed) or getattr(config, "first_k_dense_replace", None) or 0,
        }
    return ModelShape(
        layers=config.num_hidden_layers,
        width=config.hidden_size,
        heads=heads,
        key_heads=getattr(config, "num_key_value_heads", None) or heads,
        head_width=head_width,
        inner=getattr(config, "intermediate_size", None) or 0,
        vocabulary=config.vocab_size,
        **sizes,
    )
