"""Scales that a configuration declares, by whatever name."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from lookalikes.design import SCALE, Design, attention, looks_wrong
from torch import nn


@dataclass(frozen=True)
class MultiplierConfig:
    attention_multiplier: float = 1 / 32


@looks_wrong("1/32 for heads of 16", scales=(1 / 32,), notes=frozenset({"RDK108"}))
class ConfigMultiplier(Design):
    """The configuration declares the multiplier."""

    def __init__(self):
        super().__init__()
        self.config = MultiplierConfig()
        self.scaling = self.config.attention_multiplier

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, scale=self.scaling)

    def expected(self, q, k, v):
        return attention(q @ k.mT / 32, v)


@looks_wrong("a multiplier of 1", scales=(1.0,), notes=frozenset({"RDK101"}))
class ConfigMultiplierOfOne(Design):
    """The configuration declares that there is no factor."""

    def __init__(self):
        super().__init__()
        self.config = MultiplierConfig(attention_multiplier=1.0)

    def attend(self, q, k, v):
        scores = torch.matmul(q, k.transpose(2, 3)) * self.config.attention_multiplier
        return torch.matmul(scores.softmax(-1), v)

    def expected(self, q, k, v):
        return attention(q @ k.mT, v)


@dataclass(frozen=True)
class PreAttentionConfig:
    query_pre_attn_scalar: int = 24


@looks_wrong("1/√24 for heads of 16", scales=(24**-0.5,), notes=frozenset({"RDK108"}))
class QueryPreAttentionScalar(Design):
    """The configuration declares what stands under the root."""

    def __init__(self):
        super().__init__()
        self.config = PreAttentionConfig()
        self.scaling = self.config.query_pre_attn_scalar**-0.5

    def attend(self, q, k, v):
        scores = torch.matmul(q, k.transpose(2, 3)) * self.scaling
        return torch.matmul(scores.softmax(-1), v)

    def expected(self, q, k, v):
        return attention(q @ k.mT / math.sqrt(24), v)


@dataclass(frozen=True)
class MupConfig:
    mup_scale_qk_dot_by_d: bool = True


@looks_wrong("1/d without the root", scales=(1 / 16,), notes=frozenset({"RDK104"}))
class MaximalUpdate(Design):
    """The maximal-update parametrisation divides by d, and the configuration says so."""

    def __init__(self):
        super().__init__()
        self.config = MupConfig()
        power = 1.0 if self.config.mup_scale_qk_dot_by_d else 0.5
        self.scale = self.head_dim**-power

    def attend(self, q, k, v):
        scores = torch.matmul(q, k.transpose(-1, -2)) * self.scale
        return torch.matmul(scores.softmax(-1), v)

    def expected(self, q, k, v):
        return attention(q @ k.mT / 16, v)


@dataclass(frozen=True)
class InverseLayerConfig:
    n_layer: int = 3
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = True


@looks_wrong(
    "a factor that falls with depth",
    sites=frozenset({3}),
    scales=(SCALE, SCALE / 2, SCALE / 3),
    per_site=True,
    notes=frozenset({"RDK108"}),
)
class InverseLayerIndex(Design):
    """The configuration asks for 1/(layer + 1) on top of 1/√d."""

    heads = 5

    def __init__(self):
        super().__init__()
        self.config = InverseLayerConfig()
        self.h = nn.ModuleList(DividedByDepth(i) for i in range(self.config.n_layer))

    def forward(self, x):
        for block in self.h:
            x = block(x)
        return x

    def agreement(self):
        return self.h[2].agreement()


class DividedByDepth(Design):
    heads = 5

    def __init__(self, layer_idx):
        super().__init__()
        self.layer_idx = layer_idx

    def attend(self, q, k, v):
        scores = torch.matmul(q, k.transpose(-1, -2))
        scores = scores / torch.full([], v.size(-1) ** 0.5, dtype=scores.dtype)
        scores = scores / float(self.layer_idx + 1)
        return torch.matmul(scores.softmax(-1), v)

    def expected(self, q, k, v):
        return attention(SCALE * q @ k.mT / (self.layer_idx + 1), v)


@dataclass(frozen=True)
class LargeInitialConfig:
    initializer_range: float = 0.3


@looks_wrong("entries of size 2.4", scales=(SCALE,))
class LargeInitialWeights(Design):
    """The configuration declares initial weights that make large entries: 0.3·√64 is 2.4."""

    def __init__(self):
        super().__init__()
        self.config = LargeInitialConfig()
        for linear in (self.query, self.key, self.value, self.output):
            nn.init.normal_(linear.weight, std=self.config.initializer_range)

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)
