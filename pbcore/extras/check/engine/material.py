"""`expected.json` of a made checkpoint: cases, each some prompts decoded with a setting, and what
the answers are. Doesn't import torch.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pbcore.base.check import LoadError, checked, read_json, validated
from pbcore.base.errors import InputError
from pbcore.extras.check.engine.setting import Setting
from pbcore.extras.check.engine.tokens import text_of, tokens_of

EXPECTED = "expected.json"
VERSION = 1
MAKE = "make it with pbcore check engine --make DIR"


@checked
@dataclass(frozen=True)
class Margins:
    """How far decisions are from others, a number per step: of the revealed tokens, the smallest
    gap to the runner-up in logits; of the places, the gap between the last one taken and the first
    one left out in log-odds of their confidences. None: no alternative. Routing to experts has no
    near ties: it is made a matter of tokens, with wide margins.
    """

    token: list[float | None]
    place: list[float | None]


@checked
@dataclass(frozen=True)
class ExpectedAnswer:
    """A prompt and its answer, as ids and as text. `answer` ends with its first EOS; `steps` are
    the steps, from 1, at which its tokens are revealed; `forwards` those of denoising, `store` and
    `prefill` those that only store finished blocks and the prompt.
    """

    prompt: list[int]
    text: str
    answer: list[int]
    answer_text: str
    steps: list[int]
    forwards: int
    store: int
    prefill: int
    margins: Margins


@checked
@dataclass(frozen=True)
class Case:
    """Some prompts that are decoded with one setting, and what that shows (`property`)."""

    id: str
    property: str
    setting: Setting
    rows: list[ExpectedAnswer]


@checked
@dataclass(frozen=True)
class NearTies:
    """Prompts with near ties, of which flips are counted: of the engine, and of our own loop in
    bfloat16 (`flips` in `decisions`).
    """

    id: str
    setting: Setting
    rows: list[ExpectedAnswer]
    flips: int
    decisions: int


@checked
@dataclass(frozen=True)
class Material:
    """What an engine is checked with. `block` is the block length of a model whose blocks are its
    own; `specials` are the special tokens' ids by their texts.
    """

    version: int
    family: str
    seed: int
    mask_id: int
    eos_ids: list[int]
    vocab_size: int
    block: int | None
    specials: dict[str, int]
    cases: list[Case]
    near: list[NearTies]

    def text_of(self, tokens: Sequence[int]) -> str:
        """The text of tokens, special ones included."""
        return text_of(tokens, self.specials)

    def tokens_of(self, text: str) -> list[int] | None:
        """The ids of a text; None for a text that isn't made of tokens."""
        return tokens_of(text, self.specials)

    def prompts(self) -> list[tuple[int, ...]]:
        """The prompts of all cases, each once, first those whose answer fills its length."""
        prompts: dict[tuple[int, ...], None] = {}
        for case in sorted(self.cases, key=lambda case: case.property != "full"):
            prompts |= dict.fromkeys(tuple(row.prompt) for row in case.rows)
        return list(prompts)


def read_material(folder: Path) -> Material:
    """The material of a made checkpoint. Raises InputError for a folder without it, or with another
    version's.
    """
    path = folder / EXPECTED
    if not path.is_file():
        inside = sorted(each.parent.name for each in folder.glob(f"*/{EXPECTED}"))
        if inside:
            raise InputError(
                f"{folder} holds {', '.join(inside)}; name one, such as {folder / inside[0]}"
            )
        raise InputError(f"{folder} has no {EXPECTED}; {MAKE}")
    data = read_json(path)
    version = data.get("version") if isinstance(data, dict) else None
    if version != VERSION:
        raise LoadError(f"{path} has version {version!r}, and this package reads {VERSION}; {MAKE}")
    return validated(Material, data, str(path))


def material_text(material: Material) -> str:
    """The content of `expected.json`."""
    data: dict[str, Any] = asdict(material)
    return json.dumps(data, ensure_ascii=False) + "\n"
