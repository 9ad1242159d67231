"""Sliding windows: layers whose columns attend only to near ones.

transformers counts distances in columns and makes the mask for whole forwards of one row. Here they
are counted in positions, so that padding, a KV cache, shadows and what-if canvases change nothing.

R rows, Q columns of one forward, T columns of a mask.
"""

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

Masks = Tensor | dict[str, Tensor | None] | None


def layer_windows(module: nn.Module) -> tuple[int | None, ...]:
    """The sliding window of each layer, as the layer's own attention holds it; None: the layer
    attends to all columns.
    """
    whole: Any = module
    attentions = [getattr(layer, "self_attn", None) for layer in whole.model.layers]
    return tuple(getattr(attention, "sliding_window", None) for attention in attentions)


def window_problems(config: Any, attention: str | None) -> Iterator[str]:
    """What is wrong with a masked model's layer types.

    Args:
        config: transformers' config of the model.
        attention: transformers' attention implementation; None: its choice.
    """
    kinds = getattr(config, "layer_types", None) or []
    window = getattr(config, "sliding_window", None)
    others = sorted({*kinds} - {"full_attention", "sliding_attention"})
    if others:
        yield f"layer_types {', '.join(others)} (known: full_attention, sliding_attention)"
    if "sliding_attention" in kinds and not window:
        yield (
            "layer_types has sliding_attention without a window (set use_sliding_window and"
            " sliding_window, or make these layers full_attention)"
        )
    if window and attention not in (None, "sdpa", "eager"):
        yield f"attention {attention} has no sliding window on both sides (known: sdpa, eager)"


def near(positions: Tensor, keys: Tensor, window: int) -> Tensor:
    """Which columns a column of a sliding layer may attend to, (R, Q, T): those at most `window`
    positions away, on either side (transformers' `sliding_window_bidirectional_overlay`).

    Args:
        positions: (R, Q).
        keys: positions (R, T) of the columns attended to.
        window: the layer's.
    """
    return (positions[:, :, None] - keys[:, None, :]).abs() <= window


def by_layer(
    module: nn.Module, windows: tuple[int | None, ...], full: Tensor | None, sliding: Tensor
) -> Masks:
    """The masks in the form that a transformers model takes.

    Args:
        module: the model.
        windows: of its layers.
        full: the mask of layers without a window.
        sliding: the mask of the others.
    """
    if None not in windows:
        return sliding
    whole: Any = module
    kinds = zip(whole.config.layer_types, windows, strict=True)
    return {kind: full if window is None else sliding for kind, window in kinds}
