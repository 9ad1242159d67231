"""Holds computed prices against published timings of GPUs: `python -m benches.gpu_prices`.

The timings are `prices/timings.csv` in `$PBCORE_REFERENCE` or `../shared` (`--timings FILE` for
another file of its columns). Those are used whose model, device, lengths, cache and backend are
stated. Groups of one source, model and device go by turns into the half that constants are fitted
to and the half that they are judged on. `--fit` fits them anew, and prints them for
pbcore/costs/data/devices.yaml.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import math
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from pbcore.base.tabular import Table, terminal
from pbcore.costs.calls import CallShape
from pbcore.costs.computed import ComputedCalls, ComputedOwnWork
from pbcore.costs.devices import Backend, backends, devices, kernels
from pbcore.costs.shape import ModelShape
from pbcore.models.shape import shape_of
from pbcore.names import parse

# What the table calls a model → the model of ours with its shape, the first that fits.
MODELS = {
    r"Fast-dLLM v2 7B": "fast-dllm-v2-7b",
    r"LLaDA2\.\d-flash": "llada2.0-flash",
    r"LLaDA2\.\d-mini": "llada2.0-mini",
    r"SDAR-8B": "sdar-8b",
    r"Qwen3-8B": "sdar-8b",  # the model that SDAR 8B was trained from
    r"Qwen-?2\.5-7B": "dream-7b",  # the model that Dream 7B was trained from
    r"LLaDA(?!2)": "llada-8b",
    r"Dream": "dream-7b",
}
DEVICES = {
    r"A100-80": "a100",
    r"H100": "h100",
    r"H200": "h200",
    r"H20\b": "h20",
    r"H800": "h800",
    r"B200": "b200",
    r"RTX A6000": "a6000",
    r"RTX 4090": "rtx4090",
    r"RTX 5090": "rtx5090",
    r"L40S": "l40s",
    r"MI300X": "mi300x",
}
CANVAS = 256  # where the table says that it is the default of the source's code
SAMPLER = "threshold-0.9"  # whose own work a published sampler's is taken for
NEAR, FAR = 0.25, 0.5
COLUMNS = (
    "id source model gpu n_gpu batch prompt_tokens canvas_or_max_new block_length cache sampler"
    " backend tokens_per_forward tokens_per_second derived_ms_per_forward"
)
NO_TIMINGS = (
    "no published timings: they are no part of the project. Give a CSV file, a row for each timing"
    f" of a paper, with the columns {COLUMNS}: --timings FILE, or prices/timings.csv in"
    " $PBCORE_REFERENCE or ../shared"
)
# Rows that are known not to fit, and why.
NOT_FITTING = {
    "109": "3.3 times the same model's other rows on this device, and its source's H100 row",
    "221": "below what the device's operations allow for its prompt",
}
PRIOR = {"operations": 0.55, "bandwidth": 0.6}  # measured shares of whole forwards and of decoding
PULL = 0.05  # how much a fit is drawn towards them: what the timings don't say stays there
GRID = {
    "operations": [share / 100 for share in range(30, 81, 5)],
    "bandwidth": [share / 100 for share in range(40, 81, 5)],
    "kernel": [micro * 1e-6 for micro in range(2, 25)],
}


@dataclass(frozen=True, slots=True)
class Published:
    """A published timing: its calls, how many of each in one of its mean calls, and the
    milliseconds of that.
    """

    number: str
    source: str
    model: str
    device: str
    backend: str
    batch: int
    calls: Mapping[CallShape, float]
    autoregressive: bool
    ms: float

    @property
    def group(self) -> tuple[str, str, str]:
        return self.source, self.model, self.device


def timings_file() -> Path | None:
    """The file of published timings; None where it is absent."""
    named = os.environ.get("PBCORE_REFERENCE")
    folders = [Path(named)] if named else []
    for folder in [*folders, Path("../shared")]:
        path = folder / "prices" / "timings.csv"
        if path.is_file():
            return path
    return None


def read(path: Path) -> tuple[list[Published], Counter[str]]:
    """The timings that can be judged, and why the others can't, counted."""
    judged = []
    left: Counter[str] = Counter()
    with path.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream):
            result = _published(row)
            if isinstance(result, str):
                left[result] += 1
            else:
                judged.append(result)
    return judged, left


