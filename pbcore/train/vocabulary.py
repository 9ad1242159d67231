"""The tokenizer of `tiny`: the word-level tokens of `pbcore.tasks.words`, a `tokenizers` file with a chat template."""

import string
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from pbcore.tasks.registry import all_task_names, generate, task_spec
from pbcore.tasks.words import PATTERN, tokens
from pbcore.train.markers import ASSISTANT, EOS, MASK, SPECIAL, UNKNOWN, USER
from pbcore.train.rows import answers

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '" + USER + "' if message['role'] == 'user' else '" + ASSISTANT + "' }}{{ message['content'] }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}" + ASSISTANT + "{% endif %}"
)


def vocabulary(samples_per_task: int, seed: int = 0, names: Sequence[str] | None = None) -> list[str]:
    """All tokens in prompts and answers of the tasks, in a fixed order: special tokens, single characters, then words
    by frequency.

    Both splits are read: a test list may hold a person who is missing from the short lists of the train split.
    """
    counts: Counter[str] = Counter()
    for name in names or all_task_names():
        for split in ("train", "test"):
            for text in _texts(name, split, seed, samples_per_task):
                counts.update(tokens(text))
    characters = sorted({*string.ascii_letters, *string.digits, *" \n.,:;!?'\"[]()-"})
    words = sorted((word for word in counts if word not in set(characters)), key=lambda word: (-counts[word], word))
    return [*SPECIAL, *characters, *words]


def _texts(name: str, split: str, seed: int, count: int) -> Iterable[str]:
    spec = task_spec(name)
    if spec.generator is None:
        return
    for sample in islice(generate(name, split, seed=seed), count):
        yield from (message["content"] for message in sample.messages)
        yield from answers(sample)


def build(words: Sequence[str]) -> PreTrainedTokenizerFast:
    """A tokenizer that splits text exactly like `words.tokens` and decodes by concatenation."""
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(PATTERN), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        unk_token=UNKNOWN,
        mask_token=MASK,
        eos_token=EOS,
        pad_token=EOS,
        extra_special_tokens=[USER, ASSISTANT],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )
