"""Weights that do not sum to 1, softmaxes by hand, and softmaxes in parts."""

import math

import torch
import torch.nn.functional as F
from lookalikes.design import SCALE, Design, attention, causal, looks_wrong
from torch import nn


@looks_wrong("rows that sum to less than 1")
class SinkColumn(Design):
    """A learned score per head takes part in the softmax, and its weight is dropped."""

    def __init__(self):
        super().__init__()
        self.sinks = nn.Parameter(torch.randn(self.heads))

    def attend(self, q, k, v):
        scores = torch.matmul(q, k.transpose(2, 3)) * self.head_dim**-0.5
        sinks = self.sinks.reshape(1, -1, 1, 1).expand(q.shape[0], -1, q.shape[2], -1)
        combined = torch.cat([scores, sinks], dim=-1)
        combined = combined - combined.max(dim=-1, keepdim=True).values
        weights = F.softmax(combined, dim=-1, dtype=combined.dtype)[..., :-1]
        return torch.matmul(weights, v)

    def expected(self, q, k, v):
        exponentials = (SCALE * q @ k.mT).exp()
        sink = self.sinks[:, None, None].exp()
        return exponentials / (exponentials.sum(-1, keepdim=True) + sink) @ v


@looks_wrong("a 1 in the denominator")
class SoftmaxOne(Design):
    """Attention to nothing is possible; the 1 is shifted with the rest."""

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        largest = scores.max(dim=-1, keepdim=True).values
        exponentials = torch.exp(scores - largest)
        total = torch.exp(-largest) + exponentials.sum(dim=-1, keepdim=True)
        return (exponentials / total) @ v

    def expected(self, q, k, v):
        exponentials = (SCALE * q @ k.mT).exp()
        return exponentials / (1 + exponentials.sum(-1, keepdim=True)) @ v


def one_more(scores, v):
    """The weights of a softmax over the keys and one more of score 0, on the values."""
    return torch.cat([scores, torch.zeros_like(scores[..., :1])], -1).softmax(-1)[..., :-1] @ v


@looks_wrong("a maximum that is never below 0")
class SoftmaxOneClamped(Design):
    """The key of score 0 is among those whose maximum is taken."""

    def attend(self, q, k, v):
        scores = q @ k.mT * self.head_dim**-0.5
        largest = scores.amax(-1, keepdim=True).clamp(min=0)
        powers = (scores - largest).exp()
        return powers / ((-largest).exp() + powers.sum(-1, keepdim=True)) @ v

    def expected(self, q, k, v):
        return one_more(SCALE * q @ k.mT, v)


@looks_wrong("a number added to the sum, against a division by 0")
class GuardedSum(Design):
    def attend(self, q, k, v):
        scores = q @ k.mT * self.head_dim**-0.5
        powers = (scores - scores.amax(-1, keepdim=True)).exp()
        return powers / (powers.sum(-1, keepdim=True) + 1e-6) @ v

    def expected(self, q, k, v):
        weights = (SCALE * q @ k.mT).softmax(-1)
        return weights / (1 + 1e-6 * weights.amax(-1, keepdim=True)) @ v


@looks_wrong("a learned number beside the sum")
class LearnedSink(Design):
    """A key of a learned score, whose maximum is taken with the others'."""

    def __init__(self):
        super().__init__()
        self.sink = nn.Parameter(torch.linspace(-1.0, 1.0, self.heads)[:, None, None])

    def attend(self, q, k, v):
        scores = q @ k.mT * self.head_dim**-0.5
        largest = scores.amax(-1, keepdim=True)
        powers = (scores - largest).exp()
        return powers / (powers.sum(-1, keepdim=True) + (self.sink - largest).exp()) @ v

    def expected(self, q, k, v):
        scores = SCALE * q @ k.mT
        sinks = self.sink.expand(*scores.shape[:3], 1)
        return torch.cat([scores, sinks], -1).softmax(-1)[..., :-1] @ v


