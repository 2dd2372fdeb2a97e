"""Scores put together of pieces: what is said of such a site, and what is not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from frontends.test_met_in_the_wild import HEAD_DIM, HEADS, LENGTH, SCALE, WIDTH, Attention
from lookalikes import pieces as designs
from torch import nn

import rootdk
from rootdk.frontends import trace
from rootdk.frontends._sites import looks
from rootdk.frontends._sites.recording import Recording
from rootdk.records import AttentionSite


@pytest.fixture(autouse=True)
def faults_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the tracer fails the test instead of costing a site."""
    monkeypatch.setattr(Recording, "strict", True)


def site_of(model: nn.Module, *inputs: torch.Tensor, rows: int = 32) -> AttentionSite:
    with torch.no_grad():
        (site,) = trace(model.eval(), inputs or (torch.randn(2, LENGTH, WIDTH),), rows=rows).sites
    return site


def test_the_shapes_are_those_of_the_softmax(seed: int) -> None:
    torch.manual_seed(seed)
    model = designs.GlobalAndLocalKeys()
    site = site_of(model, *model.inputs())
    # Three blocks of four queries; each meets two global keys and four of its own.
    assert (site.batch, site.num_heads, site.queries, site.keys) == (3, 4, 12, 6)
    assert (site.head_dim, site.normalisation.axis) == (16, "keys")
    assert not site.normalisation.sink


def test_a_column_that_is_no_product_is_a_sink(seed: int) -> None:
    torch.manual_seed(seed)
    model = designs.PiecesAndASink()
    assert site_of(model, *model.inputs()).normalisation.sink


class LastRowApart(Attention):
    """The scores of the last query are a product of their own."""

    def attend(self, q, k, v):
        q = q * SCALE
        scores = torch.cat([q[:, :, :-1] @ k.mT, q[:, :, -1:] @ k.mT], dim=2)
        return scores.softmax(-1) @ v


def test_rows_of_every_piece_are_recomputed(seed: int) -> None:
    """Beside the one sampled row there are some of the piece that it does not show."""
    torch.manual_seed(seed)
    site = site_of(LastRowApart(), rows=1)
    assert site.unresolved is None
    assert site.verification.rows > 1


def test_a_piece_that_was_not_found_in_time_is_said(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looks, "_SEARCHED", -1)
    torch.manual_seed(seed)
    site = site_of(LastRowApart(), rows=1)
    assert "could not be verified" in str(site.unresolved)


class OverTheQueries(Attention):
    """Pieces beside each other, and a softmax over the queries."""

    def attend(self, q, k, v):
        a, b = k.split([5, LENGTH - 5], dim=2)
        q = q * SCALE
        return torch.cat([q @ a.mT, q @ b.mT], dim=-1).softmax(-2) @ v


def test_a_softmax_over_the_queries_is_said(seed: int) -> None:
    torch.manual_seed(seed)
    diagnosis = rootdk.check(OverTheQueries(), torch.randn(2, LENGTH, WIDTH))
    assert "RDK301" in {f.code for f in diagnosis.findings}


class HiddenThroughout(Attention):
    """Every entry is written over by a finite fill before the pieces are joined."""

    def attend(self, q, k, v):
        scores = q.new_zeros(*q.shape[:3], LENGTH)
        scores[..., :5] = (q @ k[:, :, :5].mT).masked_fill(torch.tensor(True), -1e9)
        scores[..., 5:] = (q @ k[:, :, 5:].mT).masked_fill(torch.tensor(True), -1e9)
        return scores.softmax(-1) @ v


def test_pieces_that_nothing_shows_are_not_verified(seed: int) -> None:
    torch.manual_seed(seed)
    assert "no row has a visible key" in str(site_of(HiddenThroughout()).unresolved)


class WrittenThroughNumPy(Attention):
    """Half of the scores come from memory that nothing recorded has written."""

    def attend(self, q, k, v):
        scores = q.new_empty(*q.shape[:3], LENGTH)
        scores[..., :5] = q @ k[:, :, :5].mT * SCALE
        scores.numpy()[..., 5:] = (q @ k[:, :, 5:].mT).numpy()
        return scores.softmax(-1) @ v


def test_scores_of_unknown_origin_are_refused(seed: int) -> None:
    torch.manual_seed(seed)
    assert "no longer held" in str(site_of(WrittenThroughNumPy()).unresolved)


class CompressedKeys(Attention):
    """Keys are sums of a window by learned shares, and then normalised (DeepSeek V4)."""

    normalised = True

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        h = self.norm(x)
        q, k, v = self.project(h)
        shares = self.split(self.gate(h))[:, :, :10].unflatten(2, (2, 5)).softmax(3)
        short = (k[:, :, :10].unflatten(2, (2, 5)) * shares).sum(3)
        if self.normalised:
            short = short * torch.rsqrt(short.pow(2).mean(-1, keepdim=True) + 1e-6)
        keys, values = torch.cat([k, 1.0 * short], dim=2), torch.cat([v, v[:, :, :2]], dim=2)
        return ((q @ keys.mT) * SCALE).softmax(-1) @ values


class SummedKeys(CompressedKeys):
    normalised = False


def test_a_norm_of_a_sum_is_a_norm(seed: int) -> None:
    torch.manual_seed(seed)
    site = site_of(CompressedKeys())
    assert site.unresolved is None
    assert site.effective_scale == pytest.approx(SCALE)
    assert "a sum over an axis" in str(site_of(SummedKeys()).unresolved)


# -- in JAX ------------------------------------------------------------------------------------


def two_pieces(factor: float):
    """Scores of two products beside each other, the second ``factor`` times what it should be."""

    def attention(w, x):
        q, k, v = ((x @ w[n]).reshape(*x.shape[:2], HEADS, HEAD_DIM).swapaxes(1, 2) for n in "qkv")
        near = q @ k[:, :, :4].mT * SCALE
        far = factor * (q @ k[:, :, 4:].mT * SCALE)
        return jax.nn.softmax(jnp.concatenate([near, far], axis=-1)) @ v

    return attention


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_pieces_in_jax(factor: float, rng: np.random.Generator) -> None:
    x = jnp.asarray(rng.normal(size=(2, LENGTH, WIDTH)), jnp.float32)
    shape = (WIDTH, WIDTH)
    w = {n: jnp.asarray(rng.normal(size=shape) / WIDTH**0.5, jnp.float32) for n in "qkv"}
    (site,) = rootdk.check(two_pieces(factor), w, x).sites
    if factor == 1.0:
        assert site.unresolved is None
        assert site.effective_scale == pytest.approx(SCALE, rel=1e-6)
    else:
        assert "different factors" in str(site.unresolved)
