"""What the framework's own modules do, on every path that they choose."""

import torch
import torch.nn.functional as F
from lookalikes.design import SCALE, Design, attention, causal, looks_wrong
from torch import nn


class Library(Design):
    """A layer of the framework, in ``layer``, instead of the four projections."""

    def __init__(self):
        super().__init__()
        for name in ("query", "key", "value", "output"):
            delattr(self, name)
        self.layer = self.make()

    def make(self):
        return nn.MultiheadAttention(self.width, self.heads, batch_first=True)

    def by_hand(self, layer, q, k, v, hidden=None):
        """The formula of nn.MultiheadAttention for inputs (batch, tokens, width)."""
        q, k, v = (
            self.split(x @ weight.T + bias)
            for x, weight, bias in zip(
                (q, k, v), layer.in_proj_weight.chunk(3), layer.in_proj_bias.chunk(3), strict=True
            )
        )
        scores = SCALE * q @ k.mT
        if hidden is not None:
            scores = scores.masked_fill(hidden, -torch.inf)
        return layer.out_proj(attention(scores, v).transpose(1, 2).flatten(2))

    def agreement(self):
        x = self.inputs()[0].double()
        self.double().eval()
        with torch.no_grad():
            return self.forward(x), self.by_hand(self.layer, *[self.norm(x)] * 3)


@looks_wrong("one opaque operation")
class FastPath(Library):
    """In evaluation the module calls one native operator."""

    def forward(self, x):
        x = self.norm(x)
        return self.layer(x, x, x, need_weights=False)[0]


@looks_wrong("the slow path of the same module")
class SlowPath(Library):
    """Separate queries and keys, and the weights wanted."""

    def forward(self, x):
        x = self.norm(x)
        return self.layer(x, x.clone(), x.clone(), need_weights=True)[0]


@looks_wrong("True where a key is hidden")
class KeyPadding(Library):
    def hidden(self):
        return torch.arange(self.length) >= torch.tensor([11, 8, 6])[:, None]

    def forward(self, x):
        x = self.norm(x)
        return self.layer(x, x, x, key_padding_mask=self.hidden(), need_weights=False)[0]

    def agreement(self):
        x = self.inputs()[0].double()
        self.double().eval()
        hidden = self.hidden()[:, None, None]
        with torch.no_grad():
            return self.forward(x), self.by_hand(self.layer, *[self.norm(x)] * 3, hidden)


@looks_wrong("True where a pair is hidden")
class AttentionMask(Library):
    def forward(self, x):
        x = self.norm(x)
        hidden = ~causal(self.length, self.length)
        return self.layer(x, x, x, attn_mask=hidden, need_weights=False)[0]

    def agreement(self):
        x = self.inputs()[0].double()
        self.double().eval()
        hidden = ~causal(self.length, self.length)
        with torch.no_grad():
            return self.forward(x), self.by_hand(self.layer, *[self.norm(x)] * 3, hidden)


@looks_wrong("dropout is on", training=True)
class TrainingMode(Library):
    def make(self):
        return nn.MultiheadAttention(self.width, self.heads, batch_first=True, dropout=0.1)

    def forward(self, x):
        x = self.norm(x)
        return self.layer(x, x, x, need_weights=False)[0]


@looks_wrong("a factor of 1/4 in front of a module that scales by itself")
class ScaledInput(Library):
    """It changes the size of what is projected, not the scale of the scores."""

    def forward(self, x):
        x = self.norm(x) * 0.25
        return self.layer(x, x, x, need_weights=False)[0]

    def agreement(self):
        x = self.inputs()[0].double()
        self.double().eval()
        with torch.no_grad():
            return self.forward(x), self.by_hand(self.layer, *[0.25 * self.norm(x)] * 3)


