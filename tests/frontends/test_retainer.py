"""Values kept for the verification: what is let go of, and in which order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from rootdk import check, measure
from rootdk.frontends._graph.node import Kind, Node
from rootdk.frontends._sites.recording import Recording
from rootdk.frontends._tap import Measured, tapped
from rootdk.frontends._torch import retainer as retainer_module
from rootdk.frontends._torch.retainer import Retainer


def node(index: int, scope: tuple[int, ...] = ()) -> Node:
    return Node(index, "mul", (), shape=(), dtype="float32", kind=Kind.ACTIVATION, scope=scope)


def test_a_retained_value_survives_a_write_in_place() -> None:
    retainer, made = Retainer(1 << 20), node(1)
    tensor = torch.ones(3, 4)
    retainer.keep(made, tensor)
    retainer.about_to_write(tensor)
    tensor.mul_(2.0)
    assert torch.equal(retainer.value(made), torch.ones(3, 4))
    assert not retainer.was_changed(made)


def test_a_change_behind_the_recorders_back_is_seen() -> None:
    retainer, made = Retainer(1 << 20), node(1)
    tensor = torch.ones(3, 4)
    retainer.keep(made, tensor)
    tensor.numpy()[...] *= 2.0
    assert retainer.was_changed(made)


def test_the_oldest_values_go_first() -> None:
    retainer = Retainer(1000, room=2)
    nodes = [node(i) for i in range(4)]
    for each in nodes:
        retainer.keep(each, torch.zeros(100))
    assert [retainer.value(each) is not None for each in nodes] == [False, False, True, True]


def test_what_was_asked_for_goes_last() -> None:
    retainer = Retainer(1000, room=2)
    nodes = [node(i) for i in range(3)]
    retainer.keep(nodes[0], torch.zeros(100))
    assert retainer.value(nodes[0]) is not None
    for each in nodes[1:]:
        retainer.keep(each, torch.zeros(100))
    assert [retainer.holds(each) for each in nodes] == [True, False, True]


def test_there_is_room_for_a_few_of_the_largest() -> None:
    retainer = Retainer(0, room=3)
    nodes = [node(i) for i in range(4)]
    for each, size in zip(nodes, (1, 1, 200, 200), strict=True):
        retainer.keep(each, torch.zeros(size))
    assert [retainer.value(each) is not None for each in nodes] == [True, True, True, True]


def test_views_of_one_storage_are_counted_once() -> None:
    retainer, whole = Retainer(1000, room=1), torch.zeros(200)
    nodes = [node(i) for i in range(4)]
    for each, tensor in zip(nodes, (whole, whole[10:], whole[:5], whole), strict=True):
        retainer.keep(each, tensor)
    assert all(retainer.value(each) is not None for each in nodes)
    retainer.keep(node(4), torch.zeros(200))
    assert all(retainer.value(each) is None for each in nodes)


def test_what_a_module_did_not_hand_out_goes_first() -> None:
    retainer = Retainer(10_000, left_behind=300, few=0)
    inner, returned = node(1, (1, 2)), node(2, (1, 2))
    out = torch.zeros(100)
    retainer.keep(inner, torch.zeros(100))
    retainer.keep(returned, out)
    retainer.leave(2, 1, [out.view(10, 10)])
    retainer.keep(node(3, (1,)), torch.zeros(100))
    assert not retainer.holds(inner)
    assert retainer.holds(returned)


def test_what_was_asked_for_stays_when_its_module_is_left() -> None:
    retainer = Retainer(10_000, left_behind=0, few=0)
    asked, other = node(1, (2,)), node(2, (2,))
    for each in (asked, other):
        retainer.keep(each, torch.zeros(10))
    assert retainer.value(asked) is not None
    retainer.leave(2, 0, [])
    retainer.keep(node(3), torch.zeros(10))
    assert retainer.holds(asked)
    assert not retainer.holds(other)


def test_what_was_left_behind_and_is_asked_for_later_stays() -> None:
    retainer = Retainer(10_000, left_behind=0, few=1)
    late = node(1, (2,))
    retainer.keep(late, torch.zeros(10))
    retainer.leave(2, 0, [])
    assert retainer.value(late) is not None
    retainer.leave(3, 0, [])
    for index in (4, 5, 6):
        retainer.keep(node(index, (index,)), torch.zeros(10))
        retainer.leave(index, 0, [])
    retainer.keep(node(7), torch.zeros(10))
    assert retainer.holds(late)
    assert not retainer.holds(node(4))


def test_asked_for_or_not_what_is_left_behind_has_a_bound() -> None:
    retainer = Retainer(100, room=100, left_behind=0, few=0)
    nodes = [node(i, (i,)) for i in range(1, 5)]
    for each in nodes:
        retainer.keep(each, torch.zeros(10))
        assert retainer.value(each) is not None
        retainer.leave(each.index, 0, [])
    retainer.keep(node(5), torch.zeros(1))
    assert [retainer.holds(each) for each in nodes] == [False, False, True, True]


def test_a_copy_of_what_was_left_behind_is_left_behind() -> None:
    retainer = Retainer(10_000, left_behind=30, few=0)
    tensor, made = torch.zeros(10), node(1, (2,))
    retainer.keep(made, tensor)
    retainer.leave(2, 0, [])
    retainer.about_to_write(tensor)
    retainer.keep(node(2), torch.zeros(100))
    assert not retainer.holds(made)


def test_what_is_in_use_leaves_as_much_room_for_what_was_left_behind() -> None:
    retainer = Retainer(10_000, left_behind=100, few=0)
    late = node(1, (2,))
    retainer.keep(late, torch.zeros(20))
    retainer.leave(2, 0, [])
    retainer.keep(node(2), torch.zeros(1000))
    assert retainer.holds(late)


def test_what_a_norm_made_is_as_its_callers_own() -> None:
    retainer = Retainer(10_000, left_behind=0, few=0)
    core = node(1, (1, 2))
    retainer.keep(core, torch.zeros(10))
    retainer.leave(2, 1, [], projects=False)
    retainer.keep(node(2, (1,)), torch.zeros(10))
    assert retainer.holds(core)
    retainer.leave(1, 0, [])
    retainer.keep(node(3), torch.zeros(10))
    assert not retainer.holds(core)


class _Layer(torch.nn.Module):
    """A module that projects nothing itself, but holds one that does, and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.norm = torch.nn.Linear(8, 8), torch.nn.LayerNorm(8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.inner(self.norm(x)))


