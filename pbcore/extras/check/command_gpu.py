"""`pbcore check gpu`: the steps, what is kept of them, and the block to paste."""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from pbcore.base.errors import InputError
from pbcore.extras.check.gpu.device import check_device, library_versions
from pbcore.extras.check.gpu.equality import check_bfloat16, check_embedded, check_golden
from pbcore.extras.check.gpu.made import check_made
from pbcore.extras.check.gpu.memory import check_memory
from pbcore.extras.check.gpu.models import on_hand, release
from pbcore.extras.check.gpu.prices import check_prices
from pbcore.extras.check.gpu.report import checks_summary, markdown_report, sign, to_json
from pbcore.extras.check.gpu.speed import check_speed
from pbcore.extras.check.gpu.steps import (
    CheckStep,
    Setup,
    StepResult,
    carry_out,
    finished_result,
    outcome,
    read_results,
    usable,
    write_result,
)
from pbcore.extras.check.gpu.waits import check_waits
from pbcore.models.device import find_device, find_dtype
from pbcore.results.resume import code_version
from pbcore.results.rundir import write_atomic

STEPS = (
    CheckStep("device", "Device", check_device),
    CheckStep(
        "embedded", "Answers of the embedded models beside the CPU's, float32", check_embedded
    ),
    CheckStep("golden", "Golden checkpoints, float32", check_golden),
    CheckStep("made", "A made checkpoint in three dtypes", check_made),
    CheckStep("bfloat16", "Logits in bfloat16 beside float32", check_bfloat16),
    CheckStep("speed", "Forwards and decoding a second", check_speed),
    CheckStep("waits", "Waits for the device", check_waits),
    CheckStep("memory", "Memory by batch", check_memory),
    CheckStep("prices", "Prices of calls", check_prices),
)
NAMES = tuple(step.name for step in STEPS)
MODELS = {"cuda": "llada-8b:dummy-l2", "cpu": "tiny"}  # timed if none is named
CODE = (
    "pbcore.costs",
    "pbcore.decoding",
    "pbcore.extras.check.engine",
    "pbcore.extras.check.gpu",
    "pbcore.grid",
    "pbcore.models",
)
EPILOG = """\
Run it again to go on after an interruption: steps that are done and hold are kept in --out.
Status 0: all holds; 1: something doesn't; 3: time was up, run it again."""
PARSER = {"epilog": EPILOG, "formatter_class": argparse.RawDescriptionHelpFormatter}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument(
        "model",
        nargs="?",
        help="the masked model that is timed (default: llada-8b:dummy-l2, tiny on the CPU)",
    )
    parser.add_argument(
        "--device", default="cuda", help="cuda (default), cuda:1, or cpu for a rehearsal"
    )
    parser.add_argument("--dtype", help="of the timed model (default: bfloat16, float32 on a CPU)")
    parser.add_argument(
        "--minutes", type=float, default=10.0, help="start no further check after so many (10)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("gpu-check"), metavar="DIR", help="results (gpu-check/)"
    )
    parser.add_argument(
        "--steps", metavar="NAMES", help=f"only these, e.g. device,waits; all: {','.join(NAMES)}"
    )
    parser.add_argument("--again", action="store_true", help="run also the steps that are done")


def run(args: argparse.Namespace) -> int:
    """Runs the steps, prints the block and writes it. Raises InputError or ModelError for a device,
    dtype, model or step that can't be used.
    """
    if not args.minutes > 0:
        raise InputError(f"--minutes {args.minutes:g}: give a number above 0")
    device = find_device(args.device)
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    dtype = str(find_dtype(args.dtype, device)).removeprefix("torch.")
    steps = _chosen(args.steps)
    model = on_hand(args.model or MODELS[device.type])
    setup = Setup(device, model, dtype, perf_counter() + 60 * args.minutes)
    settings = settings_of(setup)
    args.out.mkdir(parents=True, exist_ok=True)
    if device.type == "cpu":
        print("A rehearsal on the CPU: it runs the same steps, and says nothing of a GPU.\n")
    results = []
    for number, step in enumerate(steps):
        result = None if args.again else finished_result(args.out, step, settings)
        done = "done before" if result is not None else ""
        if result is None:
            print(f"{step.title} …", flush=True)
            result = carry_out(step, setup, settings)
            write_result(result, args.out)
            release(device)
        _tell(result, done)
        results.append(result)
        if result.failed and not usable(device):
            results += _in_a_fresh_process(args, steps[number + 1 :], setup, settings)
            break
    text = markdown_report(settings, results)
    write_atomic(args.out / "gpu-check.md", text + "\n")
    write_atomic(args.out / "gpu-check.json", to_json(settings, results) + "\n")
    print(f"\n{text}\n\n{checks_summary(results)}. The block above is {args.out / 'gpu-check.md'}.")
    return {"passed": 0, "failed": 1, "incomplete": 3}[outcome(results)]


def settings_of(setup: Setup) -> dict[str, Any]:
    """What results depend on: device, model, dtype, versions and pbcore's code."""
    on_gpu = setup.device.type == "cuda"
    return {
        "device": str(setup.device),
        "name": torch.cuda.get_device_name(setup.device) if on_gpu else "CPU",
        "model": setup.model,
        "dtype": setup.dtype,
        "versions": library_versions(),
        "code": code_version(CODE),
    }


def _chosen(names: str | None) -> Sequence[CheckStep]:
    """The steps of these names, in their order. Raises InputError for an unknown one."""
    if names is None:
        return STEPS
    wanted = [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in NAMES:
            raise InputError(f"--steps: there is no step {name!r}; choose from {', '.join(NAMES)}")
    return [step for step in STEPS if step.name in wanted]


def _tell(result: StepResult, done: str) -> None:
    """Prints a step's checks."""
    title = f"{result.title} ({done})" if done else result.title
    print(f"{title}: {result.seconds:.0f} s")
    for check in result.checks:
        print(f"  {sign(check)} {check.name}: {check.text}")
    if not result.complete:
        print("  · time is up; run the command again to go on")


def _in_a_fresh_process(
    args: argparse.Namespace, steps: Sequence[CheckStep], setup: Setup, settings: dict[str, Any]
) -> list[StepResult]:
    """The other steps' results from a process of their own, once the device refuses this one: after
    an assert on a GPU its process can't compute there any more.
    """
    if not steps:
        return []
    print("The device no longer computes for this process; the other steps run in a new one.")
    names = ",".join(step.name for step in steps)
    minutes = max(0.1, setup.seconds_left / 60)
    command = [sys.executable, "-m", "pbcore", "check", "gpu", setup.model, "--steps", names]
    command += ["--device", str(setup.device), "--dtype", setup.dtype, "--out", str(args.out)]
    command += ["--minutes", f"{minutes:g}"] + ["--again"] * args.again
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    return [
        read_results(args.out, step, settings) or StepResult(step.name, step.title, settings)
        for step in steps
    ]
