"""What happens to scores: linear maps over them, and products added to them."""

import math

import torch
import torch.nn.functional as F
from lookalikes.design import SCALE, Design, attention
from nine.case import Silent, silent
from torch import nn


class Talking(Design):
    """softmax(talk(q·kᵀ/√d))·v, where talk doubles the scores of each head."""

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        return self.talk(scores).softmax(-1) @ v

    def expected(self, q, k, v):
        return attention(2 * SCALE * q @ k.mT, v)


@silent(Silent.MAP_OVER_SCORES, scale=2 * SCALE, constants=SCALE)
class TalkingConvolution(Talking):
    def __init__(self):
        super().__init__()
        self.talk = nn.Conv2d(self.heads, self.heads, 1, bias=False)
        self.talk.weight.data.copy_(2 * torch.eye(self.heads)[..., None, None])


@silent(Silent.MAP_OVER_SCORES, scale=2 * SCALE, unresolved=True)
class TalkingBeside(Talking):
    """The map starts as the identity and is added: half of the scale stands in a convolution."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Conv2d(self.heads, self.heads, 1, bias=False)
        nn.init.dirac_(self.mix.weight)

    def talk(self, scores):
        return scores + self.mix(scores)


@silent(Silent.MAP_OVER_SCORES, scale=2 * SCALE, constants=SCALE)
class TalkingDepthwise(Talking):
    def __init__(self):
        super().__init__()
        self.talk = nn.Conv2d(self.heads, self.heads, 1, groups=self.heads, bias=False)
        self.talk.weight.data.fill_(2)


@silent(Silent.MAP_OVER_SCORES, scale=2 * SCALE, constants=SCALE)
class TalkingLinear(Talking):
    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(self.heads, self.heads, bias=False)
        self.mix.weight.data.copy_(2 * torch.eye(self.heads))

    def talk(self, scores):
        return self.mix(scores.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


@silent(Silent.MAP_OVER_SCORES, scale=2 * SCALE, constants=SCALE)
class TalkingEinsum(Talking):
    def __init__(self):
        super().__init__()
        self.mix = nn.Parameter(2 * torch.eye(self.heads))

    def talk(self, scores):
        return torch.einsum("hg,bgij->bhij", self.mix, scores)


@silent(Silent.MAP_OVER_SCORES, scale=2 * SCALE)
class TalkingConstant(Talking):
    """The map is a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("mix", 2 * torch.eye(self.heads))

    def talk(self, scores):
        return (self.mix @ scores.flatten(2)).view_as(scores)


@silent(Silent.MAP_OVER_SCORES, scale=None, unresolved=True)
class TalkingFreely(Talking):
    """Every head hears every other: no head has a scale of its own."""

    def __init__(self):
        super().__init__()
        self.talk = nn.Conv2d(self.heads, self.heads, 1, bias=False)
        nn.init.normal_(self.talk.weight)

    def expected(self, q, k, v):
        scores = SCALE * q @ k.mT
        mix = self.talk.weight[..., 0, 0]
        return attention((mix @ scores.flatten(2)).view_as(scores), v)


@silent(Silent.MAP_OVER_SCORES, scale=None, unresolved=True)
class ConvolvedScores(Talking):
    """Neighbouring queries and keys are mixed."""

    def __init__(self):
        super().__init__()
        self.talk = nn.Conv2d(self.heads, self.heads, 3, padding=1, groups=self.heads, bias=False)

    def expected(self, q, k, v):
        scores = F.pad(SCALE * q @ k.mT, (1, 1, 1, 1))
        kernel, n = self.talk.weight[:, 0], self.length
        mixed = sum(
            kernel[:, i, j, None, None] * scores[..., i : i + n, j : j + n]
            for i in range(3)
            for j in range(3)
        )
        return attention(mixed, v)


@silent(Silent.MAP_OVER_SCORES, scale=None, unresolved=True)
class NormalisedScores(Talking):
    """Each row gets mean 0 and size 1, whatever the scale was."""

    def talk(self, scores):
        return F.layer_norm(scores, scores.shape[-1:])

    def expected(self, q, k, v):
        scores = SCALE * q @ k.mT
        centred = scores - scores.mean(-1, keepdim=True)
        return attention(centred / ((centred**2).mean(-1, keepdim=True) + 1e-5).sqrt(), v)


