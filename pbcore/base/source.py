"""Digests of source code: part of a cell's key, so that changed code is never taken for the code
that was measured.
"""

import hashlib
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from importlib.machinery import ModuleSpec
from importlib.metadata import EntryPoint, PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, FunctionType, MethodType
from typing import Any

_OURS = __name__.partition(".")[0]
_KNOWN: dict[int, tuple[Any, str]] = {}  # the object is kept, so that its id stays its own


def source_digest(roots: Mapping[str, Path]) -> str:
    """A digest of all .py and .yaml files under each root, by root and relative path, whatever the
    line ends.
    """
    digest = hashlib.sha256()
    for name, root in roots.items():
        for file in sorted([*root.rglob("*.py"), *root.rglob("*.yaml")]):
            digest.update(f"{name}:{file.relative_to(root).as_posix()}\0".encode())
            digest.update(_text(file) + b"\0")
    return digest.hexdigest()[:16]


def source_of(value: Any) -> str:
    """A digest of the code of a class, function or instance that a user registered; empty for
    pbcore's own classes and functions.

    It covers the module that defines the object, all modules of its package (of an installed
    package: its version), the base classes, the fields of a dataclass instance, and the values that
    a function has bound. An attribute `version` (text or integer) of the object or its class
    replaces all this: then only a new version changes the digest. Other code, such as a module
    beside a conftest.py, doesn't count. The digest is taken at the first call and kept for the
    process.
    """
    if id(value) not in _KNOWN:
        parts = sorted(set(_parts(value, set())))
        digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16] if parts else ""
        _KNOWN[id(value)] = (value, digest)
    _, digest = _KNOWN[id(value)]
    return digest


def _parts(value: Any, seen: set[int]) -> Iterator[str]:
    """The texts that identify an object's code and values, none for pbcore's own; `seen`: ids of
    objects under way.
    """
    if id(value) in seen:
        return
    seen.add(id(value))
    declared = _version(value)
    if declared is not None:
        yield f"version:{declared}"
    elif isinstance(value, EntryPoint):
        yield from _module(value.module, None, value.value)
    elif isinstance(value, partial):
        yield from _bound(
            "partial", {"function": value.func, "arguments": value.args, **value.keywords}, seen
        )
    elif isinstance(value, MethodType):
        yield from _bound("method", {"function": value.__func__, "self": value.__self__}, seen)
    elif isinstance(value, FunctionType):
        yield from _module(value.__module__, value.__code__.co_filename, _code(value.__code__))
        cells = zip(value.__code__.co_freevars, value.__closure__ or (), strict=True)
        yield from _bound(value.__qualname__, {name: _content(cell) for name, cell in cells}, seen)
    elif isinstance(value, type):
        for cls in value.__mro__:
            functions = [
                member for member in vars(cls).values() if isinstance(member, FunctionType)
            ]
            codes = [function.__code__ for function in functions]
            files = [code.co_filename for code in codes if code.co_filename.endswith(".py")]
            file = files[0] if files else None
            yield from _module(cls.__module__, file, ",".join(map(_code, codes)))
    elif value is not None:
        yield from _parts(type(value), seen)
        if is_dataclass(value):
            owner = type(value).__qualname__
            yield from _bound(owner, {f.name: getattr(value, f.name) for f in fields(value)}, seen)


def _bound(owner: str, values: Mapping[str, Any], seen: set[int]) -> Iterator[str]:
    """Named values: code by its source, plain values by their text, other objects by their
    class.
    """
    for name, value in values.items():
        if isinstance(value, str | int | float | bool | None):
            yield f"{owner}.{name}={value!r}"
        elif isinstance(value, list | tuple | set | frozenset):
            ordered = sorted(value, key=repr) if isinstance(value, set | frozenset) else value
            by_place = {str(place): item for place, item in enumerate(ordered)}
            yield from _bound(f"{owner}.{name}", by_place, seen)
        elif isinstance(value, Mapping):
            by_key = {str(key): item for key, item in value.items()}
            yield from _bound(f"{owner}.{name}", by_key, seen)
        else:
            yield from _parts(value, seen)


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a variable that has no value yet
        return None


def _version(value: Any) -> str | None:
    """The `version` that an object or its class declares."""
    if isinstance(value, EntryPoint | str | int | float | bool | None):
        return None
    owner = value if isinstance(value, type | FunctionType) else type(value)
    if is_dataclass(owner) and "version" in {f.name for f in fields(owner)}:
        return None
    declared = vars(owner).get("version")
    if not isinstance(declared, str | int):
        return None
    return f"{owner.__module__}.{owner.__qualname__}:{declared}"


def _module(name: str, file: str | None, otherwise: str) -> Iterator[str]:
    """The source of a module and its package; `otherwise` for a module without a file. Nothing for
    pbcore and the standard library. `file` is the object's own source file if known: two
    conftest.py have the same module name.
    """
    top = name.partition(".")[0]
    if top != _OURS and (top not in sys.stdlib_module_names or top == "__main__"):
        digest = _package(name, file)
        yield f"{name}:{otherwise}" if digest is None else f"{top}:{digest}"


@cache
def _package(name: str, given: str | None) -> str | None:
    """The digest of a module's file and top-level package, or a distribution's version; None
    without a file.
    """
    top = name.partition(".")[0]
    file = _file(name, given)
    if file is None:
        return None
    if {"site-packages", "dist-packages"} & set(file.parts):
        return _installed(top)
    of_file = hashlib.sha256(_text(file)).hexdigest()[:16]
    spec = _spec(top) if name != top else None
    if spec is None or not spec.submodule_search_locations:
        return of_file
    folders = map(Path, spec.submodule_search_locations)
    roots = {str(number): folder for number, folder in enumerate(folders)}
    return f"{of_file}:{source_digest(roots)}"


def _installed(top: str) -> str:
    """Distribution and version of a package; its own name first, as the table of all packages takes
    seconds to read.
    """
    try:
        return f"{top}=={version(top)}"
    except PackageNotFoundError:
        distributions = sorted(set(packages_distributions().get(top, ())))
        return ",".join(f"{name}=={version(name)}" for name in distributions) or top


def _file(name: str, given: str | None) -> Path | None:
    """The .py file of a module, `given` if it is known; None for a module without one."""
    file = given or getattr(sys.modules.get(name), "__file__", None)
    if not file:
        spec = _spec(name)
        file = spec.origin if spec is not None and spec.has_location else None
    path = Path(file or "")
    return path if path.suffix == ".py" and path.is_file() else None


def _spec(name: str) -> ModuleSpec | None:
    try:
        return find_spec(name)
    except (ImportError, ValueError):
        return None


def _code(code: CodeType) -> str:
    """A digest of a function's compiled code."""
    constants = [
        _code(constant) if isinstance(constant, CodeType) else repr(constant)
        for constant in code.co_consts
    ]
    text = repr((code.co_code, code.co_names, constants))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _text(file: Path) -> bytes:
    return file.read_bytes().replace(b"\r\n", b"\n")
