"""The models themselves: each computes what its file claims, by a formula written apart."""

import itertools

import pytest
import torch
from faults.registry import FAULTS, SOUND, Fault
from faults.transformer import INITS, SIZES, Attention, Size, build
from torch import Tensor

SMALL = SIZES[64]
DROPOUT = "RDK607"
# Bare exponentials differ from shifted ones only where they overflow.
VISIBLE = tuple(fault for fault in FAULTS if fault.code != "RDK302")


def identities(faults: tuple[Fault, ...]) -> list[str]:
    return [fault.identity for fault in faults]


def reference(fault: Fault, layer: Attention, x: Tensor, size: Size) -> Tensor:
    """The layer's output from its weights and the formula of its file, nothing else."""
    x = x * getattr(layer, "boost", 1.0)
    *into, (out_weight, out_bias) = layer.weights()
    heads = (size.batch, size.length, size.heads, size.head_dim)
    q, k, v = ((x @ weight.T + bias).reshape(heads).transpose(1, 2) for weight, bias in into)
    output = fault.weights(q @ k.transpose(-2, -1), size) @ v
    return output.transpose(1, 2).flatten(2) @ out_weight.T + out_bias


@pytest.mark.parametrize("fault", SOUND + FAULTS, ids=identities(SOUND + FAULTS))
@torch.no_grad()
def test_the_layer_computes_what_its_file_says(fault: Fault, seed: int) -> None:
    model, _ = build(fault.attention, init="default", size=SMALL, seed=seed)
    layer = model.double().blocks[0].attention
    if hasattr(layer, "dropout"):
        layer.dropout = 0.0
    x = torch.randn(SMALL.batch, SMALL.length, SMALL.width, dtype=torch.float64)
    # Constants in float32 (buffers, tensors made in the forward pass) are right to its eps.
    torch.testing.assert_close(layer(x), reference(fault, layer, x, SMALL), rtol=0, atol=1e-6)


@pytest.mark.parametrize("fault", VISIBLE, ids=identities(VISIBLE))
@torch.no_grad()
def test_the_fault_changes_the_output(fault: Fault, seed: int) -> None:
    faulty, tokens = build(fault.attention, init="unit", size=SMALL, seed=seed)
    sound, _ = build(fault.sound, init="unit", size=SMALL, seed=seed)
    assert (faulty(tokens) - sound(tokens)).abs().max() > 1e-3


@torch.no_grad()
@pytest.mark.parametrize("fault", FAULTS, ids=identities(FAULTS))
def test_only_dropout_is_random(fault: Fault, seed: int) -> None:
    model, tokens = build(fault.attention, init="unit", size=SMALL, seed=seed)
    assert torch.equal(model(tokens), model(tokens)) == (fault.code != DROPOUT)


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("width", SIZES)
@torch.no_grad()
def test_oversized_entries_have_size_two(init: str, width: int, seed: int) -> None:
    size = SIZES[width]
    for fault in (fault for fault in FAULTS if fault.code == "RDK201"):
        model, tokens = build(fault.attention, init=init, size=size, seed=seed)
        x = torch.nn.functional.layer_norm(model.tokens(tokens), (width,))
        layer = model.blocks[0].attention
        x = x * getattr(layer, "boost", 1.0)
        (query, query_bias), (key, key_bias), *_ = layer.weights()
        product = (x @ query.T + query_bias).std() * (x @ key.T + key_bias).std()
        assert float(product) == pytest.approx(4, rel=0.1), fault.spelling


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
def test_no_two_sizes_and_no_two_laws_agree(size: Size) -> None:
    sizes = [size.width, size.heads, size.head_dim, size.batch, size.length, 2 * size.width]
    assert len(set(sizes)) == len(sizes)
    laws = sorted(
        {
            1.0,
            size.standard,
            size.head_dim**-1,
            size.width**-0.5,
            size.length**-0.5,
            size.heads**-0.5,
            size.batch**-0.5,
            size.head_dim**0.5,
            0.6 * size.standard,
        }
    )
    assert len(laws) == 9
    gaps = [b / a for a, b in itertools.pairwise(laws)]
    assert min(gaps) > 1.05


@pytest.mark.parametrize("fault", FAULTS, ids=identities(FAULTS))
def test_a_guilty_line_is_marked(fault: Fault) -> None:
    assert bool(fault.lines) == (fault.code != "RDK201")
    own = vars(fault.attention)
    assert fault.code == "RDK201" or "attend" in own or "forward" in own


def test_every_fault_has_three_spellings() -> None:
    spellings: dict[tuple[str | None, str], set[str]] = {}
    for fault in FAULTS:
        spellings.setdefault((fault.code, fault.title), set()).add(fault.spelling)
    assert {code for code, _ in spellings} == {
        *("RDK101", "RDK102", "RDK103", "RDK104", "RDK105", "RDK106", "RDK107", "RDK108"),
        *("RDK109", "RDK201", "RDK301", "RDK302", "RDK303", "RDK305", "RDK607"),
    }
    assert all(len(names) >= 3 for names in spellings.values()), spellings
