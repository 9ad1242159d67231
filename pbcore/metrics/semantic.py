"""BERTScore F1 (Zhang et al. 2020) by bert-score, with a local model: nothing is downloaded while
scoring.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pbcore.base.errors import PbcoreError
from pbcore.base.torch_states import own_states

MODEL_VARIABLE = "PBCORE_BERTSCORE_MODEL"
LAYER_VARIABLE = "PBCORE_BERTSCORE_LAYER"
DEFAULT_MODEL = "roberta-large"
DEFAULT_LAYER = 17
BATCH = 64
NEEDED = {
    "config.json": ("config.json",),
    "weights": ("*.safetensors", "pytorch_model*.bin"),
    "a tokenizer": ("tokenizer.json", "vocab.json", "vocab.txt", "*.model"),
}


class BertScoreUnavailable(PbcoreError, RuntimeError):
    """BERTScore is not available here; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class ScoringModel:
    """The scoring model: its name as given by the user, its local folder, and the layer whose
    vectors are compared.
    """

    name: str
    folder: Path
    layer: int

    def __str__(self) -> str:
        return f"{self.name}, layer {self.layer}"


class BertScore:
    """BERTScore F1 in batches, with one model that is loaded once. No idf weights, no baseline
    rescaling.
    """

    @own_states()
    def __init__(self, source: ScoringModel, device: str | None = None) -> None:
        """Loads the model."""
        import torch
        from bert_score.utils import get_model
        from transformers import AutoTokenizer

        self.source = source
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        # bert-score passes add_prefix_space at each call, which tokenizers of transformers 5
        # ignore; so it is set here.
        self._tokenizer = AutoTokenizer.from_pretrained(source.folder, add_prefix_space=True)
        self._model = get_model(str(source.folder), source.layer).to(self.device)
        positions = (
            self._model.config.max_position_embeddings - (self._model.config.pad_token_id or 0) - 1
        )
        self._tokenizer.model_max_length = min(self._tokenizer.model_max_length, positions)

    @own_states()
    def f1(self, predictions: Sequence[str], references: Sequence[str]) -> list[float]:
        """F1 in [0, 1] of each pair of stripped texts; 0 for an empty one."""
        from bert_score.utils import bert_cos_score_idf

        pairs = [
            (text.strip(), other.strip())
            for text, other in zip(predictions, references, strict=True)
        ]
        compared = [pair for pair in pairs if all(pair)]
        if not compared:
            return [0.0] * len(pairs)
        weights: defaultdict[int, float] = defaultdict(lambda: 1.0)
        weights |= {self._tokenizer.sep_token_id: 0.0, self._tokenizer.cls_token_id: 0.0}
        ours, theirs = map(list, zip(*compared, strict=True))
        measured = bert_cos_score_idf(
            self._model,
            theirs,
            ours,
            self._tokenizer,
            weights,
            device=self.device,
            batch_size=BATCH,
        )  # (N, 3): precision, recall, F1
        values = iter(measured[:, 2].clamp(0, 1).tolist())
        return [next(values) if all(pair) else 0.0 for pair in pairs]


def bert_scorer() -> BertScore:
    """This process's scorer, with the chosen model. Raises Unavailable if the model is missing."""
    return _scorer(*_settings())


def available() -> bool:
    """Whether the model is on this machine; doesn't load it."""
    try:
        chosen_model()
    except BertScoreUnavailable:
        return False
    return True


def chosen_model() -> ScoringModel:
    """The model of $PBCORE_BERTSCORE_MODEL (default roberta-large). Raises Unavailable if it can't
    be used.
    """
    return find_model(*_settings())


def _settings() -> tuple[str, str]:
    return os.environ.get(MODEL_VARIABLE) or DEFAULT_MODEL, os.environ.get(LAYER_VARIABLE) or ""


def find_model(name: str, layer: str = "") -> ScoringModel:
    """The model `name`: a local folder or a downloaded model. Raises Unavailable if it is neither,
    or lacks what scoring needs; makes no network access.
    """
    folder = Path(name)
    if not folder.is_dir():
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

        try:
            folder = Path(snapshot_download(name, local_files_only=True))
        except (LocalEntryNotFoundError, HFValidationError) as error:
            raise BertScoreUnavailable(
                f"BERTScore's model {name} is not on this machine: run `pbcore install bertscore`, "
                f"or give a folder that holds it with --bertscore-model or {MODEL_VARIABLE}"
            ) from error
    return _checked(ScoringModel(name, folder, _layer(name, layer)))


def install_model(name: str) -> ScoringModel:
    """Downloads a model by name into the Hugging Face cache, without the weights of other
    frameworks.
    """
    from huggingface_hub import snapshot_download

    wanted = ["*.json", "*.txt", "*.safetensors", "*.model"]
    return ScoringModel(
        name, Path(snapshot_download(name, allow_patterns=wanted)), _layer(name, "")
    )


@cache
def _scorer(name: str, layer: str) -> BertScore:
    return BertScore(find_model(name, layer))


def _layer(name: str, layer: str) -> int:
    """The given layer, else bert-score's default for the name of model or folder. Raises
    Unavailable without one.
    """
    if layer:
        if not layer.isdecimal():
            raise BertScoreUnavailable(
                f"{LAYER_VARIABLE}={layer}: give the number of a layer, such as 17"
            )
        return int(layer)
    if Path(name).name == DEFAULT_MODEL:
        return DEFAULT_LAYER
    from bert_score.utils import model2layers

    for candidate in (name, Path(name).name):
        if candidate in model2layers:
            return int(model2layers[candidate])
    raise BertScoreUnavailable(
        f"bert-score has no layer for {name}: set {LAYER_VARIABLE} ({DEFAULT_MODEL} has"
        f" {DEFAULT_LAYER})"
    )


def _checked(source: ScoringModel) -> ScoringModel:
    """The source, if its folder holds a model with that layer. Raises Unavailable that names what
    it lacks.
    """
    folder = source.folder
    if "t5" in str(folder) or str(folder).startswith("scibert"):
        raise BertScoreUnavailable(
            "bert-score treats every path that contains 't5' as a T5 model: rename or move"
            f" {folder}"
        )
    for what, patterns in NEEDED.items():
        if not any(any(folder.glob(pattern)) for pattern in patterns):
            raise BertScoreUnavailable(
                f"BERTScore's model {folder} lacks {what} ({', '.join(patterns)}): give a whole"
                " checkpoint"
            )
    try:
        layers = json.loads((folder / "config.json").read_text(encoding="utf-8")).get(
            "num_hidden_layers", source.layer
        )
    except (ValueError, AttributeError) as error:
        raise BertScoreUnavailable(
            f"{folder}/config.json is not a model's ({error}): give a whole checkpoint"
        ) from error
    if not 1 <= source.layer <= layers:
        raise BertScoreUnavailable(
            f"{folder} has {layers} layers, no layer {source.layer}: set {LAYER_VARIABLE} to one of"
            " them"
        )
    return source
