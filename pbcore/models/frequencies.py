"""Background token frequencies, for samplers that weigh tokens by how common they are (`pc`):
counted from a corpus, stored for one tokenizer in frequencies.json beside the checkpoint, or at the
path in PBCORE_FREQUENCIES.
"""

import json
import os
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from zlib import crc32

import torch
from torch import Tensor

from pbcore.models.architecture import architecture
from pbcore.models.entry import FREQUENCIES, LoadOptions
from pbcore.models.errors import ModelError
from pbcore.models.families import read_config
from pbcore.models.hub import locate
from pbcore.models.registry import resolve_model
from pbcore.models.tokenizer import Tokenizer, read_tokenizer

FILE = FREQUENCIES
VARIABLE = "PBCORE_FREQUENCIES"
_COMMAND = "`pbcore list samplers --frequencies CORPUS`"


def count_tokens(tokenizer: Tokenizer, texts: Iterable[str]) -> Counter[int]:
    """How often each token occurs in some texts, without special tokens."""
    return Counter(token for text in texts for token in tokenizer.piece(text))


def save_table(path: Path, counts: Mapping[int, int], vocab_size: int) -> None:
    """Writes a table of token frequencies.

    Args:
        path: the file.
        counts: token id → how often it occurred.
        vocab_size: the number of tokens.

    Raises:
        ModelError: for empty counts.
    """
    if not counts:
        raise ModelError("the corpus has no tokens to count; give a text file, or `train`")
    table = {
        "vocab_size": vocab_size,
        "counts": {str(token): counts[token] for token in sorted(counts)},
    }
    path.write_text(json.dumps(table) + "\n", encoding="utf-8")


def load_frequencies(path: Path, vocab_size: int) -> Tensor:
    """The probability (V,) of each token, one without a count as if it had occurred once (as in
    PC-Sampler's code). Raises ModelError for an unreadable file and for a table of another
    vocabulary.
    """
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
        size = int(table["vocab_size"])
        counts = {int(token): int(n) for token, n in table["counts"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(
            f"{path} is not a frequency table ({error}); make one with {_COMMAND}"
        ) from error
    if size != vocab_size or not counts:
        counted = (
            f"{len(counts)} tokens of a vocabulary of {size}, but this model's has {vocab_size}"
        )
        raise ModelError(f"{path} has counts for {counted}; make a table for it with {_COMMAND}")
    total = sum(counts.values())
    probabilities = torch.full((vocab_size,), 1 / total)  # (V,)
    probabilities[list(counts)] = torch.tensor(list(counts.values())) / total
    return probabilities


def find_table(folder: Path | None, vocab_size: int) -> Tensor | None:
    """The table at the path in PBCORE_FREQUENCIES, else the one beside the checkpoint, else
    None.
    """
    given = os.environ.get(VARIABLE)
    beside = folder / FILE if folder else None
    path = Path(given) if given else beside if beside and beside.is_file() else None
    return None if path is None else load_frequencies(path, vocab_size)


def table_digest(table: Tensor | None) -> str | None:
    """A checksum that identifies the table in a record."""
    return None if table is None else f"{crc32(table.numpy().tobytes()):08x}"


def tokenizer_of(name: str) -> tuple[Tokenizer, int]:
    """A model's tokenizer and vocabulary size, without its weights. Raises ModelError if it has no
    checkpoint.
    """
    entry = resolve_model(name)
    if entry.folder is None and entry.source is None:
        raise ModelError(
            f"{name} has no tokenizer of its own to count tokens with; give a model with a"
            " checkpoint"
        )
    folder = locate(entry, LoadOptions())
    size: int = architecture(entry.config or read_config(folder), str(folder)).config.vocab_size
    return read_tokenizer(folder, entry.name, entry.chat), size
