"""Layouts as words: which axis of an array is batch, heads, sequence and width.

A layout is a string of the letters ``b`` (batch), ``h`` (heads), ``s`` (queries or keys) and
``d`` (head_dim or value_dim), each at most once, ``s`` and ``d`` always; letters in parentheses
share one axis. ``"bhsd"`` is the order that everything here computes in, ``"bshd"`` that of JAX
and flash-attn, ``"sd"`` one head of one sample, ``"bs(hd)"`` heads side by side.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rootdk._lib.errors import ArgumentError

__all__ = ["CANONICAL", "Layout", "parse_layout"]

CANONICAL = "bhsd"
_EXPECTED = (
    "the letters b, h, s and d, each at most once, s and d always, letters that share an axis "
    "in parentheses: 'bhsd', 'bshd', 'hsd', 'sd', 'bs(hd)'"
)


@dataclass(frozen=True)
class Layout:
    """A parsed layout: one string of letters an axis.

    Examples
    --------
    >>> parse_layout("bs(hd)").axes
    ('b', 's', 'hd')
    >>> array = np.arange(24.0).reshape(1, 2, 3, 4)
    >>> there = parse_layout("bs(hd)").from_canonical(array)
    >>> there.shape
    (1, 3, 8)
    >>> back = parse_layout("bs(hd)").to_canonical(there, heads=2)
    >>> bool((back == array).all())
    True
    """

    axes: tuple[str, ...]

    @property
    def text(self) -> str:
        """The layout as it is written."""
        return "".join(axis if len(axis) == 1 else f"({axis})" for axis in self.axes)

    @property
    def letters(self) -> str:
        """The letters that are there, in order."""
        return "".join(self.axes)

    def has(self, letter: str) -> bool:
        """Whether there is an axis for this letter."""
        return letter in self.letters

    def from_canonical(self, array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """Return an array ``(batch, heads, sequence, width)`` in this layout.

        Raises
        ------
        ArgumentError
            If an axis that the layout lacks is longer than 1.
        """
        for letter, size in zip(CANONICAL, array.shape, strict=True):
            if not self.has(letter) and size != 1:
                raise ArgumentError(
                    f"the layout {self.text!r} has no axis {letter}; expected a size of 1 there, "
                    f"not {size}"
                )
        kept = array.reshape(
            [n for c, n in zip(CANONICAL, array.shape, strict=True) if self.has(c)]
        )
        present = [c for c in CANONICAL if self.has(c)]
        moved = kept.transpose([present.index(c) for c in self.letters])
        sizes = dict(zip(CANONICAL, array.shape, strict=True))
        return moved.reshape([int(np.prod([sizes[c] for c in axis])) for axis in self.axes])

    def to_canonical(
        self, array: npt.NDArray[np.generic], *, heads: int
    ) -> npt.NDArray[np.generic]:
        """Return an array in this layout as ``(batch, heads, sequence, width)``.

        ``heads`` splits an axis that heads and width share.

        Raises
        ------
        ValueError
            If the number of axes, or the width of a shared one, does not fit.
        """
        if array.ndim != len(self.axes):
            raise ValueError(f"{array.ndim} axes; the layout {self.text!r} has {len(self.axes)}")
        sizes: list[int] = []
        for axis, size in zip(self.axes, array.shape, strict=True):
            if len(axis) == 1:
                sizes.append(size)
                continue
            if heads < 1 or size % heads:
                raise ValueError(f"an axis of {size} cannot be split among {heads} heads")
            sizes += [heads if letter == "h" else size // heads for letter in axis]
        split = array.reshape(sizes)
        present = [c for c in CANONICAL if self.has(c)]
        moved = split.transpose([self.letters.index(c) for c in present])
        full = iter(moved.shape)
        return moved.reshape([next(full) if self.has(c) else 1 for c in CANONICAL])

    def scores(self, array: npt.NDArray[np.generic]) -> npt.NDArray[np.generic]:
        """Return what broadcasts to ``(batch, heads, queries, keys)`` without absent axes.

        Masks stand in this order whatever the order of the arrays.
        """
        lead = [n for c, n in zip("bh", array.shape[:2], strict=True) if self.has(c)]
        return array.reshape([*lead, *array.shape[2:]])

    def to_script(self, name: str) -> str:
        """Return a NumPy expression that takes a canonical array called ``name`` to this layout."""
        present = [c for c in CANONICAL if self.has(c)]
        index = ", ".join(":" if self.has(c) else "0" for c in CANONICAL)
        text = name if len(present) == len(CANONICAL) else f"{name}[{index}]"
        order = tuple(present.index(c) for c in self.letters)
        if order != tuple(range(len(order))):
            text += f".transpose{order}"
        if any(len(axis) > 1 for axis in self.axes):
            text = f"(lambda a: a.reshape(a.shape[0], a.shape[1], -1))({text})"
        return text

    def from_script(self, name: str, *, heads: str = "query.shape[1]") -> str:
        """Return a NumPy expression that takes an array of this layout back to the canonical."""
        if any(len(axis) > 1 for axis in self.axes):
            text = f"(lambda a: a.reshape(a.shape[0], a.shape[1], {heads}, -1))({name})"
        else:
            text = name
        present = [c for c in CANONICAL if self.has(c)]
        order = tuple(self.letters.index(c) for c in present)
        if order != tuple(range(len(order))):
            text += f".transpose{order}"
        if len(present) < len(CANONICAL):
            text += "[" + ", ".join(":" if self.has(c) else "None" for c in CANONICAL) + "]"
        return text


def parse_layout(text: str) -> Layout:
    """Return the layout that a word names.

    Raises
    ------
    ArgumentError
        If it is no layout; the message says what one looks like.

    Examples
    --------
    >>> parse_layout("bshd").to_script("q")
    'q.transpose(0, 2, 1, 3)'
    >>> parse_layout("sd").from_script("out")
    'out[None, None, :, :]'
    >>> parse_layout("bhqd")
    Traceback (most recent call last):
    ...
    rootdk._lib.errors.ArgumentError: layout is 'bhqd'; expected the letters b, h, s and d, ...
    """
    axes: list[str] = []
    rest = str(text)
    while rest:
        if rest[0] == "(":
            inner, closed, rest = rest[1:].partition(")")
            axes.append(inner if closed and inner == "hd" else "?")
        else:
            axes.append(rest[0])
            rest = rest[1:]
    letters = "".join(axes)
    good = set(letters) <= set(CANONICAL) and len(set(letters)) == len(letters)
    if not (good and "s" in letters and "d" in letters):
        raise ArgumentError.unexpected("layout", text, _EXPECTED)
    if "hd" in axes and letters not in ("bshd", "sbhd"):
        raise ArgumentError.unexpected("layout", text, _EXPECTED)
    return Layout(tuple(axes))
