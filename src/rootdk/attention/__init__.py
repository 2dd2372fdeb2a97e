"""The reference: attention in the array API alone, slow and obvious, with exact meaning."""

from rootdk.attention.jacobian import SoftmaxJacobian, softmax_jacobian
from rootdk.attention.masks import band, visibility
from rootdk.attention.sdpa import attention
from rootdk.attention.softmax import entropy_nats, logsumexp, softmax
from rootdk.attention.stages import Stage, Stages

__all__ = [
    "SoftmaxJacobian",
    "Stage",
    "Stages",
    "attention",
    "band",
    "entropy_nats",
    "logsumexp",
    "softmax",
    "softmax_jacobian",
    "visibility",
]
