"""A batch that the scores have only from their mask: one sequence under several masks."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from frontends.test_met_in_the_wild import HEADS, LENGTH, SCALE, WIDTH, Attention

import rootdk
from rootdk.frontends._sites.recording import Recording
from rootdk.records import Diagnosis

MASKS = 3

SPELLINGS = {
    "added": lambda q, k, v, mask: (
        (q @ k.mT * SCALE + torch.where(mask, 0.0, -1e9)).softmax(-1) @ v
    ),
    "filled": lambda q, k, v, mask: torch.where(mask, q @ k.mT * SCALE, -torch.inf).softmax(-1) @ v,
    "library": lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask),
    "heads merged": lambda q, k, v, mask: (
        torch.where(
            mask,
            (q.flatten(0, 1) @ k.flatten(0, 1).mT * SCALE).unflatten(0, (-1, HEADS)),
            -1e9,
        ).softmax(-1)
        @ v
    ),
    "twice": lambda q, k, v, mask: (
        ((q * SCALE) @ k.mT * SCALE + torch.where(mask, 0.0, -1e9)).softmax(-1) @ v
    ),
}


class Masked(Attention):
    """One sequence, under masks of a batch; ``grown``: the batch comes with the mask alone."""

    def __init__(self, spelling: str, grown: bool) -> None:
        super().__init__()
        self.attention, self.grown = SPELLINGS[spelling], grown

    def forward(self, x, mask):
        q, k, v = self.project(self.norm(x))
        if not self.grown:
            q, k, v = (t.repeat(MASKS, 1, 1, 1) for t in (q, k, v))
        return self.attention(q, k, v, mask).transpose(1, 2).flatten(2)


@pytest.fixture(autouse=True)
def faults_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the tracer fails the test instead of costing a site."""
    monkeypatch.setattr(Recording, "strict", True)


def checked(spelling: str, seed: int, *, grown: bool, rows: int = LENGTH) -> Diagnosis:
    torch.manual_seed(seed)
    model, x = Masked(spelling, grown).eval(), torch.randn(1, LENGTH, WIDTH)
    mask = torch.rand(MASKS, 1, rows, LENGTH) > 0.3
    mask[..., 0] = True
    return rootdk.check(model, x, mask)


@pytest.mark.parametrize("rows", [1, LENGTH])
@pytest.mark.parametrize("spelling", ["added", "filled", "library", "heads merged"])
def test_it_is_measured_as_if_the_operands_had_the_batch(
    spelling: str, rows: int, seed: int
) -> None:
    (grown,), (plain,) = (
        (d.sites) for d in (checked(spelling, seed, grown=g, rows=rows) for g in (True, False))
    )
    assert grown.unresolved is None
    assert grown.verification.rows == 32
    assert grown.effective_scale == pytest.approx(plain.effective_scale, rel=1e-6)
    assert (grown.batch, grown.num_heads, grown.queries) == (MASKS, HEADS, LENGTH)


@pytest.mark.parametrize("spelling", ["added", "filled", "library", "heads merged"])
def test_its_statistics_are_those_of_the_batch(spelling: str, seed: int) -> None:
    one, two = (checked(spelling, seed, grown=grown) for grown in (True, False))
    (a,), (b,) = one.summaries.values(), two.summaries.values()
    np.testing.assert_array_equal(a.rows, b.rows)
    for name in ("row_spread", "entropy_nats", "max_weight", "query_std", "value_std"):
        np.testing.assert_allclose(a[name], b[name], rtol=1e-5, err_msg=name)


def test_a_fault_is_found_in_it(seed: int) -> None:
    assert "RDK102" in {f.code for f in checked("twice", seed, grown=True).findings}


class GrownHeads(Attention):
    """One head of queries and keys under a bias of its own for each of four."""

    def forward(self, x, bias):
        q, k, v = (t[:, :1] for t in self.project(self.norm(x)))
        return ((q @ k.mT * SCALE + bias).softmax(-1) @ v).transpose(1, 2).flatten(2)


def test_heads_may_come_with_a_bias(seed: int) -> None:
    torch.manual_seed(seed)
    bias = torch.randn(1, HEADS, LENGTH, LENGTH)
    (site,) = rootdk.check(GrownHeads().eval(), torch.randn(2, LENGTH, WIDTH), bias).sites
    assert site.unresolved is None
    assert (site.batch, site.num_heads) == (2, HEADS)