def _published(row: Mapping[str, str]) -> Published | str:
    """A row of the table, or why it can't be judged."""
    if row["id"] in NOT_FITTING:
        return f"row {row['id']}: {NOT_FITTING[row['id']]}"
    model = _first(MODELS, row["model"])
    device = _first(DEVICES, row["gpu"])
    backend = _backend(row["backend"])
    batch = _number(row["batch"])
    prompt = _number(row["prompt_tokens"])
    ms = _milliseconds(row, batch)
    if model is None:
        return "a model whose shape isn't in the table of models"
    if device is None or row["n_gpu"].strip() != "1":
        return "device not stated, not in the table of devices, or several"
    if backend is None:
        return "backend neither eager nor CUDA graphs, or not stated"
    if not batch or not prompt:
        return "batch or prompt length not stated"
    if ms is None:
        return "seconds of a call not stated: tokens are counted up to the EOS"
    canvas = _number(row["canvas_or_max_new"]) or CANVAS
    autoregressive = "AR" in row["sampler"] or "(AR)" in row["model"]
    calls = _calls(row, int(prompt), int(canvas), backend, autoregressive)
    if calls is None:
        return "cache of another kind, or not stated"
    return Published(
        row["id"], row["source"], model, device, backend, int(batch), calls, autoregressive, ms
    )


def _first(table: Mapping[str, str], text: str) -> str | None:
    for pattern, name in table.items():
        if re.search(pattern, text):
            return name
    return None


def _number(text: str) -> float | None:
    match = re.match(r"\d+(\.\d+)?", text.strip())
    return float(match[0]) if match else None


def _backend(text: str) -> str | None:
    if "graph" in text.lower():
        return "graphs"
    return "eager" if text.strip() in ("HF", "HF eager") else None


def _milliseconds(row: Mapping[str, str], batch: float | None) -> float | None:
    """Of a call: as derived in the table (of `744 + 15 x 112` the steps' 112), else tokens a
    forward of all rows by tokens a second.
    """
    derived = row["derived_ms_per_forward"].strip()
    if derived:
        steps = re.search(r"x (\d+(?:\.\d+)?)$", derived)
        return float(steps[1]) if steps else _number(derived)
    forwarded = _number(row["tokens_per_forward"])
    speed = _number(row["tokens_per_second"])
    if forwarded is None or speed is None or batch is None:
        return None
    return 1000 * forwarded * batch / speed