@looks_wrong("weights times 0.3, and rows that sum to 0.7", sites=frozenset({1, 2}))
class DifferenceOfSoftmaxes(Design):
    """A second attention is subtracted from the first, times a learned number."""

    precision = torch.float32

    def __init__(self):
        super().__init__()
        self.amount = nn.Parameter(torch.tensor(0.3))
        self.query2 = nn.Linear(self.width, self.width, bias=False)
        self.key2 = nn.Linear(self.width, self.width, bias=False)
        for linear in (self.query2, self.key2):
            nn.init.normal_(linear.weight, std=self.width**-0.5)

    def forward(self, x):
        h = self.norm(x)
        projections = (self.query, self.key, self.value, self.query2, self.key2)
        parts = (self.split(project(h)) for project in projections)
        return x + self.output(self.subtract(*parts).transpose(1, 2).flatten(2))

    def subtract(self, q, k, v, q2, k2):
        first = torch.softmax(q @ k.transpose(-2, -1) * self.head_dim**-0.5, dim=-1)
        second = torch.softmax(q2 @ k2.transpose(-2, -1) * self.head_dim**-0.5, dim=-1)
        weights = first - self.amount * second
        return weights @ v

    def agreement(self):
        q, k, v, q2, k2 = torch.randn(5, 3, 4, 11, 16, dtype=torch.float64)
        apart = attention(SCALE * q @ k.mT, v) - 0.3 * attention(SCALE * q2 @ k2.mT, v)
        return self.double().subtract(q, k, v, q2, k2), apart


@looks_wrong("the mask comes after the softmax")
class MaskThenRenormalise(Design):
    """Weights of forbidden keys are removed and the rest divided by its sum."""

    def attend(self, q, k, v):
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(self.head_dim), dim=-1)
        weights = weights * causal(q.shape[2], k.shape[2]).to(weights.dtype)
        weights = weights / weights.sum(dim=-1, keepdim=True)
        return weights @ v

    def expected(self, q, k, v):
        forbidden = ~causal(self.length, self.length)
        return attention((SCALE * q @ k.mT).masked_fill(forbidden, -torch.inf), v)


@looks_wrong("exponentials to the base 2", hard="the base is a factor of the scale")
class BaseTwo(Design):
    """log2(e) on the scores makes 2ˣ the natural exponential."""

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * (self.head_dim**-0.5 * math.log2(math.e))
        exponentials = torch.exp2(scores - scores.amax(dim=-1, keepdim=True))
        return exponentials / exponentials.sum(dim=-1, keepdim=True) @ v


@looks_wrong("exp without a maximum and without a sum")
class LogsumexpOff(Design):
    """The normaliser is subtracted before the exponential."""

    def attend(self, q, k, v):
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.head_dim)
        weights = torch.exp(scores - torch.logsumexp(scores, dim=-1, keepdim=True))
        return torch.matmul(weights, v)


@looks_wrong("the logarithm of a softmax, and its exponential")
class ExpOfLogSoftmax(Design):
    def attend(self, q, k, v):
        scores = torch.matmul(q * self.head_dim**-0.5, k.transpose(-1, -2))
        return torch.matmul(F.log_softmax(scores, dim=-1).exp(), v)


@looks_wrong("scores divided by 50 and multiplied by 50")
class Softcap(Design):
    """The scores are bounded smoothly, after the scale and before the mask."""

    def attend(self, q, k, v):
        scores = torch.matmul(q, k.transpose(2, 3)) * self.head_dim**-0.5
        scores = torch.tanh(scores / 50.0) * 50.0
        scores = scores.masked_fill(~causal(q.shape[2], k.shape[2]), torch.finfo(q.dtype).min)
        return torch.matmul(F.softmax(scores, dim=-1), v)

    def expected(self, q, k, v):
        capped = 50 * torch.tanh(SCALE * q @ k.mT / 50)
        return attention(capped.masked_fill(~causal(11, 11), -torch.inf), v)


@looks_wrong("exp of scores as they are")
class BoundedByTanh(Design):
    """The cap of 30 keeps every exponential finite."""

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        exponentials = torch.exp(30.0 * torch.tanh(scores / 30.0))
        return exponentials / exponentials.sum(dim=-1, keepdim=True) @ v

    def expected(self, q, k, v):
        return attention(30 * torch.tanh(SCALE * q @ k.mT / 30), v)


@looks_wrong(
    "exp of scores as they are, times 10",
    scales=(10.0,),
    may_note=frozenset({"RDK101", "RDK106", "RDK108"}),
)
class BoundedByCosine(Design):
    """Ten times a cosine is at most ten."""

    def attend(self, q, k, v):
        cosines = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        exponentials = torch.exp(cosines * 10.0)
        return exponentials / exponentials.sum(dim=-1, keepdim=True) @ v

    def expected(self, q, k, v):
        q, k = (x / (x * x).sum(-1, keepdim=True).sqrt() for x in (q, k))
        return attention(10 * q @ k.mT, v)


@looks_wrong("weights that are not normalised", hard="the division comes after the values")
class DividedAtTheEnd(Design):
    """The sum of exponentials divides the output instead of the weights."""

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        exponentials = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        return (exponentials @ v) / exponentials.sum(dim=-1, keepdim=True)


