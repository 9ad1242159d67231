"""The options of the group "pbcore", each with an ini/TOML equivalent `pbcore_<name>`, read into one Settings value."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import pytest

BASELINE = Path("reports/baselines/embedded-cpu.json")
LOADING = ("quantization", "attn_implementation", "device_map", "revision", "trust_remote_code")
PROFILES = ("quick", "ci", "paper", "full")


@dataclass(frozen=True, slots=True)
class Option:
    """One option: `--name` on the command line, `pbcore_name` in ini files. `many`: repeatable. `kind` None: a switch."""

    name: str
    help: str
    kind: Callable[[str], Any] | None = str
    many: bool = False
    metavar: str | None = None
    const: Any = None  # value of the option when it is given without an argument

    @property
    def dest(self) -> str:
        return f"pbcore_{self.name.replace('-', '_')}"


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number above 0")
    return int(text)


def _natural(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number; 0, 1, 2 …")
    return int(text)


def _numbers(text: str) -> tuple[int, ...]:
    """`15`, `3-6` or `5,10,20` as whole numbers; none where it is nothing of the kind."""
    match = re.fullmatch(r"(\d+)-(\d+)", text)
    if match:
        return tuple(range(int(match[1]), int(match[2]) + 1))
    return tuple(map(int, text.split(","))) if re.fullmatch(r"\d+(,\d+)*", text) else ()


def _seeds(text: str) -> tuple[int, ...]:
    seeds = _numbers(text)
    if not seeds or len(set(seeds)) < len(seeds):
        raise argparse.ArgumentTypeError(f"{text!r} are no seeds; write 0, 0-4 or 3,5,8, each once")
    return tuple(sorted(seeds))


def _lengths(text: str) -> tuple[int, ...]:
    """Values of n; which of them a task can have, the task says."""
    lengths = _numbers(text)
    if not lengths or min(lengths) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no n; write 15, 3-6 or 5,10,20")
    return tuple(sorted(set(lengths)))


def _shard(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d+)/(\d+)", text)
    if not match or not 1 <= int(match[1]) <= int(match[2]):
        raise argparse.ArgumentTypeError(f"{text!r} is no shard; write 3/8 for the third of eight")
    return int(match[1]), int(match[2])


def _share(text: str) -> float:
    """`10%` or `0.1` as a fraction."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is no share; write 10% or 0.1")
    return float(match[1]) / (100 if match[2] else 1)


