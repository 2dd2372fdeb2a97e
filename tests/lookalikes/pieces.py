"""Scores put together of pieces: several products, or one written part by part."""

import math

import torch
import torch.nn.functional as F
from lookalikes.design import SCALE, Design, attention, causal, looks_wrong


class Blocks(Design):
    """Queries of a block see the first two tokens (global) and their own block of four."""

    length = 12
    block = 4
    first = 2

    def blocks(self, x):
        return x.unflatten(2, (-1, self.block))

    def allowed(self):
        """(queries, keys): how often a query meets a key: as a global one, and in its block."""
        token = torch.arange(self.length)
        near = token[:, None] // self.block == token // self.block
        return near.int() + (token < self.first).int()

    def expected(self, q, k, v):
        # A key that is met twice has twice the weight: log 2 on its score.
        return attention(SCALE * q @ k.mT + self.allowed().to(q.dtype).log(), v)


@looks_wrong("scores of global keys beside those of a block")
class GlobalAndLocalKeys(Blocks):
    """Two products of one query, concatenated over the keys."""

    def attend(self, q, k, v):
        q = self.blocks(q * self.head_dim**-0.5)
        far = torch.einsum("bhnqd,bhgd->bhnqg", q, k[:, :, : self.first])
        near = torch.einsum("bhnqd,bhnkd->bhnqk", q, self.blocks(k))
        weights = torch.cat([far, near], dim=-1).softmax(-1)
        output = torch.einsum(
            "bhnqg,bhgd->bhnqd", weights[..., : self.first], v[:, :, : self.first]
        )
        output = output + weights[..., self.first :] @ self.blocks(v)
        return output.flatten(2, 3)


@looks_wrong("each product has its own factor, and they are equal")
class FactorsOfTheirOwn(Blocks):
    """The one is scaled at the query, the other after the product."""

    def attend(self, q, k, v):
        scaled = self.blocks(q * self.head_dim**-0.5)
        far = scaled @ k[:, :, None, : self.first].mT
        near = self.blocks(q) @ self.blocks(k).mT / math.sqrt(self.head_dim)
        weights = torch.cat([near, far], dim=-1).softmax(-1)
        output = weights[..., : self.block] @ self.blocks(v)
        output = output + weights[..., self.block :] @ v[:, :, None, : self.first]
        return output.flatten(2, 3)


@looks_wrong("scores of blocks of queries, one above the other")
class BlocksOfQueries(Design):
    """The products of a loop over the queries, concatenated over the queries."""

    length = 12

    def attend(self, q, k, v):
        rows = [part @ k.mT * self.head_dim**-0.5 for part in q.split(5, dim=2)]
        return torch.cat(rows, dim=2).softmax(-1) @ v


@looks_wrong("scores are written into a buffer, block by block")
class RowsIntoABuffer(Design):
    """As BlocksOfQueries, into memory of the whole, causally masked at the end."""

    length = 12

    def attend(self, q, k, v):
        scores = q.new_empty(*q.shape[:-1], self.length)
        for start in range(0, self.length, 3):
            stop = start + 3
            scores[:, :, start:stop] = q[:, :, start:stop] @ k.mT
        scores.masked_fill_(~causal(self.length, self.length), -torch.inf)
        return (scores * self.head_dim**-0.5).softmax(-1) @ v

    def expected(self, q, k, v):
        scores = SCALE * q @ k.mT
        hidden = ~causal(self.length, self.length)
        return attention(scores.masked_fill(hidden, -torch.inf), v)


@looks_wrong("a band of scores, gathered from overlapping chunks")
class BandOfChunks(Design):
    """A window of two to either side: products of chunks of four, two thirds of them thrown away.

    Each query keeps five scores, by the distance of the key; the first and last of the sequence
    see keys that are not there, which are hidden by a fill on a slice.
    """

    length = 12
    reach = 2

    def band(self, q, k):
        r, length = self.reach, self.length
        padded = F.pad(k, (0, 0, r, r))
        windows = padded.as_strided(
            (*k.shape[:2], length // r, 3 * r, k.shape[-1]),
            (*padded.stride()[:2], r * padded.stride(2), padded.stride(2), 1),
        )
        products = q.unflatten(2, (-1, r)) @ windows.mT
        scores = products.new_zeros(*q.shape[:2], length, 2 * r + 1)
        for row in range(r):
            scores[:, :, row::r] = products[:, :, :, row, row : row + 2 * r + 1]
        for row in range(r):
            scores[:, :, row, : r - row] = -torch.inf
            scores[:, :, length - 1 - row, r + 1 + row :] = -torch.inf
        return scores

    def attend(self, q, k, v):
        weights = self.band(q * self.head_dim**-0.5, k).softmax(-1)
        r = self.reach
        values = F.pad(v, (0, 0, r, r)).unfold(2, 2 * r + 1, 1)
        return torch.einsum("bhqw,bhqdw->bhqd", weights, values)

    def expected(self, q, k, v):
        token = torch.arange(self.length)
        far = (token[:, None] - token).abs() > self.reach
        return attention((SCALE * q @ k.mT).masked_fill(far, -torch.inf), v)


@looks_wrong("scores are chosen from two products of other rotations")
class NearAndFar(Design):
    """Far keys meet a query of another rotation (self-extend); here, one that is turned about."""

    def attend(self, q, k, v):
        turned = torch.cat([-q[..., 8:], q[..., :8]], dim=-1)
        token = torch.arange(q.shape[2])
        near = (token[:, None] - token).abs() < 4
        scores = torch.where(near, q @ k.mT, turned @ k.mT)
        return (scores / math.sqrt(self.head_dim)).softmax(-1) @ v

    def expected(self, q, k, v):
        token = torch.arange(q.shape[2])
        near = (token[:, None] - token).abs() < 4
        turned = torch.cat([-q[..., 8:], q[..., :8]], dim=-1)
        return attention(SCALE * torch.where(near, q @ k.mT, turned @ k.mT), v)


@looks_wrong("pieces and a column that is no product", may_note=frozenset({"RDK303"}))
class PiecesAndASink(Blocks):
    """Global keys, a block, and a learned column that takes a share."""

    def __init__(self):
        super().__init__()
        self.sink = torch.nn.Parameter(torch.zeros(self.heads))

    def attend(self, q, k, v):
        q = self.blocks(q * self.head_dim**-0.5)
        far = q @ k[:, :, None, : self.first].mT
        near = q @ self.blocks(k).mT
        sink = self.sink[:, None, None, None].expand(*near.shape[:-1], 1)
        weights = torch.cat([far, near, sink.to(near.dtype)], dim=-1).softmax(-1)
        output = weights[..., : self.first] @ v[:, :, None, : self.first]
        output = output + weights[..., self.first : -1] @ self.blocks(v)
        return output.flatten(2, 3)

    def expected(self, q, k, v):
        scores = SCALE * q @ k.mT + self.allowed().to(q.dtype).log()
        weights = torch.cat([scores, torch.zeros_like(scores[..., :1])], dim=-1).softmax(-1)
        return weights[..., :-1] @ v
