"""The tokenizer of a made checkpoint: each id is one text, so that a text says which tokens it is.

Its chat template writes the messages' texts and nothing else.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
_WORD = r"w[0-9]+"


def word(token: int) -> str:
    """The text of an ordinary token."""
    return f"w{token}"


def text_of(tokens: Sequence[int], specials: Mapping[str, int]) -> str:
    """The text of tokens, special ones included.

    Args:
        tokens: ids.
        specials: the special tokens' ids by their texts.
    """
    texts = {token: text for text, token in specials.items()}
    return "".join(texts.get(token, word(token)) for token in tokens)


def tokens_of(text: str, specials: Mapping[str, int]) -> list[int] | None:
    """The ids of a text, white space between them ignored; None for a text that isn't made of
    tokens.

    Args:
        text: as an engine gives it.
        specials: the special tokens' ids by their texts.
    """
    pattern = "|".join([*map(re.escape, specials), _WORD, r"\s+"])
    tokens = []
    end = 0
    for match in re.finditer(pattern, text):
        if match.start() != end:
            return None
        end = match.end()
        if match[0] in specials:
            tokens.append(specials[match[0]])
        elif match[0].strip():
            tokens.append(int(match[0][1:]))
    return tokens if end == len(text) else None


def write_tokenizer(
    folder: Path, size: int, specials: Mapping[str, int], mask: str, eos: str
) -> None:
    """Writes the tokenizer's files.

    Args:
        folder: of the checkpoint.
        size: of the vocabulary.
        specials: the special tokens' ids by their texts.
        mask: the mask token's text.
        eos: the text of the token that ends an answer and pads.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    texts = {token: text for text, token in specials.items()}
    vocabulary = {texts.get(token, word(token)): token for token in range(size)}
    unknown = word(0)
    while unknown not in vocabulary:
        unknown = word(int(unknown[1:]) + 1)
    whole: Any = Tokenizer(models.WordLevel(vocabulary, unk_token=unknown))
    whole.pre_tokenizer = pre_tokenizers.Split(Regex(_WORD), behavior="isolated")
    whole.decoder = decoders.Fuse()
    others = [text for text in specials if text not in (mask, eos)]
    make: Any = PreTrainedTokenizerFast
    fast = make(
        tokenizer_object=whole,
        eos_token=eos,
        pad_token=eos,
        mask_token=mask,
        extra_special_tokens=others,
        clean_up_tokenization_spaces=False,
        model_max_length=size,
    )
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    _as_published(folder / "tokenizer_config.json")


def _as_published(path: Path) -> None:
    """Writes a tokenizer's settings in the words that every version of transformers reads."""
    config = json.loads(path.read_text(encoding="utf-8"))
    config.pop("backend", None)
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    config["additional_special_tokens"] = config.pop("extra_special_tokens", [])
    path.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
