"""`--ray`: cells on the nodes of a Ray cluster (docs/clusters.md). pytest stays the runner: a
worker on a node is an actor with a pytest session of its own, and the controller's loop hands it
cells and takes back reports and records.
"""

ENTRY_POINTS = {
    "pbcore.plugins": {"ray": "pbcore.extras.ray.plugin"},
    "pbcore.options": {"ray": "pbcore.extras.ray.options:RayOptions"},
}
