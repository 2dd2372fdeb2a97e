"""Registries that are folders: a new member is one new file, or one entry point.

A package's folder is walked, sub-packages too, and every module is imported whose name
does not start with an underscore. What the modules define is collected in a fixed
order: modules by dotted name, members as written in their module, then plug-ins by
name of their entry point. A module may define several members; it must define at
least one, unless it is a package's ``__init__`` or the caller allows modules without.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from rootdk._lib.errors import DiscoveryError

T = TypeVar("T")
Member = tuple[T, str]
"""Something found, and where: a module's dotted name, or an entry point."""


def modules(package: str) -> tuple[ModuleType, ...]:
    """Import every public module below a package and return them by dotted name.

    Parameters
    ----------
    package : str
        Dotted name of the package. It comes first in the result. Sub-packages are
        walked with or without an ``__init__.py``; names that start with an underscore
        are skipped, with everything below them.

    Raises
    ------
    DiscoveryError
        If ``package`` is a module and no package, or a module below it cannot be
        imported; the message names the module and the cause.

    Examples
    --------
    >>> [module.__name__ for module in modules("json")][:3]
    ['json', 'json.decoder', 'json.encoder']
    """
    root = _import(package)
    if not hasattr(root, "__path__"):
        raise DiscoveryError(f"{package} is a module; expected a package, whose folder to walk")
    return (root, *_below(root))


def subclasses(
    package: str,
    base: type[T],
    *,
    group: str | None = None,
    key: Callable[[type[T]], str] | None = None,
    allow_modules_without: bool = False,
) -> tuple[type[T], ...]:
    """Collect the concrete subclasses of a base that the modules of a package define.

    Classes that a module only imports are not its own, and abstract classes and classes
    whose name starts with an underscore are means, not members.

    Parameters
    ----------
    package : str
        Dotted name of the package whose folder is the registry.
    base : type
        The base class, itself no member.
    group : str, optional
        Entry-point group in which other distributions may add members. An entry point
        names a class, or a module that defines some.
    key : callable, optional
        What must differ between any two members: their code, their name.
    allow_modules_without : bool
        Whether a module may define no member at all.

    Raises
    ------
    DiscoveryError
        On a module or plug-in that cannot be imported or defines no member, and on two
        members with the same key.
    """

    def members(module: ModuleType) -> Iterator[type[T]]:
        for name, value in vars(module).items():
            if (
                inspect.isclass(value)
                and issubclass(value, base)
                and value is not base
                and value.__module__ == module.__name__
                and not name.startswith("_")
                and not inspect.isabstract(value)
            ):
                yield value

    def is_member(value: object) -> bool:
        return inspect.isclass(value) and issubclass(value, base) and value is not base

    found = _collect(package, members, is_member, group, f"a subclass of {base.__name__}",
                     allow_modules_without)  # fmt: skip
    return _distinct(found, key)


def instances(
    package: str,
    kind: type[T],
    *,
    group: str | None = None,
    key: Callable[[T], str] | None = None,
    allow_modules_without: bool = False,
) -> tuple[T, ...]:
    """Collect the module-level objects of a type that the modules of a package hold.

    An object that several modules hold counts once, where it is first met. Names that
    start with an underscore are passed over.

    Parameters
    ----------
    package, group, key, allow_modules_without
        As for :func:`subclasses`.
    kind : type
        The type of the members.

    Raises
    ------
    DiscoveryError
        As for :func:`subclasses`.
    """

    def members(module: ModuleType) -> Iterator[T]:
        for name, value in vars(module).items():
            if isinstance(value, kind) and not name.startswith("_"):
                yield value

    found = _collect(package, members, lambda value: isinstance(value, kind), group,
                     f"an object of type {kind.__name__}", allow_modules_without)  # fmt: skip
    return _distinct(found, key)


