"""Text to token ids and back, without code from a checkpoint: tokenizer files, a placeholder for dummies, or no
tokenizer.
"""

import zlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pbcore.models.errors import ModelError
from pbcore.tasks.base import Message, Sample
from pbcore.tasks.lists import MASK
from pbcore.tasks.words import tokens

Hole = TypeVar("Hole")


class Tokenizer(Protocol):
    """The tokenizer interface of a model; `eos_id` is None if it has no such token."""

    @property
    def eos_id(self) -> int | None: ...

    def chat(self, messages: Sequence[Message]) -> list[int]:
        """Ids of a chat, up to the start of the assistant's turn."""
        ...

    def text(self, text: str) -> list[int]:
        """Ids of a whole prompt, with BOS if the tokenizer adds one."""
        ...

    def piece(self, text: str) -> list[int]:
        """Ids of a part of an answer, without special tokens."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """Text of tokens, without special tokens."""
        ...

    def words(self) -> Mapping[str, int]:
        """Token → id."""
        ...


def prompt_ids(tokenizer: Tokenizer, prompt: Any, name: str) -> list[int]:
    """The ids of any form of prompt; `name` is the model's. Raises ModelError for another form."""
    if isinstance(prompt, Sample):
        return tokenizer.chat(prompt.messages)
    if isinstance(prompt, str):
        return tokenizer.text(prompt)
    items = list(prompt)
    if all(isinstance(item, int) for item in items):
        return [int(item) for item in items]
    if not all(isinstance(item, Mapping) and {"role", "content"} <= item.keys() for item in items):
        allowed = "a Sample, messages with role and content, text or token ids"
        raise ModelError(f"{name} can't encode the prompt {str(items)[:80]}: give {allowed}")
    return tokenizer.chat(items)


def canvas_ids(canvas: str, piece: Callable[[str], Sequence[int]], hole: Hole) -> list[int | Hole]:
    """A canvas in which each `[MASK]` is one position, `hole`, and what stands between them the ids of `piece`."""
    first, *rest = canvas.split(MASK)
    ids: list[int | Hole] = [*piece(first)]
    for text in rest:
        ids += [hole, *piece(text)]
    return ids


class FileTokenizer:
    """A tokenizer read from a checkpoint's files.

    `mode` template applies the chat template and adds no further special tokens; plain joins the turns' contents by
    blank lines, with `ending` behind the last.
    """

    def __init__(self, tokenizer: Any, name: str, mode: str | None, ending: str = "") -> None:
        self._tokenizer, self._name, self._ending = tokenizer, name, ending
        self._mode = mode or ("template" if tokenizer.chat_template else "plain")
        if self._mode == "template" and not tokenizer.chat_template:
            raise ModelError(f"{name}: its tokenizer has no chat template; pass chat='plain'")

    @property
    def eos_id(self) -> int | None:
        eos: int | None = self._tokenizer.eos_token_id
        return eos

    def words(self) -> Mapping[str, int]:
        words: Mapping[str, int] = self._tokenizer.get_vocab()
        return words

    def save(self, folder: Path) -> None:
        """Writes its files into a checkpoint's folder."""
        self._tokenizer.save_pretrained(folder, save_jinja_files=False)

    def chat(self, messages: Sequence[Message]) -> list[int]:
        if self._mode == "plain":
            return self.text("\n\n".join(message["content"] for message in messages) + self._ending)
        return self._ids(self.templated(messages), special=False)

    @property
    def template(self) -> str | None:
        """The chat template, if it has one and uses it."""
        template: str | None = self._tokenizer.chat_template if self._mode == "template" else None
        return template

    def templated(self, messages: Sequence[Message], *, unfinished: bool = False) -> str:
        """A chat as text, up to the start of the assistant's turn, or if `unfinished` to the end of what its last turn
        has so far.
        """
        return str(
            self._tokenizer.apply_chat_template(
                [dict(message) for message in messages],
                tokenize=False,
                add_generation_prompt=not unfinished,
                continue_final_message=unfinished,
            )
        )

    def text(self, text: str) -> list[int]:
        ids, bos = self._ids(text, special=True), self._tokenizer.bos_token_id
        # Text to which a chat template was already applied has its own BOS.
        return ids[1:] if bos is not None and ids[:2] == [bos, bos] else ids

    def piece(self, text: str) -> list[int]:
        return self._ids(text, special=False) if text else []

    def decode(self, ids: Sequence[int]) -> str:
        known = [i for i in ids if i < len(self._tokenizer)]
        return str(self._tokenizer.decode(known, skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def _ids(self, text: str, special: bool) -> list[int]:
        fast = self._tokenizer.is_fast
        encoded = self._tokenizer(text, add_special_tokens=special, return_offsets_mapping=fast)
        ids: list[int] = encoded["input_ids"]
        unknown = self._tokenizer.unk_token_id
        if fast and unknown is not None and unknown in ids:
            spans = zip(ids, encoded["offset_mapping"], strict=True)
            words = dict.fromkeys(text[a:b].strip() or text[a:b] for i, (a, b) in spans if i == unknown)
            shown = ", ".join(repr(word) for word in list(words)[:8]) + (
                f" and {len(words) - 8} more" if len(words) > 8 else ""
            )
            raise ModelError(
                f"{self._name} can't encode this prompt; not in its vocabulary: {shown}. Its vocabulary covers the "
                "package's "
                "own data only; use those, or choose another model"
            )
        return ids


class HashTokenizer:
    """A placeholder for dummies: one id per word-level token, from its hash, so prompts have a realistic length."""

    eos_id = None

    def words(self) -> Mapping[str, int]:
        return {}

    def __init__(self, size: int) -> None:
        self._size = size  # ids are drawn from [0, size)

    def chat(self, messages: Sequence[Message]) -> list[int]:
        return self.text(
            "".join(f"<{message['role']}>\n{message['content']}\n" for message in messages) + "<assistant>\n"
        )

    def text(self, text: str) -> list[int]:
        return [zlib.crc32(token.encode()) % self._size for token in tokens(text)]

    def piece(self, text: str) -> list[int]:
        return self.text(text)

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(map(str, ids))


class NoTokenizer:
    """For a checkpoint without tokenizer files: prompts must be token ids, and answers are shown as ids."""

    eos_id = None

    def words(self) -> Mapping[str, int]:
        return {}

    def __init__(self, name: str) -> None:
        self._name = name

    def chat(self, messages: Sequence[Message]) -> list[int]:
        raise self._error()

    def text(self, text: str) -> list[int]:
        raise self._error()

    def piece(self, text: str) -> list[int]:
        raise self._error()

    def decode(self, ids: Sequence[int]) -> str:
        return " ".join(map(str, ids))

    def _error(self) -> ModelError:
        return ModelError(
            f"{self._name} has no tokenizer files (tokenizer.json, or vocab.json and merges.txt); give prompts as "
            "token ids"
        )


def read_tokenizer(folder: Path, name: str, mode: str | None, ending: str = "") -> Tokenizer:
    """The tokenizer of a checkpoint folder: tokenizer.json, or vocab.json with merges.txt (Dream), or none; `ending`
    stands behind chats without a template.

    Raises ModelError for files that can't be read.
    """
    from transformers import PreTrainedTokenizerFast, Qwen2Tokenizer

    if (folder / "tokenizer.json").is_file():
        kind = PreTrainedTokenizerFast
    elif (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        kind = Qwen2Tokenizer
    else:
        return NoTokenizer(name)
    try:
        return FileTokenizer(kind.from_pretrained(folder, local_files_only=True), name, mode, ending)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"{folder}: its tokenizer can't be read ({error}); download it again") from error
