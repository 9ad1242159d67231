"""What SEDD is asked: a prompt without a chat template ends with a blank line, as in the paper's
code.
"""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest

from pbcore.extras.train.sedd.model import Sedd
from pbcore.models import load_model
from pbcore.tasks import load_task
from tests.extras.train.sedd.test_sedd import checkpoint
from tests.models.shapes import words


@pytest.fixture
def model(tmp_path: Path) -> Sedd:
    tokenizer = deepcopy(words())
    folder = checkpoint(tmp_path, tokens=len(tokenizer), length=2048)
    tokenizer.chat_template = None
    tokenizer.save_pretrained(folder)
    loaded = load_model(str(folder))
    assert isinstance(loaded, Sedd)
    return loaded


def test_a_blank_line_follows_the_question(model: Sedd) -> None:
    sample = load_task("puzzle/sudoku", limit=1).samples[0]
    prompt = "\n\n".join(message["content"] for message in sample.messages)
    ids = model.encode(sample, None, 0).prompt_ids
    assert list(ids) == model.tokenizer.text(f"{prompt}\n\n")
    assert list(ids) != model.tokenizer.text(prompt)
    assert model.encode(list(sample.messages), 4, 0).prompt_ids == ids


def test_text_is_as_it_is(model: Sedd) -> None:
    assert list(model.encode("1234", 4, 0).prompt_ids) == model.tokenizer.text("1234")


def test_a_chat_template_stands_for_itself() -> None:
    """That of `tiny-sedd`, which was trained without."""
    model = load_model("tiny-sedd")
    assert isinstance(model, Sedd)
    sample = load_task("list_ops/shuffle", limit=1).samples[0]
    assert list(model.encode(sample, None, 0).prompt_ids) == model.tokenizer.chat(sample.messages)
    assert not model.tokenizer._ending or model.tokenizer.template
