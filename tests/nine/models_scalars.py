"""Scalars in disguise: computed from a shape, or as a sum of something with itself."""

import torch
import torch.nn.functional as F
from lookalikes.design import SCALE, Design, attention
from nine.case import Silent, silent


class Root(Design):
    """softmax(q·kᵀ·factor(q))·v."""

    precision = torch.float32

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.factor(q)
        return scores.softmax(dim=-1) @ v


@silent(Silent.SCALAR_FROM_A_SHAPE, scale=SCALE)
class ReciprocalRoot(Root):
    def factor(self, q):
        return torch.tensor(q.shape[-1]).float().rsqrt()


@silent(Silent.SCALAR_FROM_A_SHAPE, scale=SCALE)
class DividedByRoot(Root):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / torch.sqrt(torch.tensor(q.shape[-1]))
        return scores.softmax(dim=-1) @ v


@silent(Silent.SCALAR_FROM_A_SHAPE, scale=SCALE)
class Power(Root):
    def factor(self, q):
        return torch.tensor(q.size(-1)) ** -0.5


@silent(Silent.SCALAR_FROM_A_SHAPE, scale=SCALE)
class NewTensor(Root):
    def factor(self, q):
        return q.new_tensor(float(q.shape[-1])).sqrt().reciprocal()


@silent(Silent.SCALAR_FROM_A_SHAPE, scale=SCALE)
class Full(Root):
    def factor(self, q):
        return 1 / torch.full([], q.size(-1) ** 0.5, dtype=q.dtype, device=q.device)


@silent(Silent.SCALAR_FROM_A_SHAPE, scale=SCALE)
class Exponential(Root):
    def factor(self, q):
        return torch.exp(-0.5 * torch.log(torch.tensor(float(q.shape[-1]))))


@silent(Silent.SCALAR_FROM_A_SHAPE, scale=SCALE)
class CastTwice(Root):
    def factor(self, q):
        return torch.tensor(q.shape[-1]).to(torch.float64).sqrt().pow(-1).to(torch.float32)


@silent(Silent.SCALAR_FROM_A_SHAPE, scale=SCALE)
class CountOfOnes(Root):
    """A number per row, all equal, that depends on the shape alone."""

    def factor(self, q):
        return torch.ones_like(q).sum(dim=-1, keepdim=True).rsqrt()


@silent(Silent.SCALAR_FROM_A_SHAPE, scale=SCALE)
class ExportedKernel(Root):
    """What an exporter writes for a fused kernel: the root of the root on both sides."""

    def attend(self, q, k, v):
        width = torch.tensor(q.shape)[-1:].to(torch.float32)
        half = torch.sqrt(1.0 / torch.sqrt(width))
        scores = (q * half) @ (k.transpose(-2, -1) * half)
        return scores.softmax(dim=-1) @ v


class Sum(Design):
    """softmax(sum(q)·kᵀ/√d)·v, where the sum is ``times`` q."""

    times = 2.0

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(self.sum(q), k, v)

    def expected(self, q, k, v):
        return attention(self.times * SCALE * q @ k.mT, v)


@silent(Silent.ADDED_TO_ITSELF, scale=2 * SCALE)
class QueryTwice(Sum):
    def sum(self, q):
        return q + q


@silent(Silent.ADDED_TO_ITSELF, scale=2 * SCALE)
class QueryTwiceInPlace(Sum):
    def sum(self, q):
        return q.add_(q)


@silent(Silent.ADDED_TO_ITSELF, scale=1.5 * SCALE)
class QueryAndHalf(Sum):
    times = 1.5

    def sum(self, q):
        return torch.add(q, q, alpha=0.5)


@silent(Silent.ADDED_TO_ITSELF, scale=0.75 * SCALE)
class QueryLessAQuarter(Sum):
    times = 0.75

    def sum(self, q):
        return q - q * 0.25


@silent(Silent.ADDED_TO_ITSELF, scale=3 * SCALE)
class StackedThrice(Sum):
    times = 3.0

    def sum(self, q):
        return torch.stack([q, q, q]).sum(dim=0)


@silent(Silent.ADDED_TO_ITSELF, scale=2 * SCALE)
class KeyTwice(Sum):
    def attend(self, q, k, v):
        k = torch.add(k, k)
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        return scores.softmax(-1) @ v


@silent(Silent.ADDED_TO_ITSELF, scale=2 * SCALE)
class ScoresTwice(Sum):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        scores = scores + scores
        return scores.softmax(-1) @ v


@silent(Silent.ADDED_TO_ITSELF, scale=None, unresolved=True)
class QueryAndNeighbour(Sum):
    """A sum with something else: the token before."""

    def sum(self, q):
        return q + torch.roll(q, shifts=1, dims=2)

    def expected(self, q, k, v):
        both = torch.cat([q[:, :, :1] + q[:, :, -1:], q[:, :, 1:] + q[:, :, :-1]], dim=2)
        return attention(SCALE * both @ k.mT, v)


@silent(Silent.ADDED_TO_ITSELF, scale=None, unresolved=True)
class NeighbourInACache(Sum):
    """The same for k, on its way into a cache with room for more."""

    room = 20

    def attend(self, q, k, v):
        k = k + torch.roll(k, shifts=1, dims=2)
        keys = k.new_zeros(*k.shape[:2], self.room, self.head_dim)
        values = torch.zeros_like(keys)
        keys[:, :, : k.shape[2]] = k
        values[:, :, : v.shape[2]] = v
        visible = torch.arange(self.room) < k.shape[2]
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=visible[None, None, None])

    def expected(self, q, k, v):
        both = torch.cat([k[:, :, :1] + k[:, :, -1:], k[:, :, 1:] + k[:, :, :-1]], dim=2)
        return attention(SCALE * q @ both.mT, v)


@silent(Silent.ADDED_TO_ITSELF, scale=0.75 * SCALE)
class PartOfTheWayFromZero(Sum):
    """Three quarters of q and one quarter of nothing."""

    times = 0.75

    def sum(self, q):
        return torch.lerp(torch.zeros_like(q), q, 0.75)
