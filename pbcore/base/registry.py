"""Objects by name, from pbcore, user code and installed packages: policies, models and scorers."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import Any, Generic, TypeVar

from pbcore.base.errors import InputError
from pbcore.base.extensions import points

T = TypeVar("T")


@dataclass(eq=False)
class Registry(Generic[T]):
    """Objects of one kind by name.

    `kind` names them in errors (`policy`). Installed packages and those of `pbcore/extras/` add
    objects to the group `group` (`extensions.points`), named like the object; `load` turns an entry
    point into an object. pbcore's own objects register themselves when the module `builtins` is
    imported, at the first look-up, so that who looks up a name need not import what defines the
    objects. `check(name, object)` raises
    an exception for an invalid name or object.

        SCORERS: Registry[Scorer] = Registry("scorer", "pbcore.scorers", builtins="pbcore.metrics")
        SCORERS.register("mine", scorer)
        SCORERS["mine"]
    """

    kind: str
    group: str
    builtins: str | None = None
    check: Callable[[str, Any], None] = lambda name, value: None
    load: Callable[[EntryPoint], Any] = EntryPoint.load
    _registered: dict[str, T] = field(default_factory=dict)

    def register(self, name: str, value: T) -> None:
        """Makes `value` available as `name`; again for the same object, or the same class defined
        again, changes nothing. Raises ValueError if the name belongs to another object, and the
        exceptions of `check`.
        """
        self.check(name, value)
        holder: Any = self._registered.get(name)
        if holder is not None and not _same(holder, value):
            raise InputError(
                f"{self.kind} name {name!r} is already taken by {defined_at(holder)}; choose"
                " another name"
            )
        self._registered[name] = value

    def replace(self, name: str, value: T) -> None:
        """Makes `value` available as `name`, instead of what had that name. Raises the exceptions
        of `check`.
        """
        self.check(name, value)
        self._registered[name] = value

    @contextmanager
    def restored(self) -> Iterator[None]:
        """What is registered meanwhile is gone afterwards: for tests, and programs that try out."""
        self.all()  # the package's own come first
        before = dict(self._registered)
        try:
            yield
        finally:
            self._registered = before

    def all(self) -> Mapping[str, T]:
        """All objects by name, sorted: registered ones, and those of entry points with other
        names.
        """
        if self.builtins is not None:
            import_module(self.builtins)
        return dict(sorted({**self._installed, **self._registered}.items()))

    @cached_property
    def _installed(self) -> dict[str, T]:
        """The objects of entry points; found once, since packages don't change while a process
        runs.
        """
        others = [point for point in points(self.group) if point.name not in self._registered]
        installed = {point.name: self.load(point) for point in others}
        for name, value in installed.items():
            self.check(name, value)
        return installed

    def __getitem__(self, name: str) -> T:
        """The object of that name. Raises KeyError with close matches, or else all names."""
        objects = self.all()
        if name not in objects:
            raise KeyError(f"unknown {self.kind} {name!r}; {hint(name, objects)}")
        return objects[name]

    def __contains__(self, name: object) -> bool:
        return name in self.all()


def hint(name: object, known: Mapping[str, Any] | list[str]) -> str:
    """For errors about an unknown name: `did you mean a, b?` if close matches exist, else `known:
    a, b, c.`
    """
    near = get_close_matches(str(name), known, n=3, cutoff=0.5)
    return f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(known)}."


def _same(holder: Any, value: Any) -> bool:
    """Whether two objects are one, or one class that was defined again."""
    if holder is value:
        return True
    return isinstance(holder, type) and defined_at(holder) == defined_at(value)


def defined_at(value: Any) -> str:
    """Where an object, or an instance's class, is defined: `module.name`."""
    owner = value if hasattr(value, "__qualname__") else type(value)
    return f"{owner.__module__}.{owner.__qualname__}"
