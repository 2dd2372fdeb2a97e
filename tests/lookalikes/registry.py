"""Every look-alike, in the order of the files that hold them."""

from lookalikes import (
    afterwards,
    declared,
    elsewhere,
    heads,
    library,
    masks,
    pieces,
    rotary,
    scales,
    softmaxes,
    temperatures,
)
from lookalikes.design import VERDICTS, LookAlike

__all__ = ["DESIGNS", "FILES"]

FILES = (
    scales,
    declared,
    temperatures,
    heads,
    rotary,
    softmaxes,
    afterwards,
    masks,
    pieces,
    elsewhere,
    library,
)

DESIGNS: tuple[LookAlike, ...] = tuple(
    VERDICTS[member]
    for file in FILES
    for member in vars(file).values()
    if isinstance(member, type) and member in VERDICTS and member.__module__ == file.__name__
)
