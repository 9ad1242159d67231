"""`tune.json`: what a tuning was asked and what it has done, so that it goes on after any end.

Written before each run and after it. What follows from the records (who left, and why) is not kept:
the rules give it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pbcore.base import check
from pbcore.base.check import LoadError, NewerSchemaError
from pbcore.base.errors import InputError
from pbcore.base.printable import command_line
from pbcore.extras.tune.questions import SHARES
from pbcore.results.rundir import write_json

FILE = "tune.json"
SCHEMA = 1


@check.checked
@dataclass(frozen=True, slots=True)
class TuningRequest:
    """What the user asked: `samplers` to choose from (empty: all), `max_loss` in points, `axis`
    (None: seconds where their prices are known, else calls) and its `price` list, `budget` in
    seconds (None: no limit), `words` further options of the benchmark, as on the command line.
    """

    model: str
    samplers: list[str]
    max_loss: float
    axis: str | None
    price: str | None
    budget: float | None
    words: list[str]

    @property
    def margin(self) -> float:
        """The loss that is allowed, in score units."""
        return self.max_loss / 100


@check.checked
@dataclass(frozen=True, slots=True)
class TuningRun:
    """A round, or the proof: its samplers without the reference, and the seconds that it took (None
    until it is done).
    """

    samplers: list[str]
    seconds: float | None = None


@check.checked
@dataclass(slots=True)
class TuningState:
    """A tuning: `tokens` are the mean masked tokens of an answer, `sizes` questions per task of
    each round, `need` those of the proof over all tasks at each share of discordant answers,
    `known` the questions of tasks whose data end, `row_seconds` those of a row's forward here,
    `axis` what is to be small, with the words for it, why it is not seconds, and what its prices
    assume.
    """

    request: TuningRequest
    reference: str
    candidates: list[str]
    tasks: list[str]
    left_out: dict[str, int]
    tokens: float
    sizes: list[int]
    need: list[int]
    known: dict[str, list[int] | None]
    row_seconds: float | None
    axis: str
    axis_words: str
    axis_note: str = ""
    axis_assumed: str = ""
    rounds: list[TuningRun] = field(default_factory=list)
    proof: TuningRun | None = None
    proof_size: int | None = None

    @property
    def axis_unit(self) -> str:
        """The axis in words, without its price list: `seconds`."""
        return self.axis_words.partition(" (")[0]

    def write(self, out: Path) -> None:
        """Writes tune.json."""
        write_json(out / FILE, {"schema": SCHEMA, **asdict(self)})


def read_state(out: Path) -> TuningState:
    """The state of a tuning. Raises InputError for a folder that has none, or a damaged one."""
    file = out / FILE
    if not file.is_file():
        raise InputError(f"--resume {out}: it has no {FILE}; give the folder of a tuning")
    try:
        data: Mapping[str, Any] = check.check_schema(check.read_json(file), SCHEMA, str(file))
        fields = {key: data[key] for key in data if key != "schema"}
        state = check.validated(TuningState, fields, str(file))
        _check_whole(state, str(file))
    except NewerSchemaError:
        raise
    except LoadError as error:
        raise LoadError(
            f"{error}; the tuning can't go on: start it anew with another --out (the cells of its"
            f" runs are kept: {command_line(['pbcore', 'report', f'{out}/race/1'])})"
        ) from error
    return state


def _check_whole(state: TuningState, where: str) -> None:
    """Raises LoadError where the parts of a state don't belong together."""
    one_need_each = len(state.need) == len(SHARES) and all(need >= 1 for need in state.need)
    too_many_rounds = len(state.rounds) > len(state.sizes)
    empty_round = any(not done.samplers for done in state.rounds)
    problems = {
        "tasks": not state.tasks or set(state.tasks) != set(state.known),
        "candidates": not state.candidates,
        "sizes": any(size < 1 for size in state.sizes),
        "need": not one_need_each,
        "tokens": state.tokens <= 0,
        "rounds": too_many_rounds or empty_round,
        "proof": (state.proof is None) != (state.proof_size is None),
        "request.max_loss": not 0 < state.request.max_loss < 100,
    }
    for name, wrong in problems.items():
        if wrong:
            raise LoadError(f"{where}: field {name} doesn't fit the others")
