"""The rows of an experiment: named columns of plain values."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

__all__ = ["Table"]


@dataclass(frozen=True, kw_only=True)
class Table:
    """Columns by name, and rows of plain values: numbers, texts, booleans, None, or tuples.

    None stands where there is no value, or none that is finite.

    Attributes
    ----------
    columns : tuple of str
        Names of the columns.
    rows : tuple of tuple
        One value for each column.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, records: Iterable[Mapping[str, object]]) -> Self:
        """Return the table of records, in the order in which their names first appear.

        Examples
        --------
        >>> Table.of([{"head_dim": 4, "spread": 2.0}, {"head_dim": 16, "spread": math.nan}]).rows
        ((4, 2.0), (16, None))
        """
        records = list(records)
        columns = tuple(dict.fromkeys(name for record in records for name in record))
        rows = tuple(tuple(plain(record.get(name)) for name in columns) for record in records)
        return cls(columns=columns, rows=rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, column: object) -> bool:
        return column in self.columns

    def __getitem__(self, column: str) -> tuple[Any, ...]:
        """Return the values of one column."""
        place = self.columns.index(column)
        return tuple(row[place] for row in self.rows)

    def where(self, **values: object) -> Self:
        """Return only the rows that hold these values."""
        kept = (r for r in self if all(r[name] == value for name, value in values.items()))
        columns = self.columns
        return type(self)(columns=columns, rows=tuple(tuple(r[c] for c in columns) for r in kept))

    def without(self, columns: Collection[str]) -> Self:
        """Return the table without some of its columns."""
        kept = [place for place, name in enumerate(self.columns) if name not in columns]
        return type(self)(
            columns=tuple(self.columns[place] for place in kept),
            rows=tuple(tuple(row[place] for place in kept) for row in self.rows),
        )


def plain(value: object) -> Any:
    """Return a value as JSON could hold it, tuples for lists."""
    if isinstance(value, Fraction):
        value = float(value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list | tuple):
        return tuple(plain(item) for item in value)
    if value is None or isinstance(value, bool | int | str):
        return value
    raise TypeError(f"a cell holds {value!r}; expected a number, a text, or a tuple of these")