def named(
    package: str,
    name: str,
    *,
    group: str | None = None,
    key: Callable[[Any], str] | None = None,
    allow_modules_without: bool = False,
) -> tuple[Any, ...]:
    """Collect what the modules of a package call by one name.

    Parameters
    ----------
    package, group, key, allow_modules_without
        As for :func:`subclasses`.
    name : str
        The module-level name, such as ``"render"``. An entry point names the object
        itself, or a module that has the name.

    Raises
    ------
    DiscoveryError
        As for :func:`subclasses`.

    Examples
    --------
    >>> [f.__module__ for f in named("json", "JSONDecoder", allow_modules_without=True)]
    ['json.decoder']
    """

    def members(module: ModuleType) -> Iterator[Any]:
        if name in vars(module):
            yield vars(module)[name]

    found = _collect(package, members, lambda value: not inspect.ismodule(value), group,
                     f"the name {name}", allow_modules_without)  # fmt: skip
    return _distinct(found, key)


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise DiscoveryError(f"{name} cannot be imported: {_cause(error)}") from error


def _below(package: ModuleType) -> Iterator[ModuleType]:
    for name in sorted(_child_names(package)):
        module = _import(f"{package.__name__}.{name}")
        yield module
        if hasattr(module, "__path__"):
            yield from _below(module)


def _child_names(package: ModuleType) -> set[str]:
    names = {info.name for info in pkgutil.iter_modules(package.__path__)}
    # pkgutil passes over folders without __init__.py, which Python imports all the same.
    for folder in map(Path, package.__path__):
        if folder.is_dir():
            names |= {child.name for child in folder.iterdir() if _holds_modules(child)}
    return {name for name in names if not name.startswith("_")}


def _holds_modules(folder: Path) -> bool:
    return folder.name.isidentifier() and folder.is_dir() and any(folder.rglob("*.py"))


def _collect(
    package: str,
    members: Callable[[ModuleType], Iterable[T]],
    is_member: Callable[[object], bool],
    group: str | None,
    wanted: str,
    allow_modules_without: bool,
) -> Iterator[Member[T]]:
    for module in modules(package):
        found = list(members(module))
        if not (found or allow_modules_without or hasattr(module, "__path__")):
            raise DiscoveryError(
                f"{module.__name__} defines nothing; expected {wanted} "
                "(a name that starts with an underscore would be skipped)"
            )
        yield from ((value, module.__name__) for value in found)
    for entry in _entries(group):
        yield from _plugged_in(entry, members, is_member, wanted)


def _entries(group: str | None) -> tuple[EntryPoint, ...]:
    # Reading what every distribution declares takes tens of milliseconds.
    return () if group is None else _declared(entry_points, group, tuple(sys.path))


@functools.lru_cache(maxsize=64)
def _declared(
    declared_in: Callable[..., Iterable[EntryPoint]], group: str, path: tuple[str, ...]
) -> tuple[EntryPoint, ...]:
    found = declared_in(group=group)
    return tuple(sorted(found, key=lambda entry: (entry.name, entry.value)))


def _plugged_in(
    entry: EntryPoint,
    members: Callable[[ModuleType], Iterable[T]],
    is_member: Callable[[object], bool],
    wanted: str,
) -> Iterator[Member[Any]]:
    distribution = entry.dist.name if entry.dist is not None else "an unknown distribution"
    origin = f"plug-in {entry.name} ({entry.value}, from {distribution})"
    try:
        loaded = entry.load()
    except Exception as error:
        raise DiscoveryError(f"{origin} cannot be loaded: {_cause(error)}") from error
    found = list(members(loaded)) if inspect.ismodule(loaded) else []
    if is_member(loaded):
        found = [loaded]
    if not found:
        raise DiscoveryError(f"{origin} is {loaded!r}; expected {wanted}, or a module with one")
    yield from ((value, origin) for value in found)


def _distinct(found: Iterable[Member[T]], key: Callable[[T], str] | None) -> tuple[T, ...]:
    """Drop the same object met again; refuse two objects with the same key."""
    seen: set[int] = set()
    origins: dict[str, str] = {}
    distinct: list[T] = []
    for value, origin in found:
        if id(value) in seen:
            continue
        seen.add(id(value))
        distinct.append(value)
        if key is None:
            continue
        name = key(value)
        if name in origins:
            raise DiscoveryError(
                f"{name} is defined twice: in {origins[name]} and in {origin}; expected once"
            )
        origins[name] = origin
    return tuple(distinct)


def _cause(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
