"""Masks with odd fills, odd places and empty rows, that let nothing through."""

import math

import torch
import torch.nn.functional as F
from lookalikes.design import SCALE, Design, attention, causal, looks_wrong
from torch import nn


class Causal(Design):
    """A query sees its own key and earlier ones."""

    def visible(self):
        return causal(self.length, self.length)

    def expected(self, q, k, v):
        return attention((SCALE * q @ k.mT).masked_fill(~self.visible(), -torch.inf), v)


class FilledBeforeSoftmax(Causal):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        scores = scores.masked_fill(~self.visible(), self.fill(scores))
        return scores.softmax(dim=-1) @ v


@looks_wrong("-inf among the scores")
class MinusInfinity(FilledBeforeSoftmax):
    def fill(self, scores):
        return float("-inf")


@looks_wrong("the smallest finite number among the scores")
class SmallestFinite(FilledBeforeSoftmax):
    def fill(self, scores):
        return torch.finfo(scores.dtype).min


@looks_wrong("a fill that is not infinite")
class MinusBillion(FilledBeforeSoftmax):
    def fill(self, scores):
        return -1e9


@looks_wrong("a fill of only ten thousand")
class MinusTenThousand(FilledBeforeSoftmax):
    """exp(-10000) is zero all the same."""

    def fill(self, scores):
        return -10000.0


@looks_wrong("something is added to the scores")
class PaddingAdded(Design):
    """(1 - mask)·(-10000), added: the last tokens of some rows are padding."""

    def inputs(self):
        mask = torch.ones(self.batch, self.length)
        mask[1, -3:], mask[2, -5:] = 0, 0
        return (*super().inputs(), mask)

    def forward(self, x, mask):
        self.extended = (1.0 - mask[:, None, None, :]) * -10000.0
        return super().forward(x)

    def attend(self, q, k, v):
        scores = torch.matmul(q, k.transpose(-1, -2))
        scores = scores / math.sqrt(self.head_dim)
        scores = scores + self.extended
        return torch.matmul(scores.softmax(dim=-1), v)

    def expected(self, q, k, v):
        hidden = self.extended < -1
        return attention((SCALE * q @ k.mT).masked_fill(hidden, -torch.inf), v)

    def agreement(self):
        self.extended = (1.0 - self.inputs()[1][:, None, None, :]) * -10000.0
        return super().agreement()


@looks_wrong("a buffer compared with 0")
class TrilBuffer(Causal):
    def __init__(self):
        super().__init__()
        self.register_buffer("tril", torch.tril(torch.ones(32, 32)).view(1, 1, 32, 32))

    def attend(self, q, k, v):
        length = q.shape[2]
        scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        hidden = self.tril[:, :, :length, :length] == 0
        scores = scores.masked_fill(hidden, float("-inf"))
        return F.softmax(scores, dim=-1) @ v


@looks_wrong("scores are replaced")
class Where(Causal):
    def attend(self, q, k, v):
        scores = torch.matmul(q, k.transpose(-1, -2)) * self.head_dim**-0.5
        fill = torch.full([], torch.finfo(scores.dtype).min, dtype=scores.dtype)
        scores = torch.where(self.visible(), scores, fill)
        return torch.matmul(scores.softmax(-1), v)


@looks_wrong("no mask in sight")
class KernelCausal(Causal):
    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@looks_wrong("True where a key is visible")
class KernelBoolean(Causal):
    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.visible())


@looks_wrong("a float mask for the kernel")
class KernelAdditive(Causal):
    def attend(self, q, k, v):
        mask = torch.zeros(self.length, self.length, dtype=q.dtype)
        mask = mask.masked_fill(~self.visible(), torch.finfo(q.dtype).min)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


@looks_wrong("1 is added to every visible score")
class ShiftedMask(Causal):
    """A constant in each row cancels in the softmax."""

    def attend(self, q, k, v):
        mask = torch.ones(self.length, self.length, dtype=q.dtype)
        mask = mask.masked_fill(~self.visible(), float("-inf"))
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5 + mask
        return scores.softmax(-1) @ v


@looks_wrong("the mask is scaled with the scores", may_note=frozenset({"RDK405"}))
class InfinityThenScale(Causal):
    """An infinity stays one."""

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1)
        scores = scores.masked_fill(~self.visible(), float("-inf"))
        scores = scores / math.sqrt(self.head_dim)
        return scores.softmax(-1) @ v


@looks_wrong("the position bias is scaled with the scores", may_note=frozenset({"RDK405"}))
class BiasThenScale(Design):
    """The bias is made for it."""

    def bias(self, q):
        slopes = 2.0 ** -torch.arange(1, self.heads + 1, dtype=q.dtype)
        return slopes[:, None, None] * torch.arange(self.length, dtype=q.dtype)

    def attend(self, q, k, v):
        scores = q @ k.transpose(-1, -2)
        scores = scores + self.bias(q)
        scores = scores * self.head_dim**-0.5
        return F.softmax(scores, dim=-1) @ v

    def expected(self, q, k, v):
        return attention(SCALE * (q @ k.mT) + SCALE * self.bias(q), v)


class SomeRowsEmpty(Design):
    """The queries of padding see nothing, those of real tokens see real tokens."""

    def real(self):
        lengths = torch.tensor([11, 8, 6])
        return torch.arange(self.length) < lengths[:, None]

    def visible(self):
        real = self.real()
        return real[:, None, :, None] & real[:, None, None, :]

    def expected(self, q, k, v):
        visible = self.visible()
        exponentials = (SCALE * q @ k.mT).exp() * visible
        return exponentials / exponentials.sum(-1, keepdim=True).clamp_min(1e-30) @ v


