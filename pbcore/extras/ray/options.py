"""The options of `--ray`."""

from dataclasses import dataclass
from typing import Any, ClassVar

from pbcore.base.links import docs
from pbcore.base.rules import Rule
from pbcore.grid.option import OptionGroup, Role, ValueKind, option, positive

# Where a cluster is; `auto` is the running one (else a local one).
address = ValueKind(
    r"(auto|local|[A-Za-z0-9.-]+:\d{1,5}|\[[0-9a-fA-F:]+\]:\d{1,5})",
    str,
    "is not the address of a Ray cluster; write HOST:PORT of its head, local, or nothing, with"
    " paths before --ray",
)


def _gpus(text: str) -> float | None:
    """A whole number, or a part of one GPU; None for anything else."""
    number = float(text)
    return None if number > 1 and number % 1 else number


number_of_gpus = ValueKind(
    r"([0-9]{1,3}(?:\.[0-9]{1,4})?)",
    _gpus,
    "is not a number of GPUs; write 0, 1, 2 … or a part such as 0.5",
)


@dataclass(frozen=True, slots=True)
class RayOptions(OptionGroup):
    """Where the cluster is, and the size and number of its workers."""

    title: ClassVar[str] = "A Ray cluster"
    ray: str | None = option(
        Role.COMPUTES,
        "run the cells on a Ray cluster: HOST:PORT of its head, or local (default: the running"
        f" cluster, else a local one); more: {docs('clusters.md')}",
        address,
        metavar="ADDRESS",
        const="auto",
    )
    ray_gpus: float | None = option(
        Role.COMPUTES,
        "GPUs of each of Ray's workers (default: 1 with --gpu, else 0)",
        number_of_gpus,
        metavar="N",
    )
    ray_cpus: int = option(
        Role.COMPUTES, "CPUs of each of Ray's workers (default: 1)", positive, 1, metavar="N"
    )
    ray_workers: int | None = option(
        Role.COMPUTES,
        "at most N workers on Ray's nodes (default: as many as fit)",
        positive,
        metavar="N",
    )

    rules: ClassVar[tuple[Rule[Any], ...]] = (
        Rule(
            lambda s: not s.part(RayOptions).elsewhere and s.part(RayOptions).sized,
            "--ray-gpus, --ray-cpus and --ray-workers go with --ray",
        ),
        Rule(
            lambda s: s.part(RayOptions).elsewhere and s.estimate,
            "--estimate times forwards in one process; leave --ray out, and divide by the workers",
        ),
    )

    @property
    def elsewhere(self) -> bool:
        return self.ray is not None

    @property
    def sized(self) -> bool:
        """Whether its workers are given a size or a number."""
        return bool(self.ray_gpus is not None or self.ray_cpus != 1 or self.ray_workers)

    def gpus(self, gpu: bool) -> float:
        """GPUs that a worker reserves for a model that asks for none of its own, with or without
        --gpu.
        """
        return float(gpu) if self.ray_gpus is None else self.ray_gpus
