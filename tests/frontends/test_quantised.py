"""Attention behind quantised projections: what they give is plain numbers, and is followed."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import rootdk
from rootdk.frontends._sites.recording import Recording
from rootdk.frontends._torch.quantised import holds_weights

HEADS, HEAD_DIM, WIDTH, LENGTH, BATCH = 4, 16, 64, 11, 3
STANDARD = HEAD_DIM**-0.5

pytestmark = [
    # The engine that a build has says so; the interface is deprecated, and in use.
    pytest.mark.filterwarnings("ignore:.*:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*:UserWarning"),
]


@pytest.fixture(autouse=True)
def faults_of_the_tracer_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recording, "strict", True)


class Attention(nn.Module):
    def __init__(self, *, fused: bool = False, scale: float = STANDARD) -> None:
        super().__init__()
        self.fused, self.scale = fused, scale
        self.query, self.key, self.value, self.output = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            linear(x).unflatten(-1, (HEADS, HEAD_DIM)).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, scale=self.scale)
        else:
            y = (q @ k.mT * self.scale).softmax(-1) @ v
        return self.output(y.transpose(1, 2).flatten(2))


class OneByte(nn.Module):
    """A projection whose weights are bytes, scaled back in the way of its name."""

    def __init__(self, linear: nn.Linear, way: str) -> None:
        super().__init__()
        scales = linear.weight.data.abs().amax(1) / 127
        self.register_buffer(
            "weight", (linear.weight.data / scales[:, None]).round().to(torch.int8)
        )
        self.register_buffer("scales", scales)
        self.way = way

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.way == "before":
            return F.linear(x, self.weight.to(x.dtype) * self.scales[:, None])
        if self.way == "after":
            return F.linear(x, self.weight.to(x.dtype)) * self.scales
        rows = x.flatten(0, 1).bfloat16()
        product = torch.ops.aten._weight_int8pack_mm(rows, self.weight, self.scales.bfloat16())
        return product.float().unflatten(0, x.shape[:2])


def one_byte(model: Attention, way: str) -> Attention:
    for name in ("query", "key", "value", "output"):
        setattr(model, name, OneByte(getattr(model, name), way))
    return model


@pytest.mark.parametrize("fused", [False, True], ids=["by hand", "fused"])
@pytest.mark.parametrize("dtype", [torch.qint8, torch.float16], ids=str)
def test_dynamically_quantised_projections(dtype: torch.dtype, fused: bool) -> None:
    model = torch.ao.quantization.quantize_dynamic(Attention(fused=fused), {nn.Linear}, dtype=dtype)
    diagnosis = rootdk.check(model, torch.randn(BATCH, LENGTH, WIDTH))
    (site,) = diagnosis.sites
    assert site.unresolved is None
    assert (site.num_heads, site.head_dim, site.hidden) == (HEADS, HEAD_DIM, WIDTH)
    assert site.effective_scale == pytest.approx(STANDARD, rel=1e-6)
    assert site.query_path.terminal == site.key_path.terminal == "projection"
    assert site.verification.operands == "equal"
    assert diagnosis.findings == diagnosis.unhandled == ()


def test_a_fault_is_seen_behind_them() -> None:
    sound = Attention(scale=1.0)
    model = torch.ao.quantization.quantize_dynamic(sound, {nn.Linear}, dtype=torch.qint8)
    diagnosis = rootdk.check(model, torch.randn(BATCH, LENGTH, WIDTH))
    assert [f.code for f in diagnosis.findings] == ["RDK101"]


@pytest.mark.parametrize("way", ["before", "after", "operator"])
def test_weights_of_one_byte_in_a_buffer(way: str) -> None:
    diagnosis = rootdk.check(one_byte(Attention(), way), torch.randn(BATCH, LENGTH, WIDTH))
    (site,) = diagnosis.sites
    assert site.unresolved is None
    assert site.effective_scale == pytest.approx(STANDARD, rel=1e-6)
    assert diagnosis.findings == diagnosis.unhandled == ()


def test_activations_that_stay_quantised_are_not_followed() -> None:
    class Static(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter = torch.ao.quantization.QuantStub()
            self.query, self.key = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
            self.leave = torch.ao.quantization.DeQuantStub()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.enter(x)
            q, k = (self.leave(f(x)) for f in (self.query, self.key))
            return (q @ k.mT / math.sqrt(WIDTH)).softmax(-1) @ k

    x = torch.randn(BATCH, LENGTH, WIDTH)
    model = Static().eval()
    model.qconfig = torch.ao.quantization.default_qconfig
    prepared = torch.ao.quantization.prepare(model)
    prepared(x)
    (site,) = rootdk.check(torch.ao.quantization.convert(prepared), x).sites
    assert site.unresolved is not None
    assert "dequantize" in site.unresolved


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (torch.tensor([[3, -7], [0, 1]], dtype=torch.int8), True),
        (torch.tensor([[3, 7], [0, 1]], dtype=torch.uint8), True),
        (torch.ones(2, 2).to(torch.float8_e4m3fn), True),
        (torch.ones(3, 3, dtype=torch.uint8).tril(), False),
        (torch.ones(3, 3, dtype=torch.bool).tril(), False),
        (torch.arange(9).reshape(3, 3), False),
        (torch.arange(9, dtype=torch.int8), False),
        (torch.ones(2, 2), False),
        (torch.zeros(0, 2, dtype=torch.int8), False),
    ],
    ids=lambda value: f"{value.dtype}{list(value.shape)}" if hasattr(value, "dtype") else None,
)
def test_bytes_are_weights_where_they_are_no_mask(tensor: torch.Tensor, expected: bool) -> None:
    assert holds_weights(tensor) is expected
