"""Every case of the nine silent errors."""

from nine import (
    models_channels,
    models_leaves,
    models_pieces,
    models_projections,
    models_scalars,
    models_scores,
    models_slices,
)
from nine.case import VERDICTS, Case, Silent

__all__ = ["CASES", "of_error"]

FILES = (
    models_channels,
    models_leaves,
    models_pieces,
    models_projections,
    models_scalars,
    models_scores,
    models_slices,
)

CASES: tuple[Case, ...] = tuple(
    sorted(
        (
            VERDICTS[member]
            for file in FILES
            for member in vars(file).values()
            if isinstance(member, type)
            and member in VERDICTS
            and member.__module__ == file.__name__
        ),
        key=lambda case: case.error,
    )
)


def of_error(error: Silent) -> tuple[Case, ...]:
    """The cases of one of the nine."""
    return tuple(case for case in CASES if case.error == error)
