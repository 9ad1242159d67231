"""The device's answers beside the CPU's: equal in float32, within bounds in bfloat16.

M positions, V tokens.
"""

import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file
from torch import Tensor

from pbcore.base.printable import counted, some
from pbcore.decoding import decode, resolve
from pbcore.decoding.catalog import described
from pbcore.decoding.checks import check_needs
from pbcore.decoding.policies import policies
from pbcore.decoding.samplers import is_static
from pbcore.extras.check.gpu.models import CPU, golden_folder, random_prompts, release
from pbcore.extras.check.gpu.steps import Check, Setup
from pbcore.models import load_model, model_names
from pbcore.models.base import Query, complete
from pbcore.models.network import Columns
from pbcore.tasks import load_task

SAMPLES = 3
LENGTH = 24
LOGITS = 1e-3  # the largest difference of a golden logit, float32; the CPU's own is below 1e-4
TIMES = 2.0  # how much further from float32 the device's bfloat16 may be than the CPU's
SLACK = 1e-3  # and this much of a standard deviation of the logits more
MODIFIERS = (
    "confidence-k2+b8",
    "confidence-k2+prefix+b8",
    "confidence-k2+dual+b8",
    "confidence-k2+t1.0",
    "confidence-k2+rcr",
    "confidence-k2+remdm1",
    "confidence-k2+adas40",
    "confidence-k2+t1.0+counts",
    "confidence-k2+gap2",
    "threshold-0.9+eos_stop",
    "threshold-0.9+no_early_eos",
    "threshold-0.9+eos_last",
    "confidence+linear8",
    "confidence+cosine8",
)
# Embedded models with their own loop, or without weights: the samplers that each is checked with.
OTHERS = {
    "ideal": ("confidence-k2", "threshold-0.9", "wino", "lopa"),
    "ideal-mi": ("confidence-k2", "dapd_direct"),
    "tiny-block": ("confidence-k2", "threshold-0.9", "s2d2"),
    "tiny-ar": ("ar", "ar+t1.0"),
    "tiny-sedd": ("analytic-s8", "euler-s8"),
    "tiny-sedd-uniform": ("analytic-s8",),
}
KEPT = slice(6, None, 8)  # the vocabulary columns of golden logits
IDS = {"mask_id": 510, "eos_id": 509}


class Golden(NamedTuple):
    """A golden checkpoint: its options, the sampler that it is decoded with, its logits (the key in
    logits.safetensors, and the block length of a block-causal mask), and the length of its answers.
    """

    options: dict[str, Any]
    sampler: str
    key: str | None = None
    block: int | None = None
    length: int = LENGTH


GOLDEN = {
    "llada-tiny": Golden({}, "confidence-k2+b8", "logits"),
    "dream-tiny": Golden({}, "entropy-k2", "logits_unshifted"),
    "llada-moe-tiny": Golden(IDS, "confidence-k2+b8", "logits"),
    "sdar-tiny": Golden(IDS, "sdar_dynamic-0.9", "logits", 4),
    "llada2-tiny": Golden(IDS, "llada2-0.95", "logits", 32),
    "fast-dllm-v2-tiny": Golden(IDS, "fast_dllm_v2-1.0", "logits_unshifted", 32, 64),
    "stable-diffcoder-tiny": Golden({}, "stable_diffcoder-0", "logits", 4),
    "sedd-tiny": Golden({"eos_id": 255}, "analytic-s4"),
    "sedd-uniform-tiny": Golden({"eos_id": 127}, "analytic-s4"),
}


@dataclass(slots=True)
class DeviceEquality:
    """Answers of the device beside the CPU's: how many are equal, how many differ where the CPU's
    own float64 differs from its float32 too (near-ties, which rounding decides), and the names of
    samplers whose answers differ otherwise.
    """

    answers: int = 0
    equal: int = 0
    near_ties: int = 0
    samplers: int = 0
    differing: list[str] = field(default_factory=list)

    def check(self, name: str, more: str = "") -> Check:
        """As a line of the report."""
        text = f"{self.equal} of {self.answers} answers equal, {counted(self.samplers, 'sampler')}"
        if self.near_ties:
            text += f"; {self.near_ties} near-ties, where the CPU's float64 differs, too"
        if self.differing:
            text += f"; different: {some(self.differing, 5)}"
        figures = {"answers": self.answers, "equal": self.equal, "near_ties": self.near_ties}
        return Check(name, not self.differing, text + more, figures)


