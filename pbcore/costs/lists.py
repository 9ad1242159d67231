"""Price lists by what `--price` is given: `here`, a device such as `h200` or `h200:graphs`, or a
file of `pbcore price`.
"""

import platform
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pbcore.base.cache_folder import cache_folder
from pbcore.base.errors import InputError
from pbcore.base.printable import printable, shown
from pbcore.base.registry import hint
from pbcore.costs.computed import ComputedCalls, ComputedOwnWork
from pbcore.costs.devices import Backend, backends, devices, kernels
from pbcore.costs.load import unsteady
from pbcore.costs.measured import MeasuredOwnWork, Measurement, Resolve, read_measurement
from pbcore.costs.price_list import PriceList
from pbcore.costs.shape import ModelShape

HERE = "here"
COMPUTED_DTYPE = "bfloat16"
ShapeOf = Callable[[str], ModelShape]  # of a model by name; raises InputError where it isn't known


def price_list(
    text: str, model: str, dtype: str | None, shape_of: ShapeOf, resolve: Resolve
) -> PriceList:
    """A price list for a model.

    Args:
        text: `here` for what `pbcore price` measured on this machine; a device of the table, with
            `:graphs` for CUDA graphs; or a file that `pbcore price` wrote.
        model: the model's name.
        dtype: what the model computes in; a measured list must have it. None: any.
        shape_of: reads a model's shape.
        resolve: reads the name of a sampler whose own work was measured.

    Raises:
        InputError: for an unknown device, a model whose shape isn't known, and a file that is
            missing, damaged, or of another model or dtype.
    """
    if text == HERE:
        path = here_file(model, dtype or "float32")
        if not path.is_file():
            raise InputError(
                f"--price here: no prices of {model} were measured on this machine (looked for"
                f" {path}); run pbcore price {model}"
            )
    else:
        name, _, backend = text.partition(":")
        if name in devices():
            return computed(name, backend, model, shape_of)
        _refuse_unknown(text)
        path = Path(text)
    measurement = read_measurement(path, resolve)
    if measurement.model != model:
        _check_shape(measurement, path, model, shape_of)
    if dtype is not None and dtype != measurement.dtype:
        raise InputError(
            f"price list {path} is of {measurement.model} in {measurement.dtype}, not in {dtype};"
            f" run pbcore price {model} --dtype {dtype}"
        )
    return of_measurement(HERE if text == HERE else path.stem, measurement)


def _check_shape(measurement: Measurement, path: Path, model: str, shape_of: ShapeOf) -> None:
    """Raises InputError where a measurement isn't of this model's shape."""
    with suppress(InputError):
        if shape_of(model) == measurement.shape:
            return
    raise InputError(
        f"price list {path} is of {measurement.model}, not of {model} or a model of its shape; run"
        f" pbcore price {model}"
    )


def check_price(text: str, resolve: Resolve) -> None:
    """Raises InputError for what can't be a price list of any model: an unknown device or backend,
    a file that is missing or damaged.
    """
    name, _, backend = text.partition(":")
    if name in devices():
        _backend(name, backend)
    elif text != HERE:
        _refuse_unknown(text)
        of_measurement(text, read_measurement(Path(text), resolve))


def _refuse_unknown(text: str) -> None:
    """Raises InputError for what is neither a device nor a file."""
    with suppress(OSError):  # a name that no file can have
        if Path(text).suffix == ".json" or Path(text).is_file():
            return
    known = hint(text.partition(":")[0], list(devices()))
    raise InputError(
        f"--price {shown(text)}: neither here, a device nor a file of pbcore price; {known}"
    )


def _backend(device: str, backend: str) -> Backend:
    """A backend by name, the first for none. Raises InputError for an unknown one."""
    table = backends()
    if not backend:
        return next(iter(table.values()))
    if backend not in table:
        raise InputError(
            f"--price {device}:{printable(backend, 40)}: there is no such backend; choose from"
            f" {', '.join(table)}"
        )
    return table[backend]


def computed(device: str, backend: str, model: str, shape_of: ShapeOf) -> PriceList:
    """The computed prices of a model on a device.

    Args:
        device: its name (`h100`).
        backend: what runs the network there; empty: the first in the table of backends.
        model: its name.
        shape_of: reads its shape.

    Raises:
        InputError: for names that don't exist.
    """
    chosen = devices()[device]
    how = _backend(device, backend)
    shape = shape_of(model)
    name = f"{device}:{backend}" if backend else device
    return PriceList(
        name=name,
        basis="computed",
        model=model,
        dtype=COMPUTED_DTYPE,
        shape=shape,
        calls=ComputedCalls(shape, chosen, how, kernels()),
        own=ComputedOwnWork(how),
        about=f"{chosen.title}, {how.name}, {COMPUTED_DTYPE}: computed from the model's shape",
    )


def here_file(model: str, dtype: str) -> Path:
    """Where `pbcore price` keeps this machine's prices of a model in a dtype."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", model).strip("-.") or "model"
    return cache_folder() / "prices" / f"{plain}-{dtype}.json"


def of_measurement(name: str, measurement: Measurement) -> PriceList:
    """The prices of a complete measurement. Raises InputError for one that isn't."""
    if measurement.fit is None:
        raise InputError(
            f"price list {name} isn't complete; run pbcore price {measurement.model} again, which"
            " goes on where it stopped"
        )
    machine = measurement.machine.get("device") or platform.machine()
    prices = PriceList(
        name=name,
        basis="measured",
        model=measurement.model,
        dtype=measurement.dtype,
        shape=measurement.shape,
        calls=measurement.fit,
        own=MeasuredOwnWork(measurement.own),
        scatter=measurement.scatter,
        unsteady=unsteady(measurement),
    )
    return replace(prices, about=f"{machine}, {measurement.dtype}: {prices.basis_text}")