def _calls(
    row: Mapping[str, str], prompt: int, canvas: int, backend: str, autoregressive: bool
) -> Mapping[CallShape, float] | None:
    """The calls of one mean call of an answer; None for a cache that isn't known.

    Authors' code in eager mode works out the logits of every column, an engine with graphs those
    of the block. A cache within the canvas is refreshed once a block, by a call of all columns.
    """
    block = int(_number(row["block_length"]) or 32)
    whole = prompt + canvas
    cache_name = row["cache"].lower()
    if autoregressive:
        return {CallShape(1, 1, prompt + canvas // 2, 1): 1.0}
    if cache_name.startswith("none"):
        return {CallShape(1, whole, 0, whole if backend == "eager" else block): 1.0}
    if cache_name.startswith("exact"):
        return {CallShape(1, block, prompt + canvas // 2, block): 1.0}
    if not cache_name.startswith(("prefix", "dual")):
        return None
    if "x" in row["derived_ms_per_forward"]:  # refreshes are told apart
        return {CallShape(1, canvas, prompt, canvas): 1.0}
    steps = max(1.0, block / (_number(row["tokens_per_forward"]) or 1.0))
    refresh = CallShape(1, whole, 0, whole)
    return {refresh: 1 / steps, CallShape(1, block, whole - block, block): 1 - 1 / steps}


@cache
def _shape(model: str) -> ModelShape:
    return shape_of(model)


def computed_ms(timing: Published, backend: Backend) -> float:
    """The computed milliseconds of a timing's mean call, with its sampler's own work."""
    prices = ComputedCalls(_shape(timing.model), devices()[timing.device], backend, kernels())
    seconds = sum(
        share * prices.seconds(call, timing.batch) for call, share in timing.calls.items()
    )
    if not timing.autoregressive:
        seconds += ComputedOwnWork(backend).of(parse(SAMPLER)).call
    return 1000 * seconds


def halves(timings: Sequence[Published]) -> tuple[list[Published], list[Published]]:
    """The half that constants are fitted to and the half that they are judged on, of each backend:
    groups in alphabetical order by turns.
    """
    parts: tuple[list[Published], list[Published]] = ([], [])
    for name in backends():
        of_backend = [timing for timing in timings if timing.backend == name]
        groups = sorted({timing.group for timing in of_backend})
        for timing in of_backend:
            parts[groups.index(timing.group) % 2].append(timing)
    return parts


def fit(timings: Sequence[Published], start: Backend) -> Backend:
    """The constants of the least mean |log ratio|, drawn a little towards measured shares."""

    def loss(backend: Backend) -> float:
        errors = [abs(math.log(computed_ms(one, backend) / one.ms)) for one in timings]
        pull = sum(abs(math.log(getattr(backend, name) / value)) for name, value in PRIOR.items())
        return sum(errors) / len(errors) + PULL * pull

    candidates = (
        replace(start, **dict(zip(GRID, values, strict=True)))
        for values in itertools.product(*GRID.values())
    )
    return min(candidates, key=loss)


def rows_of(
    timings: Sequence[Published], backend_of: Callable[[str], Backend]
) -> Iterator[tuple[Published, float]]:
    """Timings and their computed milliseconds."""
    for timing in timings:
        yield timing, computed_ms(timing, backend_of(timing.backend))


def within(ratios: Sequence[float], bound: float) -> int:
    """How many ratios differ from 1 by at most the bound."""
    return sum(abs(ratio - 1) <= bound for ratio in ratios)


def print_table(timings: Sequence[Published], chosen: Mapping[str, Backend]) -> None:
    """Prints each timing beside its computed price, then how many are near, by backend and half."""
    fitted, judged = halves(timings)
    lines = []
    counts = []
    for name in chosen:
        for half, part in (("fitted to", fitted), ("judged on", judged)):
            pairs = [
                (timing, ms)
                for timing, ms in rows_of(part, chosen.__getitem__)
                if timing.backend == name
            ]
            ratios = [ms / timing.ms for timing, ms in pairs]
            for timing, ms in pairs:
                call = max(timing.calls, key=lambda call: timing.calls[call])
                lines.append(
                    (
                        timing.number,
                        timing.source[:34],
                        timing.model,
                        timing.device,
                        name,
                        half,
                        f"{timing.batch} × {call.tokens} + {call.context}",
                        f"{timing.ms:.1f}",
                        f"{ms:.1f}",
                        f"{ms / timing.ms:.2f}",
                    )
                )
            near, far = within(ratios, NEAR), within(ratios, FAR)
            counts.append((name, half, len(ratios), near, far))
    heads = ["row", "source", "model", "device", "backend", "half", "tokens + cache"]
    print(terminal(Table([*heads, "ms", "computed", "ratio"], lines, "lllllllrrr")))
    print()
    print(terminal(Table(["backend", "half", "timings", "within 25 %", "within 50 %"], counts)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--timings", type=Path, metavar="FILE")
    parser.add_argument("--fit", action="store_true", help="fit the constants to the first half")
    options = parser.parse_args()
    path = options.timings or timings_file()
    if path is None:
        print(NO_TIMINGS)
        return 2
    timings, left = read(path)
    if not timings:
        print(f"{path}: no timing states model, device, lengths, cache and backend")
        return 1
    chosen = dict(backends())
    if options.fit:
        fitted, _ = halves(timings)
        for name in chosen:
            chosen[name] = fit([one for one in fitted if one.backend == name], chosen[name])
            print(chosen[name])
    print_table(timings, chosen)
    print(f"\n{len(timings)} of {len(timings) + sum(left.values())} timings judged; left out:")
    for reason, count in left.most_common():
        print(f"  {count:3}  {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
