"""Which rows of the scores are recomputed: their places, and the labels that those stand for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rootdk.frontends._graph.axes import Axes

__all__ = ["Places", "Sample", "at_rows", "draw_sample"]

Places = npt.NDArray[np.int64]


@dataclass
class Sample:
    """Index arrays (samples, along) of the label values, and which entries the product made."""

    index: dict[str, Places]
    valid: npt.NDArray[np.bool_]
    places: list[Places]


def draw_sample(axes: Axes, dim: int, rows: int, generator: np.random.Generator) -> Sample:
    """Draw rows along ``dim`` of a tensor with these axes, evenly over all the others."""
    shape = axes.shape
    total = math.prod(size for position, size in enumerate(shape) if position != dim)
    drawn = generator.choice(total, min(rows, total), replace=total > 1 << 20)
    return at_rows(axes, dim, drawn.astype(np.int64))


def at_rows(axes: Axes, dim: int, chosen: Places) -> Sample:
    """The sample of rows with these numbers, counted over all axes but ``dim``."""
    shape = axes.shape
    along = shape[dim]
    places: list[Places] = []
    rest = chosen
    for position in range(len(shape) - 1, -1, -1):
        if position == dim:
            places.append(np.arange(along)[None, :])
            continue
        places.append((rest % shape[position])[:, None])
        rest = rest // shape[position]
    places.reverse()
    return _labelled(axes, dim, places)


def _labelled(axes: Axes, dim: int, places: list[Places]) -> Sample:
    """The label values that the places stand for."""
    index: dict[str, Places] = {}
    valid = np.ones((1, axes.shape[dim]), dtype=np.bool_)
    for position, at in enumerate(places):
        dim_axes = axes.dims[position]
        local = at - dim_axes.start
        if position == dim:
            size = math.prod(atom.size for atom in dim_axes.atoms)
            valid = (local >= 0) & (local < max(size, 1))
            local = local.clip(0, max(size - 1, 0))
        for atom in reversed(dim_axes.atoms):
            digit = (local % atom.size) * atom.stride
            index[atom.label] = index[atom.label] + digit if atom.label in index else digit
            local = local // atom.size
    return Sample(index, valid, places)
