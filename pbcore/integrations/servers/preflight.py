"""Before the first request: is the server up, the key there, the model known."""

from __future__ import annotations

from pbcore.integrations.servers.failures import imported, key_of
from pbcore.integrations.servers.kinds import KINDS
from pbcore.integrations.servers.model import client_of
from pbcore.integrations.servers.spec import ServerSpec


def check_server(spec: ServerSpec) -> None:
    """Raises ModelError that names what is missing: the package, the variable, the address or the model."""
    imported(KINDS[spec.kind].sdk, spec)
    key_of(spec)
    client_of(spec).check()
