"""Declared models as entries of the registry: what each can run, and whether its key is there."""

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pbcore.integrations.servers.spec import ServerSpec, add_models_file, refusal, server_specs
from pbcore.models.entry import ModelEntry


class ServerModels:
    """The models behind servers, for `pbcore.models.registry`."""

    def entries(self) -> Mapping[str, ModelEntry]:
        """Name → entry of each declared model."""
        return {name: _entry(spec) for name, spec in server_specs().items()}

    def add_file(self, path: str | Path, taken: Mapping[str, Any]) -> list[str]:
        """`spec.add_models_file`."""
        return add_models_file(path, taken)


MODELS = ServerModels()


def _entry(spec: ServerSpec) -> ModelEntry:
    return ModelEntry(
        spec.name,
        family="server",
        about=f"{spec.model} at {spec.base_url}",
        loader="pbcore.integrations.servers.model:load_server",
        served=True,
        samplers=(spec.sampler,),
        refuses=partial(refusal, spec),
        status=partial(_status, spec),
    )


def _status(spec: ServerSpec) -> str:
    if spec.key is None:
        return "server, no key needed"
    return f"server, {spec.key} {'set' if os.environ.get(spec.key) else 'not set'}"
