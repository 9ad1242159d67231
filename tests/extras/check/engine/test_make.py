"""Made checkpoints: their layout, their tokenizer, and their own loop."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from pbcore.cli import main
from pbcore.decoding import denoise
from pbcore.extras.check.engine.make import write_checkpoint
from pbcore.extras.check.engine.material import Material
from pbcore.extras.check.engine.published import PUBLISHED
from pbcore.extras.check.engine.search import MARGIN, candidates, decoded, ordinary, up_to_eos
from pbcore.extras.check.engine.setting import setting_of
from pbcore.extras.check.engine.tokens import text_of, tokens_of, write_tokenizer
from pbcore.extras.check.engine.varied import decode_varied
from pbcore.models import load_model
from tests.extras.check.engine.plain import MODULE


@pytest.mark.parametrize("family", PUBLISHED)
def test_a_family_is_loaded_as_itself(tmp_path: Path, family: str) -> None:
    """The files alone say family, mask and what ends an answer."""
    write_checkpoint(tmp_path, family)
    model = load_model(str(tmp_path))
    ids = PUBLISHED[family].ids(False)
    assert model.info["family"] == PUBLISHED[family].kind
    assert model.mask_id == ids[PUBLISHED[family].mask[0]]
    assert ids[PUBLISHED[family].eos[0]] in model.stop_ids


@pytest.mark.parametrize(
    ("family", "sampler"),
    [
        ("a2d", "confidence-k3+b8"),
        ("a2d_bd3lm", "confidence-k3"),
        ("dream", "entropy-k8"),
        ("nemotron", "confidence-k3"),
    ],
)
def test_three_loops_decode_the_same(tmp_path: Path, family: str, sampler: str) -> None:
    """Our own, the plain one that is varied, and the example engine's, which shares no code."""
    write_checkpoint(tmp_path, family)
    block = PUBLISHED[family].block
    model = load_model(str(tmp_path), **({} if block is None else {"block": block}))
    drawn = candidates(random.Random(0), ordinary(model), 24)
    rows = [
        row
        for row in decoded(model, drawn, sampler)
        if all(row.decisions.outside) and row.decisions.smallest > 0.01
    ]
    assert len({row.answer for row in rows}) > 3
    prompts = [list(row.prompt) for row in rows]
    stops = tuple(sorted(PUBLISHED[family].ids(False)[text] for text in _ends(family)))
    setting = setting_of(sampler, 16, stops, 3, block)
    plain = decode_varied(model, prompts, setting)
    other = MODULE.generate(str(tmp_path), prompts, setting)
    for row, one, two in zip(rows, plain, other, strict=True):
        assert row.answer == up_to_eos(one, stops) == up_to_eos(two, stops)


def test_candidates_are_decoded_in_parts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As many at once as a large vocabulary leaves room for, with the same answers and margins."""
    model = load_model(str(folder))
    drawn = candidates(random.Random(0), ordinary(model), 8)
    whole = decoded(model, drawn, "threshold-0.9+b8")
    sizes = []

    def counted(model: Any, requests: Sequence[Any], *more: Any) -> Any:
        sizes.append(len(requests))
        return denoise(model, requests, *more)

    monkeypatch.setattr("pbcore.extras.check.engine.search.LOGITS", 3 * 320)
    monkeypatch.setattr("pbcore.extras.check.engine.search.denoise", counted)
    parts = decoded(model, drawn, "threshold-0.9+b8")
    assert sizes == [3, 3, 2]
    assert [(row.answer, row.steps) for row in parts] == [(row.answer, row.steps) for row in whole]
    smallest = [row.decisions.smallest for row in whole]
    assert [row.decisions.smallest for row in parts] == pytest.approx(smallest, abs=1e-3)


def _ends(family: str) -> list[str]:
    """The texts of the tokens that end an answer."""
    of = PUBLISHED[family]
    return [of.eos[0], *(text for text, _ in of.others)]


def test_text_says_which_tokens_it_is(folder: Path, material: Material) -> None:
    """The tokenizer maps each id to one text and back, and its chat template adds nothing."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    every = list(range(material.vocab_size))
    text = text_of(every, material.specials)
    assert tokens_of(text, material.specials) == every
    assert tokenizer(text, add_special_tokens=False)["input_ids"] == every
    assert tokenizer.decode(every) == text
    row = material.cases[0].rows[0]
    messages = [{"role": "user", "content": row.text}]
    chat = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
    assert chat["input_ids"] == row.prompt


def test_its_tokenizer_is_read_by_older_versions(
    tmp_path: Path, folder: Path, material: Material
) -> None:
    """Engines pin transformers 4, which knows neither version 5's class nor its list of tokens."""
    specials = material.specials
    write_tokenizer(tmp_path, material.vocab_size, specials, "<|mdm_mask|>", "<|endoftext|>")
    name = "tokenizer_config.json"
    config = json.loads((tmp_path / name).read_text())
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert config["additional_special_tokens"] == ["<|eot_id|>"]
    assert not {"backend", "extra_special_tokens"} & config.keys()
    assert config == json.loads((folder / name).read_text())


@pytest.mark.parametrize("text", ["w1 x", "hello", "w1w2w"])
def test_other_text_is_none(text: str) -> None:
    """What isn't made of tokens has no ids."""
    assert tokens_of(text, {"<|mask|>": 9}) is None


def test_every_margin_is_above_the_bound(material: Material) -> None:
    """Of each decision of each robust answer."""
    margins = [
        value
        for case in material.cases
        for row in case.rows
        for value in (*row.margins.token, *row.margins.place)
        if value is not None
    ]
    assert len(margins) > 500
    assert min(margins) >= MARGIN


def test_published_ids(tmp_path: Path) -> None:
    """The vocabulary has its published size, at a small width."""
    write_checkpoint(tmp_path, "llada", published_ids=True)
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["embedding_size"], config["d_model"]) == (126464, 16)
    assert load_model(str(tmp_path)).mask_id == 126336


@pytest.mark.slow
def test_our_own_loop_in_pytest(folder: Path, pytester: pytest.Pytester) -> None:
    """Cases are items by their names, and pytest's -k chooses among them."""
    result = pytester.runpytest_subprocess(
        str(folder),
        "--check-engine",
        "pbcore",
        "-v",
        "-k",
        "k3 and batch",
        "-p",
        "no:cacheprovider",
    )
    result.assert_outcomes(passed=1, deselected=28)
    result.stdout.fnmatch_lines(["*::engine/llada/confidence-k3+b8/batch PASSED*"])


def test_an_unknown_family_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The line names near ones."""
    assert main(["check", "engine", "--make", str(tmp_path), "--family", "lada"]) == 2
    assert "llada" in capsys.readouterr().err
