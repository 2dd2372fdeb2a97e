"""Values kept alive for the verification: those that it may still ask for, and few others."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from rootdk._lib.heap import give_back
from rootdk.frontends._graph.node import Node
from rootdk.frontends._torch.identity import storage_key

if TYPE_CHECKING:
    import torch

__all__ = ["Retainer"]

_LEFT_BEHIND = 16 << 20
_LET_GO = 256 << 20
"""Bytes let go of, here and there, after which the holes are given back."""


def _bytes_of(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage().nbytes())


def _witness(tensor: torch.Tensor) -> torch.Tensor:
    """A few entries of the first and the last row."""
    size, stride = tensor.shape, tensor.stride()
    if not size:
        return tensor
    few = min(size[-1], 8)
    if len(size) == 1:
        return tensor.as_strided((few,), stride)
    # One view instead of a chain of slices: this is done for every value that is held.
    step = max(size[-2] - 1, 1) * stride[-2]
    return tensor.as_strided((min(size[-2], 2), few), (step, stride[-1]))


class _Line:
    """Values in the order in which they came in last, and their bytes."""

    def __init__(self) -> None:
        self._sizes: OrderedDict[int, int] = OrderedDict()
        self.bytes = 0

    def add(self, index: int, size: int) -> None:
        self.discard(index)
        self._sizes[index] = size
        self.bytes += size

    def discard(self, index: int) -> None:
        self.bytes -= self._sizes.pop(index, 0)

    @property
    def oldest(self) -> int:
        return next(iter(self._sizes))

    def __contains__(self, index: int) -> bool:
        return index in self._sizes

    def clear(self) -> None:
        self._sizes.clear()
        self.bytes = 0


class Retainer:
    """Keeps the latest values alive, up to a number of bytes, for the verification.

    Terminals are known only once a product is reached, so all recent candidates are held; a
    tensor that is about to be written in place is copied first. What is counted is storages, which
    a projection's output shares with every view of it. There is always room for ``room`` of the
    largest: so many fit between a projection and the product that it enters.

    What was made inside a module and not handed out is out of reach once the module is left,
    unless somebody put it aside: of such values no more than ``left_behind`` bytes stay, or ``few``
    of the largest. Those that a verification has asked for (keys that later layers share) stay up
    to ``budget``.

    Of what is in reach, half of the room is for values that nobody has asked for yet, since the
    next product is reached from those; the other half is for those that were asked for latest.
    """

    def __init__(
        self, budget: int, *, room: int = 16, left_behind: int = _LEFT_BEHIND, few: int = 2
    ) -> None:
        self.room, self.left_behind, self.few = room, left_behind, few
        self._largest = 0
        self._reach, self._budget = budget, budget
        self._held: OrderedDict[int, torch.Tensor] = OrderedDict()
        self._witnesses: dict[int, torch.Tensor] = {}
        self._by_storage: dict[int, set[int]] = {}
        self._made_in: defaultdict[int, list[int]] = defaultdict(list)
        self._asked = _Line()
        self._unasked_behind = _Line()
        self._asked_behind = _Line()
        self._lines = (self._asked, self._unasked_behind, self._asked_behind)
        self._bytes = 0
        self._let_go = 0

    def keep(self, node: Node, tensor: torch.Tensor) -> None:
        """Hold the value of ``node``."""
        if tensor.nelement() == 0:
            return
        if node.index in self._held:
            self._drop(node.index)
        self._largest = max(self._largest, _bytes_of(tensor))
        self._budget = max(self._budget, self.room * self._largest)
        self._hold(node.index, tensor)
        self._made_in[node.scope[-1] if node.scope else 0].append(node.index)
        while self._unasked_behind.bytes > max(self.left_behind, self.few * self._largest):
            self._drop(self._unasked_behind.oldest)
        while self._asked_behind.bytes > self._reach:
            self._drop(self._asked_behind.oldest)
        while self._bytes > self._budget:
            self._drop(self._first_to_go(node.index))
        if self._let_go > _LET_GO:
            # What stays lies between what has gone, and the model's next values find no place.
            self._let_go = 0
            give_back()

    def _first_to_go(self, newest: int) -> int:
        """Return what is dropped where the room is short."""
        others = (each for each in self._held if each not in self._asked and each != newest)
        unasked = next(others, None)
        if self._asked.bytes and (unasked is None or 2 * self._asked.bytes > self._budget):
            return self._asked.oldest
        return newest if unasked is None else unasked

    def leave(
        self, call: int, outer: int, handed_out: Iterable[torch.Tensor], *, projects: bool = True
    ) -> None:
        """A module call has ended, within the call ``outer``, and has returned these tensors.

        Where it ``projects`` nothing (a norm, say), all that it made is taken as the outer call's:
        the way from a projection to a product may begin in the middle of a norm.
        """
        made = self._made_in.pop(call, None)
        if not made:
            return
        if not projects:
            self._made_in[outer].extend(made)
            return
        out: set[int] = set()
        for tensor in handed_out:
            # A wrapper (of vmap, say) has no storage.
            with suppress(RuntimeError, NotImplementedError):
                out.add(storage_key(tensor))
        for index in made:
            held = self._held.get(index)
            if held is None:
                continue
            if storage_key(held) in out:
                self._made_in[outer].append(index)
            elif index in self._asked:
                self._asked_behind.add(index, _bytes_of(held))
            else:
                self._unasked_behind.add(index, _bytes_of(held))

    def _hold(self, index: int, tensor: torch.Tensor) -> None:
        self._held[index] = tensor
        self._witnesses[index] = _witness(tensor).clone()
        sharing = self._by_storage.setdefault(storage_key(tensor), set())
        if not sharing:
            self._bytes += _bytes_of(tensor)
        sharing.add(index)

    def _drop(self, index: int) -> None:
        tensor = self._held.pop(index)
        self._witnesses.pop(index, None)
        for line in self._lines:
            line.discard(index)
        key = storage_key(tensor)
        sharing = self._by_storage.get(key, set())
        sharing.discard(index)
        if not sharing:
            self._by_storage.pop(key, None)
            self._bytes -= _bytes_of(tensor)
            self._let_go += _bytes_of(tensor)

    def holds(self, node: Node) -> bool:
        """Whether the value of ``node`` is held, without asking for it."""
        return node.index in self._held

    def value(self, node: Node) -> torch.Tensor | None:
        """The value of ``node`` when it was made; None when no longer held."""
        held = self._held.get(node.index)
        if held is not None:
            self._asked.add(node.index, _bytes_of(held))
            if node.index in self._unasked_behind:
                self._unasked_behind.discard(node.index)
                self._asked_behind.add(node.index, _bytes_of(held))
        return held

    def was_changed(self, node: Node) -> bool:
        """Whether a held value was changed behind the recorder's back (through NumPy)."""
        held, witness = self._held.get(node.index), self._witnesses.get(node.index)
        if held is None or witness is None:
            return False
        now = _witness(held)
        if now.equal(witness):
            return False
        return not bool(((now == witness) | (now.isnan() & witness.isnan())).all())

    def about_to_write(self, tensor: torch.Tensor) -> None:
        """Copy what is held of the storage that is about to change."""
        for index in tuple(self._by_storage.get(storage_key(tensor), ())):
            held = self._held[index]
            stood = [line for line in self._lines if index in line]
            self._drop(index)
            self._hold(index, held.clone())
            for line in stood:
                line.add(index, _bytes_of(self._held[index]))

    def clear(self) -> None:
        """Let go of everything."""
        self._held.clear()
        self._witnesses.clear()
        self._by_storage.clear()
        self._made_in.clear()
        for line in self._lines:
            line.clear()
        self._bytes = 0
