"""Scores put together of pieces that are scaled apart: concatenated, written, or chosen."""

import torch
from lookalikes.design import SCALE, Design, attention
from nine.case import Silent, silent


class Pieces(Design):
    """softmax over the scores of six keys beside those of the other six, scaled by ``factors``."""

    length = 12
    factors = (1.0, 1.0)

    def weights(self, q, k):
        """The weights, from q that is scaled, and from k."""
        a, b = k.chunk(2, dim=2)
        return self.pieces(q, a, b).softmax(-1)

    def attend(self, q, k, v):
        return self.weights(q * self.head_dim**-0.5, k) @ v

    def expected(self, q, k, v):
        factors = torch.tensor(self.factors, dtype=q.dtype).repeat_interleave(6)
        return attention(SCALE * factors * (q @ k.mT), v)


@silent(Silent.SLICES_APART, scale=None, unresolved=True)
class OnePieceScaled(Pieces):
    """A factor after one of two products."""

    factors = (1.0, 2.0)

    def pieces(self, q, a, b):
        return torch.cat([q @ a.mT, q @ b.mT * 2.0], dim=-1)


@silent(Silent.SLICES_APART, scale=None, unresolved=True)
class OnePieceUnscaled(Pieces):
    """The second product is of the query before its factor."""

    factors = (1.0, 4.0)

    def attend(self, q, k, v):
        a, b = k.chunk(2, dim=2)
        scaled = q * self.head_dim**-0.5
        return torch.cat([scaled @ a.mT, q @ b.mT], dim=-1).softmax(-1) @ v


@silent(Silent.SLICES_APART, scale=None, unresolved=True)
class KeysOfOnePieceScaled(Pieces):
    factors = (0.5, 1.0)

    def pieces(self, q, a, b):
        return torch.cat([q @ (a * 0.5).mT, q @ b.mT], dim=-1)


@silent(Silent.SLICES_APART, scale=None, unresolved=True)
class OnePieceOfABufferScaled(Pieces):
    factors = (1.0, 3.0)

    def pieces(self, q, a, b):
        scores = q.new_zeros(*q.shape[:3], 12)
        scores[..., :6] = q @ a.mT
        scores[..., 6:] = 3.0 * (q @ b.mT)
        return scores


@silent(Silent.SLICES_APART, scale=None, unresolved=True)
class OnePieceScaledInPlace(Pieces):
    """Two products are written, and then the part of one is scaled."""

    factors = (0.25, 1.0)

    def pieces(self, q, a, b):
        scores = torch.cat([q @ a.mT, q @ b.mT], dim=-1)
        scores[..., :6] /= 4.0
        return scores


@silent(Silent.SLICES_APART, scale=None, unresolved=True)
class OneChosenPieceScaled(Pieces):
    """Of two tensors of scores, the second of twice the factor."""

    factors = (1.0, 2.0)

    def weights(self, q, k):
        first = torch.arange(12) < 6
        return torch.where(first, q @ k.mT, q @ (2.0 * k).mT).softmax(-1)


@silent(Silent.SLICES_APART, scale=None, unresolved=True)
class OneRowOfManyScaled(Pieces):
    """One query of eighty forgets its factor: few rows of a sample would show it."""

    length = 80

    def attend(self, q, k, v):
        rows = [q[:, :, :79] * SCALE @ k.mT, q[:, :, 79:] @ k.mT]
        return torch.cat(rows, dim=2).softmax(-1) @ v

    def expected(self, q, k, v):
        factors = torch.tensor([SCALE] * 79 + [1.0], dtype=q.dtype)[:, None]
        return attention(factors * (q @ k.mT), v)


@silent(Silent.SLICES_APART, scale=None, unresolved=True)
class OnePieceLearned(Pieces):
    """A learned number stands on one piece only."""

    def __init__(self):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.tensor(1.0))

    def pieces(self, q, a, b):
        return torch.cat([q @ a.mT, (q * self.gain) @ b.mT], dim=-1)


@silent(Silent.SLICES_APART, scale=SCALE / 2)
class EqualPieces(Pieces):
    """Both are halved: the one at its keys, the other after its product."""

    factors = (0.5, 0.5)

    def pieces(self, q, a, b):
        return torch.cat([q @ (a * 0.5).mT, q @ b.mT / 2.0], dim=-1)


@silent(Silent.SLICES_APART, scale=2.0 * SCALE)
class EqualPiecesWritten(Pieces):
    """Into memory that held other numbers, and doubled as one."""

    factors = (2.0, 2.0)

    def pieces(self, q, a, b):
        scores = q.new_full((*q.shape[:3], 12), 7.0)
        scores[..., :6] = q @ a.mT
        scores[..., 6:] = q @ b.mT
        return scores.mul_(2.0)


@silent(Silent.SLICES_APART, scale=None, unresolved=True)
class SeveralQueriesInARow(Design):
    """The scores are reshaped, so that the keys of two queries share one softmax."""

    length = 12

    def attend(self, q, k, v):
        scores = q @ k.mT * SCALE
        pairs = torch.stack([scores[:, :, 0::2], scores[:, :, 1::2]], dim=3).flatten(3)
        weights = pairs.softmax(-1).unflatten(3, (2, -1))
        return weights.flatten(2, 3) @ v

    def expected(self, q, k, v):
        pairs = (SCALE * q @ k.mT).unflatten(2, (6, 2)).flatten(3).softmax(-1)
        return pairs.unflatten(3, (2, 12)).flatten(2, 3) @ v


@silent(Silent.SLICES_APART, scale=None, unresolved=True)
class KeysOfTwoQueriesInARow(Pieces):
    """The scores of two queries, one beside the other, under one softmax."""

    def attend(self, q, k, v):
        scores = q @ k.mT * SCALE
        pairs = torch.cat([scores[:, :, 0::2], scores[:, :, 1::2]], dim=-1).softmax(-1)
        one, two = pairs.chunk(2, dim=-1)
        return torch.stack([one @ v, two @ v], dim=3).flatten(2, 3)

    def expected(self, q, k, v):
        pairs = (SCALE * q @ k.mT).unflatten(2, (6, 2)).flatten(3).softmax(-1)
        return pairs.unflatten(3, (2, 12)).flatten(2, 3) @ v
