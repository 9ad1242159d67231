"""Validates combinations of options, and that a GPU which they ask for can be used."""

from pbcore.base.errors import InputError
from pbcore.grid.settings import Settings


def check(settings: Settings) -> Settings:
    """The settings, if they go together. Raises InputError for options that exclude each other or
    lack one another.
    """
    if settings.out and settings.resume:
        raise InputError("--out and --resume both name the run directory; give one of them")
    if settings.questions and settings.limit is not None:
        raise InputError(
            f"--questions and --limit {settings.limit} both choose questions; give one of them"
        )
    if settings.gpu and settings.device is not None:
        raise InputError(f"--gpu and --device {settings.device} name two devices; give one of them")
    if settings.resume_anyway and not settings.resume:
        raise InputError("--resume-anyway goes with --resume RUN")
    if settings.gated and (settings.per_sample or settings.sample):
        raise InputError(
            "--per-sample and --sample look at single answers and can't be judged by a gate, floor"
            " or baseline; drop one of the two"
        )
    if settings.share_forwards and settings.rounds > 1:
        raise InputError(
            "--rounds times cells, and those that share forwards have no times of their own; drop"
            " --share-forwards or --rounds"
        )
    if settings.share_forwards and settings.factor:
        raise InputError(
            "--share-forwards would answer one level of --factor with another's forwards; drop one"
            " of the two"
        )
    for text in settings.factor:
        name = text.partition("=")[0]
        value = getattr(settings, name.replace("-", "_"), None)
        if value not in (None, (), False):
            raise InputError(
                f"--factor {text} runs every cell at each of its levels, and --{name} {value} would"
                " not be used; drop one of the two"
            )
    if settings.share_forwards and len(settings.batch_size) > 1:
        raise InputError(
            "--batch-size with several numbers times cells, and those that share forwards have no"
            " times of their own; drop --share-forwards or give one number"
        )
    if settings.revision is not None and len(settings.model) != 1:
        raise InputError("--revision names a commit of one model: give it with exactly one --model")
    if settings.adapter is not None and len(settings.model) != 1:
        raise InputError(
            "--adapter belongs to one model: give it with exactly one --model, or write MODEL+DIR"
        )
    if settings.draft is None and any(name.startswith("ar-draft") for name in settings.sampler):
        raise InputError(
            "--sampler ar-draft…: add --draft MODEL, a smaller model with the same tokenizer"
        )
    if settings.gate_time is not None and not (settings.gate or settings.against):
        raise InputError(
            "--gate-time needs a baseline to compare with: add --gate BASELINE or --against REV"
        )
    if settings.against is not None and settings.gate_time is None:
        raise InputError("--against is what --gate-time compares with: add --gate-time 10%, say")
    for part in settings.parts:
        part.check(settings)
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
