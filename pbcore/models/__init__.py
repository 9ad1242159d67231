"""Ways of answering: the ideal model, masked diffusion transformers, models that decode by themselves; and their names."""

from pbcore.models.registry import load_model, model_names, register_model, resolve_model

__all__ = ["load_model", "model_names", "register_model", "resolve_model"]
