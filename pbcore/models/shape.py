"""The sizes of a model's network, on which its seconds and its memory depend, read from its config
without loading weights.

L layers, H width, h heads of width D, g key-value heads, I width of the MLP, V tokens, E experts of
which k take part for a token.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from pbcore.base.errors import InputError
from pbcore.models.entry import ModelEntry
from pbcore.models.errors import ModelError
from pbcore.models.families import config_at_hand, recognised
from pbcore.models.registry import resolve_model


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShape:
    """A transformer's sizes.

    - `inner` is the width I of a dense MLP, `matrices` how many matrices H × I it has;
    - with `experts`, `chosen` of them take part for each token, each of width `expert_inner`,
      beside shared ones of `shared_inner` together; the first `dense_layers` layers have the dense
      MLP instead.
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

    def read(self, tokens: float) -> float:
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

    def as_dict(self) -> dict[str, int]:
        """Its sizes, for a file."""
        return asdict(self)

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """The shape that `as_dict` wrote. Raises ValueError for other data."""
        known = {item.name for item in fields(cls)}
        wrong = [
            name for name, value in data.items() if name not in known or type(value) is not int
        ]
        if wrong or not {"layers", "width", "vocabulary"} <= data.keys():
            raise ValueError(f"not a model's shape: {dict(data)}")
        return cls(**data)


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
    if recognised(raw) == "sedd":
        return _sedd(raw)
    return _transformer(entry, raw)


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


def _transformer(entry: ModelEntry, raw: Mapping[str, Any]) -> ModelShape:
    from pbcore.models.architecture import architecture

    try:
        config: Any = architecture(raw, entry.name, entry.layers).config
    except ModelError as error:
        raise InputError(
            f"{entry.name}: its shape can't be read, so it has no price: {error}"
        ) from (error)
    return of_config(config)


def of_config(config: Any) -> ModelShape:
    """The shape of a transformers config, dense or with experts."""
    heads = config.num_attention_heads
    head_width = getattr(config, "head_dim", None) or config.hidden_size // heads
    sizes: dict[str, int] = {}
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


def _sedd(raw: Mapping[str, Any]) -> ModelShape:
    """SEDD's blocks: as many key-value heads as heads, an MLP of four times the width."""
    sizes = raw["model"]
    heads = sizes["n_heads"]
    width = sizes["hidden_size"]
    return ModelShape(
        layers=sizes["n_blocks"],
        width=width,
        heads=heads,
        key_heads=heads,
        head_width=width // heads,
        inner=4 * width,
        vocabulary=raw["tokens"] + 1,
        matrices=2,
    )
