"""The tokenizer of `tiny`: the word-level tokens of `pbcore.tasks.words`, a `tokenizers` file with
a chat template.
"""

import string
from ast import literal_eval
from collections import Counter
from collections.abc import Sequence
from itertools import chain, islice

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from pbcore.base.errors import InputError
from pbcore.tasks.base import Sample
from pbcore.tasks.registry import all_task_names, generate, task_spec
from pbcore.tasks.words import PATTERN, tokens

SPECIAL = MASK, EOS, UNKNOWN, USER, ASSISTANT = (
    "<|mask|>",
    "<|eos|>",
    "<|unknown|>",
    "<|user|>",
    "<|assistant|>",
)
CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '"
    + USER
    + "' if message['role'] == 'user' else '"
    + ASSISTANT
    + "' }}{{ message['content'] }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}" + ASSISTANT + "{% endif %}"
)


def vocabulary(
    samples_per_task: int, seed: int = 0, names: Sequence[str] | None = None
) -> list[str]:
    """All tokens in prompts and answers of the tasks, in a fixed order: special tokens, single
    characters, then words by frequency.

    Both splits count: a test list may hold a person that the other lacks.

    Args:
        samples_per_task: how many samples of each task are read.
        seed: the samples' seed.
        names: the tasks; None: all. Those without a generator are left out.
    """
    generated = [
        name for name in names or all_task_names() if task_spec(name).generator is not None
    ]
    samples = chain.from_iterable(
        islice(generate(name, split, seed=seed), samples_per_task)
        for name in generated
        for split in ("train", "test")
    )
    counts: Counter[str] = Counter()
    for sample in samples:
        for text in (*(message["content"] for message in sample.messages), *answers(sample)):
            counts.update(tokens(text))
    characters = sorted({*string.ascii_letters, *string.digits, *" \n.,:;!?'\"[]()-"})
    words = sorted(counts.keys() - set(characters), key=lambda word: (-counts[word], word))
    return [*SPECIAL, *characters, *words]


def answers(sample: Sample) -> list[str]:
    """The correct answers in a sample's label. Raises InputError if it has none."""
    if sample.answer is not None:
        return [sample.answer]
    # Of a paraphrase: a printed list, as in the official rows.
    examples = sample.label.get("examples")
    if not examples:
        raise InputError(
            f"{sample.task}: the label has no answer to learn; it has {sorted(sample.label)}"
        )
    return list(literal_eval(examples) if isinstance(examples, str) else examples)


def build_tokenizer(words: Sequence[str]) -> PreTrainedTokenizerFast:
    """A tokenizer that splits text exactly like `words.tokens` and decodes by concatenation."""
    tokenizer = Tokenizer(
        models.WordLevel({word: number for number, word in enumerate(words)}, unk_token=UNKNOWN)
    )
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