@looks_wrong("weights are zeroed after the softmax")
class EmptyRowsZeroed(SomeRowsEmpty):
    """Rows of padding are uniform, and then nothing."""

    def attend(self, q, k, v):
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.head_dim)
        scores = scores.masked_fill(~self.visible(), torch.finfo(scores.dtype).min)
        weights = scores.softmax(dim=-1)
        weights = weights.masked_fill(~self.real()[:, None, :, None], 0.0)
        return torch.matmul(weights, v)


@looks_wrong("NaN in the weights, replaced", may_note=frozenset({"RDK401"}))
class EmptyRowsCleaned(SomeRowsEmpty):
    """Rows of -inf become NaN, and then nothing."""

    def attend(self, q, k, v):
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.head_dim)
        weights = scores.masked_fill(~self.visible(), float("-inf")).softmax(dim=-1)
        weights = torch.nan_to_num(weights, nan=0.0)
        return torch.matmul(weights, v)


@looks_wrong("empty rows are given every key")
class EmptyRowsOpened(SomeRowsEmpty):
    """A row that may see nothing is allowed to see everything."""

    def attend(self, q, k, v):
        hidden = ~self.visible()
        hidden = hidden & ~hidden.all(dim=-1, keepdim=True)
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        return scores.masked_fill(hidden, float("-inf")).softmax(dim=-1) @ v

    def expected(self, q, k, v):
        everything = attention(SCALE * q @ k.mT, v)
        return torch.where(self.real()[:, None, :, None], super().expected(q, k, v), everything)


@looks_wrong("a learned table is added to the scores")
class RelativeBias(Design):
    """A learned bias per distance and head, after the scale."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(0.5 * torch.randn(2 * self.length - 1, self.heads))
        distance = torch.arange(self.length)[:, None] - torch.arange(self.length)
        self.register_buffer("index", distance + self.length - 1)

    def attend(self, q, k, v):
        q = q * self.head_dim**-0.5
        scores = q @ k.transpose(-2, -1)
        bias = self.table[self.index.view(-1)].view(self.length, self.length, -1)
        scores = scores + bias.permute(2, 0, 1).contiguous().unsqueeze(0)
        return scores.softmax(dim=-1) @ v

    def expected(self, q, k, v):
        return attention(SCALE * q @ k.mT + self.table[self.index].permute(2, 0, 1), v)


@looks_wrong("more keys than queries, and a mask that is not square")
class LateChunk(Design):
    """The last three queries of eleven: the mask is aligned at the bottom right."""

    def attend(self, q, k, v):
        q = q[:, :, -3:]
        mask = causal(q.shape[2], k.shape[2])
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    def forward(self, x):
        h = self.norm(x)
        q, k, v = self.split(self.query(h)), self.split(self.key(h)), self.split(self.value(h))
        return x[:, -3:] + self.output(self.attend(q, k, v).transpose(1, 2).flatten(2))

    def expected(self, q, k, v):
        hidden = ~causal(11, 11)
        return attention((SCALE * q @ k.mT).masked_fill(hidden, -torch.inf), v)[:, :, -3:]


@looks_wrong("two masks, one over the other")
class WindowAndCausal(Causal):
    """A band of four keys, by two fills."""

    def visible(self):
        return causal(self.length, self.length).triu(-3)

    def attend(self, q, k, v):
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * self.head_dim**-0.5
        scores = scores.masked_fill(~causal(self.length, self.length), -torch.inf)
        far = torch.ones(self.length, self.length, dtype=torch.bool).tril(-4)
        scores = scores.masked_fill(far, -torch.inf)
        return torch.einsum("bhqk,bhkd->bhqd", scores.softmax(-1), v)


@looks_wrong("1e9 is subtracted from the scores")
class Subtracted(Causal):
    def attend(self, q, k, v):
        hidden = (~self.visible()).to(q.dtype)
        scores = SCALE * (q @ k.mT) - hidden * 1e9
        return scores.softmax(-1) @ v


@looks_wrong("the past is hidden")
class Backwards(Design):
    """A model that reads from the end: each query sees itself and what follows."""

    def attend(self, q, k, v):
        past = torch.ones(self.length, self.length, dtype=torch.bool).tril(-1)
        return (SCALE * q @ k.mT).masked_fill(past, -torch.inf).softmax(-1) @ v

    def expected(self, q, k, v):
        later = torch.arange(self.length) >= torch.arange(self.length)[:, None]
        return attention(torch.where(later, SCALE * q @ k.mT, -torch.inf), v)


@looks_wrong("queries see four keys of the future")
class LooksAhead(Design):
    def attend(self, q, k, v):
        hidden = torch.ones(self.length, self.length, dtype=torch.bool).triu(5)
        return (SCALE * q @ k.mT).masked_fill(hidden, -torch.inf).softmax(-1) @ v

    def expected(self, q, k, v):
        near = torch.arange(self.length) <= torch.arange(self.length)[:, None] + 4
        return attention(torch.where(near, SCALE * q @ k.mT, -torch.inf), v)


@looks_wrong("a causal mask at the top left of more keys than queries")
class RoomInTheCache(Design):
    """The first pass over a cache that has room for nine more keys."""

    def attend(self, q, k, v):
        room = self.length + 9
        keys = k.new_zeros(*k.shape[:2], room, k.shape[3])
        values = torch.zeros_like(keys)
        keys[:, :, : self.length], values[:, :, : self.length] = k, v
        seen = torch.arange(room) <= torch.arange(self.length)[:, None]
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=seen)

    def expected(self, q, k, v):
        seen = causal(self.length, self.length)
        return attention(torch.where(seen, SCALE * q @ k.mT, -torch.inf), v)
