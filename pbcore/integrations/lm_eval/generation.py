"""Generation settings of a harness task, checked against the sampler."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pbcore.errors import InputError
from pbcore.names import SamplerName
from pbcore.printable import shown

LENGTHS = ("max_gen_toks", "max_new_tokens", "max_tokens", "max_completion_tokens")  # the harness's order
# Settings of other decoders, and the values at which they change nothing.
NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "num_beams": (None, 1),
    "num_return_sequences": (None, 1),
    "repetition_penalty": (None, 1),
    "use_cache": (None, True, False),
}
SAMPLING: Mapping[str, tuple[Any, ...]] = {"top_p": (None, 1), "top_k": (None, 0, -1), "min_p": (None, 0)}


@dataclass(frozen=True, slots=True)
class Asked:
    """A generation of `length` new tokens, whose text ends before the first of the strings `until`."""

    length: int
    until: tuple[str, ...] = ()


def asked(arguments: Mapping[str, Any], sampler: SamplerName | None, length: int) -> Asked:
    """Reads a request's `generation_kwargs`; `length` is the number of tokens where it has none. Without a sampler only
    length and stop strings are read.

    Greedy decoding or a temperature is part of the sampler's name. Raises InputError where the request asks for
    something else than that name says, and for settings that a masked diffusion model's decoder doesn't have.
    """
    given = dict(arguments)
    lengths = [given.pop(name) for name in LENGTHS if given.get(name) is not None]
    for name in LENGTHS:
        given.pop(name, None)
    chosen = lengths[0] if lengths else length
    if type(chosen) is not int or chosen < 1:
        raise InputError(f"max_gen_toks {shown(chosen)}: give a whole number of at least 1")
    until = _until(given.pop("until", None))
    if sampler is None:
        return Asked(chosen, until)
    _check_temperature(given.pop("do_sample", None), given.pop("temperature", None), sampler)
    known = {**NEUTRAL, **SAMPLING}
    for name, value in given.items():
        greedy = name in SAMPLING and sampler.greedy  # the most probable token is never cut off
        if not greedy and value not in known.get(name, ()):
            raise InputError(
                f"generation setting {shown(name)} = {shown(value)} is not one of pbcore's samplers; leave it out, or "
                "choose a sampler (pbcore samplers)"
            )
    return Asked(chosen, until)


def cut(text: str, until: Sequence[str]) -> str:
    """The text before the first stop string."""
    ends = [place for stop in until if stop and (place := text.find(stop)) >= 0]
    return text[: min(ends)] if ends else text


def _until(given: Any) -> tuple[str, ...]:
    strings = [] if given is None else [given] if isinstance(given, str) else given
    if not isinstance(strings, list | tuple) or not all(isinstance(one, str) for one in strings):
        raise InputError(f"until {shown(given)}: give a text or a list of texts")
    return tuple(strings)


def _check_temperature(do_sample: Any, temperature: Any, sampler: SamplerName) -> None:
    """Raises InputError where a request's do_sample and temperature contradict the sampler's name."""
    if do_sample is None and temperature is None:
        return
    if temperature is not None and (isinstance(temperature, bool) or not isinstance(temperature, int | float)):
        raise InputError(f"temperature {shown(temperature)}: give a number")
    greedy = do_sample is False or temperature == 0
    where = f"do_sample={do_sample}, temperature={temperature}"
    if greedy and not sampler.greedy:
        raise InputError(
            f"the task asks for greedy decoding ({where}), and sampler {sampler} has temperature "
            f"{sampler.temperature}; drop +t{sampler.temperature}, or pass "
            f"--gen_kwargs do_sample=True,temperature={sampler.temperature}"
        )
    if not greedy and (sampler.greedy or temperature not in (None, sampler.temperature)):
        wanted = 1.0 if temperature is None else float(temperature)
        has = "is greedy" if sampler.greedy else f"has temperature {sampler.temperature}"
        raise InputError(
            f"the task asks for sampling ({where}), and sampler {sampler} {has}; add +t{wanted} to its name, or pass "
            "--gen_kwargs do_sample=False,temperature=0"
        )