class ModelOnBoth:
    """A model on the device and on the CPU, in float32; the CPU's in float64 when it is needed."""

    def __init__(self, name: str, setup: Setup, **options: Any) -> None:
        self._name = name
        self._options = options
        self._exact: Any = None
        self.here: Any = load_model(name, str(setup.device), "float32", **options)
        self.cpu: Any = load_model(name, "cpu", "float32", **options)

    def compare(
        self, sampler: str, prompts: Sequence[Any], length: int | None, compared: DeviceEquality
    ) -> None:
        """Decodes prompts on both devices. An answer that differs from the CPU's counts as a near
        tie where float64 gives another answer, too.

        Args:
            sampler: its name.
            prompts: as for `decode`.
            length: tokens of an answer; None: a Sample's own.
            compared: gets what came of it.
        """
        compared.samplers += 1
        ours = _answers(self.here, prompts, sampler, length)
        theirs = _answers(self.cpu, prompts, sampler, length)
        exact: list[Any] | None = None
        differs = False
        for row, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            compared.answers += 1
            if mine == other:
                compared.equal += 1
                continue
            exact = exact or _answers(self._in_float64(), prompts, sampler, length)
            if exact[row] != other:
                compared.near_ties += 1
            else:
                differs = True
        if differs:
            compared.differing.append(sampler)

    def _in_float64(self) -> Any:
        if self._exact is None:
            self._exact = load_model(self._name, "cpu", "float64", **self._options)
        return self._exact


def _answers(model: Any, prompts: Sequence[Any], sampler: str, length: int | None) -> list[Any]:
    """Tokens and forwards of each answer."""
    answers = decode(model, prompts, sampler, max_new_tokens=length)
    return [(answer.token_ids, answer.nfe) for answer in answers]


def check_embedded(setup: Setup) -> Iterator[Check]:
    """Every policy and modifier on `tiny`, and the other embedded models, in float32."""
    samples = load_task("waiting_line/shuffle", limit=SAMPLES).samples
    pair = ModelOnBoth("tiny", setup)
    for group, samplers in samplers_of_groups().items():
        compared = DeviceEquality()
        left_out = []
        for sampler in samplers:
            if not _runs(pair.cpu, sampler):
                left_out.append(sampler)
                continue
            pair.compare(sampler, samples, None, compared)
        more = f"; not for this model: {', '.join(left_out)}" if left_out else ""
        yield compared.check(f"tiny, {group}", more)
    del pair
    release(setup.device)
    for name, some_samplers in OTHERS.items():
        if name not in model_names():
            continue
        pair = ModelOnBoth(name, setup)
        compared = DeviceEquality()
        prompts: Sequence[Any] = samples
        length = None
        if name.startswith("tiny-sedd"):  # trained on other tasks
            prompts = [[2 + row] * 8 for row in range(SAMPLES)]
            length = LENGTH
        for sampler in some_samplers:
            pair.compare(sampler, prompts, length, compared)
        yield compared.check(name)


def samplers_of_groups() -> dict[str, list[str]]:
    """A sampler of each policy of this package by what it reads, and those with modifiers."""
    groups: dict[str, list[str]] = {}
    known = policies()
    for one in described():
        if one.name in known:
            name = f"{one.name}-k2" if is_static(known[one.name]) else one.name
            groups.setdefault(one.group, []).append(name)
    return {**groups, "modifiers": [*MODIFIERS]}


def _runs(model: Any, sampler: str) -> bool:
    """Whether the model has what a sampler needs: frequencies, blocks, attention."""
    own = resolve(sampler)
    try:
        check_needs(complete(model), own.declared, own.name)
    except ValueError:
        return False
    return True


def check_golden(setup: Setup) -> Iterator[Check]:
    """The golden checkpoints: logits and decodings of their authors' programs, and the CPU's
    answers.
    """
    folder = golden_folder()
    if folder is None:
        text = "no golden checkpoints here: set PBCORE_REFERENCE to tests/reference of a clone"
        yield Check("golden checkpoints", None, text)
        return
    for name, golden in GOLDEN.items():
        if not (folder / name / "config.json").is_file():
            yield Check(name, None, "not here")
            continue
        pair = ModelOnBoth(str(folder / name), setup, **golden.options)
        if golden.key is not None and (folder / name / "logits.safetensors").is_file():
            yield _golden_logits(name, pair.here, folder / name, golden)
        compared = DeviceEquality()
        prompts = _prompts(pair.cpu, name)
        pair.compare(golden.sampler, prompts, golden.length, compared)
        yield compared.check(f"{name}, beside the CPU")
        if name == "llada-tiny":
            yield _golden_decodings(name, pair.here, folder)


def _prompts(model: Any, name: str) -> list[list[int]]:
    """Prompts of unequal lengths."""
    if name.startswith("sedd"):
        return [[2 + row] * (8 - row) for row in range(SAMPLES)]
    return [ids[row:] for row, ids in enumerate(random_prompts(model, SAMPLES, 20))]


