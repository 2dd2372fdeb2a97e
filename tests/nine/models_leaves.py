"""Values that a graph cannot follow: arrays of NumPy, and operators of one's own."""

import math

import torch
import torch.nn.functional as F
from lookalikes.design import SCALE, Design, attention
from nine.case import Silent, silent
from nine.operators import NAMESPACE, operators


@silent(Silent.NUMPY_ROUND_TRIP, scale=SCALE)
class QueryByNumpy(Design):
    def attend(self, q, k, v):
        q = torch.from_numpy(q.detach().numpy() * self.head_dim**-0.5).to(q.dtype)
        return F.scaled_dot_product_attention(q, k, v, scale=1.0)


@silent(Silent.NUMPY_ROUND_TRIP, scale=SCALE)
class KeyByNumpy(Design):
    def attend(self, q, k, v):
        k = torch.from_numpy(k.detach().numpy() / math.sqrt(self.head_dim)).to(k.dtype)
        return (q @ k.transpose(-2, -1)).softmax(-1) @ v


@silent(Silent.NUMPY_ROUND_TRIP, scale=SCALE / 2)
class NumpyAndFactor(Design):
    """A factor in NumPy and one outside it."""

    def attend(self, q, k, v):
        q = torch.from_numpy(q.detach().numpy() * 0.5).to(q.dtype)
        return (q @ k.transpose(-2, -1) * self.head_dim**-0.5).softmax(-1) @ v

    def expected(self, q, k, v):
        return attention(SCALE / 2 * q @ k.mT, v)


@silent(Silent.NUMPY_ROUND_TRIP, scale=SCALE)
class NumpyInPlace(Design):
    """The array shares its memory with q, and is changed where no framework looks."""

    def attend(self, q, k, v):
        array = q.detach().numpy()
        array *= self.head_dim**-0.5
        return F.scaled_dot_product_attention(q, k, v, scale=1.0)


@silent(Silent.NUMPY_ROUND_TRIP, scale=SCALE)
class QueryByList(Design):
    def attend(self, q, k, v):
        q = torch.tensor((q * self.head_dim**-0.5).tolist(), dtype=q.dtype)
        return F.scaled_dot_product_attention(q, k, v, scale=1.0)


@silent(Silent.NUMPY_ROUND_TRIP, scale=SCALE, opaque=True)
class ScoresByNumpy(Design):
    def attend(self, q, k, v):
        scores = (q @ k.transpose(-2, -1)).detach().numpy() / math.sqrt(self.head_dim)
        return torch.from_numpy(scores).to(v.dtype).softmax(-1) @ v


@silent(
    Silent.CUSTOM_OPERATOR,
    scale=SCALE / 2,
    operator=f"{NAMESPACE}::scaled",
    unresolved=True,
)
class OperatorOnQuery(Design):
    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(operators.scaled(q, 0.5), k, v)

    def expected(self, q, k, v):
        return attention(SCALE / 2 * q @ k.mT, v)


@silent(
    Silent.CUSTOM_OPERATOR,
    scale=SCALE,
    operator=f"{NAMESPACE}::scaled",
    unresolved=True,
)
class OperatorOnKey(Design):
    """An unscaled kernel behind it, so that the factor is all in the operator."""

    def attend(self, q, k, v):
        k = operators.scaled(k, self.head_dim**-0.5)
        return (q @ k.transpose(-2, -1)).softmax(-1) @ v


@silent(
    Silent.CUSTOM_OPERATOR,
    scale=SCALE / 2,
    operator=f"{NAMESPACE}::scaled",
    unresolved=True,
    opaque=True,
)
class OperatorOnScores(Design):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        return operators.scaled(scores, 0.5).softmax(-1) @ v

    def expected(self, q, k, v):
        return attention(SCALE / 2 * q @ k.mT, v)


@silent(
    Silent.CUSTOM_OPERATOR,
    scale=SCALE,
    operator=f"{NAMESPACE}::whole_attention",
    unresolved=True,
    opaque=True,
)
class OperatorForAll(Design):
    """Nothing to be seen but its name."""

    def attend(self, q, k, v):
        return operators.whole_attention(q, k, v)


@silent(Silent.CUSTOM_OPERATOR, scale=SCALE, operator=f"{NAMESPACE}::activation")
class OperatorElsewhere(Design):
    """Behind the attention, which is understood as ever."""

    def forward(self, x):
        return operators.activation(super().forward(x))

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        return scores.softmax(-1) @ v


class Halved(torch.autograd.Function):
    """A function with a gradient of its own: its operations are ordinary ones."""

    @staticmethod
    def forward(context, x):
        return x * 0.5

    @staticmethod
    def backward(context, gradient):
        return gradient * 0.5


@silent(Silent.CUSTOM_OPERATOR, scale=SCALE / 2)
class OwnGradient(Design):
    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(Halved.apply(q), k, v)

    def expected(self, q, k, v):
        return attention(SCALE / 2 * q @ k.mT, v)
