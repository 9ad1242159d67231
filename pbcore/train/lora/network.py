"""A model with an adapter beside its frozen weights, and the loss of its answers.

R rows, T columns, M masked positions, H width, V tokens.
"""

import warnings
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pbcore.errors import InputError
from pbcore.models import load_model
from pbcore.models.masked import MaskedModel
from pbcore.models.network import Columns, NativeNetwork
from pbcore.train.lora.settings import LoraSettings


class AnswerLoss(nn.Module):
    """The cross-entropy of masked answer tokens, as one module, which `accelerate` can spread over GPUs."""

    def __init__(self, model: MaskedModel, adapted: nn.Module) -> None:
        super().__init__()
        self.adapted = adapted
        self._network, self._shift = model.network, int(model.shift)

    def forward(self, ids: Tensor, attend: Tensor, masked: Tensor, targets: Tensor) -> Tensor:
        """The loss (M,) of each masked position, in row-major order."""
        return F.cross_entropy(self.logits(ids, attend, masked).float(), targets, reduction="none")

    def logits(self, ids: Tensor, attend: Tensor, masked: Tensor) -> Tensor:
        """Logits (M, V) of the positions `masked` (R, T) of left-padded rows; with shifted logits they are read one
        column earlier.
        """
        read = masked.roll(-self._shift, 1)  # (R, T); the first column is never masked, since prompts are not empty
        positions = (attend.long().cumsum(-1) - 1).clamp(min=0)
        skip = int(read.any(0).int().argmax())  # columns that nobody reads
        mask = None if bool(attend.all()) else attend
        hidden = self._network.hidden(Columns(ids, positions, mask, skip=skip))  # (R, T − skip, H)
        return self._network.project(hidden[read[:, skip:]])


def _plain_model(settings: LoraSettings, device: str) -> Any:
    """The model with PyTorch's own linear layers, which peft wraps, in place of oneDNN's products."""
    kept = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = False  # type: ignore[assignment]
    try:
        return load_model(settings.model, device, settings.dtype)
    finally:
        torch.backends.mkldnn.enabled = kept


def adapted(settings: LoraSettings, device: str) -> tuple[MaskedModel, AnswerLoss, Any]:
    """The model, its loss and peft's wrapper, whose new weights are drawn by the seed. The model decodes with the
    adapter from now on.

    Raises InputError for a model that is not a native masked one with full attention, if peft is missing, and for
    modules that the model lacks.
    """
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError as error:
        raise InputError("adapters are trained with peft: pip install 'pbcore[lora]'") from error
    model = _plain_model(settings, device)
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
    return model, AnswerLoss(model, wrapper), wrapper