def _level(text: str) -> float:
    value = _share(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no level of significance; write e.g. 0.05")
    return value


OPTIONS = (
    Option("model", "model to measure: a registered name, a checkpoint folder or a hub id (repeatable; default: the profile's)", many=True),
    Option("sampler", "sampler to measure, e.g. confidence-k2+b8 (repeatable; default: the profile's)", many=True),
    Option("task", "task to measure: name, short name or pattern such as waiting_line/* (repeatable; default: the profile's)", many=True),
    Option("profile", f"which grid of cells: {', '.join(PROFILES)} (default: quick)", metavar="NAME"),
    Option("limit", "at most N samples a task", _positive, metavar="N"),
    Option("gpu", "run models on the GPU; a usage error where none can be used", None),
    Option("dtype", "numbers the model computes with: float32, bfloat16, float16", metavar="DTYPE"),
    Option("quantization", "load weights quantized: bitsandbytes-4bit, torchao-int8 … (docs/models.md)", metavar="KIND"),
    Option("attn-implementation", "attention of transformers: sdpa, eager, flash_attention_2 …", metavar="NAME"),
    Option("device-map", "where transformers puts the weights, e.g. auto: spread over the GPUs", metavar="MAP"),
    Option("revision", "commit, tag or branch of the hub's model instead of the pinned one; with one --model", metavar="REV"),
    Option("trust-remote-code", "run the code that comes with a checkpoint, where its architecture isn't known", None),
    Option("batch-size", "rows decoded at a time; changes speed and memory, never an answer in float32", _positive, metavar="N"),
    Option("seed", "seeds of the random draws of decoding: 0, 0-4 or 3,5,8; every sample is answered once for each (default: 0)", _seeds,
           metavar="N"),
    Option("data-seed", "seed that the project's own samples are made by (default: 0)", _natural, metavar="N"),
    Option("data-dir", "folder with the official samples, in their layout, or a run folder of the 2026 rewrite", Path, metavar="DIR"),
    Option("official-text", "score the whole canvas as the official benchmark does, text after the first EOS included", None),
    Option("languagetool-url", "LanguageTool server to ask about grammar (default: the installed one)", metavar="URL"),
    Option("tasks", "YAML file with tasks of your own (repeatable)", Path, many=True, metavar="FILE"),
    Option("n", "items of the lists (2-60) and words of the word sets (1-7): 15, 3-6 or 5,10,20", _lengths, metavar="N"),
    Option("out", "run directory to write; must not exist or be empty (default: reports/<date-time>)", Path, metavar="DIR"),
    Option("rounds", "how often each cell decodes for timing (default: 1)", _positive, metavar="N"),
    Option("sample", "drill-down: only sample N of each cell, as an item of its own (repeatable)", _natural, many=True, metavar="N"),
    Option("per-sample", "drill-down: every sample is an item and a wrong answer fails it (implied by -x unless a gate is given)", None),
    Option("gate", "judge cells against their rows in BASELINE, a run directory or a baseline file (repeatable)", Path, True, "BASELINE"),
    Option("gate-level", "chance that a gate fails although nothing changed, over all its cells (default: 0.05)", _level, metavar="P"),
    Option("gate-time", "fail cells slower than the gate's baseline by more than this share, e.g. 10%%", _share, metavar="SHARE"),
    Option("against", "revision or checkout whose code is timed in turns with this one for --gate-time", metavar="REV|PATH"),
    Option("floor", "absolute demand, e.g. 'tiny/copy/* accuracy>=0.98' (repeatable)", many=True, metavar="RULE"),
    Option("update-baseline", f"write the run's rows to FILE (default: {BASELINE}) as the new baseline", Path, False, "FILE", BASELINE),
    Option("resume", "go on with run directory RUN: finished cells whose key still matches are taken over", Path, metavar="RUN"),
    Option("shard", "run part I of N of the cells, split by model first", _shard, metavar="I/N"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user asked for. Empty tuples and None mean: as the profile says."""

    model: tuple[str, ...]
    sampler: tuple[str, ...]
    task: tuple[str, ...]
    profile: str
    limit: int | None
    gpu: bool
    dtype: str | None
    quantization: str | None
    attn_implementation: str | None
    device_map: str | None
    revision: str | None
    trust_remote_code: bool
    batch_size: int | None
    seed: tuple[int, ...]
    data_seed: int
    data_dir: Path | None
    official_text: bool
    languagetool_url: str | None
    tasks: tuple[Path, ...]
    n: tuple[int, ...] | None
    out: Path | None
    rounds: int
    sample: tuple[int, ...]
    per_sample: bool
    gate: tuple[Path, ...]
    gate_level: float
    gate_time: float | None
    against: str | None
    floor: tuple[str, ...]
    update_baseline: Path | None
    resume: Path | None
    shard: tuple[int, int] | None

    @property
    def device(self) -> str:
        return "cuda" if self.gpu else "cpu"

    @property
    def load_options(self) -> dict[str, Any]:
        """Options of `load_model` beside device and dtype, those that were given."""
        return {name: value for name in LOADING if (value := getattr(self, name))}

    def seeds_of(self, answers: int) -> list[int]:
        """The seed of each of a cell's answers: those of the first seed come first."""
        return [seed for seed in self.seed for _ in range(answers // len(self.seed))]

    @property
    def gated(self) -> bool:
        """Whether the run is judged, so that every cell has to be measured whole."""
        return bool(self.gate or self.floor or self.update_baseline or self.gate_time is not None)


_DEFAULTS: dict[str, Any] = {
    "profile": "quick",
    "gpu": False,
    "trust_remote_code": False,
    "official_text": False,
    "seed": (0,),
    "data_seed": 0,
    "rounds": 1,
    "per_sample": False,
    "gate_level": 0.05,
}
_SETTINGS = pytest.StashKey[Settings]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pbcore", "pbcore: parallel decoding in diffusion LLMs")
    for option in OPTIONS:
        text = f"{option.help} [ini: {option.dest}]"
        if option.kind is None:
            group.addoption(f"--{option.name}", dest=option.dest, action="store_true", default=None, help=text)
            parser.addini(option.dest, option.help, type="bool", default=None)
            continue
        extra: dict[str, Any] = {"nargs": "?", "const": option.const} if option.const is not None else {}
        group.addoption(
            f"--{option.name}", dest=option.dest, action="append" if option.many else "store", type=option.kind,
            default=None, metavar=option.metavar or option.name.upper(), help=text, **extra,
        )  # fmt: skip
        parser.addini(option.dest, option.help, type=_ini_type(option), default=None)


def _ini_type(option: Option) -> Literal["linelist", "int", "string"]:
    if option.many:
        return "linelist"
    return "int" if option.kind in (_positive, _natural) else "string"


def given(config: pytest.Config) -> bool:
    """Whether any option of the group is set, on the command line or in an ini file."""
    return any(_value(config, option) is not None for option in OPTIONS)


def settings(config: pytest.Config) -> Settings:
    """The options of this run. Raises pytest.UsageError for values that can't be meant."""
    found = config.stash.get(_SETTINGS, None)
    if found is None:
        found = config.stash[_SETTINGS] = _read(config)
    return found


def _read(config: pytest.Config) -> Settings:
    values: dict[str, Any] = {}
    for option in OPTIONS:
        name = option.dest.removeprefix("pbcore_")
        value = _value(config, option)
        if option.many:
            value = tuple(value or ())
        values[name] = _DEFAULTS.get(name) if value is None else value
    result = Settings(**{field.name: values[field.name] for field in fields(Settings)})
    if result.out and result.resume:
        raise pytest.UsageError("--out and --resume both name the run directory; give one of them")
    if result.gated and (result.per_sample or result.sample):
        raise pytest.UsageError(
            "--per-sample and --sample look at single answers and can't be judged by a gate, floor or baseline; drop one of the two"
        )
    if result.revision is not None and len(result.model) != 1:
        raise pytest.UsageError("--revision names a commit of one model: give it with exactly one --model")
    if result.gate_time is not None and not (result.gate or result.against):
        raise pytest.UsageError("--gate-time needs a baseline to compare with: add --gate BASELINE or --against REV")
    if result.against is not None and result.gate_time is None:
        raise pytest.UsageError("--against is what --gate-time compares with: add --gate-time 10%, say")
    return result


def _value(config: pytest.Config, option: Option) -> Any:
    """The option's value from the command line, else from the ini file, else None."""
    value = config.getoption(option.dest, None)
    if value is not None:
        return value
    raw = config.getini(option.dest)
    if raw is None or option.kind is None:
        return raw
    try:
        return [option.kind(text) for text in raw] if option.many else option.kind(str(raw))
    except argparse.ArgumentTypeError as error:
        raise pytest.UsageError(f"ini option {option.dest}: {error}") from error
