"""Slices scaled apart, in place and out of it, through views and behind them."""

import math

import torch
import torch.nn.functional as F
from lookalikes.design import SCALE, Design, attention
from nine.case import Silent, silent


class Slices(Design):
    """softmax(scaled(q)·kᵀ/√d)·v, where two halves of the channels are scaled by ``halves``."""

    halves = (0.5, 2.0)

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(self.scaled(q), k, v)

    def expected(self, q, k, v):
        a, b = self.halves
        halves = a * q[..., :8] @ k[..., :8].mT + b * q[..., 8:] @ k[..., 8:].mT
        return attention(SCALE * halves, v)


@silent(Silent.SLICES_APART, scale=None, unresolved=True)
class HalvesInPlace(Slices):
    def scaled(self, q):
        q[..., :8] *= 0.5
        q[..., 8:] *= 2.0
        return q


@silent(Silent.SLICES_APART, scale=None, unresolved=True)
class OneHalfInPlace(Slices):
    halves = (0.5, 1.0)

    def scaled(self, q):
        q[..., :8].mul_(0.5)
        return q


@silent(Silent.SLICES_APART, scale=None, unresolved=True)
class HalvesJoined(Slices):
    def scaled(self, q):
        a, b = q.chunk(2, dim=-1)
        return torch.cat([a * 0.5, b * 2.0], dim=-1)


@silent(Silent.SLICES_APART, scale=None, unresolved=True)
class HalvesCopied(Slices):
    """Into a new tensor, half by half."""

    def scaled(self, q):
        new = q.new_empty(q.shape)
        new[..., :8] = q[..., :8] * 0.5
        new[..., 8:] = q[..., 8:] * 2.0
        return new


@silent(Silent.SLICES_APART, scale=SCALE / 2)
class EqualHalvesInPlace(Slices):
    """Both halves by the same number, which is then the whole's."""

    halves = (0.5, 0.5)

    def scaled(self, q):
        q[..., :8] *= 0.5
        q[..., 8:] *= 0.5
        return q


@silent(Silent.SLICES_APART, scale=SCALE / 2)
class EqualHalvesCopied(Slices):
    halves = (0.5, 0.5)

    def scaled(self, q):
        new = q.new_empty(q.shape)
        new[..., :8] = q[..., :8] * 0.5
        new[..., 8:] = q[..., 8:] * 0.5
        return new


@silent(Silent.SLICES_APART, scale=SCALE / 2)
class InPlaceBehindAView(Slices):
    """The factor comes through the parent, after the view was taken."""

    halves = (0.5, 0.5)

    def scaled(self, q):
        view = q.transpose(-2, -1)
        q.mul_(0.5)
        return view.transpose(-2, -1)


@silent(Silent.SLICES_APART, scale=SCALE / 2)
class InPlaceThroughAView(Slices):
    """The factor comes through a view, and the parent is used."""

    halves = (0.5, 0.5)

    def scaled(self, q):
        q.transpose(1, 2).mul_(0.5)
        return q


@silent(Silent.SLICES_APART, scale=SCALE)
class InPlaceAfterTheProduct(Slices):
    """The factor comes when the scores are made already."""

    halves = (1.0, 1.0)

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        q.mul_(2.0)
        k.mul_(2.0)
        return scores.softmax(-1) @ v


@silent(Silent.SLICES_APART, scale=SCALE / 2)
class QueryIntoABuffer(Slices):
    """The product with the number is written where the caller says."""

    halves = (0.5, 0.5)

    def scaled(self, q):
        buffer = torch.empty_like(q)
        torch.mul(q, 0.5, out=buffer)
        return buffer


@silent(Silent.SLICES_APART, scale=SCALE)
class ScoresIntoABuffer(Slices):
    """The product of q and k is written where the caller says."""

    halves = (1.0, 1.0)

    def attend(self, q, k, v):
        scores = q.new_empty(*q.shape[:-1], k.shape[-2])
        torch.matmul(q, k.transpose(-2, -1), out=scores)
        scores /= math.sqrt(self.head_dim)
        return scores.softmax(-1) @ v


@silent(Silent.SLICES_APART, scale=None, unresolved=True)
class SomeHeadsInPlace(Slices):
    def scaled(self, q):
        q[:, :2] *= 2.0
        return q

    def expected(self, q, k, v):
        factors = torch.tensor([2.0, 2.0, 1.0, 1.0], dtype=q.dtype)[:, None, None]
        return attention(SCALE * factors * (q @ k.mT), v)


@silent(Silent.SLICES_APART, scale=None, unresolved=True)
class SomeScoresInPlace(Slices):
    """The scores of the first five keys."""

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        scores[..., :5] *= 2.0
        return scores.softmax(-1) @ v

    def expected(self, q, k, v):
        factors = torch.tensor([2.0] * 5 + [1.0] * 6, dtype=q.dtype)
        return attention(SCALE * factors * (q @ k.mT), v)
