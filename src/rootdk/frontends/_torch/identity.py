"""Which node a tensor is, through views, in-place writes and reused identities.

An ``id`` is reused by Python as soon as a tensor dies, so every look-up checks a weak
reference. A write into one view of a storage makes every other alias stale; a stale alias is
rebuilt from the writes that overlap it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from rootdk.frontends._graph.node import Node

if TYPE_CHECKING:
    import torch

__all__ = ["Identities", "Window", "storage_key"]

# Above this many entries two views whose spans meet are taken to overlap.
_EXACT_ENTRIES = 4_000_000


@dataclass(slots=True)
class _Geometry:
    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]

    @classmethod
    def of(cls, tensor: torch.Tensor) -> _Geometry:
        return cls(int(tensor.storage_offset()), tuple(tensor.shape), tensor.stride())

    @property
    def count(self) -> int:
        count = 1
        for size in self.size:
            count *= size
        return count


@dataclass(slots=True)
class Window:
    """Where a write lies within another alias: entries from its start, sizes and strides."""

    offset: int
    size: tuple[int, ...]
    stride: tuple[int, ...]
    whole_stride: tuple[int, ...]
    whole_size: tuple[int, ...] = ()

    @property
    def dense(self) -> bool:
        """Whether both views run through the same entries in the same order."""
        return (
            self.offset == 0
            and self.stride == _dense_strides(self.size)
            and self.whole_stride == _dense_strides(self.whole_size)
        )


@dataclass(slots=True)
class _Write:
    node: Node
    geometry: _Geometry


@dataclass(slots=True)
class _Storage:
    writes: list[_Write] = field(default_factory=list)


@dataclass(slots=True)
class _Record:
    reference: weakref.ref[torch.Tensor]
    node: Node
    storage: int
    version: int


def storage_key(tensor: torch.Tensor) -> int:
    """A key that all aliases of one storage share while it lives."""
    return int(tensor.untyped_storage()._cdata)


class Identities:
    """The map from living tensors to nodes."""

    def __init__(self, rebuild: Callable[[Node, Node, bool, torch.Tensor, Window], Node]) -> None:
        self._records: dict[int, _Record] = {}
        self._storages: dict[int, _Storage] = {}
        self._rebuild = rebuild

    def find(self, tensor: torch.Tensor) -> Node | None:
        """The node of ``tensor``, rebuilt if another alias was written to; None if unknown."""
        record = self._records.get(id(tensor))
        if record is None or record.reference() is not tensor:
            return None
        storage = self._storages.get(record.storage)
        if storage is not None and record.version < len(storage.writes):
            self._reconcile(tensor, record, storage)
        return record.node

    def bind(self, tensor: torch.Tensor, node: Node, *, fresh: bool) -> None:
        """Say that ``tensor`` is ``node``; ``fresh`` when it is no view of an argument."""
        try:
            key = storage_key(tensor)
        except (RuntimeError, NotImplementedError):
            key = -id(tensor)
        if fresh or key not in self._storages:
            self._storages[key] = _Storage()
        version = len(self._storages[key].writes)
        self._records[id(tensor)] = _Record(weakref.ref(tensor), node, key, version)

    def write(self, tensor: torch.Tensor, node: Node) -> None:
        """Say that the entries of ``tensor`` were overwritten in place, and are now ``node``."""
        try:
            key = storage_key(tensor)
        except (RuntimeError, NotImplementedError):
            key = -id(tensor)
        storage = self._storages.setdefault(key, _Storage())
        storage.writes.append(_Write(node, _Geometry.of(tensor)))
        version = len(storage.writes)
        self._records[id(tensor)] = _Record(weakref.ref(tensor), node, key, version)

    def _reconcile(self, tensor: torch.Tensor, record: _Record, storage: _Storage) -> None:
        mine = _Geometry.of(tensor)
        for write in storage.writes[record.version :]:
            if not _overlap(mine, write.geometry):
                continue
            whole = write.geometry.count >= mine.count and _covers(write.geometry, mine)
            window = Window(
                offset=write.geometry.offset - mine.offset,
                size=write.geometry.size,
                stride=write.geometry.stride,
                whole_stride=mine.stride,
                whole_size=mine.size,
            )
            record.node = self._rebuild(record.node, write.node, whole, tensor, window)
        record.version = len(storage.writes)

    def clear(self) -> None:
        """Forget everything."""
        self._records.clear()
        self._storages.clear()


def _dense_strides(size: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for n in reversed(size):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def _span(g: _Geometry) -> tuple[int, int]:
    if g.count == 0:
        return g.offset, g.offset
    reach = sum((n - 1) * s for n, s in zip(g.size, g.stride, strict=True))
    return g.offset, g.offset + reach + 1


def _overlap(one: _Geometry, two: _Geometry) -> bool:
    """Whether two views share an entry: by their spans, then entry by entry."""
    (low, high), (start, end) = _span(one), _span(two)
    if high <= start or end <= low:
        return False
    first, last = min(low, start), max(high, end)
    if last - first > _EXACT_ENTRIES:
        return True
    marks = np.zeros(last - first, dtype=np.bool_)
    for view, act in ((one, "mark"), (two, "look")):
        part = np.lib.stride_tricks.as_strided(
            marks[view.offset - first :], view.size, view.stride, writeable=act == "mark"
        )
        if act == "mark":
            part[...] = True
    return bool(part.any())


def _covers(write: _Geometry, mine: _Geometry) -> bool:
    low, high = _span(mine)
    start, end = _span(write)
    return start <= low and high <= end and write.count >= end - start
