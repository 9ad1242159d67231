"""What is refused before a model is loaded: combinations of models, tasks, samplers and options,
each with its reason.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
from pytest_regressions.file_regression import FileRegressionFixture

from pbcore.base.errors import InputError
from pbcore.decoding import resolve
from pbcore.decoding.samplers import sampler_of
from pbcore.extras.servers.declared import read_specs
from pbcore.grid.cellid import CellName
from pbcore.grid.needs import Use, refuse_idle
from pbcore.grid.plan import make_plan
from pbcore.grid.settings import OPTIONS, Settings
from pbcore.grid.validate_settings import check
from pbcore.models import register_model
from pbcore.models.registry import FACTORIES, add_models_file
from pbcore.names import MODIFIERS, parse

Line = tuple[str, str]  # a combination, and its reason; empty: it may run
EXAMPLES = tuple(example for modifier in MODIFIERS for example in modifier.examples)
POLICIES = (  # of all kinds, by what they declare
    *("confidence-k2", "confidence", "confidence-k0", "random-k2", "threshold-0.9", "saber-2"),
    *("axon-1", "recheck-2", "recheck_shadow-2", "spec-4", "punt-0.9", "credit-0.9", "t2m-0.9"),
    *("joint-0.9", "llada2-0.9", "fast_dllm_v2-0.9", "freedave-2", "lopa-2", "pc-k2", "wino-0.9"),
)
SAMPLERS = (
    *("confidence-k2", "random-k4+b8", "random-k1+b5", "threshold-0.9+prefix", "margin-k2+dual"),
    *("confidence-k2+rcr", "confidence-k2+remdm1", "confidence-k2+x2", "random-k2+x64"),
    *("axon-1", "recheck_shadow-2", "spec-4", "fast_dllm_v2-0.9+dual", "threshold-0.9+b32"),
    *("eb-0.1", "ar", "ar+t1.0", "ar-draft5", "analytic-s32", "euler-s8", "server", "none-3+b4"),
)
NAMES = sorted({sampler.partition("-")[0] for sampler in (*POLICIES, *SAMPLERS)} - {"confidence"})
MODELS = (
    *("ideal", "ideal-mi", "tiny", "tiny-block", "tiny-ar", "tiny-sedd", "diffusiongemma-26b"),
    *("sdar-8b:dummy", "fast-dllm-v2-7b", "llada2.1-mini", "own", "mercury", "claude-haiku"),
    *("fixed", "fields"),
)
TASKS = (
    *("waiting_line/shuffle", "text_writing/w2s_easy", "puzzle/latin_square", "list_ops/copy"),
    *("questions/shuffle-x2", "walk/graph"),
)
FILE = Path("b.json")
ASKED: tuple[dict[str, Any], ...] = (
    {},
    {"cot": True},
    {"batch_size": (1, 8), "concurrency": (1, 8)},
    {"factor": ("threads=1,2", "dtype=float32,bfloat16")},
    {"task": ("puzzle/latin_square",), "n": (4, 5)},
    {"task": ("puzzle/latin_square",), "n": (7,)},
)
GIVEN: dict[str, Any] = {  # options that exclude or lack one another
    "out": FILE,
    "resume": FILE,
    "resume_anyway": True,
    "questions": ("0-3",),
    "limit": 3,
    "gpu": True,
    "device": "mps",
    "gate": (FILE,),
    "floor": ("* nfe<=9",),
    "update_baseline": FILE,
    "gate_time": 0.1,
    "against": "main",
    "per_sample": True,
    "sample": (3,),
    "share_forwards": True,
    "rounds": 3,
    "factor": ("threads=1,2", "dtype=float32"),
    "threads": 2,
    "dtype": "bfloat16",
    "batch_size": (1, 8),
    "revision": "main",
    "adapter": "folder",
    "model": ("tiny",),
    "draft": "tiny-ar",
    "sampler": ("ar-draft5",),
    "estimate": True,
    "ray": "auto",
    "ray_gpus": 1.0,
}
SERVERS = """
fixed: {model: m, base_url: "http://localhost:1/v1", temperature: false, sampler: threshold-0.9+b32}
fields:
  model: m
  base_url: "http://localhost:1/v1"
  sampler: threshold-0.9+b32
  sampler_fields:
    threshold: {number: threshold, b: block, dual: use_dual, no_early_eos: no_eos}
    confidence: {steps: steps, b: block}
    random: {k: k, linear: steps}