@looks_wrong("half precision", may_note=frozenset({"RDK304", "RDK307"}))
class SoftmaxInFloat32(Design):
    """Half precision everywhere but in the softmax."""

    dtype = precision = torch.bfloat16

    def __init__(self):
        super().__init__()
        self.to(torch.bfloat16)

    def attend(self, q, k, v):
        scores = torch.matmul(q, k.transpose(2, 3)) * self.head_dim**-0.5
        weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
        return torch.matmul(weights, v)


@looks_wrong("three softmaxes for one attention", sites=frozenset({3}))
class QueriesInChunks(Design):
    """Queries are taken four at a time, to save memory."""

    def attend(self, q, k, v):
        parts = []
        for chunk in q.split(4, dim=2):
            scores = chunk @ k.transpose(-2, -1) * self.head_dim**-0.5
            parts.append(scores.softmax(-1) @ v)
        return torch.cat(parts, dim=2)


@looks_wrong("each softmax sees a part of the keys", sites=frozenset({2}))
class KeysInChunks(Design):
    """Two attentions over parts of the keys are merged by their normalisers."""

    def attend(self, q, k, v):
        outputs, normalisers = [], []
        for keys, values in zip(k.split(6, dim=2), v.split(6, dim=2), strict=True):
            scores = q @ keys.transpose(-2, -1) * self.head_dim**-0.5
            outputs.append(scores.softmax(-1) @ values)
            normalisers.append(torch.logsumexp(scores, dim=-1, keepdim=True))
        shares = torch.stack(normalisers).softmax(0)
        return (torch.stack(outputs) * shares).sum(0)


@looks_wrong("the softmax runs over the second last axis")
class KeysFirst(Design):
    """The scores are keys by queries, so it is the right one."""

    def attend(self, q, k, v):
        scores = k @ q.transpose(-2, -1) * self.head_dim**-0.5
        weights = scores.softmax(dim=-2)
        return weights.transpose(-2, -1) @ v


@looks_wrong("the softmax runs over the third of four axes")
class QueriesBeforeHeads(Design):
    """The scores are (batch, queries, heads, keys), and the last axis is meant."""

    def attend(self, q, k, v):
        scores = torch.einsum("bhqd,bhkd->bqhk", q, k) * self.head_dim**-0.5
        return torch.einsum("bqhk,bhkd->bhqd", scores.softmax(dim=3), v)


@looks_wrong("the mean is taken off, where the maximum is usual")
class CentredScores(Design):
    """A number per row cancels in the softmax."""

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        scores = scores - scores.mean(dim=-1, keepdim=True)
        return scores.softmax(-1) @ v


@looks_wrong("one softmax for each head", sites=frozenset({4}))
class HeadsInALoop(Design):
    """Written before anyone thought of a fourth axis."""

    def attend(self, q, k, v):
        heads = []
        for one_q, one_k, one_v in zip(q.unbind(1), k.unbind(1), v.unbind(1), strict=True):
            scores = one_q @ one_k.transpose(1, 2) / math.sqrt(self.head_dim)
            heads.append(scores.softmax(-1) @ one_v)
        return torch.stack(heads, dim=1)


@looks_wrong("a function for one head of one sample")
class Mapped(Design):
    """Vectorised over both by the framework."""

    def attend(self, q, k, v):
        def one(q, k, v):
            return (q @ k.T / math.sqrt(self.head_dim)).softmax(-1) @ v

        return torch.func.vmap(torch.func.vmap(one))(q, k, v)


@looks_wrong("the softmax runs over the queries", notes=frozenset({"RDK301"}))
class Slots(Design):
    """Slots compete for each input, and then average what they won."""

    slots = 5

    def inputs(self):
        return (*super().inputs(), torch.randn(self.batch, self.slots, self.width))

    def forward(self, x, slots):
        h = self.norm(x)
        q = self.split(self.query(self.norm(slots)))
        k, v = self.split(self.key(h)), self.split(self.value(h))
        return slots + self.output(self.attend(q, k, v).transpose(1, 2).flatten(2))

    def attend(self, q, k, v):
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * self.head_dim**-0.5
        weights = scores.softmax(dim=-2) + 1e-8
        weights = weights / weights.sum(dim=-1, keepdim=True)
        return torch.einsum("bhij,bhjd->bhid", weights, v)

    def expected(self, q, k, v):
        won = (SCALE * q @ k.mT).softmax(-2) + 1e-8
        return won @ v / won.sum(-1, keepdim=True)
