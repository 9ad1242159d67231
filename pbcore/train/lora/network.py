"""What is trained of a model: an adapter beside its frozen weights, or a SEDD model whole."""

import warnings
from typing import Any

import torch

from pbcore.errors import InputError
from pbcore.models import load_model
from pbcore.models.masked import MaskedModel
from pbcore.models.network import NativeNetwork
from pbcore.models.sedd.model import Sedd
from pbcore.train.lora.settings import LoraSettings
from pbcore.train.network import AnswerLoss
from pbcore.train.sedd import ScoreLoss


def adapted(settings: LoraSettings, device: str) -> tuple[MaskedModel, AnswerLoss]:
    """The model and its loss, with an adapter whose weights are drawn by the seed; the model decodes with it from now
    on.

    Raises InputError for a model that is not a native masked one with full attention, if peft is missing, and for
    modules that the model lacks.
    """
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise InputError("adapters are trained with peft: pip install 'pbcore[lora]'") from error
    kept = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = False  # type: ignore[assignment]  # PyTorch's own linear layers, which peft wraps
    try:
        model = load_model(settings.model, device, settings.dtype)
    finally:
        torch.backends.mkldnn.enabled = kept
    network = getattr(model, "network", None)
    if not isinstance(model, MaskedModel) or not isinstance(network, NativeNetwork) or model.block is not None:
        raise InputError(
            f"--adapt {settings.model}: adapters are trained for masked diffusion models with full attention that load "
            "natively, such as tiny, llada-1.5 and dream; SEDD models are trained whole"
        )
    module: Any = network.module
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=settings.dropout,
        target_modules=list(settings.targets),
    )
    torch.manual_seed(settings.seed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers in a way that is going out of use
            wrapper = get_peft_model(module, config)
    except ValueError as error:
        raise InputError(f"--targets {' '.join(settings.targets)}: {error}") from error
    wrapper.peft_config["default"].base_model_name_or_path = settings.model
    if settings.gradient_checkpointing:
        enable = getattr(module, "activation_checkpointing_enable", None) or module.gradient_checkpointing_enable
        enable({"use_reentrant": False})
    return model, AnswerLoss(network, wrapper, shift=model.shift)


def whole(settings: LoraSettings, device: str) -> tuple[Sedd, ScoreLoss]:
    """The model, all of whose weights are trained in float32, and its loss. Raises InputError for another model."""
    model = load_model(settings.model, device)
    if not isinstance(model, Sedd):
        raise InputError(f"--adapt {settings.model}: only SEDD models are trained whole; others get an adapter")
    torch.manual_seed(settings.seed)
    model.network.requires_grad_(True)
    return model, ScoreLoss(model.network)