@looks_wrong("one more key and value than tokens")
class AddedKeys(Library):
    """A learned key and a zero key are appended, whose weights may take what is left."""

    def make(self):
        return nn.MultiheadAttention(
            self.width, self.heads, batch_first=True, add_bias_kv=True, add_zero_attn=True
        )

    def forward(self, x):
        x = self.norm(x)
        return self.layer(x, x, x, need_weights=False)[0]

    def agreement(self):
        x = self.inputs()[0].double()
        layer = self.double().eval().layer
        with torch.no_grad():
            got = self.forward(x)
            h = self.norm(x)
            q, k, v = (
                h @ w.T + b
                for w, b in zip(
                    layer.in_proj_weight.chunk(3), layer.in_proj_bias.chunk(3), strict=True
                )
            )
            zero = torch.zeros(self.batch, 1, self.width).double()
            k = torch.cat([k, layer.bias_k.expand(self.batch, -1, -1), zero], dim=1)
            v = torch.cat([v, layer.bias_v.expand(self.batch, -1, -1), zero], dim=1)
            q, k, v = self.split(q), self.split(k), self.split(v)
            output = attention(SCALE * q @ k.mT, v).transpose(1, 2).flatten(2)
            return got, layer.out_proj(output)


@looks_wrong("keys of another width")
class OtherWidths(Library):
    """Memory of width 40: the module keeps three projections apart."""

    def make(self):
        return nn.MultiheadAttention(self.width, self.heads, kdim=40, vdim=40, batch_first=True)

    def inputs(self):
        return (*super().inputs(), torch.randn(self.batch, 7, 40))

    def forward(self, x, memory):
        return self.layer(self.norm(x), memory, memory, need_weights=False)[0]

    def agreement(self):
        x, memory = (tensor.double() for tensor in self.inputs())
        layer = self.double().eval().layer
        with torch.no_grad():
            weights = (layer.q_proj_weight, layer.k_proj_weight, layer.v_proj_weight)
            inputs = (self.norm(x), memory, memory)
            biases = layer.in_proj_bias.chunk(3)
            q, k, v = (
                self.split(x @ w.T + b) for x, w, b in zip(inputs, weights, biases, strict=True)
            )
            output = attention(SCALE * q @ k.mT, v).transpose(1, 2).flatten(2)
            return self.forward(x, memory), layer.out_proj(output)


@looks_wrong("two opaque operations", sites=frozenset({2}))
class Encoder(Library):
    """In evaluation each layer is one native operator."""

    def make(self):
        layer = nn.TransformerEncoderLayer(
            self.width, self.heads, dim_feedforward=96, batch_first=True
        )
        return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)

    def forward(self, x):
        return self.layer(self.norm(x))

    def agreement(self):
        x = self.inputs()[0].double()
        self.double().eval()
        with torch.no_grad():
            got, h = self.forward(x), self.norm(x)
            for layer in self.layer.layers:
                h = layer.norm1(h + self.by_hand(layer.self_attn, h, h, h))
                h = layer.norm2(h + layer.linear2(layer.linear1(h).relu()))
            return got, h


@looks_wrong("layers in training, with dropout", training=True, sites=frozenset({2}))
class EncoderInTraining(Encoder):
    pass


@looks_wrong("attention to itself and to a memory", sites=frozenset({2}))
class Decoder(Library):
    def make(self):
        return nn.TransformerDecoderLayer(
            self.width, self.heads, dim_feedforward=96, batch_first=True, norm_first=True
        )

    def inputs(self):
        return (*super().inputs(), torch.randn(self.batch, 7, self.width))

    def forward(self, x, memory):
        return self.layer(x, memory, tgt_mask=~causal(self.length, self.length))

    def agreement(self):
        x, memory = (tensor.double() for tensor in self.inputs())
        layer = self.double().eval().layer
        with torch.no_grad():
            got, hidden = self.forward(x, memory), ~causal(self.length, self.length)
            h = layer.norm1(x)
            x = x + self.by_hand(layer.self_attn, h, h, h, hidden)
            x = x + self.by_hand(layer.multihead_attn, layer.norm2(x), memory, memory)
            return got, x + layer.linear2(layer.linear1(layer.norm3(x)).relu())


@looks_wrong("no scale next to the call")
class KernelDefault(Design):
    """None means 1/√head_dim."""

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


@looks_wrong("values of another width than the keys")
class WideValues(Design):
    """The scale is that of q and k."""

    def __init__(self):
        super().__init__()
        self.value = nn.Linear(self.width, self.heads * 20, bias=False)
        self.output = nn.Linear(self.heads * 20, self.width, bias=False)

    def forward(self, x):
        h = self.norm(x)
        q, k = self.split(self.query(h)), self.split(self.key(h))
        v = self.value(h).unflatten(-1, (-1, 20)).transpose(1, 2)
        return x + self.output(self.attend(q, k, v).transpose(1, 2).flatten(2))

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)