@torch.inference_mode()
def _golden_logits(name: str, model: Any, folder: Path, golden: Golden) -> Check:
    """A forward of the golden tokens beside the authors' logits."""
    data = load_file(folder / "logits.safetensors")
    ids = data["input_ids"]
    rows, length = ids.shape
    device = model.device
    positions = torch.arange(length).expand(rows, length)
    sees = None
    if golden.block is not None:
        grid = torch.arange(length) // golden.block
        sees = (grid <= grid[:, None]).expand(rows, length, length).to(device)
    network = model.network
    hidden = network.hidden(Columns(ids.to(device), positions.to(device), sees))
    logits = network.project(hidden).cpu()
    expected = data[golden.key or ""]
    if logits.shape != expected.shape:
        logits = logits[..., KEPT]
    largest = float((logits - expected).abs().max())
    text = f"largest difference from the authors' logits {largest:.1e}, allowed {LOGITS:.0e}"
    return Check(f"{name}, logits", largest <= LOGITS, text, {"largest": largest})


def _golden_decodings(name: str, model: Any, folder: Path) -> Check:
    """The authors' decodings of 32 tokens, without and with caches."""
    groups = defaultdict(list)
    for case in _cases(folder, "decode_llada"):
        if case["gen_length"] != 32:
            continue
        if case["policy"] == "confidence_topk":
            rule = f"confidence-k{case['k']}"
        else:
            rule = f"threshold-{case['threshold']}"
        cache = "" if case["cache"] == "none" else f"+{case['cache']}"
        groups[f"{rule}+b{case['block_length']}{cache}"].append(case)
    same = 0
    total = 0
    differing = []
    for sampler, cases in groups.items():
        prompts = [case["prompt"] for case in cases]
        answers = decode(model, prompts, sampler, max_new_tokens=32)
        equal = [
            list(answer.token_ids) == case["output"]
            for answer, case in zip(answers, cases, strict=True)
        ]
        same += equal.count(True)
        total += len(equal)
        if not all(equal):
            differing.append(sampler)
    text = f"{same} of {total} decodings of the authors' program equal"
    if differing:
        text += f"; different: {some(differing, 5)}"
    return Check(f"{name}, decodings", not differing, text, {"equal": same, "decodings": total})


def _cases(folder: Path, name: str) -> list[dict[str, Any]]:
    """Golden decodings, compressed or not."""
    packed = folder / f"{name}.json.gz"
    if packed.is_file():
        content = gzip.decompress(packed.read_bytes())
    else:
        content = (folder / f"{name}.json").read_bytes()
    cases: list[dict[str, Any]] = json.loads(content)
    return cases


def check_bfloat16(setup: Setup) -> Iterator[Check]:
    """Logits of the first step in bfloat16, of the device and the CPU, beside the CPU's float32."""
    samples = load_task("waiting_line/shuffle", limit=SAMPLES).samples
    exact = first_logits(load_model("tiny", "cpu", "float32"), samples)
    spread = float(exact.std())
    cpu = _distance(first_logits(load_model("tiny", "cpu", "bfloat16"), samples), exact) / spread
    low = first_logits(load_model("tiny", str(setup.device), "bfloat16"), samples)
    here = _distance(low, exact) / spread
    bound = TIMES * cpu + SLACK
    same = float((low.argmax(-1) == exact.argmax(-1)).double().mean())
    text = (
        f"logits are {here:.4f} standard deviations from float32 (root mean square), the CPU's"
        f" {cpu:.4f}, allowed {bound:.4f}; the likeliest token is the same at {same:.1%} of"
        " positions"
    )
    yield Check("tiny", here <= bound, text, {"here": here, "cpu": cpu, "same_token": same})


@torch.inference_mode()
def first_logits(model: Any, prompts: Iterable[Any]) -> Tensor:
    """Logits (M, V) of all masks of the rows' first step, on the CPU, in float64; without the mask
    token.
    """
    requests = [model.encode(prompt, None, key) for key, prompt in enumerate(prompts)]
    length = max(len(request.canvas) for request in requests)
    filled = []
    for request in requests:
        padding = [model.eos_id] * (length - len(request.canvas))
        filled.append([*request.canvas, *padding])
    canvas = torch.tensor(filled, device=model.device)  # (R, L)
    none = torch.zeros(len(requests), dtype=torch.long, device=model.device)
    query = Query(canvas, canvas == model.mask_id, none)
    logits = model.prepare(requests, cache=None, seed=0).logits(query).to(CPU).double()
    kept = [token for token in range(model.vocab_size) if token != model.mask_id]
    result: Tensor = logits[:, kept]
    return result


def _distance(logits: Tensor, exact: Tensor) -> float:
    """The root mean square of the differences."""
    return float((logits - exact).pow(2).mean().sqrt())
