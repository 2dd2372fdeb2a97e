"""Every attention function with a known answer, and what identify is asked about it."""

import importlib
from pathlib import Path
from typing import Any

from faults_identify.registry import MARK, Case

import rootdk

__all__ = ["CASES", "FAULTS", "SOUND", "identified"]

FRAMEWORKS = ("numpy", "torch", "jax")
_CALL = ("layout", "arguments", "dtype")
"""Options of the call; the others are declarations, ``expect`` that of the scale."""


def identified(case: Case) -> Any:
    """The datasheet of a case, asked for as its author would."""
    call = {name: case.options[name] for name in _CALL if name in case.options}
    declared = {name: value for name, value in case.options.items() if name not in _CALL}
    if "expect" in declared:
        declared["scale"] = declared.pop("expect")
    return rootdk.identify(case.function, expect=declared or None, **call)


def collected(framework: str) -> tuple[Case, ...]:
    """The cases of one framework, in the order of files and of functions in them."""
    found = []
    for path in sorted(Path(__file__).parent.glob(f"{framework}_*.py")):
        module = importlib.import_module(f"faults_identify.{path.stem}")
        members = (getattr(value, MARK, None) for value in vars(module).values())
        found += [c for c in members if c is not None and c.function.__module__ == module.__name__]
    return tuple(found)


CASES: tuple[Case, ...] = tuple(case for name in FRAMEWORKS for case in collected(name))
FAULTS = tuple(case for case in CASES if case.code is not None)
SOUND = tuple(case for case in CASES if case.code is None)
