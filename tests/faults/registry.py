"""Every fault in every spelling, found in the files beside this one.

A file ``models_*.py`` says which ``CODE`` its classes deserve, what ``scale(size)`` they multiply
by and, where that is not ``scores.softmax(-1)``, the ``weights(scores, size)`` that they compute.
A class ends its guilty line, or lines of which any may be named, with the comment ``# fault``;
its parent is the same attention without the fault.
"""

import importlib
import inspect
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType

import torch
from faults import models_sound
from faults.transformer import Attention, Size
from torch import Tensor

__all__ = ["FAULTS", "SOUND", "Fault", "guilty_lines"]

MARKER = "# fault"


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One class of attention and what is true of it; ``code`` is None where nothing is wrong."""

    attention: type[Attention]
    module: ModuleType

    @property
    def code(self) -> str | None:
        return self.module.CODE

    @property
    def title(self) -> str:
        return self.module.TITLE

    @property
    def spelling(self) -> str:
        return self.attention.__name__

    @property
    def sound(self) -> type[Attention]:
        """The same attention without the fault."""
        return self.attention.__bases__[0]

    @cached_property
    def lines(self) -> frozenset[tuple[str, int]]:
        """The guilty lines, any of which may be named; empty where no line is guilty."""
        return guilty_lines(self.attention)

    @property
    def identity(self) -> str:
        """For test ids: the file and the class."""
        return f"{self.module.__name__.rpartition('models_')[2]}-{self.spelling}"

    def scale(self, size: Size) -> float:
        """The product of all factors in front of the softmax."""
        return self.module.scale(size)

    def weights(self, products: Tensor, size: Size) -> Tensor:
        """The weights for bare products of queries and keys (batch, heads, queries, keys)."""
        scores = products * self.scale(size)
        if self.attention.hides_later:
            later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, -torch.inf)
        own = getattr(self.module, "weights", None)
        return scores.softmax(-1) if own is None else own(scores, size)


def guilty_lines(attention: type[Attention]) -> frozenset[tuple[str, int]]:
    """File and line of each marker in the source of a class."""
    lines, first = inspect.getsourcelines(attention)
    file = inspect.getsourcefile(attention)
    marked = (first + i for i, line in enumerate(lines) if line.rstrip().endswith(MARKER))
    return frozenset((file, line) for line in marked)


def collect(module: ModuleType) -> list[Fault]:
    """The classes that a file of models defines, abstract ones excepted."""
    return [
        Fault(attention=member, module=module)
        for member in vars(module).values()
        if isinstance(member, type)
        and issubclass(member, Attention)
        and member.__module__ == module.__name__
        and (member.attend is not Attention.attend or member.forward is not Attention.forward)
    ]


def faulty_modules() -> list[ModuleType]:
    names = sorted(path.stem for path in Path(__file__).parent.glob("models_[0-9]*.py"))
    return [importlib.import_module(f"faults.{name}") for name in names]


SOUND: tuple[Fault, ...] = tuple(collect(models_sound))
FAULTS: tuple[Fault, ...] = tuple(fault for module in faulty_modules() for fault in collect(module))
