"""What a file of this folder defines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from rootdk.identify.bench import Bench

__all__ = ["Probe"]


class Probe(ABC):
    """Measures some facts about a function and writes them into the notebook.

    A call that the function refuses is written down by ``bench.attempt``, or, if it leaves the
    probe, by who runs it; so is what an earlier probe could not find out (``NotReady``).

    Attributes
    ----------
    name : str
        One or two words.
    order : int
        When it runs; a probe may rest on the facts of those before it.
    fills : tuple of str
        The facts that it writes, as dotted names of fields of a Behaviour.
    """

    name: ClassVar[str]
    order: ClassVar[int]
    fills: ClassVar[tuple[str, ...]]

    @abstractmethod
    def run(self, bench: Bench) -> None:
        """Measure."""
