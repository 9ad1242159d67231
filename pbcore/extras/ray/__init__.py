"""`--ray`: cells on the nodes of a Ray cluster (docs/clusters.md). pytest stays the runner: a
worker on a node is an actor with a pytest session of its own, and the controller's loop hands it
cells and takes back reports and records.
"""

from pbcore.base.extensions import Integration

INTEGRATION = Integration(
    plugins=("pbcore.extras.ray.plugin",),
    options="pbcore.extras.ray.options:RayOptions",
)
