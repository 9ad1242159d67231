"""Prompt options of a run: solved examples (shots), chain of thought, and the length of the canvas."""

from dataclasses import replace

from pbcore.errors import InputError
from pbcore.tasks.cot import ANSWERS
from pbcore.tasks.generators import Item
from pbcore.tasks.spec import MOST_SHOTS, MOST_TOKENS, TaskSpec


def as_asked(
    spec: TaskSpec, shots: int | None, cot: bool, tokens: int | None, cot_answer: str | None = None
) -> TaskSpec:
    """The task with this number of shots and tokens and, if asked for, with steps. Raises InputError where it can't
    have them."""
    if spec.fixed is not None and (cot or tokens is not None):
        raise InputError(f"{spec.name}: {spec.fixed}; drop cot and max_new_tokens")
    if tokens is not None:
        if type(tokens) is not int or not 1 <= tokens <= MOST_TOKENS:
            raise InputError(f"max_new_tokens {tokens!r}: give an integer from 1 to {MOST_TOKENS}")
        spec = replace(spec, canvas=tokens)
    if shots is not None:
        if type(shots) is not int or not 0 <= shots <= MOST_SHOTS:
            raise InputError(f"shots {shots!r}: give an integer from 0 to {MOST_SHOTS}")
        if not spec.has_shots:
            raise InputError(f"{spec.name}: shots = {shots}, but only list operations and puzzles have shots to choose")
        spec = replace(spec, shots=shots)
    spec = replace(spec, cot=True) if cot else spec
    if cot_answer is None:
        return spec
    if cot_answer not in ANSWERS:
        raise InputError(f"cot_answer {cot_answer!r}: give {' or '.join(ANSWERS)}")
    if not spec.cot:
        raise InputError(f"{spec.name}: cot_answer = {cot_answer}, but its questions don't ask for steps; add cot")
    return replace(spec, cot_answer=cot_answer)


def first(examples: tuple[Item, ...], shots: int, where: str) -> tuple[Item, ...]:
    """The first `shots` solved examples of a row. Raises InputError, which begins with `where`, if it has fewer."""
    if shots > len(examples):
        raise InputError(f"{where}: shots = {shots}, but the row has {len(examples)} solved examples; ask for fewer")
    return examples[:shots]
