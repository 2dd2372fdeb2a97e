"""Softmaxes and products that are no attention, or hardly."""

import math

import torch
import torch.nn.functional as F
from lookalikes.design import NOT_ATTENTION, SCALE, Design, attention, looks_wrong
from torch import nn


class Elsewhere(Design):
    """No q, k and v: ``compute`` is the whole model, ``expected_output`` its formula."""

    def __init__(self):
        super().__init__()
        for name in ("query", "key", "value", "output"):
            delattr(self, name)

    def forward(self, x):
        return self.compute(self.norm(x))

    def agreement(self):
        x = torch.randn(self.batch, self.length, self.width, dtype=torch.float64)
        self.double()
        return self.compute(x), self.expected_output(x)


@looks_wrong("a softmax whose weights mix outputs", sites=NOT_ATTENTION)
class Router(Elsewhere):
    """The softmax shares tokens out to experts."""

    precision = torch.float32
    experts = 5

    def __init__(self):
        super().__init__()
        self.router = nn.Linear(self.width, self.experts, bias=False)
        self.expert = nn.Parameter(torch.randn(self.experts, self.width, self.width) / self.width)

    def compute(self, x):
        share = F.softmax(self.router(x), dim=-1, dtype=torch.float)
        share, chosen = torch.topk(share, 2, dim=-1)
        share = (share / share.sum(dim=-1, keepdim=True)).to(x.dtype)
        outputs = torch.einsum("bsm,emn->bsen", x, self.expert)
        outputs = outputs.gather(2, chosen[..., None].expand(-1, -1, -1, self.width))
        return torch.einsum("bsc,bscn->bsn", share, outputs)

    def expected_output(self, x):
        logits = (x @ self.router.weight.T).float()
        kept = logits.masked_fill(logits < logits.sort(-1).values[..., -2:-1], -torch.inf)
        outputs = torch.stack([x @ expert for expert in self.expert], dim=2)
        return (kept.softmax(-1).double()[..., None] * outputs).sum(2)


@looks_wrong("a softmax whose weights meet all experts", sites=NOT_ATTENTION)
class DenseRouter(Router):
    """Every expert counts a little: a product of weights with outputs."""

    def compute(self, x):
        share = self.router(x).softmax(-1)
        outputs = torch.einsum("bsm,emn->bsen", x, self.expert)
        return (share.unsqueeze(-2) @ outputs).squeeze(-2)

    def expected_output(self, x):
        share = (x @ self.router.weight.T).softmax(-1)
        outputs = torch.stack([x @ expert for expert in self.expert], dim=2)
        return (share[..., None] * outputs).sum(2)


@looks_wrong("a softmax over classes", sites=NOT_ATTENTION)
class Classifier(Elsewhere):
    def __init__(self):
        super().__init__()
        self.classes = nn.Linear(self.width, 7)

    def compute(self, x):
        return F.softmax(self.classes(x.mean(1)), dim=-1)

    def expected_output(self, x):
        logits = x.mean(1) @ self.classes.weight.T + self.classes.bias
        return logits.exp() / logits.exp().sum(-1, keepdim=True)