@silent(Silent.MAP_OVER_SCORES, scale=SCALE)
class BestKeysAlone(Talking):
    """The softmax sees the five largest scores of each row, and its weights are put back."""

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        best, places = scores.topk(5, dim=-1)
        weights = torch.zeros_like(scores).scatter(-1, places, best.softmax(-1))
        return weights @ v

    def expected(self, q, k, v):
        scores = SCALE * q @ k.mT
        fifth = scores.sort(-1, descending=True).values[..., 4:5]
        return attention(scores.masked_fill(scores < fifth, -torch.inf), v)


SEEN = frozenset({"term"})
SEEN_IN_A_MASK = frozenset({"term", "bias"})


class RelativePosition(Design):
    """A learned table per pair of positions, met by the query as the projection left it."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(0.3 * torch.randn(self.length, self.length, self.head_dim))

    def expected(self, q, k, v):
        term = torch.einsum("bhqc,qkc->bhqk", q, self.table)
        return attention(SCALE * q @ k.mT + term, v)


@silent(Silent.UNSCALED_TERM, scale=SCALE, term=SEEN)
class RelativeTerm(RelativePosition):
    def attend(self, q, k, v):
        scores = (q * self.head_dim**-0.5) @ k.transpose(-2, -1)
        scores = scores + torch.einsum("bhqc,qkc->bhqk", q, self.table)
        return scores.softmax(-1) @ v


@silent(Silent.UNSCALED_TERM, scale=SCALE, term=SEEN)
class RelativeTermByMatmul(RelativePosition):
    """The table met by a batched product over the queries."""

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        term = torch.matmul(q.permute(2, 0, 1, 3).flatten(1, 2), self.table.transpose(1, 2))
        term = term.unflatten(1, q.shape[:2]).permute(1, 2, 0, 3)
        return (scores + term).softmax(-1) @ v


@silent(Silent.UNSCALED_TERM, scale=SCALE, term=SEEN_IN_A_MASK)
class RelativeTermInMask(RelativePosition):
    """The term is handed to a fused kernel as its mask."""

    def attend(self, q, k, v):
        term = torch.einsum("bhqc,qkc->bhqk", q, self.table)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=term)


@silent(Silent.UNSCALED_TERM, scale=SCALE, term=SEEN)
class DecomposedPosition(Design):
    """On a grid of 3 × 4: one table for the rows and one for the columns."""

    length = 12
    grid = (3, 4)

    def __init__(self):
        super().__init__()
        rows, columns = self.grid
        self.rows = nn.Parameter(0.3 * torch.randn(2 * rows - 1, self.head_dim))
        self.columns = nn.Parameter(0.3 * torch.randn(2 * columns - 1, self.head_dim))

    def table(self, parameter, size):
        place = torch.arange(size)
        return parameter[place[:, None] - place[None, :] + size - 1]

    def attend(self, q, k, v):
        shape = q.shape
        rows, columns = self.grid
        q, k, v = (x.flatten(0, 1) for x in (q, k, v))
        scores = (q * self.head_dim**-0.5) @ k.transpose(-2, -1)
        on_grid = q.reshape(-1, rows, columns, self.head_dim)
        by_row = torch.einsum("bhwc,hkc->bhwk", on_grid, self.table(self.rows, rows))
        by_column = torch.einsum("bhwc,wkc->bhwk", on_grid, self.table(self.columns, columns))
        scores = scores.view(-1, rows, columns, rows, columns)
        scores = scores + by_row[:, :, :, :, None] + by_column[:, :, :, None, :]
        weights = scores.view(-1, self.length, self.length).softmax(dim=-1)
        return (weights @ v).view(shape)

    def expected(self, q, k, v):
        rows, columns = self.grid
        scores = SCALE * q @ k.mT
        for i in range(self.length):
            for j in range(self.length):
                row = i // columns - j // columns + rows - 1
                column = i % columns - j % columns + columns - 1
                scores[:, :, i, j] += q[:, :, i] @ (self.rows[row] + self.columns[column])
        return attention(scores, v)
