"""pbcore check machine: what is installed, and how to install the rest."""

from __future__ import annotations

import importlib.metadata

import pytest

from pbcore.extras.check import command_machine


def test_extras_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """An extra is installed if all its packages are; `dev` and extras of extras are left out."""
    requires = [
        "pytest>=9.0",
        "pyarrow>=20; extra == 'parquet'",
        'peft>=0.18; extra == "lora"',
        "accelerate>=1.0; extra == 'lora'",
        "ray>=2.50; (platform_system == 'Linux') and extra == 'ray'",
        "pbcore[openai]; extra == 'api'",
        "ruff; extra == 'dev'",
    ]

    def version(name: str) -> str:
        if name in ("peft", "pyarrow"):
            return "1.0"
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", lambda name: requires)
    monkeypatch.setattr(importlib.metadata, "version", version)
    assert command_machine._extras() == (
        "installed: parquet; missing: lora, ray"
        " (pip install -c constraints.txt -e '.[NAME]' in pbcore's folder)"
    )
    monkeypatch.setattr(
        importlib.metadata, "requires", lambda name: ["pyarrow>=20; extra == 'parquet'"]
    )
    assert command_machine._extras() == "installed: parquet"


def test_every_extra_has_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    """The extras that pyproject.toml declares stand on one line of the command's output."""
    assert command_machine.run(None) == 0  # type: ignore[arg-type]
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("extras"))
    for name in (
        "large",
        "lora",
        "openai",
        "anthropic",
        "parquet",
        "wandb",
        "mlflow",
        "lm-eval",
        "ray",
    ):
        assert f" {name}" in line
