"""A recipe: the network's size, the data's seed, and the phases of a run."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import yaml

from pbcore.base.errors import InputError
from pbcore.extras.train.sedd import GRAPHS
from pbcore.tasks.registry import all_task_names, task_names

Objective = Literal["diffusion", "block", "causal", "sedd"]
BLOCK_FAMILY = "stable_diffcoder"  # the layout of block-causal checkpoints: Llama, unshifted logits
BLOCK = 4  # its block length
# The embedded models' recipes.
RECIPES = {
    "tiny": "recipe.yaml",
    "tiny-block": "recipe-block.yaml",
    "tiny-ar": "recipe-causal.yaml",
    "tiny-sedd": "recipe-sedd.yaml",
    "tiny-sedd-uniform": "recipe-sedd-uniform.yaml",
}


def model_of(objective: str, graph: str | None) -> str:
    """The embedded model that is trained with an objective, and with a graph of noise if that is
    sedd.
    """
    names = {
        "diffusion": "tiny",
        "block": "tiny-block",
        "causal": "tiny-ar",
        "sedd": "tiny-sedd",
    }
    name = names[objective]
    return f"{name}-uniform" if (objective, graph) == ("sedd", "uniform") else name


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a run: `steps` batches of `rows` rows; the learning rate follows half a cosine from
    `rate` to `end_rate`.

    `weights` are shares of tasks (default 1 for each of the paper's tasks; 0 leaves a task out).
    `lengths` gives tasks values of n other than the test's, since short lists are learned sooner.
    `balance` weights each row's tokens by the row's number of masks to the power −`balance`: with 0
    every token counts alike, with 1 every row (as LLaDA's 1/t).

    Three fields are shares of rows. `full_canvas`: with the whole canvas; the others have the
    answer and a few EOS tokens, which costs less and teaches the same answers. `masked_shots`: with
    the prompt's example masked too, a second answer to learn from. `pairs`: masked by pairs of
    words; `power` as in `noise.masked_batch`. The last two are noise of the diffusion objective.
    """

    steps: int
    rate: float
    end_rate: float
    rows: int = 32
    full_canvas: float = 0.5
    masked_shots: float = 0.5
    pairs: float = 0.0
    power: float = 1.0
    balance: float = 0.0
    weights: Mapping[str, float] | None = None
    lengths: Mapping[str, Sequence[int]] | None = None

    def tasks(self, names: Sequence[str] | None = None) -> dict[str, float]:
        """The tasks of this phase with their shares: of `names`, by default the paper's tasks.
        Raises InputError for a weight of another name.
        """
        given = self.weights or {}
        names = task_names() if names is None else names
        _known("tasks", given, names)
        return {name: share for name in names if (share := given.get(name, 1.0)) > 0}


@dataclass(frozen=True, slots=True)
class Recipe:
    """All settings of a run. The vocabulary is collected from `vocabulary_samples` samples per task
    and split. `objective` is `diffusion` (masked tokens under full attention), `block` (masked
    tokens under block-causal attention), `causal` (next tokens) or `sedd` (scores, with the
    corruption `graph`, absorb or uniform, and noise levels through `condition` numbers). `tasks`
    are those it learns, by default the paper's. `start` names the embedded model whose tokens and
    weights the run begins with, else random ones. Raises InputError for an unknown objective, graph
    or task.
    """

    width: int
    layers: int
    heads: int
    inner: int
    seed: int
    vocabulary_samples: int
    warmup: int
    phases: tuple[Phase, ...]
    notes: tuple[str, ...] = ()
    objective: Objective = "diffusion"
    tasks: tuple[str, ...] | None = None
    graph: str = "absorb"
    condition: int = 32
    start: str | None = None

    def __post_init__(self) -> None:
        _known("objective", [self.objective], get_args(Objective))
        _known("graph", [self.graph], GRAPHS)
        _known("tasks", self.tasks or (), all_task_names())

    @property
    def causal(self) -> bool:
        return self.objective == "causal"

    @property
    def block(self) -> int | None:
        """The block length of block-causal attention; None without it."""
        return BLOCK if self.objective == "block" else None

    @property
    def steps(self) -> int:
        return sum(phase.steps for phase in self.phases)

    def at(self, step: int) -> tuple[int, int]:
        """The index of the phase that a step belongs to, and the step's index within it."""
        for number, phase in enumerate(self.phases):
            if step < phase.steps:
                return number, step
            step -= phase.steps
        raise InputError(f"step {step} is beyond the recipe's end; give 0 to {self.steps - 1}")


def read_recipe(path: Path) -> Recipe:
    """A recipe from a YAML file. Raises InputError naming the file for unknown or missing keys."""
    loaded = yaml.safe_load(path.read_text(encoding="utf-8"))
    try:
        phases = tuple(Phase(**phase) for phase in loaded.pop("phases"))
        tasks = loaded.pop("tasks", None)
        return Recipe(phases=phases, tasks=None if tasks is None else tuple(tasks), **loaded)
    except (TypeError, KeyError, AttributeError) as error:
        raise InputError(
            f"{path} is not a recipe ({error}); see pbcore/extras/train/recipe.yaml for an example"
        ) from None


def _known(what: str, given: Iterable[str], allowed: Sequence[str]) -> None:
    unknown = sorted(set(given) - set(allowed))
    if unknown:
        raise InputError(
            f"recipe: unknown {what} {', '.join(map(repr, unknown))}; choose from"
            f" {', '.join(allowed)}"
        )
