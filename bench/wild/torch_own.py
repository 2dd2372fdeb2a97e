"""torch's own modules, and code in the manner of small teaching repositories."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from wild.case import Made, case

X = (2, 21, 96)


@case("torch", "MultiheadAttention, weights asked for")
def _asked() -> Made:
    x = torch.randn(X)
    return Made(nn.MultiheadAttention(96, 4, batch_first=True), (x, x, x))


@case("torch", "MultiheadAttention, fast path")
def _fast() -> Made:
    x = torch.randn(X)
    model = nn.MultiheadAttention(96, 4, batch_first=True).eval()
    return Made(model, (x, x, x), {"need_weights": False})


@case("torch", "MultiheadAttention, widths of its own, a bias key, zero attention")
def _odd() -> Made:
    model = nn.MultiheadAttention(
        96, 4, kdim=40, vdim=56, add_bias_kv=True, add_zero_attn=True, batch_first=True
    ).eval()
    args = torch.randn(X), torch.randn(2, 13, 40), torch.randn(2, 13, 56)
    return Made(model, args)


@case("torch", "Transformer")
def _whole() -> Made:
    model = nn.Transformer(96, 4, 2, 2, 128, batch_first=True).eval()
    return Made(model, (torch.randn(X), torch.randn(2, 13, 96)))


@case("torch", "TransformerEncoder, padded")
def _encoder() -> Made:
    layer = nn.TransformerEncoderLayer(96, 4, 128, batch_first=True)
    hidden = torch.arange(21)[None] >= torch.tensor([21, 17])[:, None]
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    return Made(model, (torch.randn(X),), {"src_key_padding_mask": hidden})


@case("torch", "TransformerDecoder, causal")
def _decoder() -> Made:
    layer = nn.TransformerDecoderLayer(96, 4, 128, batch_first=True)
    mask = nn.Transformer.generate_square_subsequent_mask(21)
    model = nn.TransformerDecoder(layer, 2).eval()
    return Made(model, (torch.randn(X), torch.randn(2, 13, 96)), {"tgt_mask": mask})


class CausalSelfAttention(nn.Module):
    """One projection for all three, split, a buffer of a mask: as in nanoGPT and its kin."""

    def __init__(self, flash: bool) -> None:
        super().__init__()
        self.c_attn, self.c_proj, self.flash = nn.Linear(96, 288), nn.Linear(96, 96), flash
        self.register_buffer("bias", torch.tril(torch.ones(64, 64)).view(1, 1, 64, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.size()
        q, k, v = self.c_attn(x).split(c, dim=2)
        q, k, v = (y.view(b, t, 4, c // 4).transpose(1, 2) for y in (q, k, v))
        if self.flash:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:, :, :t, :t] == 0, float("-inf"))
            y = F.softmax(att, dim=-1) @ v
        return self.c_proj(y.transpose(1, 2).contiguous().view(b, t, c))


@case("nanoGPT-like", "by hand")
def _by_hand() -> Made:
    return Made(CausalSelfAttention(False), (torch.randn(X),))


@case("nanoGPT-like", "flash")
def _flash() -> Made:
    return Made(CausalSelfAttention(True), (torch.randn(X),))
