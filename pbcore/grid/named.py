"""What options and node ids name: tasks, cells, models and samplers, found or refused with what there is instead."""

from collections.abc import Iterable
from difflib import get_close_matches
from fnmatch import fnmatchcase

from pbcore.decoding import resolve
from pbcore.errors import InputError
from pbcore.grid.capabilities import may_decode_itself
from pbcore.grid.cellid import CellName, bracketed, parse
from pbcore.grid.settings import Settings
from pbcore.models import resolve_model
from pbcore.models.entry import LoadOptions
from pbcore.models.errors import ModelError
from pbcore.names import canonical
from pbcore.tasks.naming import short
from pbcore.tasks.registry import TaskNameError


def tasks_of(patterns: Iterable[str], known: list[str]) -> list[str]:
    """The tasks among `known` that names, short names or patterns match. Raises InputError with close matches."""
    tasks: list[str] = []
    for pattern in patterns:
        matching = [task for task in known if fnmatchcase(task, pattern) or short(task) == pattern]
        if not matching:
            near = get_close_matches(pattern, [short(task) for task in known], n=3)
            advice = f"no task {pattern!r}; did you mean {', '.join(near)}?" if near else str(TaskNameError(pattern))
            raise InputError(f"--task: {advice}")
        tasks += matching
    return tasks


def cells_named(arguments: Iterable[str], known: list[str]) -> list[CellName]:
    """The cells that node ids among the arguments name; ids of other tests pass by."""
    return [name for text in filter(None, map(bracketed, arguments)) if (name := parse(text, known)) is not None]


def check_model(name: str, option: str = "--model") -> None:
    """Raises InputError, which begins with the option, for a model that can't be had."""
    try:
        resolve_model(name)
    except (ValueError, RuntimeError) as error:
        raise InputError(f"{option}: {error}") from error


def check_loading(settings: Settings) -> None:
    """Raises InputError for a draft, an adapter, options of loading or a dtype that can't be used."""
    if settings.draft is not None:
        check_model(settings.draft, "--draft")
    if settings.adapter is not None:
        check_model(f"{settings.model[0]}+{settings.adapter}", "--adapter")
    try:
        LoadOptions.of(settings.load_options)
        if settings.device == "mps":
            from pbcore.models.device import network_device

            network_device("mps")
        if settings.dtype is not None:
            import torch

            from pbcore.models.device import find_dtype

            find_dtype(settings.dtype, torch.device(settings.place))
    except ModelError as error:
        raise InputError(str(error)) from error


def sampler_of(text: str, models: Iterable[str]) -> str:
    """The canonical spelling of a sampler. A name that the loop doesn't know passes if a model may decode by itself."""
    try:
        return str(resolve(text))
    except ValueError as error:
        try:
            if any(map(may_decode_itself, models)):
                return canonical(text)
        except ValueError:
            pass  # no model can read it, and the first error says more
        raise InputError(f"--sampler: {error}") from error


def check_gpu() -> None:
    """Raises InputError where no GPU can be used, with what was found."""
    import torch

    if not torch.cuda.is_available():
        raise InputError(
            f"--gpu: no usable GPU (torch {torch.__version__}, CUDA of its build: {torch.version.cuda or 'none'}, "
            f"devices seen: {torch.cuda.device_count()}); drop --gpu to run on the CPU, or install a CUDA build and "
            "check `nvidia-smi`"
        )
