"""A softmax over keys and something beside them, over parts of a merged axis, and in a gradient."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import rootdk

HEADS, KV_HEADS, HEAD_DIM, WIDTH, LENGTH, BATCH = 6, 2, 20, 120, 11, 2
SCALE = HEAD_DIM**-0.5


class Attention(nn.Module):
    """Projections, and an attention given as a function of query, key and value."""

    def __init__(self, attend, kv_heads=HEADS):
        super().__init__()
        self.attend = attend
        self.kv_heads = kv_heads
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key, self.value = (nn.Linear(WIDTH, kv_heads * HEAD_DIM) for _ in "kv")

    def forward(self, x):
        def split(y, heads):
            return y.unflatten(-1, (heads, HEAD_DIM)).transpose(1, 2)

        q = split(self.query(x), HEADS)
        return self.attend(
            q, split(self.key(x), self.kv_heads), split(self.value(x), self.kv_heads)
        )


def checked(attend, *, kv_heads=HEADS, batch=BATCH):
    return rootdk.check(Attention(attend, kv_heads), torch.randn(batch, LENGTH, WIDTH))


def over(attend, **sizes):
    """The axis of the one site, and what is said of it."""
    diagnosis = checked(attend, **sizes)
    (site,) = diagnosis.sites
    assert site.unresolved is None, site.unresolved
    assert (site.queries, site.keys, site.num_heads) == (LENGTH, LENGTH, HEADS)
    said = [f for f in diagnosis.findings if f.severity != "note"]
    return site.normalisation.axis, [(f.code, str(f.severity)) for f in said], said


def all_pairs(q, k, v):
    scores = (q @ k.mT * SCALE).flatten(-2)
    return scores.softmax(-1).unflatten(-1, (LENGTH, LENGTH)) @ v


def heads_and_keys(q, k, v):
    scores = (q @ k.mT * SCALE).permute(0, 2, 1, 3)
    weights = scores.flatten(-2).softmax(-1).unflatten(-1, (HEADS, LENGTH))
    return weights.permute(0, 2, 1, 3) @ v


def samples_and_keys(q, k, v):
    scores = (q @ k.mT * SCALE).permute(1, 2, 0, 3)
    weights = scores.flatten(-2).softmax(-1).unflatten(-1, (BATCH, LENGTH))
    return weights.permute(2, 0, 1, 3) @ v


@pytest.mark.parametrize(
    ("attend", "axis", "words"),
    [
        (all_pairs, "queries-and-keys", "the queries and the keys together"),
        (heads_and_keys, "heads-and-keys", "the heads and the keys together"),
        (samples_and_keys, "batch-and-keys", "the batch and the keys together"),
    ],
)
def test_a_softmax_over_more_than_the_keys_is_a_warning(attend, axis, words, seed: int) -> None:
    torch.manual_seed(seed)
    found, codes, (finding,) = over(attend)
    assert (found, codes) == (axis, [("RDK301", "warning")])
    assert words in finding.message
    assert f"not over the keys of each query ({LENGTH})" in finding.message


def test_keys_in_pieces_are_keys(seed: int) -> None:
    """Each query meets every piece, so a softmax over the pieces together is one over the keys."""

    def in_pieces(q, k, v):
        pieces = F.pad(k, (0, 0, 0, 1)).unflatten(2, (3, 4))
        scores = (q[:, :, None] @ pieces.mT * SCALE).permute(0, 1, 3, 2, 4).flatten(-2)
        weights = scores.masked_fill(torch.arange(12) >= LENGTH, -math.inf).softmax(-1)
        return weights @ F.pad(v, (0, 0, 0, 1))

    torch.manual_seed(seed)
    diagnosis = checked(in_pieces)
    assert [site.normalisation.axis for site in diagnosis.sites] == ["keys"]
    assert diagnosis.findings == ()


def grouped(dim):
    def attend(q, k, v):
        q = q.unflatten(1, (KV_HEADS, -1))
        weights = (torch.einsum("bgrqd,bgkd->bgrqk", q, k) * SCALE).softmax(dim)
        return torch.einsum("bgrqk,bgkd->bgrqd", weights, v).flatten(1, 2)

    return attend


@pytest.mark.parametrize(("dim", "axis"), [(2, "heads"), (3, "queries"), (4, "keys")])
def test_heads_and_queries_that_were_rows_of_one_product(dim: int, axis: str, seed: int) -> None:
    """einsum merges the heads of a group with the queries: which is which is seen afterwards."""
    torch.manual_seed(seed)
    found, codes, said = over(grouped(dim), kv_heads=KV_HEADS)
    assert found == axis
    assert codes == ([] if axis == "keys" else [("RDK301", "error")])
    size = {"heads": HEADS, "queries": LENGTH}.get(axis)
    assert all(f"the {axis} ({size}), not over the keys ({LENGTH})" in f.message for f in said)


def test_what_a_gradient_multiplies_weights_by_are_no_values(seed: int) -> None:
    """The gradient of a logsumexp of scores is a softmax: times keys, and turned, times queries."""

    class Energy(Attention):
        def forward(self, x):
            def energy(x):
                q, k = self.query(x), self.key(x)
                return -torch.logsumexp(q @ k.mT * SCALE, -1).sum() / SCALE

            return torch.func.grad(energy)(x)

    torch.manual_seed(seed)
    diagnosis = rootdk.check(Energy(None), torch.randn(BATCH, LENGTH, WIDTH))
    assert diagnosis.findings == ()
    assert diagnosis.sites == ()


def test_attention_before_and_after_a_gradient_is_seen(seed: int) -> None:
    """Forces from an energy, as in models of molecules: the passes before and after count."""

    class Forces(Attention):
        def forward(self, x):
            x = x.detach().requires_grad_()
            with torch.enable_grad():
                energy = super().forward(x).square().sum()
            (forces,) = torch.autograd.grad(energy, x)
            return super().forward(forces)

    def unscaled(q, k, v):
        return (q @ k.mT).softmax(-1) @ v

    torch.manual_seed(seed)
    diagnosis = rootdk.check(Forces(unscaled), torch.randn(BATCH, LENGTH, WIDTH))
    assert [site.unresolved for site in diagnosis.sites] == [None, None]
    assert {f.code for f in diagnosis.findings if f.severity != "note"} == {"RDK101"}


def test_an_axis_is_not_read_through_an_inverse(seed: int) -> None:
    """Nyström attention: the inverse of the middle weights is square, and has no axes of theirs."""

    def nystroem(q, k, v):
        q, k = q * HEAD_DIM**-0.25, k * HEAD_DIM**-0.25
        few = [F.pad(x, (0, 0, 0, 1)).unflatten(2, (4, 3)).mean(-2) for x in (q, k)]
        one, two, three = (
            (a @ b.mT).softmax(-1) for a, b in ((q, few[1]), (few[0], few[1]), (few[0], k))
        )
        return one @ torch.linalg.pinv(two) @ (three @ v)

    torch.manual_seed(seed)
    diagnosis = checked(nystroem)
    assert len(diagnosis.sites) == 3
    assert [f.code for f in diagnosis.findings if f.severity != "note"] == []


@pytest.mark.parametrize(
    ("dim", "axis", "factor"), [(2, "keys", SCALE), (1, "queries", SCALE), (2, "keys", 1.0)]
)
def test_a_factor_inside_a_sum_of_products(dim: int, axis: str, factor: float, seed: int) -> None:
    """Products summed by hand, heads last, as layers over graphs have them."""

    def by_hand(q, k, v):
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        scores = (q[:, :, None] * k[:, None] * (2.0 * factor) / 2.0).sum(-1)
        return (scores.softmax(dim)[..., None] * v[:, None]).sum(2).transpose(1, 2)

    torch.manual_seed(seed)
    diagnosis = checked(by_hand)
    (site,) = diagnosis.sites
    assert site.unresolved is None, site.unresolved
    assert (site.normalisation.axis, site.num_heads) == (axis, HEADS)
    assert site.effective_scale == pytest.approx(factor, rel=1e-12)
    said = {f.code for f in diagnosis.findings if f.severity != "note"}
    assert said == {
        code for code, right in (("RDK301", axis == "keys"), ("RDK101", factor != 1)) if not right
    }
