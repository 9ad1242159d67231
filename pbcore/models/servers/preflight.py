"""Before the first request: is the server up, the key there, the model known."""

from __future__ import annotations

from pbcore.models.servers.failures import imported
from pbcore.models.servers.keys import key_of
from pbcore.models.servers.kinds import KINDS
from pbcore.models.servers.model import client_of
from pbcore.models.servers.spec import ServerSpec


def check_server(spec: ServerSpec) -> None:
    """Raises ModelError that names what is missing: the package, the variable, the address or the model."""
    imported(KINDS[spec.kind].sdk, spec)
    key_of(spec)
    client_of(spec).check()
