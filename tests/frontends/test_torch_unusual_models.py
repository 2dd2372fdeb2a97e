"""Models that are run in unusual ways: scripted, on padded batches, without numbers, nested."""

import pytest
import torch
from lookalikes.design import Design
from torch import nn

import rootdk
from rootdk._lib.errors import ArgumentError


class Scripted(nn.Module):
    """Plain enough for the script compiler; nothing divides its scores."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(32, 32) for _ in range(3))
        self.register_buffer("steps", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        q = self.query(x).view(3, 11, 4, 8).transpose(1, 2)
        k = self.key(x).view(3, 11, 4, 8).transpose(1, 2)
        v = self.value(x).view(3, 11, 4, 8).transpose(1, 2)
        return torch.matmul(torch.softmax(torch.matmul(q, k.transpose(-2, -1)), dim=-1), v)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_scripted_module_is_judged_and_left_as_it_was() -> None:
    model = torch.jit.script(Scripted())
    diagnosis = rootdk.check(model, torch.randn(3, 11, 32))
    assert [f.code for f in diagnosis.findings] == ["RDK101"]
    assert model.steps.item() == 0


class Reticent(Design):
    """Raises when it is asked for what it does not have, as wrapped modules do."""

    def __getattr__(self, name):
        if name == "config":
            raise RuntimeError("there is no config yet")
        return super().__getattr__(name)

    def attend(self, q, k, v):
        return nn.functional.scaled_dot_product_attention(q, k, v, scale=1.0)


def test_a_model_that_has_no_config_and_says_so_loudly_is_judged() -> None:
    model = Reticent()
    diagnosis = rootdk.check(model, torch.randn(2, model.length, model.width))
    assert [f.code for f in diagnosis.findings if f.severity != "note"] == ["RDK101"]


@pytest.mark.filterwarnings("ignore:.*nested tensors:UserWarning")
@pytest.mark.parametrize("packs", [False, True])
def test_an_encoder_of_torch_that_would_pack_its_padding_is_judged(packs: bool) -> None:
    layer = nn.TransformerEncoderLayer(32, 4, 48, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=packs).eval()
    padding = torch.zeros(3, 11, dtype=torch.bool)
    padding[0, 7:] = True
    diagnosis = rootdk.check(model, torch.randn(3, 11, 32), src_key_padding_mask=padding)
    assert len(diagnosis.sites) == 2
    assert all(site.resolved for site in diagnosis.sites)
    assert diagnosis.unhandled == ()
    assert model.use_nested_tensor is packs


class Nested(nn.Module):
    """A projection of a nested tensor, padded for the attention that follows."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k = self.query(x), self.key(x).to_padded_tensor(0.0)
        return (q.to_padded_tensor(0.0) @ k.mT).softmax(-1) @ k


@pytest.mark.filterwarnings("ignore:.*nested tensors:UserWarning")
def test_nested_tensors_are_listed_and_what_follows_them_is_unresolved() -> None:
    given = torch.nested.nested_tensor([torch.randn(5, 8), torch.randn(9, 8)])
    diagnosis = rootdk.check(Nested(), given)
    assert any("nested" in item.operation for item in diagnosis.unhandled)
    assert not any(site.resolved for site in diagnosis.sites)


class Plain(Design):
    def attend(self, q, k, v):
        return (q @ k.mT / 4).softmax(-1) @ v


def test_weights_without_numbers_are_refused_by_name() -> None:
    with torch.device("meta"):
        model = Plain()
    with pytest.raises(ArgumentError, match=r"norm\.weight is on the meta device"):
        rootdk.check(model, torch.randn(3, 11, 64))
    with pytest.raises(ArgumentError, match="input 0 is on the meta device"):
        rootdk.check(Plain(), torch.empty(3, 11, 64, device="meta"))


class Tangent(Design):
    """A derivative taken forwards: tangents of constants are zeros without memory."""

    def attend(self, q, k, v):
        def attention(q):
            return (q @ k.mT * self.head_dim**-0.5).softmax(-1) @ v

        return torch.func.jvp(attention, (q,), (torch.ones_like(q),))[1]


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_a_derivative_taken_forwards_is_judged() -> None:
    model = Tangent()
    diagnosis = rootdk.check(model, torch.randn(2, model.length, model.width))
    assert [site.unresolved for site in diagnosis.sites] == [None]
    assert [f.code for f in diagnosis.findings if f.severity != "note"] == []
