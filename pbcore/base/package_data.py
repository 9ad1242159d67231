"""The package's own YAML files."""

from importlib.resources import files
from typing import Any


def package_yaml(package: str, name: str) -> Any:
    """The content of `data/<name>` of a package, read by libyaml where PyYAML has it."""
    import yaml  # at first use: every pytest run imports modules that have such data

    text = (files(package) / "data" / name).read_text(encoding="utf-8")
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
