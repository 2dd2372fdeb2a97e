"""Which query heads share a key-value head, in every way of sharing them, in each framework."""

import math
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import rootdk
from rootdk.frontends._sites.recording import Recording
from rootdk.frontends._sites.sharing import shared_by
from rootdk.records import AttentionSite, Diagnosis

HEADS, KV, HEAD_DIM, WIDTH, LENGTH, BATCH = 6, 2, 8, 48, 11, 3
GROUP = HEADS // KV
IN_PLACE, TILED = (0, 0, 0, 1, 1, 1), (0, 1, 0, 1, 0, 1)


@pytest.fixture(autouse=True)
def faults_of_the_tracer_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recording, "strict", True)


def expanded(x, axis):
    """A new axis before or after that of the kv heads, folded into it."""
    many = [x.shape[0], KV, LENGTH, HEAD_DIM]
    many.insert(axis, GROUP)
    return x.unsqueeze(axis).expand(*many).reshape(x.shape[0], HEADS, LENGTH, HEAD_DIM)


SPELLINGS = {
    "repeat_interleave": (IN_PLACE, lambda x: x.repeat_interleave(GROUP, 1)),
    "expand in place": (IN_PLACE, lambda x: expanded(x, 2)),
    "index in place": (IN_PLACE, lambda x: x[:, torch.arange(HEADS) // GROUP]),
    "repeat": (TILED, lambda x: x.repeat(1, GROUP, 1, 1)),
    "tile": (TILED, lambda x: x.tile(1, GROUP, 1, 1)),
    "cat": (TILED, lambda x: torch.cat([x] * GROUP, 1)),
    "stack": (TILED, lambda x: torch.stack([x] * GROUP, 1).flatten(1, 2)),
    "expand": (TILED, lambda x: expanded(x, 1)),
    "index": (TILED, lambda x: x[:, torch.arange(HEADS) % KV]),
    "no order": ((0, 1, 1, 0, 1, 0), lambda x: x[:, torch.tensor([0, 1, 1, 0, 1, 0])]),
}


class Shared(nn.Module):
    """Six query heads over two key-value heads; where they are repeated is the marked line."""

    def __init__(self, keys: str, values: str | None = None, *, fused: bool = False) -> None:
        super().__init__()
        self.keys, self.values = SPELLINGS[keys][1], SPELLINGS[values or keys][1]
        self.fused = fused
        self.query = nn.Linear(WIDTH, WIDTH)
        self.key, self.value = (nn.Linear(WIDTH, KV * HEAD_DIM) for _ in range(2))
        self.output = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            linear(x).view(BATCH, LENGTH, -1, HEAD_DIM).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        k = self.keys(k)
        v = self.values(v)
        if self.fused:
            return F.scaled_dot_product_attention(q, k, v)
        weights = (q @ k.transpose(-1, -2) / math.sqrt(HEAD_DIM)).softmax(-1)
        return self.output((weights @ v).transpose(1, 2).flatten(2))


def only(diagnosis: Diagnosis) -> AttentionSite:
    (site,) = diagnosis.sites
    assert site.unresolved is None
    return site


def of_heads(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    return [(f.code, str(f.severity)) for f in diagnosis.findings if f.code.startswith("RDK5")]


@pytest.mark.parametrize("fused", [False, True], ids=["by hand", "fused"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_map_is_what_the_code_does(spelling: str, fused: bool) -> None:
    diagnosis = rootdk.check(Shared(spelling, fused=fused), torch.randn(BATCH, LENGTH, WIDTH))
    site, expected = only(diagnosis), SPELLINGS[spelling][0]
    assert (site.num_heads, site.num_kv_heads) == (HEADS, KV)
    assert (site.kv_map, site.value_map) == (expected, expected)
    assert of_heads(diagnosis) == ([] if expected == IN_PLACE else [("RDK501", "note")])


@pytest.mark.parametrize("fused", [False, True], ids=["by hand", "fused"])
@pytest.mark.parametrize(("keys", "values"), [("repeat", "expand in place"), ("tile", "no order")])
def test_keys_and_values_that_are_shared_apart(keys: str, values: str, fused: bool) -> None:
    model = Shared(keys, values, fused=fused)
    diagnosis = rootdk.check(model, torch.randn(BATCH, LENGTH, WIDTH))
    site = only(diagnosis)
    assert (site.kv_map, site.value_map) == (TILED, SPELLINGS[values][0])
    assert of_heads(diagnosis) == [("RDK501", "warning")]


def test_the_line_is_that_of_the_repetition() -> None:
    diagnosis = rootdk.check(Shared("repeat"), torch.randn(BATCH, LENGTH, WIDTH))
    (finding,) = [f for f in diagnosis.findings if f.code == "RDK501"]
    assert finding.source is not None
    assert "x.repeat(1, GROUP, 1, 1)" in finding.source.text
    assert finding.excuse is not None


def test_the_operator_shares_in_place() -> None:
    class Kernel(Shared):
        def forward(self, x):
            q, k, v = (
                linear(x).view(BATCH, LENGTH, -1, HEAD_DIM).transpose(1, 2)
                for linear in (self.query, self.key, self.value)
            )
            return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)

    diagnosis = rootdk.check(Kernel("repeat"), torch.randn(BATCH, LENGTH, WIDTH))
    site = only(diagnosis)
    assert (site.num_kv_heads, site.kv_map, site.value_map) == (KV, IN_PLACE, IN_PLACE)
    assert of_heads(diagnosis) == []


IN_JAX = {
    "repeat": (IN_PLACE, lambda x: jnp.repeat(x, GROUP, axis=1)),
    "tile": (TILED, lambda x: jnp.tile(x, (1, GROUP, 1, 1))),
    "concatenate": (TILED, lambda x: jnp.concatenate([x] * GROUP, 1)),
    "index": (TILED, lambda x: x[:, jnp.arange(HEADS) % KV]),
}


@pytest.mark.parametrize("spelling", IN_JAX)
def test_the_same_in_jax(spelling: str, rng: np.random.Generator) -> None:
    expected, share = IN_JAX[spelling]
    p = {
        name: jnp.asarray(rng.normal(size=(WIDTH, width)) / math.sqrt(WIDTH), jnp.float32)
        for name, width in (("q", WIDTH), ("k", KV * HEAD_DIM), ("v", KV * HEAD_DIM))
    }

    def attention(p, x):
        q, k, v = ((x @ p[n]).reshape(BATCH, LENGTH, -1, HEAD_DIM).swapaxes(1, 2) for n in "qkv")
        weights = jax.nn.softmax(q @ share(k).mT / math.sqrt(HEAD_DIM))
        return weights @ share(v)

    x = jnp.asarray(rng.normal(size=(BATCH, LENGTH, WIDTH)), jnp.float32)
    site = only(rootdk.check(attention, p, x))
    assert (site.num_kv_heads, site.kv_map, site.value_map) == (KV, expected, expected)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("spelling", ["repeat", "expand in place"])
def test_the_same_in_onnx(spelling: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    x = torch.randn(BATCH, LENGTH, WIDTH)
    torch.onnx.export(Shared(spelling).eval(), (x,), str(path), dynamo=False, verbose=False)
    site, expected = only(rootdk.check(str(path))), SPELLINGS[spelling][0]
    assert (site.num_kv_heads, site.kv_map, site.value_map) == (KV, expected, expected)


def heads_that_read(rng: np.random.Generator, numbers: tuple[int, ...]) -> np.ndarray:
    return rng.normal(size=(2, 3, 5, 4))[:, list(numbers)]


@pytest.mark.parametrize(
    ("numbers", "kv", "expected"),
    [
        ((0, 0, 1, 1), 2, (0, 0, 1, 1)),
        ((1, 1, 0, 0), 2, (0, 0, 1, 1)),
        ((2, 0, 1, 2, 0, 1), 3, (0, 1, 2, 0, 1, 2)),
        ((0, 0, 0, 1), 2, None),
        ((0, 0, 0, 0), 2, None),
        ((0, 1, 2, 0), 2, None),
        ((0, 0), 1, None),
        ((0, 1), 2, None),
    ],
    ids=str,
)
def test_heads_are_told_by_their_entries(numbers, kv, expected, rng: np.random.Generator) -> None:
    assert shared_by(heads_that_read(rng, numbers), kv) == expected


def test_what_is_no_number_tells_nothing(rng: np.random.Generator) -> None:
    entries = heads_that_read(rng, (0, 0, 1, 1))
    assert shared_by(entries[:0], 2) is None
    assert shared_by(entries[:, :, :0], 2) is None
    entries[:] = math.nan
    assert shared_by(entries, 2) is None
