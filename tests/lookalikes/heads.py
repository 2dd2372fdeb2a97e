"""Heads shared, cached, windowed, pooled: products that look like another attention."""

import math

import torch
import torch.nn.functional as F
from lookalikes.design import SCALE, Design, attention, looks_wrong
from torch import nn


class Grouped(Design):
    """Four query heads over two key-value heads: heads 0 and 1 share the first."""

    kv_heads = 2

    def expected(self, q, k, v):
        of_head = [0, 0, 1, 1]
        return attention(SCALE * q @ k[:, of_head].mT, v[:, of_head])


@looks_wrong("keys and values are repeated")
class RepeatedHeads(Grouped):
    def attend(self, q, k, v):
        k, v = (x.repeat_interleave(self.heads // self.kv_heads, dim=1) for x in (k, v))
        scores = torch.matmul(q, k.transpose(2, 3)) * self.head_dim**-0.5
        return torch.matmul(scores.softmax(-1), v)


@looks_wrong("keys and values are expanded and folded")
class ExpandedHeads(Grouped):
    def repeat(self, x):
        batch, kv_heads, tokens, width = x.shape
        each = self.heads // kv_heads
        x = x[:, :, None].expand(batch, kv_heads, each, tokens, width)
        return x.reshape(batch, kv_heads * each, tokens, width)

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, self.repeat(k), self.repeat(v))


@looks_wrong("q has more heads than k")
class KernelGroupedHeads(Grouped):
    """The kernel shares the heads out itself."""

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


@looks_wrong("scores with five axes")
class GroupedEinsum(Grouped):
    """The group is an axis of its own and nothing is repeated."""

    def attend(self, q, k, v):
        q = q.unflatten(1, (self.kv_heads, -1)) / math.sqrt(self.head_dim)
        scores = torch.einsum("bgrqd,bgkd->bgrqk", q, k)
        output = torch.einsum("bgrqk,bgkd->bgrqd", scores.softmax(-1), v)
        return output.flatten(1, 2)


class GroupedApart(Design):
    """Four query heads over two key-value heads: heads 0 and 2 share the first."""

    kv_heads = 2

    def expected(self, q, k, v):
        of_head = [0, 1, 0, 1]
        return attention(SCALE * q @ k[:, of_head].mT, v[:, of_head])


@looks_wrong("the heads that share come first, and are named so")
class GroupFirst(GroupedApart):
    """The query is cut into (group, kv head): whoever writes that means it."""

    def attend(self, q, k, v):
        q = q.unflatten(1, (2, 2)) / math.sqrt(self.head_dim)
        scores = torch.einsum("bgnqd,bnkd->bgnqk", q, k)
        return torch.einsum("bgnqk,bnkd->bgnqd", scores.softmax(-1), v).flatten(1, 2)


@looks_wrong("keys and values are tiled", notes=frozenset({"RDK501"}))
class TiledHeads(GroupedApart):
    """Trained so, it is as good as the other order."""

    def attend(self, q, k, v):
        k, v = (x.repeat(1, self.heads // self.kv_heads, 1, 1) for x in (k, v))
        return F.scaled_dot_product_attention(q, k, v)


@looks_wrong("one key head is tiled")
class OneHeadTiled(Design):
    kv_heads = 1

    def attend(self, q, k, v):
        k, v = (x.repeat(1, self.heads, 1, 1) for x in (k, v))
        return (q @ k.mT / math.sqrt(self.head_dim)).softmax(-1) @ v


@looks_wrong("a code for shared heads, with a group of one")
class NothingToShare(Design):
    def attend(self, q, k, v):
        k, v = (x.repeat(1, self.heads // x.shape[1], 1, 1) for x in (k, v))
        return (q @ k.mT / math.sqrt(self.head_dim)).softmax(-1) @ v


@looks_wrong("one key head for all")
class OneKeyHead(Design):
    """Multi-query attention by broadcasting."""

    kv_heads = 1

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        return scores.softmax(-1) @ v


@looks_wrong("keys from another sequence, of another length")
class CrossAttention(Design):
    memory_length = 7

    def inputs(self):
        memory = torch.randn(self.batch, self.memory_length, self.width)
        return (*super().inputs(), memory)

    def forward(self, x, memory):
        q = self.split(self.query(self.norm(x)))
        k, v = self.split(self.key(memory)), self.split(self.value(memory))
        return x + self.output(self.attend(q, k, v).transpose(1, 2).flatten(2))

    def attend(self, q, k, v):
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.head_dim)
        return torch.matmul(scores.softmax(-1), v)


@looks_wrong("one query, many keys, most of them from no projection")
class CachedKeys(Design):
    """Decoding: keys and values of earlier tokens come from a cache."""

    def __init__(self):
        super().__init__()
        past = torch.randn(2, self.batch, self.heads, 9, self.head_dim)
        self.register_buffer("past_key", past[0])
        self.register_buffer("past_value", past[1])

    def inputs(self):
        return (torch.randn(self.batch, 1, self.width),)

    def attend(self, q, k, v):
        k = torch.cat([self.past_key, k], dim=2)
        v = torch.cat([self.past_value, v], dim=2)
        return F.scaled_dot_product_attention(q, k, v)

    def expected(self, q, k, v):
        past = SCALE * q @ self.past_key.mT
        scores = torch.cat([past, SCALE * q @ k.mT], dim=-1)
        return attention(scores, torch.cat([self.past_value, v], dim=2))


@looks_wrong("keys written into a buffer that is mostly empty")
class StaticCache(Design):
    """A preallocated cache; places not yet written are masked."""

    room = 20

    def attend(self, q, k, v):
        keys = k.new_zeros(k.shape[0], self.heads, self.room, self.head_dim)
        values = torch.zeros_like(keys)
        keys[:, :, : k.shape[2]] = k
        values[:, :, : v.shape[2]] = v
        visible = torch.arange(self.room) < k.shape[2]
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=visible[None, None, None])


@looks_wrong("windows in the batch axis, and -100 where a window wraps around")
class ShiftedWindows(Design):
    """Windows of four tokens, shifted by two; a mask of -100 keeps strangers apart."""

    length = 12
    window = 4

    def windows(self, x):
        x = torch.roll(x, shifts=-2, dims=2)
        return x.unflatten(2, (-1, self.window)).transpose(1, 2).flatten(0, 1)

    def strangers(self):
        """(windows, 1, window, window): -100 where query and key are no neighbours."""
        region = torch.zeros(self.length)
        region[-self.window : -2], region[-2:] = 1, 2
        region = region.unflatten(0, (-1, self.window))
        apart = region[:, None, :] != region[:, :, None]
        return torch.zeros(apart.shape).masked_fill(apart, -100.0)[:, None]

    def attend(self, q, k, v):
        q, k, v = (self.windows(x) for x in (q, k, v))
        q = q * self.head_dim**-0.5
        scores = q @ k.transpose(-2, -1)
        mask = self.strangers().to(scores.dtype)
        count = mask.shape[0]
        scores = scores.view(-1, count, *scores.shape[1:]) + mask.unsqueeze(0)
        weights = scores.view(-1, *scores.shape[2:]).softmax(dim=-1)
        x = (weights @ v).unflatten(0, (-1, count)).transpose(1, 2).flatten(2, 3)
        return torch.roll(x, shifts=2, dims=2)

    def expected(self, q, k, v):
        order = (torch.arange(self.length) - 2) % self.length
        window = order // self.window
        wrapped = torch.arange(self.length) < 2
        allowed = (window[:, None] == window) & (wrapped[:, None] == wrapped)
        return attention((SCALE * q @ k.mT).masked_fill(~allowed, -torch.inf), v)


@looks_wrong("q is shorter than k: it was pooled")
class PooledQueries(Design):
    """Two neighbouring queries become one, their maximum."""

    length = 12

    def forward(self, x):
        h = self.norm(x)
        q, k, v = self.split(self.query(h)), self.split(self.key(h)), self.split(self.value(h))
        return self.output(self.attend(q, k, v).transpose(1, 2).flatten(2))

    def attend(self, q, k, v):
        q = q.unflatten(2, (-1, 2)).amax(dim=3)
        return F.scaled_dot_product_attention(q, k, v)

    def expected(self, q, k, v):
        q = torch.maximum(q[:, :, 0::2], q[:, :, 1::2])
        return attention(SCALE * q @ k.mT, v)


@looks_wrong("the projections are convolutions")
class ConvolvedProjections(Design):
    """Depthwise and pointwise over a grid of tokens."""

    length = 12

    def __init__(self):
        super().__init__()
        self.mix = nn.ModuleList(
            nn.Conv2d(self.width, self.width, 3, padding=1, groups=self.width) for _ in range(3)
        )

    def forward(self, x):
        grid = self.norm(x).mT.unflatten(2, (3, 4))
        q, k, v = (
            self.split(project(mix(grid).flatten(2).mT))
            for mix, project in zip(self.mix, (self.query, self.key, self.value), strict=True)
        )
        return x + self.output(self.attend(q, k, v).transpose(1, 2).flatten(2))

    def attend(self, q, k, v):
        scores = torch.einsum("bhlk,bhtk->bhlt", q, k) * self.head_dim**-0.5
        return torch.einsum("bhlt,bhtv->bhlv", F.softmax(scores, dim=-1), v)


@looks_wrong("no projection module at all")
class BareParameters(Design):
    """The projections are parameters with an axis for the heads, met by einsum."""

    def __init__(self):
        super().__init__()
        shape = (3, self.width, self.heads, self.head_dim)
        self.packed = nn.Parameter(torch.randn(shape) * self.width**-0.5)

    def forward(self, x):
        h = self.norm(x)
        q, k, v = (torch.einsum("bsm,mhd->bhsd", h, weight) for weight in self.packed)
        return x + self.output(self.attend(q, k, v).transpose(1, 2).flatten(2))

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        return scores.softmax(-1) @ v


@looks_wrong("q, k and v are one product, unbound")
class PackedProjection(Design):
    """As vision transformers have it."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(self.width, 3 * self.width)
        nn.init.normal_(self.qkv.weight, std=self.width**-0.5)
        self.scale = self.head_dim**-0.5

    def forward(self, x):
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm(x)).reshape(batch, tokens, 3, self.heads, self.head_dim)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        return x + self.output(self.attend(q, k, v).transpose(1, 2).reshape(batch, tokens, width))

    def attend(self, q, k, v):
        q = q * self.scale
        scores = q @ k.transpose(-2, -1)
        return scores.softmax(dim=-1) @ v


@looks_wrong("q, k and v are the input itself")
class NoProjections(Design):
    """Attention of the input to itself, for teaching."""

    def forward(self, x):
        q = self.split(self.norm(x))
        return x + self.attend(q, q, q).transpose(1, 2).flatten(2)

    def attend(self, q, k, v):
        return (q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)).softmax(-1) @ v


@looks_wrong("the same layer twice", sites=frozenset({2}))
class SharedLayer(Design):
    """Two passes share one set of weights."""

    def forward(self, x):
        return super().forward(super().forward(x))

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


@looks_wrong("positions are cut out of the features: each token is four")
class TokensInParts(Design):
    """Parts of tokens attend to parts of tokens, of their own position and of others."""

    def forward(self, x):
        q, k, v = (p(self.norm(x)) for p in (self.query, self.key, self.value))
        parts = (t.unflatten(-1, (-1, self.head_dim)).flatten(1, 2)[:, None] for t in (q, k, v))
        return x + self.output(self.attend(*parts).reshape(x.shape))

    def attend(self, q, k, v):
        return attention(q @ k.mT / math.sqrt(self.head_dim), v)


@looks_wrong("a reshape cuts the positions apart")
class WindowsOfTheProjections(Design):
    """Tokens are projected first, and then divided into three windows of four."""

    length = 12

    def attend(self, q, k, v):
        q, k, v = (t.unflatten(2, (3, 4)) for t in (q, k, v))
        return attention(q @ k.mT / math.sqrt(self.head_dim), v).flatten(2, 3)

    def expected(self, q, k, v):
        window = torch.arange(self.length) // 4
        apart = window[:, None] != window
        return attention((SCALE * q @ k.mT).masked_fill(apart, -torch.inf), v)
