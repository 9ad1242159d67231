"""A SEDD model that is trained whole, its noisy batches and the loss of its answers (the paper's appendix F.4).

R rows, T columns, M noisy positions, N columns of the score.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from pbcore.errors import InputError
from pbcore.models import load_model
from pbcore.models.sedd.model import Sedd
from pbcore.train.lora.settings import LoraSettings
from pbcore.train.noise import Batch, Row
from pbcore.train.sedd import noisy_batch, position_losses, process


class ScoreLoss(nn.Module):
    """The score entropy of noisy answer tokens, as one module, which `accelerate` can spread over GPUs."""

    def __init__(self, model: Sedd) -> None:
        super().__init__()
        self.network = model.network
        self._graph, self._noise = process(model.network)

    def forward(self, ids: Tensor, seen: Tensor, judged: Tensor, clean: Tensor, time: Tensor) -> Tensor:
        """The loss (M,) of each position `judged` (R, T), in row-major order."""
        return position_losses(self.network, self._graph, self._noise, ids, seen, judged, clean, time)


def score_batch(model: Sedd, rows: Sequence[Row], rng: torch.Generator) -> Batch:
    """Rows with the noise of the model's graph and schedule, padded on the right."""
    noisy = noisy_batch(rows, model.eos_id, *process(model.network), rng)
    judged = noisy.judged
    clean, weights = noisy.clean[judged], noisy.weights[judged]
    return Batch(noisy.ids, noisy.seen, judged, clean, weights, noisy.tasks, noisy.time)


def whole(settings: LoraSettings, device: str) -> tuple[Sedd, ScoreLoss]:
    """The model, all of whose weights are trained in float32, and its loss. Raises InputError for another model."""
    model = load_model(settings.model, device)
    if not isinstance(model, Sedd):
        raise InputError(f"--adapt {settings.model}: only SEDD models are trained whole; others get an adapter")
    torch.manual_seed(settings.seed)
    model.network.requires_grad_(True)
    return model, ScoreLoss(model)
