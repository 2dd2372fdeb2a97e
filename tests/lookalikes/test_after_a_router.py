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
