"""Makes small checkpoints in the layouts of published families, and what their answers are."""

import json
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from pbcore.base.errors import InputError
from pbcore.base.registry import hint
from pbcore.extras.check.engine.code import write_code
from pbcore.extras.check.engine.judge import flips_of
from pbcore.extras.check.engine.material import (
    EXPECTED,
    VERSION,
    Case,
    ExpectedAnswer,
    Margins,
    Material,
    NearTies,
    material_text,
)
from pbcore.extras.check.engine.published import PUBLISHED, config_of
from pbcore.extras.check.engine.search import DecodedPrompt, Models, decoded, search
from pbcore.extras.check.engine.setting import Setting, setting_of
from pbcore.extras.check.engine.suite import AT_ONCE, GEN, SamplerChecks, parts
from pbcore.extras.check.engine.tokens import text_of, write_tokenizer
from pbcore.extras.check.engine.weights import published_tensors, random_module
from pbcore.models.token_ids import GENERATION_CONFIG
from pbcore.results.rundir import write_atomic

_ROWS_OF = {"twice": ("batch",), "forwards": ("single",), "full": ("single", "border", "batch")}


def families(names: Sequence[str] | None) -> list[str]:
    """The families to make. Raises InputError for an unknown one."""
    if not names:
        return list(PUBLISHED)
    for name in names:
        if name not in PUBLISHED:
            raise InputError(f"--family {name}: {hint(name, list(PUBLISHED))}")
    return list(dict.fromkeys(names))


def make(
    folder: Path,
    family: str,
    seed: int = 0,
    published_ids: bool = False,
    code: bool = False,
    progress: Callable[[str], None] = lambda text: None,
    suite: Sequence[SamplerChecks] = (),
) -> Material:
    """Writes a family's checkpoint with its `expected.json`.

    Args:
        folder: of the checkpoint; is made.
        family: a key of PUBLISHED.
        seed: of weights and prompts.
        published_ids: whether the vocabulary has its published size and ids.
        code: whether a modelling file is written, too.
        progress: gets a line now and then.
        suite: what is checked; empty: all of the family.

    Raises:
        InputError: if too few robust prompts are found.
    """
    write_checkpoint(folder, family, seed, published_ids, code)
    suite = suite or parts(family)
    models = Models(folder, suite[0].block)
    specials = PUBLISHED[family].ids(published_ids)
    exact: Any = models.exact
    stops = tuple(sorted(exact.stop_ids))
    cases: list[Case] = []
    near: list[NearTies] = []
    for part in suite:
        progress(f"{family}: {part.name}")
        found, ties = search(models, part, seed)
        cases += _cases(part, found, stops, specials)
        if part is suite[0]:
            near.append(_near(models, part, ties, stops, specials))
    material = Material(
        version=VERSION,
        family=family,
        seed=seed,
        mask_id=exact.mask_id,
        eos_ids=list(stops),
        vocab_size=exact.vocab_size,
        block=suite[0].block,
        specials=dict(specials),
        cases=cases,
        near=near,
    )
    write_atomic(folder / EXPECTED, material_text(material))
    return material


def write_checkpoint(
    folder: Path, family: str, seed: int = 0, published_ids: bool = False, code: bool = False
) -> None:
    """Writes a family's checkpoint with random weights.

    Args:
        folder: is made.
        family: a key of PUBLISHED.
        seed: of the weights.
        published_ids: whether the vocabulary has its published size and ids.
        code: whether a modelling file is written, too.
    """
    folder.mkdir(parents=True, exist_ok=True)
    of = PUBLISHED[family]
    ids = of.ids(published_ids)
    config = config_of(family, published_ids)
    module = random_module(family, config, ids, seed)
    tensors = published_tensors(module, family)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    write_atomic(folder / "config.json", json.dumps(config, indent=2) + "\n")
    ends = [ids[of.eos[0]], *(ids[text] for text, _ in of.others)]
    generation = {"eos_token_id": ends if len(ends) > 1 else ends[0], "pad_token_id": ends[0]}
    write_atomic(folder / GENERATION_CONFIG, json.dumps(generation, indent=2) + "\n")
    if code:
        write_code(folder, family, config, tensors)
    write_tokenizer(folder, of.tokens(published_ids), ids, of.mask[0], of.eos[0])


def _cases(
    part: SamplerChecks,
    found: Mapping[str, Sequence[DecodedPrompt]],
    stops: tuple[int, ...],
    ids: Mapping[str, int],
) -> list[Case]:
    """The cases of a part, one for each property."""
    cases = []
    for name in part.properties:
        rows = [row for kind in _ROWS_OF.get(name, (name,)) for row in found[kind]]
        if not rows:
            continue
        batch = {"full": len(rows), "batch": AT_ONCE, "twice": AT_ONCE}.get(name, 1)
        cases.append(
            Case(
                id=f"engine/{part.family}/{part.name}/{name}",
                property=name,
                setting=_setting(part, stops, batch),
                rows=[_expected(row, ids) for row in rows],
            )
        )
    return cases


def _setting(part: SamplerChecks, stops: tuple[int, ...], batch: int) -> Setting:
    return setting_of(part.sampler, GEN, stops, batch, part.block)


def _expected(row: DecodedPrompt, ids: Mapping[str, int]) -> ExpectedAnswer:
    decisions = row.decisions
    margins = Margins(token=_numbers(decisions.token), place=_numbers(decisions.place))
    return ExpectedAnswer(
        prompt=list(row.prompt),
        text=text_of(row.prompt, ids),
        answer=list(row.answer),
        answer_text=text_of(row.answer, ids),
        steps=list(row.steps),
        forwards=row.forwards,
        store=row.store,
        prefill=row.prefill,
        margins=margins,
    )


def _numbers(values: Sequence[float]) -> list[float | None]:
    return [round(value, 4) if isfinite(value) else None for value in values]


def _near(
    models: Models,
    part: SamplerChecks,
    ties: Sequence[DecodedPrompt],
    stops: tuple[int, ...],
    ids: Mapping[str, int],
) -> NearTies:
    """The near ties of a part, with the flips of our own loop in bfloat16."""
    rows = [_expected(row, ids) for row in ties]
    low = decoded(models.low[0], [row.prompt for row in ties], part.sampler)
    flips = 0
    decisions = 0
    for row, other in zip(rows, low, strict=True):
        flipped, until = flips_of(row, other.answer)
        flips += flipped
        decisions += until
    name = f"engine/{part.family}/{part.name}/near-ties"
    return NearTies(name, _setting(part, stops, AT_ONCE), rows, flips, decisions)
