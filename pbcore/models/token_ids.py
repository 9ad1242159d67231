"""The id of the mask token and those that end an answer: what options, the table and a checkpoint's
files say. Doesn't import torch.
"""

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

from pbcore.base.printable import shown
from pbcore.models.entry import LoadOptions, ModelEntry
from pbcore.models.errors import ModelError
from pbcore.models.families import FAMILIES
from pbcore.models.registry import table_stops

GENERATION_CONFIG = "generation_config.json"


def read_generation_config(folder: Path | None) -> Mapping[str, Any]:
    """A folder's generation_config.json; empty if it has none. Raises ModelError if it can't be
    read.
    """
    if folder is None or not (folder / GENERATION_CONFIG).is_file():
        return {}
    path = folder / GENERATION_CONFIG
    try:
        config: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(
            f"{path} can't be read ({error}); download the checkpoint again"
        ) from error
    if not isinstance(config, dict):
        raise ModelError(
            f"{path} holds {shown(config)}; it should be a mapping. Download the checkpoint again"
        )
    return config


def ids_of(value: Any, name: str, where: str, size: int | None = None) -> list[int]:
    """The token ids that a file or option gives.

    Args:
        value: one id, a list of them, or None.
        name: what gives them, for errors.
        where: the checkpoint, for errors.
        size: how many tokens the vocabulary has; None: it isn't known.

    Raises:
        ModelError: for what is not a token id, or outside the vocabulary.
    """
    ids = []
    for token in value if isinstance(value, list | tuple) else [value]:
        if token is None:
            continue
        if isinstance(token, bool) or not isinstance(token, Integral):
            raise ModelError(
                f"{where}: {name} {shown(token)} is not a token id; give a whole number of its"
                f" vocabulary{'' if size is None else f' 0..{size - 1}'}"
            )
        number = int(token)
        if size is not None and not 0 <= number < size:
            raise ModelError(f"{where}: {name} {number} is outside its vocabulary 0..{size - 1}")
        ids.append(number)
    return ids