def test_a_module_projects_if_one_within_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    leave = Retainer.leave

    def watched(self: Retainer, *args: Any, projects: bool) -> None:
        seen.append(projects)
        leave(self, *args, projects=projects)

    monkeypatch.setattr(Retainer, "leave", watched)
    check(torch.nn.Sequential(_Layer(), _Layer()), torch.ones(2, 8))
    # Norm, projection and layer, twice, and the whole.
    assert seen == [False, True, True, False, True, True, True]


def test_what_was_asked_for_long_ago_leaves_room_for_what_is_made_now() -> None:
    """A model of many layers asks for values of each, and has to find those of the last."""
    retainer = Retainer(4000, room=1)
    for layer in range(40):
        made = [node(layer * 3 + each) for each in range(3)]
        for each in made:
            retainer.keep(each, torch.zeros(100))
        assert all(retainer.value(each) is not None for each in made), f"layer {layer}"
    assert retainer._bytes <= 4000


def test_what_is_asked_for_again_and_again_stays() -> None:
    """Keys that later layers share."""
    retainer, shared = Retainer(4000, room=1), node(0)
    retainer.keep(shared, torch.ones(100))
    for at in range(1, 60):
        retainer.keep(node(at), torch.zeros(100))
        assert retainer.value(node(at)) is not None
        assert retainer.value(shared) is not None, f"after {at} others"


def test_holes_are_given_back_once_much_was_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    given_back: list[bool] = []
    monkeypatch.setattr(retainer_module, "give_back", lambda: given_back.append(True))
    monkeypatch.setattr(retainer_module, "_LET_GO", 1000)
    retainer = Retainer(400, room=1)
    counts = []
    for index in range(7):
        retainer.keep(node(index), torch.zeros(100))
        counts.append(len(given_back))
    # From the second on each lets 400 bytes go.
    assert counts == [0, 0, 0, 1, 1, 1, 2]


class _Eager(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (torch.nn.Linear(16, 16) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.query(x), self.key(x), self.value(x)
        scores = query @ key.transpose(-2, -1) / 4.0
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        weights = scores.masked_fill(later, -torch.inf).softmax(-1)
        out: torch.Tensor = weights @ value
        return out


def test_neither_scores_nor_weights_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[tuple[int, ...]] = []
    keep = Retainer.keep

    def seen(self: Retainer, made: Node, tensor: torch.Tensor) -> None:
        kept.append(tuple(tensor.shape))
        keep(self, made, tensor)

    monkeypatch.setattr(Retainer, "keep", seen)
    (site,) = check(_Eager(), torch.randn(2, 24, 16)).sites
    assert site.resolved
    assert kept
    assert (2, 24, 24) not in kept


def test_nothing_that_a_node_held_outlives_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    products: list[Node] = []
    hold = Recording._hold_product

    def seen(self: Recording, made: Node) -> None:
        products.append(made)
        hold(self, made)

    monkeypatch.setattr(Recording, "_hold_product", seen)
    assert check(_Eager(), torch.randn(2, 24, 16)).sites
    assert products
    assert not any({"operands", "factors", "tensor"} & set(made.attrs) for made in products)


def test_a_causal_mask_is_measured_as_causal_order() -> None:
    found: list[Measured] = []
    model, given = _Eager(), torch.randn(2, 24, 16)
    with tapped(found.append):
        (site,) = check(model, given).sites
    (measured,) = found
    assert site.causal == measured.causal == "top_left"
    assert measured.mask is None
    visible = torch.ones(24, 24, dtype=torch.bool).tril()
    with torch.no_grad():
        summary = measure(
            model.query(given)[:, None], model.key(given)[:, None], scale=0.25, mask=visible
        )
    for name in ("spread", "entropy_nats", "max_weight", "visible_scores"):
        np.testing.assert_allclose(measured.summary[name], summary[name], rtol=1e-5)
