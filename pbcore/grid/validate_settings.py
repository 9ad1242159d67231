"""Validates combinations of options, and that a GPU which they ask for can be used."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from pbcore.base.errors import InputError
from pbcore.base.rules import Rule, why_not
from pbcore.grid.levels import at, factor_levels
from pbcore.grid.settings import Settings

# Options that exclude each other or lack one another.
RULES: tuple[Rule[Settings], ...] = (
    Rule(
        lambda s: s.out and s.resume,
        "--out and --resume both name the run directory; give one of them",
    ),
    Rule(
        lambda s: s.questions and s.limit is not None,
        lambda s: f"--questions and --limit {s.limit} both choose questions; give one of them",
    ),
    Rule(
        lambda s: s.gpu and s.device is not None,
        lambda s: f"--gpu and --device {s.device} name two devices; give one of them",
    ),
    Rule(lambda s: s.resume_anyway and not s.resume, "--resume-anyway goes with --resume RUN"),
    Rule(
        lambda s: s.gated and (s.per_sample or s.sample),
        "--per-sample and --sample look at single answers and can't be judged by a gate, floor or"
        " baseline; drop one of the two",
    ),
    Rule(
        lambda s: s.share_forwards and s.rounds > 1,
        "--rounds times cells, and those that share forwards have no times of their own; drop"
        " --share-forwards or --rounds",
    ),
    Rule(
        lambda s: s.share_forwards and s.factor,
        "--share-forwards would answer one level of --factor with another's forwards; drop one of"
        " the two",
    ),
    Rule(
        lambda s: any(_unused(s)),
        lambda s: f"{next(_unused(s))} would not be used; drop one of the two",
    ),
    Rule(
        lambda s: s.share_forwards and len(s.batch_size) > 1,
        "--batch-size with several numbers times cells, and those that share forwards have no"
        " times of their own; drop --share-forwards or give one number",
    ),
    Rule(
        lambda s: s.revision is not None and len(s.model) != 1,
        "--revision names a commit of one model: give it with exactly one --model",
    ),
    Rule(
        lambda s: s.adapter is not None and len(s.model) != 1,
        "--adapter belongs to one model: give it with exactly one --model, or write MODEL+DIR",
    ),
    Rule(
        lambda s: s.draft is None and any(name.startswith("ar-draft") for name in s.sampler),
        "--sampler ar-draft…: add --draft MODEL, a smaller model with the same tokenizer",
    ),
    Rule(
        lambda s: s.gate_time is not None and not (s.gate or s.against),
        "--gate-time needs a baseline to compare with: add --gate BASELINE or --against REV",
    ),
    Rule(
        lambda s: s.against is not None and s.gate_time is None,
        "--against is what --gate-time compares with: add --gate-time 10%, say",
    ),
)


def _unused(settings: Settings) -> Iterator[str]:
    """Options that a factor sets at each of its levels."""
    for text in settings.factor:
        name = text.partition("=")[0]
        value = getattr(settings, name.replace("-", "_"), None)
        if value not in (None, (), False):
            yield f"--factor {text} runs every cell at each of its levels, and --{name} {value}"


def check(settings: Settings) -> Settings:
    """The settings, if they go together, also at each level of their factors. Raises InputError for
    options that exclude each other or lack one another.
    """
    levels = [replace(at(settings, level), factor=()) for level in factor_levels(settings.factor)]
    for at_level in (settings, *levels):
        of_parts = chain.from_iterable(part.rules for part in at_level.parts)
        why = why_not(chain(RULES, of_parts), at_level)
        if why is not None:
            raise InputError(why)
    return settings


def check_gpu() -> None:
    """Raises InputError where no GPU can be used, with what was found."""
    import torch

    if not torch.cuda.is_available():
        raise InputError(
            f"--gpu: no usable GPU (torch {torch.__version__}, CUDA of its build:"
            f" {torch.version.cuda or 'none'}, devices seen: {torch.cuda.device_count()}); drop"
            " --gpu to run on the CPU, or install a CUDA build and check `nvidia-smi`"
        )
