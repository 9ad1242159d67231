"""Price lists by what `--price` is given: `here`, a device such as `h200` or `h200:graphs`, or a
file of `pbcore price`.
"""

import platform
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pbcore.base.cache_folder import cache_folder
from pbcore.base.errors import InputError
from pbcore.base.printable import printable, shown
from pbcore.base.registry import hint
from pbcore.models.shape import known_shape, shape_of
from pbcore.prices.computed import ComputedCalls, ComputedOwnWork
from pbcore.prices.devices import Backend, backends, devices, kernels
from pbcore.prices.load import unsteady
from pbcore.prices.measured import MeasuredOwnWork, Measurement, read_measurement
from pbcore.prices.price_list import PriceList

HERE = "here"
COMPUTED_DTYPE = "bfloat16"


def price_list(text: str, model: str, dtype: str | None = None) -> PriceList:
    """A price list for a model.

    Args:
        text: `here` for what `pbcore price` measured on this machine; a device of the table, with
            `:graphs` for CUDA graphs; or a file that `pbcore price` wrote.
        model: the model's name.
        dtype: what the model computes in; a measured list must have it. None: any.

    Raises:
        InputError: for an unknown device, a model whose shape isn't known, and a file that is
            missing, damaged, or of another model or dtype.
    """
    if text == HERE:
        return _measured(text, here_file(model, dtype or "float32"), model, dtype)
    name, _, backend = text.partition(":")
    if name in devices():
        return computed(name, backend, model)
    _refuse_unknown(text)
    return _measured(Path(text).stem, Path(text), model, dtype)


def check_price(text: str) -> None:
    """Raises InputError for what can't be a price list of any model: an unknown device or backend,
    a file that is missing or damaged.
    """
    name, _, backend = text.partition(":")
    if name in devices():
        _backend(name, backend)
    elif text != HERE:
        _refuse_unknown(text)
        of_measurement(text, read_measurement(Path(text)))


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


def computed(device: str, backend: str, model: str) -> PriceList:
    """The computed prices of a model on a device.

    Args:
        device: its name (`h100`).
        backend: what runs the network there; empty: the first in the table of backends.
        model: its name.

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


def _measured(name: str, path: Path, model: str, dtype: str | None) -> PriceList:
    """The measured prices in a file. Raises InputError as `price_list`."""
    if not path.is_file() and name == HERE:
        raise InputError(
            f"--price here: no prices of {model} were measured on this machine (looked for {path});"
            f" run pbcore price {model}"
        )
    measurement = read_measurement(path)
    _check_fits(measurement, path, model, dtype)
    return of_measurement(name, measurement)


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


def _check_fits(measurement: Measurement, path: Path, model: str, dtype: str | None) -> None:
    """Raises InputError where a measurement isn't of this model and dtype."""
    if measurement.model != model:
        shape = known_shape(model)
        if shape is None or shape != measurement.shape:
            raise InputError(
                f"price list {path} is of {measurement.model}, not of {model} or a model of its"
                f" shape; run pbcore price {model}"
            )
    if dtype is not None and dtype != measurement.dtype:
        raise InputError(
            f"price list {path} is of {measurement.model} in {measurement.dtype}, not in {dtype};"
            f" run pbcore price {model} --dtype {dtype}"
        )
