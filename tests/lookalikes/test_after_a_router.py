"""Layers behind a mixture of experts: what a router weighted is not weights for ever."""

import pytest
import torch
from lookalikes.design import Design
from torch import nn

import rootdk


class Experts(nn.Module):
    """Each token is the sum of all experts, weighted by a softmax over them."""

    def __init__(self, width: int, count: int = 3) -> None:
        super().__init__()
        self.router = nn.Linear(width, count)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = self.router(x).softmax(-1)
        parts = [expert(x) * weights[..., i : i + 1] for i, expert in enumerate(self.experts)]
        return x + torch.stack(parts).sum(0)


class Plain(Design):
    def attend(self, q, k, v):
        return (q @ k.mT / self.head_dim**0.5).softmax(-1) @ v


class BehindExperts(Plain):
    """Attention, experts, attention."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = Experts(self.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(self.experts(super().forward(x)))


class StraightThrough(Design):
    """The output takes the best key alone; gradients flow through the softmax."""

    def attend(self, q, k, v):
        scores = q @ k.mT / self.head_dim**0.5
        best = scores.argmax(-1, keepdim=True)
        hard = torch.zeros_like(scores).scatter(-1, best, 1.0)
        soft = scores.softmax(-1)
        return (hard + soft - soft.detach()) @ v


def test_a_sum_as_large_as_the_weights_is_still_weights(seed: int) -> None:
    torch.manual_seed(seed)
    model = StraightThrough().eval()
    (site,) = rootdk.check(model, *model.inputs()).sites
    assert site.scale_ratio == pytest.approx(1.0)


@pytest.mark.parametrize("normalised", [True, False], ids=["norm", "no-norm"])
def test_both_attentions_are_found(normalised: bool, seed: int) -> None:
    torch.manual_seed(seed)
    model = BehindExperts().eval()
    if not normalised:
        model.norm = nn.Identity()
    diagnosis = rootdk.check(model, *model.inputs())
    assert [site.unresolved for site in diagnosis.sites] == [None, None]
    assert [site.scale_ratio for site in diagnosis.sites] == pytest.approx([1.0, 1.0])
    assert [f for f in diagnosis.findings if f.severity != "note"] == []
