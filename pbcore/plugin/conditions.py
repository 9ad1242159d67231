"""The conditions of a cell, as its record keeps them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from pbcore.grid.cellid import CellName
from pbcore.grid.levels import at, factors_of
from pbcore.grid.settings import Settings
from pbcore.plugin.state import HANDS_OUT, drilled, plan, settings

if TYPE_CHECKING:
    from pbcore.models.base import Model
    from pbcore.results.record import Conditions
    from pbcore.tasks.base import Task


def rows_of(config: pytest.Config, requested: Settings, name: CellName) -> int | None:
    """The rows that --batch-size has a cell decode together; None without it, and for models that
    form batches of their own.

    Args:
        config: pytest's.
        requested: the cell's settings.
        name: the cell.
    """
    from pbcore.grid.needs import Use, acts

    if not requested.rows or not acts("batch_size", Use.of(requested, name, drilled(config))):
        return None
    return requested.rows


def conditions(
    config: pytest.Config, name: CellName, model: Model | None, task: Task | None
) -> Conditions:
    """What the run knows of a cell's conditions.

    Args:
        config: has the settings and the plan.
        name: the cell.
        model: None if the cell failed before it was loaded.
        task: None if the cell failed before it was loaded.
    """
    from pbcore.base.check import plain
    from pbcore.results.environment import versions
    from pbcore.results.record import Conditions

    requested = at(settings(config), name.level)
    known: dict[str, Any] = {
        "options": {
            "limit": plan(config).limit(name.model, name.task),
            **plan(config).recorded(name),
        },
        "versions": versions(),
        "seeds": list(requested.seed),
        "level": factors_of(name.level) or None,
        "at_once": name.sampler.name.at_once or None,
    }
    worker = getattr(config, "workerinput", {})
    if worker or not (
        config.pluginmanager.hasplugin("dsession") or config.stash.get(HANDS_OUT, False)
    ):
        known["worker"] = worker.get("workerid", "")
        known["shared_device"] = worker.get("pbcore_shared", False)
    if task is not None:
        known |= {"data_source": task.source, "data_hash": task.data_hash}
    if model is not None and getattr(model, "served", False):
        # Its device, dtype and batches are the server's.
        known |= {"dummy": False, "shared_device": False}
    elif model is not None:
        import torch

        from pbcore.decoding.batch_size import fixed_batch

        info = model.info
        rows = rows_of(config, requested, name)
        known |= {
            "device": str(info.get("computes_on") or getattr(model, "device", requested.place)),
            "dtype": str(info.get("dtype", requested.dtype or "")),
            "batch_size": known["at_once"] or rows or fixed_batch(model),
            "threads": torch.get_num_threads(),
            "wait_policy": os.environ.get("OMP_WAIT_POLICY", "default").lower(),
            "dummy": bool(info.get("dummy", False)),
        }
    if model is not None:
        known["model_info"] = plain(dict(model.info), f"info of model {model.name}")
    return Conditions.unknown(**plain(known, "conditions"))
