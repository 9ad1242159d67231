"""Text to token ids and back: a checkpoint's tokenizer files, a placeholder for dummies, or no
tokenizer.
"""

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from pbcore.base.printable import printable, shown
from pbcore.models.base import Prompt, Request
from pbcore.models.errors import UNREADABLE, ModelError
from pbcore.tasks.base import Message, Sample
from pbcore.tasks.lists import MASK
from pbcore.tasks.words import tokens

Hole = TypeVar("Hole")
EOS = "<eos>"
_EMBEDDED = Path(__file__).parent  # the folders of the embedded models are here
COPY_TOKENIZER = "copy those of the model that it was trained from into its folder"


class Tokenizer(ABC):
    """The tokenizer of a model; `eos_id` and `mask_id` are None if it has no such token."""

    eos_id: int | None = None
    mask_id: int | None = None

    @abstractmethod
    def chat(self, messages: Sequence[Message]) -> list[int]:
        """Ids of a chat, up to the start of the assistant's turn."""

    @abstractmethod
    def text(self, text: str) -> list[int]:
        """Ids of a whole prompt, with BOS if the tokenizer adds one."""

    def piece(self, text: str) -> list[int]:
        """Ids of a part of an answer, without special tokens."""
        return self.text(text)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of tokens, without special tokens."""
        return " ".join(map(str, ids))

    def line_breaks(self) -> frozenset[int]:
        """The ids that a line break is encoded as; none where its text isn't known."""
        return frozenset()

    def words(self) -> Mapping[str, int]:
        """Token → id."""
        return {}


def prompt_ids(tokenizer: Tokenizer, prompt: Any, name: str) -> list[int]:
    """The ids of any form of prompt.

    Args:
        tokenizer: the model's.
        prompt: a Sample, chat messages, text or token ids.
        name: the model's, for errors.

    Raises:
        ModelError: for another form.
    """
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


def encode_request(
    name: str,
    tokenizer: Tokenizer,
    prompt: Prompt,
    max_new_tokens: int | None,
    key: int,
    *,
    hole: int,
    tokens: int,
    limit: float,
    of: str = "the length of the answer",
) -> Request:
    """A prompt as a row.

    Args:
        name: the model's, for errors.
        tokenizer: the model's.
        prompt: a Sample, chat messages, text or token ids.
        max_new_tokens: the canvas length; None: the Sample's.
        key: tells rows' random numbers apart.
        hole: what stands at positions to predict.
        tokens: how many token ids there are.
        limit: how many positions there are.
        of: what a missing length is called.

    Raises:
        ModelError: for ids outside the vocabulary, too long rows and a missing length.
    """
    sample = prompt if isinstance(prompt, Sample) else None
    ids = prompt_ids(tokenizer, prompt, name)
    if sample is not None and sample.canvas is not None:
        canvas = canvas_ids(sample.canvas, tokenizer.piece, hole)
    else:
        length = (
            max_new_tokens
            if max_new_tokens is not None or sample is None
            else sample.max_new_tokens
        )
        if not isinstance(length, int) or length < 1:
            raise ModelError(
                f"{name}: max_new_tokens is {of}, a whole number of at least 1, not {length!r}"
            )
        canvas = [hole] * length
    outside = [i for i in (*ids, *(i for i in canvas if i != hole)) if not 0 <= i < tokens]
    if outside:
        raise ModelError(
            f"{name}: token ids {outside[:8]} are outside its vocabulary 0..{tokens - 1}"
        )
    if len(ids) + len(canvas) > limit:
        sizes = f"prompt {len(ids)} + answer {len(canvas)} tokens"
        raise ModelError(f"{name} has {limit} positions, and {sizes} are more; shorten them")
    return Request(tuple(ids), tuple(canvas), key, sample)


def canvas_ids(canvas: str, piece: Callable[[str], Sequence[int]], hole: Hole) -> list[int | Hole]:
    """A canvas in which each `[MASK]` is one position, and what stands between them ids.

    Args:
        canvas: the text.
        piece: gives the ids of a text.
        hole: what stands at positions to predict.
    """
    first, *rest = canvas.split(MASK)
    ids: list[int | Hole] = [*piece(first)]
    for text in rest:
        ids += [hole, *piece(text)]
    return ids