@looks_wrong("a softmax over words, times their embeddings", sites=NOT_ATTENTION)
class ExpectedEmbedding(Elsewhere):
    """Keys and values are one table of parameters."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(101, self.width)

    def compute(self, x):
        return (x @ self.embedding.weight.T).softmax(dim=-1) @ self.embedding.weight

    def expected_output(self, x):
        return attention(x @ self.embedding.weight.T, self.embedding.weight)


@looks_wrong("a softmax over tokens, whose weights sum them", sites=NOT_ATTENTION)
class AdditivePooling(Elsewhere):
    """The scores come from one linear layer: there is no query."""

    def __init__(self):
        super().__init__()
        self.score = nn.Linear(self.width, 1)

    def compute(self, x):
        weights = self.score(torch.tanh(x)).softmax(dim=1)
        return torch.bmm(weights.transpose(1, 2), x).squeeze(1)

    def expected_output(self, x):
        scores = x.tanh() @ self.score.weight[0]
        return (scores.softmax(-1)[..., None] * x).sum(1)


@looks_wrong("a query that is a parameter", sites=frozenset({0, 1}))
class LearnedQuery(Design):
    """One learned query pools all tokens, scaled like any other."""

    def __init__(self):
        super().__init__()
        del self.query
        self.probe = nn.Parameter(torch.randn(1, self.heads, 1, self.head_dim))

    def forward(self, x):
        h = self.norm(x)
        k, v = self.split(self.key(h)), self.split(self.value(h))
        return self.output(self.attend(self.probe, k, v).transpose(1, 2).flatten(2))

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        return scores.softmax(dim=-1) @ v


@looks_wrong("two normalisations and no scale", sites=NOT_ATTENTION)
class ExternalMemory(Elsewhere):
    """Keys and values are parameters, so both products are linear layers."""

    memory = 6

    def __init__(self):
        super().__init__()
        self.memory_key = nn.Linear(self.width, self.memory, bias=False)
        self.memory_value = nn.Linear(self.memory, self.width, bias=False)

    def compute(self, x):
        weights = self.memory_key(x).softmax(dim=1)
        weights = weights / weights.sum(dim=2, keepdim=True)
        return self.memory_value(weights)

    def expected_output(self, x):
        won = (x @ self.memory_key.weight.T).softmax(1)
        return won @ self.memory_value.weight.T / won.sum(2, keepdim=True)


@looks_wrong("a softmax that gates", sites=NOT_ATTENTION)
class SoftmaxGate(Elsewhere):
    """A gated unit: the two are multiplied entry by entry."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(self.width, self.width)
        self.up = nn.Linear(self.width, self.width)

    def compute(self, x):
        return F.softmax(self.gate(x), dim=-1) * self.up(x)

    def expected_output(self, x):
        gate = (x @ self.gate.weight.T + self.gate.bias).softmax(-1)
        return gate * (x @ self.up.weight.T + self.up.bias)


@looks_wrong("q, k and v without a softmax", sites=NOT_ATTENTION)
class LinearAttention(Design):
    """A positive map of q and k instead of the exponential of their product."""

    def attend(self, q, k, v):
        q, k = F.elu(q) + 1, F.elu(k) + 1
        total = torch.einsum("bhqd,bhd->bhq", q, k.sum(2))
        return torch.einsum("bhqd,bhdv->bhqv", q, k.mT @ v) / total.unsqueeze(-1)

    def expected(self, q, k, v):
        q, k = F.elu(q) + 1, F.elu(k) + 1
        return q @ k.mT @ v / (q @ k.mT).sum(-1, keepdim=True)


@looks_wrong("a softmax over the channels of q and one over the tokens of k", sites=NOT_ATTENTION)
class EfficientAttention(Design):
    """q and k are softmaxed one by one; no product of the two is."""

    def attend(self, q, k, v):
        q, k = q.softmax(dim=-1), k.softmax(dim=-2)
        return q @ (k.transpose(-2, -1) @ v)

    def expected(self, q, k, v):
        return q.softmax(-1) @ k.softmax(-2).mT @ v


@looks_wrong("a product of two activations and a sum", sites=NOT_ATTENTION)
class BilinearGate(Elsewhere):
    """A gated linear unit."""

    def __init__(self):
        super().__init__()
        self.both = nn.Linear(self.width, 2 * self.width)

    def compute(self, x):
        return F.glu(self.both(x), dim=-1)

    def expected_output(self, x):
        a, b = (x @ self.both.weight.T + self.both.bias).chunk(2, -1)
        return a / (1 + (-b).exp())


@looks_wrong("products of all pairs, and a softmax over them", sites=NOT_ATTENTION)
class ContrastiveLoss(Elsewhere):
    """The weights are compared with targets and meet no values."""

    def compute(self, x):
        tokens = F.normalize(x.flatten(0, 1), dim=-1)
        return F.log_softmax(tokens @ tokens.T / 0.07, dim=-1).diagonal().mean()

    def expected_output(self, x):
        tokens = x.flatten(0, 1)
        tokens = tokens / tokens.norm(dim=-1, keepdim=True)
        logits = tokens @ tokens.T / 0.07
        return (logits.diagonal() - logits.exp().sum(-1).log()).mean()


@looks_wrong("the whole softmax(q·kᵀ/√d), to look at and not to use", sites=frozenset({0, 1}))
class PointerNetwork(Design):
    """The weights are the answer: a distribution over the tokens."""

    def forward(self, x):
        h = self.norm(x)
        return self.attend(self.split(self.query(h)), self.split(self.key(h)), None)

    def attend(self, q, k, v):
        return (q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)).softmax(-1)

    def agreement(self):
        q, k = torch.randn(2, 3, 4, 11, 16, dtype=torch.float64)
        scores = SCALE * q @ k.mT
        return self.attend(q, k, None), scores.exp() / scores.exp().sum(-1, keepdim=True)