@dataclass(frozen=True, slots=True)
class TokenIds:
    """What names the token ids of a masked model: its entry, the options, config.json (`raw`) and
    the other files of `folder` (None for a dummy). `kind` is the architecture, a family's name for
    most; the vocabulary has `size` tokens; `where` names the checkpoint in errors.
    """

    entry: ModelEntry
    options: LoadOptions
    raw: Mapping[str, Any]
    kind: str
    size: int
    where: str
    folder: Path | None

    def mask_id(self, tokenizer_mask: int | None = None) -> int:
        """The option's, else the table's, config.json's, the tokenizer's of a family that names it
        nowhere else, or that of the authors' code if the vocabulary has it. Raises ModelError if
        nothing names it, or what does gives no id of the vocabulary.
        """
        family = FAMILIES.get(self.kind)
        by_tokenizer = family is not None and family.mask_token is not None
        named = {
            "mask_id": self.options.mask_id,
            "the table's mask_id": self.entry.mask_id,
            "mask_token_id": self.raw.get("mask_token_id"),
            "the tokenizer's mask token": tokenizer_mask if by_tokenizer else None,
        }
        for name, value in named.items():
            if value is not None:
                return ids_of([value], name, self.where, self.size)[0]
        authors = None if family is None else family.mask_id
        if authors is not None and authors < self.size:
            return authors
        raise ModelError(self._no_mask(authors, by_tokenizer))

    def _no_mask(self, authors: int | None, by_tokenizer: bool) -> str:
        problem = f"{self.where}: config.json has no mask_token_id"
        if by_tokenizer:
            return (
                f"{problem}, and its tokenizer has no mask token, where {self.kind} has it"
                f" ({FAMILIES[self.kind].mask_token}); complete the tokenizer's files, or pass"
                " mask_id=…"
            )
        if authors is not None:
            outside = (
                f"{authors}, that of {self.kind}, is outside its vocabulary 0..{self.size - 1}"
            )
            return f"{problem}, and {outside}; pass mask_id=…"
        remedy = "pass mask_id=… if this is a masked diffusion model"
        if self.raw.get("architectures"):
            return f"{problem}; {remedy}"
        return (
            f"{problem}; {remedy}; an autoregressive one is recognised by its architectures"
            " (…ForCausalLM), which are missing too"
        )

    def delimiter_ids(self, line_breaks: frozenset[int]) -> frozenset[int]:
        """The ids that end AdaBlock's blocks: the option's, else those that a file of `--models`
        says, else those of a line break.

        Args:
            line_breaks: the tokenizer's, for files that have one.

        Raises:
            ModelError: for an option that names no token of the vocabulary.
        """
        given = self.options.delimiter_ids
        given = self.entry.delimiter_ids if given is None else given
        if given is None:
            return line_breaks
        ids = ids_of(list(given), "delimiter_ids", self.where, self.size)
        if not ids:
            raise ModelError(f"{self.where}: delimiter_ids is empty; give ids, or leave it out")
        return frozenset(ids)

    def stop_ids(self, mask_id: int, tokenizer_eos: int | None) -> tuple[int, ...]:
        """The ids that end an answer; the first one also pads and fills.

        An option `eos_id` is the only one. Else these are the table's, those of config.json (the
        padding's where it names no EOS), of generation_config.json and of the tokenizer. A
        checkpoint that a model of the table describes has that model's, too. A family whose
        authors' code stops at one token has the first alone.

        Args:
            mask_id: the mask token's, which none of them may be.
            tokenizer_eos: the tokenizer's EOS; one outside the vocabulary is left out.

        Raises:
            ModelError: if nothing names one, for what is no id of the vocabulary, and for the
                mask's.
        """
        named = self._named_stops(mask_id, tokenizer_eos)
        for name, ids in named.items():
            if mask_id in ids:
                raise ModelError(
                    f"{self.where}: {name} {mask_id} is also the mask token's id (mask_token_id);"
                    " no token can be both. Mend the files, or pass mask_id=… and eos_id=…"
                )
        stops = tuple(dict.fromkeys(token for ids in named.values() for token in ids))
        if not stops:
            raise ModelError(
                f"{self.where}: config.json has no eos_token_id, and neither {GENERATION_CONFIG}"
                " nor the tokenizer names one; pass eos_id=…"
            )
        family = FAMILIES.get(self.kind)
        if family is not None and family.one_stop:
            return stops[:1]
        if self.options.eos_id is None and self.entry.architecture is None:
            stops += self._of_the_table(mask_id, stops)
        return stops

    def _named_stops(self, mask_id: int, tokenizer_eos: int | None) -> dict[str, list[int]]:
        """The ids by who names them, in order."""
        where = self.where
        size = self.size
        if self.options.eos_id is not None:
            return {"eos_id": ids_of(self.options.eos_id, "eos_id", where, size)}
        named: dict[str, list[int]] = {}
        if self.entry.eos_id is not None:
            named["the table's eos_id"] = [self.entry.eos_id]
        key = "eos_token_id"
        named[key] = ids_of(self.raw.get(key), key, where, size)
        family = FAMILIES.get(self.kind)
        padding = self.raw.get("pad_token_id")
        if not any(named.values()) and padding != mask_id:
            named["pad_token_id"] = ids_of(padding, "pad_token_id", where, size)
        if not any(named.values()) and family is not None and family.eos_id is not None:
            named[f"the EOS of {self.kind}"] = [family.eos_id] if family.eos_id < size else []
        of_generation = read_generation_config(self.folder).get(key)
        name = f"{key} of {GENERATION_CONFIG}"
        named[name] = ids_of(of_generation, name, where, size)
        if tokenizer_eos is not None and tokenizer_eos < size:
            named["the tokenizer's EOS"] = [tokenizer_eos]
        named["the table's stop_ids"] = list(self.entry.stop_ids)
        return named

    def _of_the_table(self, mask_id: int, stops: tuple[int, ...]) -> tuple[int, ...]:
        """What the models of the table with this architecture, vocabulary and mask id add to
        `stops`. Where they end answers differently nothing, and a warning says so.
        """
        fitting = table_stops(self.kind, self.size, mask_id)
        kinds = set(fitting.values())
        more = {token for ids in kinds for token in ids} - {*stops}
        if len(kinds) > 1 and more:
            warnings.warn(
                f"{self.where}: it may be {' or '.join(fitting)}, which end answers differently, so"
                f" its own files decide: {', '.join(map(str, stops))} end an answer",
                stacklevel=2,
            )
            return ()
        return tuple(sorted(more))
