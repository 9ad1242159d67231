"""Models by name: the ideal model, masked diffusion transformers, and models that run their own
decoding loop.
"""

from pbcore.models.registry import load_model, model_names, register_model, resolve_model

__all__ = ["load_model", "model_names", "register_model", "resolve_model"]