class FileTokenizer(Tokenizer):
    """A tokenizer of transformers. `mode` template applies the chat template and adds no further
    special tokens; plain joins the turns' contents by blank lines, with `ending` behind the last.
    Errors name `folder`, where its files are.
    """

    def __init__(
        self,
        tokenizer: Any,
        name: str,
        mode: str | None,
        ending: str = "",
        folder: Path | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._name = name
        self._ending = ending
        self._folder = folder
        self.eos_id = tokenizer.eos_token_id
        self.mask_id = getattr(tokenizer, "mask_token_id", None)
        self._mode = mode or ("template" if tokenizer.chat_template else "plain")
        if self._mode == "template" and not tokenizer.chat_template:
            raise ModelError(f"{name}: its tokenizer has no chat template; pass chat='plain'")

    def words(self) -> Mapping[str, int]:
        return dict(self._tokenizer.get_vocab())

    def save(self, folder: Path) -> None:
        """Writes its files into a checkpoint's folder."""
        self._tokenizer.save_pretrained(folder, save_jinja_files=False)

    def chat(self, messages: Sequence[Message]) -> list[int]:
        if self._mode == "plain":
            return self.text("\n\n".join(message["content"] for message in messages) + self._ending)
        return self._ids(self.templated(messages), special=False)

    @property
    def template(self) -> str | None:
        """The chat template, if it has one and uses it; of several the default."""
        if self._mode != "template":
            return None
        template: str = self._of_template(self._tokenizer.get_chat_template)
        return template

    def templated(self, messages: Sequence[Message], *, unfinished: bool = False) -> str:
        """A chat as text, up to the start of the assistant's turn, or if `unfinished` to the end of
        what its last turn has so far. Raises ModelError for a template that can't be rendered.
        """
        turns = [dict(message) for message in messages]
        ends = {"add_generation_prompt": not unfinished, "continue_final_message": unfinished}
        render = self._tokenizer.apply_chat_template
        return str(self._of_template(render, turns, tokenize=False, **ends))

    def _of_template(self, call: Callable[..., Any], *given: Any, **options: Any) -> Any:
        """What transformers makes of the chat template. Raises ModelError that names template and
        folder where it can't.
        """
        named = self._tokenizer.chat_template
        if isinstance(named, Mapping) and "default" not in named:
            problem = f"are {', '.join(map(shown, named))}, and none is named default"
            raise ModelError(
                f"{self._where()}: its chat templates {problem}; name the one to use so, or pass"
                " chat='plain'"
            )
        try:
            return call(*given, **options)
        except Exception as error:  # a template is a stranger's program: it may raise anything
            line = getattr(error, "lineno", None)
            place = "" if line is None else f", line {line}"
            raise ModelError(
                f"{self._where()}: its chat template{self._template_file(place)} can't be rendered:"
                f" {printable(str(error), 300)} ({type(error).__name__}). Mend the template, or"
                " pass chat='plain'"
            ) from error

    def _where(self) -> str:
        return self._name if self._folder is None else str(self._folder)

    def _template_file(self, place: str) -> str:
        """The file that holds the template, in brackets."""
        if self._folder is None:
            return place
        names = ("chat_template.jinja", "chat_template.json", "tokenizer_config.json")
        files = [name for name in names if (self._folder / name).is_file()]
        return f" ({files[0]}{place})" if files else place

    def text(self, text: str) -> list[int]:
        ids = self._ids(text, special=True)
        bos = self._tokenizer.bos_token_id
        # Text to which a chat template was already applied has its own BOS.
        return ids[1:] if bos is not None and ids[:2] == [bos, bos] else ids

    def piece(self, text: str) -> list[int]:
        return self._ids(text, special=False) if text else []

    def decode(self, ids: Sequence[int]) -> str:
        """As the tokenizer's own `decode`, without ids that it has no token for."""
        known = list(ids)
        if not self._tokenizer.is_fast:  # others fail for an id without a token
            known = [i for i in ids if i in self._tokens]
        return str(
            self._tokenizer.decode(
                known, skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        )

    def line_breaks(self) -> frozenset[int]:
        ids = self._tokenizer("\n", add_special_tokens=False)["input_ids"]
        return frozenset(token for token in ids if self.decode([token]) == "\n")

    @cached_property
    def _tokens(self) -> frozenset[int]:
        """The ids of the vocabulary, which may have gaps."""
        return frozenset(self.words().values())

    def _ids(self, text: str, special: bool) -> list[int]:
        fast = self._tokenizer.is_fast
        encoded = self._tokenizer(text, add_special_tokens=special, return_offsets_mapping=fast)
        ids: list[int] = encoded["input_ids"]
        unknown = self._tokenizer.unk_token_id
        if fast and unknown is not None and unknown in ids:
            spans = zip(ids, encoded["offset_mapping"], strict=True)
            pieces = (text[a:b] for i, (a, b) in spans if i == unknown)
            words = [*dict.fromkeys(piece.strip() or piece for piece in pieces)]
            # The token's own text is known, and so is what was added to the text, such as BOS.
            words = [word for word in words if word not in ("", self._tokenizer.unk_token)]
            if words:
                raise ModelError(self._not_encoded(words))
        return ids

    def _not_encoded(self, words: Sequence[str]) -> str:
        more = f" and {len(words) - 8} more" if len(words) > 8 else ""
        named = f"{', '.join(map(repr, words[:8]))}{more}"
        embedded = self._folder is not None and _EMBEDDED in self._folder.parents
        remedy = "Leave these words out, or choose another model"
        if embedded:
            remedy = (
                "Its vocabulary covers the package's own data only; use those, or choose another"
                " model"
            )
        return f"{self._name} can't encode this prompt; not in its vocabulary: {named}. {remedy}"


class HashTokenizer(Tokenizer):
    """A placeholder for dummies: one id per word-level token, from its hash, so prompts have a
    realistic length.
    """

    def __init__(self, size: int, eos_id: int | None = None) -> None:
        self._size, self.eos_id = size, eos_id  # ids are drawn from [0, size)

    def chat(self, messages: Sequence[Message]) -> list[int]:
        turns = [f"<{message['role']}>\n{message['content']}\n" for message in messages]
        return self.text("".join([*turns, "<assistant>\n"]))

    def text(self, text: str) -> list[int]:
        return [zlib.crc32(token.encode()) % self._size for token in tokens(text)]


class NoTokenizer(Tokenizer):
    """For a checkpoint without tokenizer files: prompts must be token ids, and answers are shown as
    ids.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def chat(self, messages: Sequence[Message]) -> list[int]:
        return self.text("")

    def text(self, text: str) -> list[int]:
        raise ModelError(
            f"{self._name} has no tokenizer files (tokenizer.json, or vocab.json and merges.txt);"
            f" {COPY_TOKENIZER}, or in Python give prompts as token ids"
        )


def has_tokenizer(folder: Path) -> bool:
    """Whether a checkpoint's folder has files of a tokenizer, of any kind that is read."""
    alone = ("tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json")
    return any((folder / name).is_file() for name in alone)


def read_tokenizer(
    folder: Path,
    name: str,
    mode: str | None,
    ending: str = "",
    *,
    auto: bool = False,
    trust_remote_code: bool = False,
) -> Tokenizer:
    """The tokenizer of a checkpoint folder: tokenizer.json, or vocab.json with merges.txt (Dream),
    or
    none.

    Args:
        folder: the checkpoint.
        name: the model's, for errors.
        mode: `template` applies the chat template, `plain` has none; None: what the files say.
        ending: what stands behind chats without template.
        auto: whether transformers makes the tokenizer.
        trust_remote_code: whether the folder's code may run.

    Raises:
        ModelError: for bad files.
    """
    import transformers

    if auto:
        kind: Any = transformers.AutoTokenizer
    elif (folder / "tokenizer.json").is_file():
        kind = transformers.PreTrainedTokenizerFast
    elif (folder / "vocab.json").is_file() and (folder / "merges.txt").is_file():
        kind = transformers.Qwen2Tokenizer
    else:
        return NoTokenizer(name)
    try:
        words = kind.from_pretrained(
            folder, local_files_only=True, trust_remote_code=trust_remote_code
        )
    except UNREADABLE as error:
        raise ModelError(
            f"{folder}: its tokenizer can't be read ({error}); download it again"
        ) from error
    return FileTokenizer(words, name, mode, ending, folder)


def pieces(model: Any) -> Callable[[int], str] | None:
    """Token id → its text (`<eos>` for tokens that end an answer, `<7>` for those without a text),
    for any kind of model; None for one that tells no tokens.
    """
    text = getattr(model, "text", None)
    if not callable(text):
        return None
    stops = stops_of(model)

    @cache
    def piece(token: int) -> str:
        return EOS if token in stops else str(text([token])) or f"<{token}>"

    return piece


def stops_of(model: Any) -> frozenset[int | None]:
    """The tokens that end an answer of any kind of model."""
    return frozenset(getattr(model, "stop_ids", ())) | {getattr(model, "eos_id", None)}


def end_of(ids: Sequence[int], stops: Collection[int]) -> int:
    """Where the first of `stops` stands in `ids`; their number if none does."""
    return next((place for place, token in enumerate(ids) if token in stops), len(ids))


class PastEos(TypedDict):
    """Two fields of a Generation."""

    official_text: str | None
    text_after_eos: bool | None


def past_eos(
    ids: Sequence[int],
    stops: Collection[int],
    text: str,
    whole_text: Callable[[Sequence[int]], str | None],
) -> PastEos:
    """Whether text follows the first EOS, and then the whole text.

    Args:
        ids: the canvas.
        stops: the ids of EOS.
        text: the answer.
        whole_text: gives the canvas as text, None if it can't be told.
    """
    if all(token in stops for token in ids[end_of(ids, stops) :]):
        return {"official_text": None, "text_after_eos": False}
    whole = whole_text(ids)
    late = None if whole is None else whole != text
    return {"official_text": whole if late else None, "text_after_eos": late}