"""


@pytest.fixture(autouse=True)
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's model and two behind servers."""
    monkeypatch.setattr(FACTORIES, "_registered", dict(FACTORIES.all()))
    register_model("own", lambda **options: None)
    (tmp_path / "servers.yaml").write_text(SERVERS)
    add_models_file(tmp_path / "servers.yaml")


def reason(call: Any, *given: Any, **named: Any) -> str:
    """What a call is refused with; empty if it isn't."""
    try:
        call(*given, **named)
    except InputError as error:
        return str(error)
    return ""


def of_samplers() -> Iterator[Line]:
    """Samplers without modifiers, with each alone, and in pairs."""
    for sampler in POLICIES:
        for words in [(), *combinations(EXAMPLES, 1), *combinations(EXAMPLES, 2)]:
            name = "+".join([sampler, *words])
            yield name, reason(resolve, name)


def of_cells() -> Iterator[Line]:
    """Each model, task and sampler under options that change what is asked."""
    for options in ASKED:
        given = {"model": MODELS, "task": TASKS, "limit": 2, "sampler": SAMPLERS, **options}
        for cell, why in make_plan(Settings.of(**given)).combinations:
            yield f"{cell.cell_id} {options}", why or ""


def of_options() -> Iterator[Line]:
    """Options, alone and in pairs."""
    for names in [*combinations(GIVEN, 1), *combinations(GIVEN, 2)]:
        settings = Settings.of(**{name: GIVEN[name] for name in names})
        yield " ".join(names), reason(check, settings)


def of_servers() -> Iterator[Line]:
    """Samplers of declared models."""
    for name, spec in read_specs(SERVERS, "f").items():
        for policy in ("threshold-0.9", "confidence-k2", "random-k2", "random", "ar"):
            for words in [(), ("b32",), ("b32", "t1.0"), *combinations(EXAMPLES, 1)]:
                sampler = "+".join([policy, *words])
                yield f"{name} {sampler}", spec.refusal(parse(sampler)) or ""


def of_idle() -> Iterator[Line]:
    """The first option of each need, on cells of one kind, as if it were given."""
    other = {bool: True, int: 7, float: 0.7, tuple: (7,), type(None): (7,)}
    needs = {option.need: option for option in reversed(OPTIONS)}
    for model, task, option in product(MODELS, TASKS[:3], needs.values()):
        default = getattr(Settings(), option.field, None)
        settings = Settings.of(**{option.field: other.get(type(default), "x")})
        use = Use.of(settings, CellName(model, task, sampler_of("random-k4")))
        why = reason(refuse_idle, [option.field], [use], lambda declared: f"--{declared.name}")
        yield f"{model} {task} {option.name}", why


def template(why: str) -> str:
    """A reason without the names of its combination, so that like ones are counted."""
    why = re.sub(r"(^| )[^ ]+ × ", "… × ", why)
    why = re.sub(r"(^sampler|×) [^ :]+:", r"\1 …:", why)
    why = re.sub(r"\b(" + "|".join(NAMES) + r") (c|m|d|n)", r"… \2", why)
    why = re.sub(r"(, not|and no) \w+( \(it .*)?$", r"\1 …\2", why)
    return why or "(may run)"


@pytest.mark.parametrize("lines", [of_samplers, of_cells, of_options, of_servers, of_idle])
def test_reasons(lines: Any, file_regression: FileRegressionFixture) -> None:
    """How often each reason is given; the digest is of all combinations with their reasons."""
    combined = list(lines())
    reasons = Counter(template(why) for _, why in combined)
    digest = hashlib.sha256(json.dumps(combined).encode()).hexdigest()
    counts = "".join(f"{number:6} {why}\n" for why, number in sorted(reasons.items()))
    text = f"{len(combined)} combinations, {digest[:16]}\n{counts}"
    file_regression.check(text, encoding="utf-8", basename=lines.__name__)
