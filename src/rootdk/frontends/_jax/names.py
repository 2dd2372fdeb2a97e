"""Module paths, from the name stack of an equation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import ExitStack, contextmanager
from typing import Any

import jax

__all__ = ["MARK", "holders", "in_module", "named_calls", "path_of", "submodules"]

MARK = "rootdk:"
"""Begins the scopes that ``named_calls`` opens; each holds a whole path."""

# Scopes that a library names after its own classes: no place in a model.
_LIBRARY = ("eqx.", "keras.")
_FORMULA = re.compile(r"->|,|\.\.\.|<|\s")


def path_of(stack: Sequence[Any], root: str | None) -> tuple[str, ...]:
    """The modules around an equation, outermost first.

    Transformations (vmap, jvp) and the formulas that einsum puts there are no modules. A scope
    that ``named_calls`` opened holds a whole path, and what is outside it counts no more.
    """
    names: list[str] = []
    for element in stack:
        name = getattr(element, "name", "")
        if type(element).__name__ != "Scope" or not name:
            continue
        if name.startswith(MARK):
            names = [part for part in name[len(MARK) :].split(".") if part]
        elif not _FORMULA.search(name) and not name.startswith(_LIBRARY):
            names.extend(part for part in name.split("/") if part)
    if root is not None and names[:1] == [root]:
        names = names[1:]
    return tuple(names)


def in_module(stack: Sequence[Any], path: tuple[str, ...], holding: Set[tuple[str, ...]]) -> bool:
    """Whether what is innermost around an equation is a module, and not a scope of the user's.

    ``path`` is ``path_of(stack)``, ``holding`` the paths of modules that hold parameters.
    """
    if path in holding:
        return True
    names = [getattr(element, "name", "") for element in stack]
    inner = next((name for name in reversed(names) if name.startswith(MARK)), None)
    return bool(path) and inner == MARK + ".".join(path)


def holders(leaves: Iterable[str], root: str | None) -> frozenset[tuple[str, ...]]:
    """The modules that parameters lie in, read off the names that Linen and Keras give to them.

    Examples
    --------
    >>> sorted(holders(["1.0.params.attn.query.kernel", "0.model/out/bias"], "model"))
    [('attn', 'query'), ('out',)]
    """
    found: set[tuple[str, ...]] = set()
    for leaf in leaves:
        *parts, _ = re.split(r"[./]", leaf)
        start = next((at for at, part in enumerate(parts) if part in {"params", root}), None)
        if start is not None:
            found.add(tuple(parts[start + 1 :]))
    return frozenset(found - {()})


def submodules(module: Any, kinds: tuple[type, ...]) -> dict[int, str]:
    """The path of each module inside ``module``, by identity, read off its attributes."""
    paths: dict[int, str] = {}
    todo: list[tuple[Any, tuple[str, ...]]] = [(module, ())]
    while todo:
        item, path = todo.pop()
        if isinstance(item, kinds):
            if id(item) in paths:
                continue
            paths[id(item)] = ".".join(path)
        for name, child in _children(item, kinds):
            todo.append((child, (*path, name)))
    return paths


def _children(item: Any, kinds: tuple[type, ...]) -> Iterator[tuple[str, Any]]:
    if isinstance(item, dict):
        found: Sequence[tuple[Any, Any]] = list(item.items())
    elif isinstance(item, (list, tuple)):
        found = list(enumerate(item))
    elif isinstance(item, kinds):
        found = list(vars(item).items())
        if hasattr(item, "__len__") and hasattr(item, "__getitem__"):
            found = [(at, item[at]) for at in range(len(item))]
    else:
        return
    for name, child in found:
        if not str(name).startswith("_") and isinstance(child, (*kinds, dict, list, tuple)):
            yield str(name), child


@contextmanager
def named_calls(base: type) -> Iterator[None]:
    """Open a named scope around each call of a module of ``base``, for the length of a block.

    A module that nobody has named yet is the outermost one, or a copy that a transformation made
    of one; the paths of what it holds go on from where it is called. All is put back.
    """
    calls = _Calls(base)
    with ExitStack() as stack:
        for kind in _descendants(base):
            own = kind.__dict__.get("__call__")
            if own is not None:
                stack.callback(setattr, kind, "__call__", own)
                setattr(kind, "__call__", calls.named(own))  # noqa: B010 - not a method of ours
        yield


class _Calls:
    """The modules that were seen, by identity; they are held, so that no identity is reused."""

    def __init__(self, base: type) -> None:
        self.base = base
        self.paths: dict[int, str] = {}
        self.held: list[Any] = []
        self.open: list[str] = []

    def path(self, module: Any) -> str:
        if id(module) not in self.paths:
            prefix = self.open[-1] if self.open else ""
            self.held.append(module)
            for at, path in submodules(module, (self.base,)).items():
                self.paths.setdefault(at, ".".join(part for part in (prefix, path) if part))
        return self.paths[id(module)]

    def named(self, own: Any) -> Any:
        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            path = self.path(module)
            bound = own.__get__(module, type(module)) if hasattr(own, "__get__") else own
            self.open.append(path)
            try:
                with jax.named_scope(MARK + path):
                    return bound(*args, **kwargs)
            finally:
                self.open.pop()

        return call


def _descendants(base: type) -> set[type]:
    found: set[type] = set()
    todo = [base]
    while todo:
        below: list[type] = todo.pop().__subclasses__()
        for kind in below:
            if kind not in found:
                found.add(kind)
                todo.append(kind)
    return found
