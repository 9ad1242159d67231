"""BERTScore F1 (Zhang et al. 2020) by bert-score, with a local model: nothing is downloaded while scoring."""

from __future__ import annotations

import argparse
import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from pbcore.errors import PbcoreError

MODEL_VARIABLE = "PBCORE_BERTSCORE_MODEL"
LAYER_VARIABLE = "PBCORE_BERTSCORE_LAYER"
DEFAULT_MODEL = "roberta-large"
BATCH = 64


class Unavailable(PbcoreError, RuntimeError):
    """BERTScore is not available here; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Source:
    """The scoring model: its name as given by the user, its local folder, and the layer whose vectors are compared."""

    name: str
    folder: Path
    layer: int

    def __str__(self) -> str:
        return f"{self.name}, layer {self.layer}"


class BertScore:
    """BERTScore F1 in batches, with one model that is loaded once. No idf weights, no baseline rescaling."""

    def __init__(self, source: Source, device: str | None = None) -> None:
        """Loads the model.

        Raises Unavailable if bert-score is not installed, or if it would misread the folder's name.
        """
        import torch
        from transformers import AutoTokenizer

        library = _library()
        if "t5" in str(source.folder) or str(source.folder).startswith("scibert"):
            raise Unavailable(
                f"bert-score treats every path that contains 't5' as a T5 model: rename or move {source.folder}"
            )
        self.source = source
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        # bert-score passes add_prefix_space at each call, which tokenizers of transformers 5 ignore; so it is set here.
        self._tokenizer = AutoTokenizer.from_pretrained(source.folder, add_prefix_space=True)
        self._model = library.get_model(str(source.folder), source.layer).to(self.device)
        positions = self._model.config.max_position_embeddings - (self._model.config.pad_token_id or 0) - 1
        self._tokenizer.model_max_length = min(self._tokenizer.model_max_length, positions)

    def f1(self, predictions: Sequence[str], references: Sequence[str]) -> list[float]:
        """F1 in [0, 1] of each pair of stripped texts; 0 for an empty one."""
        pairs = [
            (prediction.strip(), reference.strip())
            for prediction, reference in zip(predictions, references, strict=True)
        ]
        nonempty = [index for index, pair in enumerate(pairs) if all(pair)]
        scores = [0.0] * len(pairs)
        if nonempty:
            weights: defaultdict[int, float] = defaultdict(lambda: 1.0)
            weights |= {self._tokenizer.sep_token_id: 0.0, self._tokenizer.cls_token_id: 0.0}
            measured = _library().bert_cos_score_idf(
                self._model,
                [pairs[index][1] for index in nonempty],
                [pairs[index][0] for index in nonempty],
                self._tokenizer,
                weights,
                device=self.device,
                batch_size=BATCH,
            )  # (N, 3): precision, recall, F1
            for index, value in zip(nonempty, measured[:, 2].tolist(), strict=True):
                scores[index] = min(max(value, 0.0), 1.0)
        return scores


def scorer() -> BertScore:
    """This process's scorer, with the model of $PBCORE_BERTSCORE_MODEL (a name or a folder; default roberta-large).

    Raises Unavailable if bert-score or the model is missing.
    """
    result = _scorer(os.environ.get(MODEL_VARIABLE) or DEFAULT_MODEL, os.environ.get(LAYER_VARIABLE) or "")
    if isinstance(result, Unavailable):
        raise Unavailable(str(result))
    return result


def available() -> bool:
    """Whether bert-score and the model are on this machine; loads neither."""
    try:
        find(os.environ.get(MODEL_VARIABLE) or DEFAULT_MODEL, os.environ.get(LAYER_VARIABLE) or "")
        _library()
    except Unavailable:
        return False
    return True


def find(name: str, layer: str = "") -> Source:
    """The model `name`: a local folder or a downloaded model.

    Raises Unavailable if it is neither; makes no network access.
    """
    number = _layer(name, layer)
    if Path(name).is_dir():
        return Source(name, Path(name), number)
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Source(name, Path(snapshot_download(name, local_files_only=True)), number)
    except (LocalEntryNotFoundError, HFValidationError) as error:
        raise Unavailable(
            f"BERTScore's model {name} is not on this machine: run `pbcore bertscore install`, "
            f"or set {MODEL_VARIABLE} to a folder that holds it"
        ) from error


def install(name: str) -> Source:
    """Downloads a model by name into the Hugging Face cache, without the weights of other frameworks."""
    from huggingface_hub import snapshot_download

    wanted = ["*.json", "*.txt", "*.safetensors", "*.model"]
    return Source(name, Path(snapshot_download(name, allow_patterns=wanted)), _layer(name, ""))


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `pbcore bertscore install|status`."""
    parser = subparsers.add_parser("bertscore", help="install BERTScore's model, or show whether it is installed")
    parser.add_argument("action", choices=("install", "status"))
    parser.add_argument("--model", default=os.environ.get(MODEL_VARIABLE) or DEFAULT_MODEL, help="default: %(default)s")
    parser.set_defaults(run=_run)


def _run(args: argparse.Namespace) -> int:
    try:
        source = (
            install(args.model) if args.action == "install" else find(args.model, os.environ.get(LAYER_VARIABLE) or "")
        )
    except (Unavailable, OSError) as error:
        print(error)
        return 1
    print(f"BERTScore: {source}, in {source.folder}")
    return 0


@cache
def _scorer(name: str, layer: str) -> BertScore | Unavailable:
    try:
        return BertScore(find(name, layer))
    except Unavailable as error:
        return error


def _layer(name: str, layer: str) -> int:
    """The given layer, else bert-score's default for the model's name or its folder's name.

    Raises Unavailable if it has none.
    """
    if layer:
        if not layer.isdecimal():
            raise Unavailable(f"{LAYER_VARIABLE}={layer}: give the number of a layer, such as 17")
        return int(layer)
    known: dict[str, int] = _library().model2layers
    for candidate in (name, Path(name).name):
        if candidate in known:
            return known[candidate]
    raise Unavailable(
        f"bert-score has no layer for {name}: set {LAYER_VARIABLE} (roberta-large has {known[DEFAULT_MODEL]})"
    )


def _library() -> Any:
    try:
        import bert_score.utils
    except ImportError as error:
        raise Unavailable(f"BERTScore needs bert-score ({error}): pip install 'pbcore[bertscore]'") from error
    return bert_score.utils
