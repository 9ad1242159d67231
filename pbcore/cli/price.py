"""`pbcore price`: measures what calls of a model and samplers' own work cost on this machine; lists
the devices whose prices can be computed.
"""

import argparse
from pathlib import Path
from time import perf_counter

import torch

from pbcore.base.errors import InputError
from pbcore.base.tabular import Table, terminal
from pbcore.costs.devices import backends, devices
from pbcore.costs.lists import here_file, of_measurement
from pbcore.costs.load import CpuClock, cpu_seconds, free_cores
from pbcore.costs.measured import Measurement, begun
from pbcore.costs.price_list import PriceList
from pbcore.costs.table import price_summary
from pbcore.decoding import resolve
from pbcore.grid.timed_prices import ROUNDS, fresh_measurement, measure_prices, timed_samplers
from pbcore.models import load_model, resolve_model
from pbcore.models.catalog import availability
from pbcore.models.device import find_device, find_dtype
from pbcore.models.masked import MaskedModel
from pbcore.models.registry import model_label
from pbcore.results.rundir import write_atomic
from pbcore.results.seconds import price_list

EPILOG = """\
A run that was interrupted goes on where it stopped. Use the file with --price here, or copy it and
use --price FILE. --on DEVICE computes prices instead of measuring any."""
PARSER = {"epilog": EPILOG, "formatter_class": argparse.RawDescriptionHelpFormatter}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument("model", nargs="?", help="the model; without one the devices are listed")
    parser.add_argument("--gpu", action="store_true", help="on the GPU (the same as --device cuda)")
    parser.add_argument("--device", help="cpu (default), cuda or cuda:1")
    parser.add_argument("--dtype", help="of the model (default: bfloat16 on a GPU, float32)")
    parser.add_argument(
        "--on", metavar="DEVICE", help="compute the prices on this device, e.g. h200 or h200:graphs"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="also write the prices here")
    parser.add_argument(
        "--samplers", metavar="NAMES", help="time the own work of these alone, e.g. eb-0.1,spec-8"
    )
    parser.add_argument(
        "--rounds", type=int, default=ROUNDS, help=f"times that each forward is timed ({ROUNDS})"
    )
    parser.add_argument("--again", action="store_true", help="measure also what was measured")
    parser.add_argument(
        "--keep-anyway",
        action="store_true",
        help="keep prices that were measured on a busy machine, or scatter",
    )


def run(args: argparse.Namespace) -> int:
    """Measures, or prints computed prices or the devices. Raises InputError or ModelError for a
    model, device, dtype, sampler or file that can't be used, InputError for prices that can't be
    believed.
    """
    if args.model is None:
        print(device_table())
        print(f"\nBackends: {', '.join(backends())}; e.g. --price h200 or --price h200:graphs")
        return 0
    args.model = model_label(args.model)
    if args.on is not None:
        print(price_summary(price_list(args.on, args.model)))
        return 0
    if args.rounds < 1:
        raise InputError(f"--rounds {args.rounds}: give a number of at least 1")
    device = find_device(args.device or ("cuda" if args.gpu else "cpu"))
    dtype = str(find_dtype(args.dtype, device)).removeprefix("torch.")
    samplers = args.samplers.split(",") if args.samplers else None
    path = here_file(args.model, dtype)
    prices = measured_prices(
        args.model,
        device,
        dtype,
        path,
        samplers=samplers,
        rounds=args.rounds,
        again=args.again,
        anyway=args.keep_anyway,
        usage=cpu_seconds,
    )
    print(price_summary(prices))
    if prices.unsteady:
        print(f"\nThese prices may be far off: {prices.unsteady}")
    print(f"\nWritten to {path}; use it with --price here")
    if args.out is not None:
        write_atomic(args.out, path.read_text(encoding="utf-8"))
        print(f"and to {args.out}; use it with --price {args.out}")
    return 0


def measured_prices(
    name: str,
    device: torch.device,
    dtype: str,
    path: Path,
    *,
    samplers: list[str] | None = None,
    rounds: int = ROUNDS,
    again: bool = False,
    anyway: bool = False,
    usage: CpuClock,
) -> PriceList:
    """The prices of a model on a device of this machine; what `path` has of them isn't measured
    again. If the new ones can't be believed, `path` stays as it was.

    Args:
        name: the model.
        device: where it runs.
        dtype: what it computes in.
        path: the file, written as the measurement goes on.
        samplers: whose own work is timed; None: of all that the model runs.
        rounds: times that each forward is timed.
        again: measures everything anew.
        anyway: keeps also prices that can't be believed.
        usage: the machine's CPU seconds.

    Raises:
        InputError: for a model that isn't a masked one or isn't on this machine, a damaged file,
            and prices measured on a busy machine.
    """
    entry = resolve_model(name)
    if availability(entry) == "download" and not entry.dummy:
        raise InputError(
            f"{name} isn't on this machine, and pbcore price downloads nothing; run `hf download"
            f" {entry.source}` first"
        )
    model = load_model(name, str(device), dtype)
    if not isinstance(model, MaskedModel):
        raise InputError(
            f"{name}: only masked diffusion models are measured; see pbcore list models; choose"
            " one such as tiny"
        )
    timed_samplers(model, samplers)
    fresh = fresh_measurement(name, dtype, device)
    measurement = begun(fresh, None if again else path, resolve)

    before = path.read_text(encoding="utf-8") if path.is_file() else None
    measured = measurement.fit is None

    def keep(state: Measurement) -> None:
        nonlocal measured
        measured = True
        write_atomic(path, state.text())

    measure_prices(
        model,
        measurement,
        keep,
        samplers=samplers,
        rounds=rounds,
        clock=perf_counter,
        tell=lambda line: print(f"{line} …", flush=True),
        usage=usage,
        free=free_cores(torch.get_num_threads() if device.type == "cpu" else 1),
        repeats=0 if anyway else None,
    )
    prices = of_measurement("here", measurement)
    if prices.unsteady and measured and not anyway:
        measurement.fit = None  # what was timed stays, as of a run that was interrupted
        write_atomic(path, before or measurement.text())
        raise InputError(
            f"the prices of {name} aren't kept: {prices.unsteady}; measure them when nothing else"
            " computes here, or add --keep-anyway"
        )
    return prices


def device_table() -> str:
    """The devices whose prices can be computed, as a table."""
    rows = [
        (
            device.name,
            device.title,
            float(device.tflops),
            float(device.bandwidth),
            round(device.ridge),
            device.source,
        )
        for device in devices().values()
    ]
    heads = ["name", "device", "TFLOP/s, bfloat16", "TB/s", "ridge in tokens", "source"]
    return terminal(Table(heads, rows))
