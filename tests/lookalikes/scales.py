"""Scales that look missing, doubled or arbitrary, and are as they should be."""

import math

import torch
import torch.nn.functional as F
from lookalikes.design import SCALE, Design, attention, looks_wrong
from torch import nn


def alibi(heads: int, keys: int, like: torch.Tensor) -> torch.Tensor:
    """Slope times key position, (heads, 1, keys); rows differ from slope·(j − i) by a constant."""
    slopes = 2.0 ** -torch.arange(1, heads + 1, dtype=like.dtype)
    return slopes[:, None, None] * torch.arange(keys, dtype=like.dtype)


@looks_wrong("no factor in sight: it is the alpha of a baddbmm that adds ALiBi")
class BloomAlibi(Design):
    def attend(self, q, k, v):
        shape = q.shape
        q, k, v = (x.flatten(0, 1) for x in (q, k, v))
        bias = alibi(self.heads, k.shape[1], q).repeat(shape[0], 1, 1)
        scores = bias.baddbmm(q, k.transpose(1, 2), beta=1.0, alpha=1 / math.sqrt(self.head_dim))
        weights = F.softmax(scores, dim=-1)
        return torch.bmm(weights, v).view(shape)

    def expected(self, q, k, v):
        return attention(SCALE * q @ k.mT + alibi(self.heads, k.shape[2], q), v)


@looks_wrong("1/√√channels, and twice at that")
class QuarterPowers(Design):
    """The root is halved between q and k; channels stand before positions."""

    precision = torch.float32

    def attend(self, q, k, v):
        shape = q.shape
        q, k, v = (x.flatten(0, 1).mT for x in (q, k, v))
        scale = 1 / math.sqrt(math.sqrt(q.shape[1]))
        weights = torch.einsum("bct,bcs->bts", q * scale, k * scale)
        weights = torch.softmax(weights.float(), dim=-1).type(weights.dtype)
        return torch.einsum("bts,bcs->bct", weights, v).mT.reshape(shape)


@looks_wrong("1/(√d·layer)")
class LayerScaling(Design):
    """The softmax multiplies by the layer's number again, in float32."""

    layer = 3

    def attend(self, q, k, v):
        shape = q.shape
        q, k, v = (x.flatten(0, 1) for x in (q, k, v))
        empty = q.new_empty(q.shape[0], q.shape[1], k.shape[1])
        alpha = 1.0 / (math.sqrt(self.head_dim) * self.layer)
        scores = torch.baddbmm(empty, q, k.transpose(1, 2), beta=0.0, alpha=alpha)
        scores = scores * self.layer
        return torch.bmm(scores.softmax(-1), v).view(shape)


@looks_wrong("no factor at all", scales=(1.0,), notes=frozenset({"RDK101"}))
class T5(Design):
    """The initialisation of the projection to q carries the factor; a learned bias is added."""

    precision = torch.float32

    def __init__(self):
        super().__init__()
        self.query.weight.data.mul_(self.head_dim**-0.5)
        self.relative = nn.Embedding(2 * self.length - 1, self.heads)

    def bias(self, queries, keys):
        distance = torch.arange(keys) - torch.arange(queries)[:, None]
        return self.relative(distance + self.length - 1).permute(2, 0, 1).unsqueeze(0)

    def attend(self, q, k, v):
        scores = torch.matmul(q, k.transpose(3, 2))
        scores += self.bias(q.shape[2], k.shape[2])
        weights = F.softmax(scores.float(), dim=-1).type_as(scores)
        return torch.matmul(weights, v)

    def expected(self, q, k, v):
        return attention(q @ k.mT + self.bias(q.shape[2], k.shape[2]), v)


@looks_wrong(
    "no factor at all",
    scales=(1.0,),
    known={"RDK101": "it deviates, and nothing in graph, config or entries accounts for it"},
)
class GptNeo(Design):
    """Scores without a factor, in float32: some models are trained with it."""

    precision = torch.float32

    def attend(self, q, k, v):
        q, k = q.to(torch.float32), k.to(torch.float32)
        scores = torch.matmul(q, k.transpose(-1, -2))
        weights = F.softmax(scores, dim=-1).to(v.dtype)
        return torch.matmul(weights, v)

    def expected(self, q, k, v):
        return attention(q @ k.mT, v)


@looks_wrong("a learned logit_scale of 1/0.07 and products of two embeddings", sites=frozenset({2}))
class ContrastiveTowers(Design):
    """It multiplies the image-text logits; the attention in the towers is ordinary."""

    def __init__(self):
        super().__init__()
        self.image, self.text = Plain(), Plain()
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def inputs(self):
        return Plain.inputs(self.image) + Plain.inputs(self.text)

    def forward(self, image, text):
        image, text = self.image(image).mean(1), self.text(text).mean(1)
        image, text = F.normalize(image, dim=-1), F.normalize(text, dim=-1)
        logits = self.logit_scale.exp() * image @ text.t()
        return logits, logits.softmax(dim=-1)

    def agreement(self):
        return self.image.agreement()


