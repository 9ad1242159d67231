"""The price list of the device: what `pbcore price` measures, with few samplers' own work, beside
what the table of devices computes.
"""

from collections.abc import Iterator
from pathlib import Path

import torch

from pbcore.costs.devices import device_named
from pbcore.costs.lists import here_file, of_measurement
from pbcore.costs.load import free_cores
from pbcore.costs.measured import Measurement
from pbcore.costs.table import EXAMPLES
from pbcore.extras.check.gpu.models import timed_model
from pbcore.extras.check.gpu.steps import Check, Setup
from pbcore.grid.timed_prices import fresh_measurement, measure_prices, timed_samplers
from pbcore.models.network import NativeNetwork
from pbcore.results.rundir import write_atomic
from pbcore.results.seconds import price_list

SAMPLERS = ("confidence-k2", "threshold-0.9", "eb-0.1", "spec-8")
ROUNDS = 3


def check_prices(setup: Setup) -> Iterator[Check]:
    """Figures: nothing is judged. The list is kept for `--price here`."""
    model = timed_model(setup)
    if model is None or not isinstance(model.network, NativeNetwork):
        yield Check(setup.model, None, "not a masked model of known build: not timed")
        return
    on_gpu = setup.device.type == "cuda"
    measurement = fresh_measurement(setup.model, setup.dtype, setup.device)
    samplers = [name for name in SAMPLERS if set(timed_samplers(model, None)) & {name}]
    path = here_file(setup.model, setup.dtype)
    measure_prices(
        model,
        measurement,
        lambda state: _keep(path, state),
        samplers=samplers or timed_samplers(model, None)[:1],
        rounds=ROUNDS if on_gpu else 1,
        free=free_cores(1 if on_gpu else torch.get_num_threads()),
    )
    measured = of_measurement("here", measurement)
    known = device_named(measurement.machine["device"]) if on_gpu else None
    computed = price_list(known, setup.model) if known and measurement.shape else None
    for text, call in EXAMPLES:
        ms = 1000 * measured.call_seconds(call)
        figures = {"measured_ms": ms}
        beside = ""
        if computed is not None:
            figures["computed_ms"] = 1000 * computed.call_seconds(call)
            beside = f", computed for {known} in eager mode {figures['computed_ms']:.1f} ms"
        yield Check(text, None, f"measured {ms:.1f} ms{beside}", figures)
    kept = f"--price here has this list, of {setup.model} in {setup.dtype}: {measured.basis_text}"
    if measured.unsteady:
        kept += f"; it may be far off: {measured.unsteady}"
    yield Check("kept", None, kept)


def _keep(path: Path, state: Measurement) -> None:
    write_atomic(path, state.text())
