"""Tensors and their nodes: reused identities, writes through aliases, values kept for a while."""

import pytest
import torch

from rootdk.frontends._graph.node import Kind, Node
from rootdk.frontends._torch.identity import Identities


def node(index: int, name: str = "mul") -> Node:
    return Node(index, name, (), shape=(1,), dtype="float32", kind=Kind.ACTIVATION)


class Rebuilds:
    """Remembers how aliases were rebuilt, and gives each a node of its own."""

    def __init__(self) -> None:
        self.calls: list[tuple[Node, Node, bool]] = []

    def __call__(self, old, new, whole, tensor, window) -> Node:
        self.calls.append((old, new, whole))
        return node(100 + len(self.calls))


@pytest.fixture
def rebuilds() -> Rebuilds:
    return Rebuilds()


@pytest.fixture
def identities(rebuilds: Rebuilds) -> Identities:
    return Identities(rebuilds)


def test_a_dead_tensors_identity_is_not_its_successors(identities: Identities) -> None:
    first = torch.zeros(3)
    identities.bind(first, node(1), fresh=True)
    record = identities._records[id(first)]
    second = torch.zeros(3)
    # As if Python had given the second tensor the place of the first.
    identities._records[id(second)] = record
    assert identities.find(second) is None


def test_a_write_into_a_part_reaches_the_base(identities: Identities, rebuilds: Rebuilds) -> None:
    base = torch.zeros(4, 6)
    part = base[:, :2]
    identities.bind(base, node(1), fresh=True)
    identities.bind(part, node(2, "slice"), fresh=False)
    identities.write(part, node(3))
    assert identities.find(part).index == 3
    assert identities.find(base).index == 101
    assert rebuilds.calls[0][2] is False


def test_a_write_beside_a_view_does_not_touch_it(
    identities: Identities, rebuilds: Rebuilds
) -> None:
    base = torch.zeros(4, 6)
    left, right = base[:, :3], base[:, 3:]
    identities.bind(base, node(1), fresh=True)
    identities.bind(left, node(2, "slice"), fresh=False)
    identities.bind(right, node(3, "slice"), fresh=False)
    identities.write(left, node(4))
    assert identities.find(right).index == 3
    assert rebuilds.calls == []


def test_a_write_through_a_whole_alias_covers(identities: Identities, rebuilds: Rebuilds) -> None:
    base = torch.zeros(4, 6)
    flat = base.view(24)
    identities.bind(base, node(1), fresh=True)
    identities.bind(flat, node(2, "view"), fresh=False)
    identities.write(flat, node(3))
    identities.find(base)
    assert rebuilds.calls[0][2] is True