class Plain(Design):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        return scores.softmax(-1) @ v


@looks_wrong("√width in front of everything")
class ScaledEmbedding(Plain):
    """The embedding is initialised with 1/√width and multiplied by √width."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(101, self.width)
        nn.init.normal_(self.embedding.weight, std=self.width**-0.5)

    def inputs(self):
        return (torch.randint(101, (self.batch, self.length)),)

    def forward(self, tokens):
        return super().forward(self.embedding(tokens) * math.sqrt(self.width))


@looks_wrong("1/√(3d)", scales=(48**-0.5,), may_note=frozenset({"RDK108"}))
class ThreeTerms(Design):
    """Content to content, content to position and position to content, each over √(3d)."""

    def __init__(self):
        super().__init__()
        distances = 2 * self.length - 1
        self.position = nn.Parameter(torch.randn(distances, self.width))
        self.position_key = nn.Linear(self.width, self.width, bias=False)
        self.position_query = nn.Linear(self.width, self.width, bias=False)
        for linear in (self.position_key, self.position_query):
            nn.init.normal_(linear.weight, std=self.width**-0.5)

    def positions(self):
        """Keys and queries of the distances, (1, heads, distances, head_dim)."""
        both = (self.position_key(self.position), self.position_query(self.position))
        return tuple(self.split(x.unsqueeze(0)) for x in both)

    def attend(self, q, k, v):
        position_k, position_q = self.positions()
        scale = math.sqrt(q.size(-1) * 3)
        distance = torch.arange(q.shape[2])[:, None] - torch.arange(k.shape[2])
        distance = (distance + self.length - 1).expand(*q.shape[:2], -1, -1)
        scores = torch.matmul(q, k.transpose(-1, -2) / scale)
        from_content = torch.matmul(q, position_k.transpose(-1, -2))
        scores = scores + torch.gather(from_content, -1, distance) / scale
        from_position = torch.matmul(k, position_q.transpose(-1, -2))
        back = torch.gather(from_position, -1, distance.transpose(-1, -2)).transpose(-1, -2)
        scores = scores + back / scale
        return torch.matmul(scores.softmax(-1), v)

    def expected(self, q, k, v):
        position_k, position_q = self.positions()
        scores = torch.empty(self.batch, self.heads, self.length, self.length, dtype=q.dtype)
        for i in range(self.length):
            for j in range(self.length):
                at = i - j + self.length - 1
                content = (q[:, :, i] * (k[:, :, j] + position_k[:, :, at])).sum(-1)
                scores[:, :, i, j] = content + (k[:, :, j] * position_q[:, :, at]).sum(-1)
        return attention(scores / math.sqrt(48), v)


@looks_wrong("two products are added, and both scaled by 1/√d", may_note=frozenset({"RDK108"}))
class RelativeToAll(Design):
    """Learned biases on q, and a product with projected distances that is shifted into place."""

    def __init__(self):
        super().__init__()
        self.to_keys = nn.Parameter(0.1 * torch.randn(self.heads, 1, self.head_dim))
        self.to_distances = nn.Parameter(0.1 * torch.randn(self.heads, 1, self.head_dim))
        self.project = nn.Linear(self.width, self.width, bias=False)
        self.register_buffer("distances", torch.randn(1, self.length, self.width))

    def shift(self, scores):
        padded = F.pad(scores, (1, 0))
        padded = padded.view(*scores.shape[:2], scores.shape[3] + 1, scores.shape[2])
        return padded[:, :, 1:].reshape(scores.shape)

    def attend(self, q, k, v):
        r = self.split(self.project(self.distances))
        content = (q + self.to_keys) @ k.transpose(-2, -1)
        position = self.shift((q + self.to_distances) @ r.transpose(-2, -1))
        scores = (content + position) * self.head_dim**-0.5
        return scores.softmax(-1) @ v

    def expected(self, q, k, v):
        r = self.split(self.distances @ self.project.weight.T)
        position = (q + self.to_distances) @ r.mT
        n = self.length
        rows = torch.cat([position.new_zeros(*position.shape[:3], 1), position], -1).flatten(2)
        shifted = rows[..., n:].reshape(position.shape)
        return attention(SCALE * ((q + self.to_keys) @ k.mT + shifted), v)


@looks_wrong("1/√24 for keys of 16 channels", scales=(24**-0.5,), notes=frozenset({"RDK108"}))
class TwoWidths(Design):
    """A product of 16 channels and one of 8, shared by the heads, make one of 24."""

    def __init__(self):
        super().__init__()
        self.more = nn.Linear(self.width, self.heads * 8, bias=False)
        self.shared = nn.Linear(self.width, 8, bias=False)

    def forward(self, x):
        h = self.norm(x)
        self.near = self.more(h).unflatten(-1, (self.heads, 8)).transpose(1, 2)
        self.far = self.shared(h)[:, None]
        return super().forward(x)

    def attend(self, q, k, v):
        scores = q @ k.mT + self.near @ self.far.mT
        return (scores / math.sqrt(24)).softmax(-1) @ v

    def agreement(self):
        self.near = torch.randn(self.batch, self.heads, self.length, 8, dtype=torch.float64)
        self.far = torch.randn(self.batch, 1, self.length, 8, dtype=torch.float64)
        return super().agreement()

    def expected(self, q, k, v):
        q = torch.cat([q, self.near], -1)
        k = torch.cat([k, self.far.expand(-1, self.heads, -1, -1)], -1)
        return attention(24**-0.5 * q @ k.mT, v)


@looks_wrong("1/√24 where the value's width is 16", scales=(24**-0.5,))
class TwoPartHeads(Design):
    """q and k are 16 wide without and 8 wide with position; k's second part serves all heads."""

    def __init__(self):
        super().__init__()
        self.rope_query = nn.Linear(self.width, self.heads * 8, bias=False)
        self.rope_key = nn.Linear(self.width, 8, bias=False)
        for linear in (self.rope_query, self.rope_key):
            nn.init.normal_(linear.weight, std=self.width**-0.5)

    def forward(self, x):
        h = self.norm(x)
        q, k, v = self.split(self.query(h)), self.split(self.key(h)), self.split(self.value(h))
        more_q = self.rope_query(h).unflatten(-1, (-1, 8)).transpose(1, 2)
        more_k = self.rope_key(h).unsqueeze(1)
        return x + self.output(self.join(q, k, v, more_q, more_k).transpose(1, 2).flatten(2))

    def join(self, q, k, v, more_q, more_k):
        q = torch.cat([q, more_q], dim=-1)
        k = torch.cat([k, more_k.expand(-1, self.heads, -1, -1)], dim=-1)
        scores = q @ k.transpose(2, 3) * q.shape[-1] ** -0.5
        return scores.softmax(-1) @ v

    def agreement(self):
        wide = torch.randn(3, self.batch, self.heads, self.length, 16, dtype=torch.float64)
        more = torch.randn(2, self.batch, self.heads, self.length, 8, dtype=torch.float64)
        more_k = more[1, :, :1]
        products = wide[0] @ wide[1].mT + more[0] @ more_k.mT
        got = self.join(*wide, more[0], more_k)
        return got, attention(products / math.sqrt(24), wide[2])


