"""Rows that see no key verify nothing: others are drawn, and where none is, the site says so."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from frontends.onnx_graphs import Graph
from frontends.saved import attend
from torch import Tensor, nn

import rootdk
from rootdk.frontends._sites.recompute import NOTHING_SEEN
from rootdk.records import AttentionSite

BATCH, LENGTH, HEADS, HEAD_DIM = 2, 80, 3, 16
WIDTH = HEADS * HEAD_DIM
SEEING = 70
"""The one row that sees a key, among hundreds: a sample of 32 rows would seldom meet it."""

Attend = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def some_visible(seeing: bool, shape: tuple[int, ...] = (1, 1, LENGTH, LENGTH)) -> np.ndarray:
    """(1, 1, queries, keys): no key is visible, or five are from one row."""
    visible = np.zeros(shape, dtype=bool)
    if seeing:
        visible[..., SEEING, 3:8] = True
    return visible


def by_fill(q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
    scores = (q @ k.mT / math.sqrt(HEAD_DIM)).masked_fill(~visible, -math.inf)
    return scores.softmax(-1).nan_to_num() @ v


def by_addition(q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
    added = torch.zeros(visible.shape).masked_fill(~visible, -1e9)
    return (q @ k.mT / math.sqrt(HEAD_DIM) + added).softmax(-1) @ v


def by_hand(q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
    scores = (q @ k.mT / math.sqrt(HEAD_DIM)).masked_fill(~visible, -1e9)
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    return powers / powers.sum(-1, keepdim=True) @ v


def fused(q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=visible)


def fused_addition(q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
    added = torch.zeros(visible.shape).masked_fill(~visible, -math.inf)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=added)


class Layer(nn.Module):
    def __init__(self, attend: Attend) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.attend = attend

    def forward(self, x: Tensor, visible: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, HEAD_DIM)).permute(2, 0, 3, 1, 4)
        return self.attend(q, k, v, visible)


def torch_site(attend: Attend, seeing: bool) -> AttentionSite:
    layer = Layer(attend).eval()
    x, visible = torch.randn(BATCH, LENGTH, WIDTH), torch.from_numpy(some_visible(seeing))
    return only(rootdk.check(layer, x, visible))


def only(diagnosis: rootdk.Diagnosis) -> AttentionSite:
    (site,) = diagnosis.sites
    return site


def jax_site(fused_call: bool, seeing: bool, rng: np.random.Generator) -> AttentionSite:
    weight = jnp.asarray(rng.normal(size=(WIDTH, 3 * WIDTH)) / math.sqrt(WIDTH), jnp.float32)
    x = jnp.asarray(rng.normal(size=(BATCH, LENGTH, WIDTH)), jnp.float32)

    def function(weight: jax.Array, x: jax.Array, visible: jax.Array) -> jax.Array:
        packed = (x @ weight).reshape(BATCH, LENGTH, 3, HEADS, HEAD_DIM)
        q, k, v = (packed[:, :, part] for part in range(3))
        if fused_call:
            return jax.nn.dot_product_attention(q, k, v, mask=visible)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(HEAD_DIM)
        weights = jax.nn.softmax(jnp.where(visible, scores, -1e9), axis=-1)
        return jnp.einsum("bhqk,bkhd->bqhd", weights, v)

    return only(rootdk.check(function, weight, x, jnp.asarray(some_visible(seeing))))


def onnx_site(folder: Path, kind: str, seeing: bool, rng: np.random.Generator) -> AttentionSite:
    g = Graph(opset=23)
    parts = []
    for name in "qkv":
        weight = g.hold((rng.normal(size=(WIDTH, WIDTH)) / math.sqrt(WIDTH)).astype("f4"), name)
        size = g.const([BATCH, LENGTH, HEADS, HEAD_DIM], np.int64)
        split = g("Reshape", g("MatMul", "x", weight), size)
        parts.append(g("Transpose", split, perm=[0, 2, 1, 3]))
    q, k, v = parts
    visible = some_visible(seeing)
    if kind == "fused":
        out = g("Attention", q, k, v, g.const(visible, np.bool_))
    else:
        scores = g("MatMul", q, g("Transpose", k, perm=[0, 1, 3, 2]))
        scores = g("Mul", scores, g.const(HEAD_DIM**-0.5))
        added = g.const(np.where(visible, 0.0, -1e9))
        out = g("MatMul", g("Softmax", g("Add", scores, added), axis=-1), v)
    import onnx

    path = folder / "model.onnx"
    onnx.save(g.model({"x": (BATCH, LENGTH, WIDTH)}, out), path)
    return only(rootdk.check(path))


def saved_site(kept: str, seeing: bool, rng: np.random.Generator) -> AttentionSite:
    visible = some_visible(seeing)
    with np.errstate(invalid="ignore"):
        arrays = attend(rng, 0.25, queries=LENGTH, keys=LENGTH, visible=visible)
    stored = {name: arrays[name] for name in ("query", "key", "value", kept)}
    return only(rootdk.check({**stored, "scale": 0.25, "mask": visible}))


def every_path(folder: Path, rng: np.random.Generator) -> dict[str, Callable[[bool], Any]]:
    return {
        "torch fill": lambda seeing: torch_site(by_fill, seeing),
        "torch addition": lambda seeing: torch_site(by_addition, seeing),
        "torch by hand": lambda seeing: torch_site(by_hand, seeing),
        "torch fused": lambda seeing: torch_site(fused, seeing),
        "torch fused addition": lambda seeing: torch_site(fused_addition, seeing),
        "jax": lambda seeing: jax_site(False, seeing, rng),
        "jax.nn": lambda seeing: jax_site(True, seeing, rng),
        "onnx": lambda seeing: onnx_site(folder, "by hand", seeing, rng),
        "onnx fused": lambda seeing: onnx_site(folder, "fused", seeing, rng),
        "saved weights": lambda seeing: saved_site("weights", seeing, rng),
        "saved output": lambda seeing: saved_site("output", seeing, rng),
    }


PATHS = tuple(every_path(Path(), np.random.default_rng(0)))


@pytest.mark.parametrize("path", PATHS)
def test_a_site_at_which_nothing_is_visible_is_unresolved(
    path: str, tmp_path: Path, rng: np.random.Generator, seed: int
) -> None:
    torch.manual_seed(seed)
    site = every_path(tmp_path, rng)[path](False)
    assert site.unresolved == NOTHING_SEEN
    assert site.effective_scale is None
    assert site.verification.rows == 0


@pytest.mark.parametrize("path", PATHS)
def test_the_one_row_that_sees_a_key_is_found(
    path: str, tmp_path: Path, rng: np.random.Generator, seed: int
) -> None:
    torch.manual_seed(seed)
    site = every_path(tmp_path, rng)[path](True)
    assert site.unresolved is None
    assert site.effective_scale == pytest.approx(0.25, rel=1e-6)
    assert site.verification.rows > 0


def test_a_whole_layer_whose_padding_hides_every_key(seed: int) -> None:
    torch.manual_seed(seed)
    layer = nn.TransformerEncoderLayer(WIDTH, 4, 32, batch_first=True).eval()
    x = torch.randn(BATCH, LENGTH, WIDTH)
    for hidden, reason in ((LENGTH, NOTHING_SEEN), (LENGTH - 1, None)):
        padded = (torch.arange(LENGTH) < hidden).expand(BATCH, -1)
        (site,) = rootdk.check(layer, x, src_key_padding_mask=padded).sites
        assert site.spelling == "multi_head_attention fast path"
        assert site.unresolved == reason
        assert (site.verification.rows > 0) == (reason is None)


def test_no_queries_are_another_matter() -> None:
    """A site without rows has no row that sees nothing; what is said of it stays."""
    x, visible = torch.randn(BATCH, 0, WIDTH), torch.zeros(1, 1, 0, 0, dtype=torch.bool)
    site = only(rootdk.check(Layer(by_fill).eval(), x, visible))
    assert site.unresolved == "a mask or bias stands on a slice of the scores"
