"""What comes after the softmax: masks, gates, dropout, another softmax."""

import math

import torch
import torch.nn.functional as F
from lookalikes.design import SCALE, Design, attention, looks_wrong
from torch import nn


@looks_wrong("weights times a number after the softmax")
class HeadMask(Design):
    """A mask of ones keeps all heads."""

    def __init__(self):
        super().__init__()
        self.register_buffer("head_mask", torch.ones(self.heads, 1, 1))

    def attend(self, q, k, v):
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.head_dim)
        weights = scores.softmax(dim=-1) * self.head_mask
        return torch.matmul(weights, v)


@looks_wrong("weights times a learned number after the softmax", may_note=frozenset({"RDK303"}))
class HeadGates(Design):
    """Each head learns how much it counts."""

    def __init__(self):
        super().__init__()
        self.gates = nn.Parameter(torch.linspace(0.5, 1.5, self.heads)[:, None, None])

    def attend(self, q, k, v):
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(self.head_dim)
        weights = scores.softmax(dim=-1) * self.gates
        return torch.matmul(weights, v)

    def expected(self, q, k, v):
        return self.gates * attention(SCALE * q @ k.mT, v)


@looks_wrong("a learned number on the output that begins as 1/√head_dim")
class GateOfTheOutput(Design):
    def __init__(self):
        super().__init__()
        self.gate = nn.Parameter(torch.tensor(SCALE))

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v) * self.gate

    def expected(self, q, k, v):
        return super().expected(q, k, v) * self.gate


@looks_wrong("learned numbers on the heads that begin as 1/√head_dim")
class GatesOfHeadOutputs(Design):
    def __init__(self):
        super().__init__()
        self.gates = nn.Parameter(torch.full((self.heads, 1, 1), SCALE))

    def attend(self, q, k, v):
        return self.gates * ((q @ k.mT * self.head_dim**-0.5).softmax(-1) @ v)

    def expected(self, q, k, v):
        return super().expected(q, k, v) * self.gates


@looks_wrong("a constant on the output: half of two branches")
class HalfOfTwo(Design):
    def attend(self, q, k, v):
        return 0.5 * F.scaled_dot_product_attention(q, k, v) + 0.5 * v

    def expected(self, q, k, v):
        return 0.5 * super().expected(q, k, v) + 0.5 * v


@looks_wrong("a quarter of one attention and three of another, with 1/√head_dim a quarter")
class QuarterOfOne(Design):
    def attend(self, q, k, v):
        scores = q @ k.mT * self.head_dim**-0.5
        return 0.25 * (scores.softmax(-1) @ v) + 0.75 * v

    def expected(self, q, k, v):
        return 0.25 * super().expected(q, k, v) + 0.75 * v


@looks_wrong("a branch that counts 1/√head_dim, without a projection behind it")
class BareBranch(Design):
    def forward(self, x):
        h = self.norm(x)
        q, k, v = self.split(self.query(h)), self.split(self.key(h)), self.split(self.value(h))
        return x + self.attend(q, k, v).transpose(1, 2).flatten(2) * 0.25

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


@looks_wrong("values mixed with those of the first layer, one part of them 1/√head_dim")
class MixedValues(Design):
    def __init__(self):
        super().__init__()
        self.register_buffer("first", torch.randn(self.heads, 1, self.head_dim))

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, 0.25 * v + 0.75 * self.first)

    def expected(self, q, k, v):
        return super().expected(q, k, 0.25 * v + 0.75 * self.first)


@looks_wrong("1/√head_dim, and as many heads as entries")
class MeanOverHeads(Design):
    """The scale of a sum over independent heads is 1/√heads."""

    heads = 16

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v) / math.sqrt(self.heads)

    def expected(self, q, k, v):
        return super().expected(q, k, v) / 4


@looks_wrong("the branch is multiplied by 1/√(2·layers), which is 1/√head_dim")
class ScaledBranch(Design):
    """What the output projection gives is no output of the attention."""

    layers = 8

    def forward(self, x):
        h = self.norm(x)
        q, k, v = self.split(self.query(h)), self.split(self.key(h)), self.split(self.value(h))
        branch = self.output(self.attend(q, k, v).transpose(1, 2).flatten(2))
        return x + branch / math.sqrt(2 * self.layers)

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


@looks_wrong("the values are the keys, which carry the scale")
class KeysAreValues(Design):
    """One factor of the keys is the scale; as values they are what the design says they are."""

    def attend(self, q, k, v):
        k = k * self.head_dim**-0.5
        return (q @ k.mT).softmax(-1) @ k

    def expected(self, q, k, v):
        return attention(SCALE * q @ k.mT, SCALE * k)


@looks_wrong("1/√head_dim on the output of four channels is a half", scales=(0.5,))
class HalfOfFourChannels(Design):
    head_dim = 4

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v) * 0.5

    def expected(self, q, k, v):
        return attention(q @ k.mT / 2, v) / 2


@looks_wrong("heads are mixed after the softmax", may_note=frozenset({"RDK303"}))
class HeadsTalkAfterwards(Design):
    """A learned matrix mixes the weights of the heads; the scores are left alone."""

    def __init__(self):
        super().__init__()
        self.talk = nn.Parameter(torch.eye(self.heads) + 0.1 * torch.randn(self.heads, self.heads))

    def attend(self, q, k, v):
        weights = (q @ k.transpose(-2, -1) * self.head_dim**-0.5).softmax(dim=-1)
        weights = torch.einsum("hg,bgij->bhij", self.talk, weights)
        return weights @ v

    def expected(self, q, k, v):
        weights = (SCALE * q @ k.mT).softmax(-1)
        return (self.talk @ weights.flatten(2)).view_as(weights) @ v


@looks_wrong("a softmax of what an attention gave")
class ClassifierOnTop(Design):
    """The second softmax belongs to the classifier."""

    def __init__(self):
        super().__init__()
        self.classes = nn.Linear(self.width, 7)

    def forward(self, x):
        return self.classes(super().forward(x).mean(1)).softmax(-1)

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        return scores.softmax(-1) @ v


@looks_wrong("dropout is on", training=True)
class DropoutInTraining(Design):
    def attend(self, q, k, v):
        weights = (q @ k.transpose(-2, -1) * self.head_dim**-0.5).softmax(-1)
        return F.dropout(weights, 0.1, training=self.training) @ v

    def agreement(self):
        return self.eval() and super().agreement()


@looks_wrong("dropout is on in a fused kernel", training=True)
class KernelDropoutInTraining(Design):
    def attend(self, q, k, v):
        p = 0.1 if self.training else 0.0
        return F.scaled_dot_product_attention(q, k, v, dropout_p=p)

    def agreement(self):
        return self.eval() and super().agreement()


@looks_wrong("dropout does not know that it evaluates")
class DropoutOfNothing(Design):
    """With a probability of 0 it need not."""

    def attend(self, q, k, v):
        weights = (q @ k.transpose(-2, -1) * self.head_dim**-0.5).softmax(-1)
        return F.dropout(weights, 0.0, training=True) @ v


@looks_wrong("a dropout module behind the softmax")
class DropoutModuleInEvaluation(Design):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.1)

    def attend(self, q, k, v):
        weights = (q @ k.transpose(-2, -1) * self.head_dim**-0.5).softmax(-1)
        return self.drop(weights) @ v


@looks_wrong("dropout of the output, on in evaluation", may_note=frozenset({"RDK607"}))
class DropoutElsewhere(Design):
    """The attention itself is deterministic; nothing is said about other layers."""

    def forward(self, x):
        return F.dropout(super().forward(x), 0.1)

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)