@looks_wrong("q times √(16/12), then the default of a kernel that sees 16", scales=(12**-0.5,))
class PaddedHeads(Design):
    """Heads of 12 are padded to 16 for the kernel's sake; the scale is that of 12."""

    head_dim = 12

    def attend(self, q, k, v):
        q, k, v = (F.pad(x, (0, 4)) for x in (q, k, v))
        q = q * (math.sqrt(q.shape[-1]) / math.sqrt(self.head_dim))
        return F.scaled_dot_product_attention(q, k, v)[..., : self.head_dim]

    def expected(self, q, k, v):
        return attention(q @ k.mT / math.sqrt(12), v)


@looks_wrong("1/√d that is also 1/√keys and 1/√heads")
class EqualSizes(Plain):
    """Where sizes agree, so do the laws, and the right one is among them."""

    heads = 16
    length = 16


@looks_wrong("0.1025 where 1/√96 is 0.1021", scales=(float(torch.tensor(96**-0.5).bfloat16()),))
class ScaleInBfloat16(Design):
    """A buffer in half precision is right to its own precision."""

    heads = 2
    head_dim = 96

    def __init__(self):
        super().__init__()
        self.register_buffer("factor", torch.tensor(self.head_dim**-0.5).bfloat16())

    def attend(self, q, k, v):
        return torch.softmax(q @ k.transpose(-2, -1) * self.factor, -1) @ v

    def expected(self, q, k, v):
        factor = float(torch.tensor(96**-0.5).bfloat16())
        return attention(factor * q @ k.mT, v)

    def agreement(self):
        q, k, v = torch.randn(3, self.batch, self.heads, self.length, self.head_dim).double()
        return self.attend(q, k, v), self.expected(q, k, v)
