"""Faults of heads, and of arguments that change nothing, in PyTorch."""

import torch
import torch.nn.functional as F
from faults_identify.registry import fault
from faults_identify.torch_softmax import scaled


@fault("RDK501", "key-value heads are tiled")
def tiled(q, k, v):
    times = q.shape[1] // k.shape[1]
    return F.scaled_dot_product_attention(q, k.repeat(1, times, 1, 1), v.repeat(1, times, 1, 1))


@fault("RDK501", "every query head reads the first")
def stuck_on_the_first(q, k, v):
    k, v = k[:, :1].expand(-1, q.shape[1], -1, -1), v[:, :1].expand(-1, q.shape[1], -1, -1)
    return F.scaled_dot_product_attention(q, k, v)


@fault("RDK501", "keys are repeated, values are tiled")
def values_tiled(q, k, v):
    times = q.shape[1] // k.shape[1]
    return F.scaled_dot_product_attention(
        q, k.repeat_interleave(times, 1), v.repeat(1, times, 1, 1)
    )


@fault("RDK501", "the query's heads are grouped the other way round")
def grouped_the_other_way(q, k, v):
    batch, heads, queries, head_dim = q.shape
    kv_heads = k.shape[1]
    grouped = q.reshape(batch, heads // kv_heads, kv_heads, queries, head_dim)
    scores = grouped @ k[:, None].mT * head_dim**-0.5
    return (scores.softmax(-1) @ v[:, None]).reshape(batch, heads, queries, -1)


@fault("RDK501", "counted from the end")
def counted_from_the_end(q, k, v):
    times = q.shape[1] // k.shape[1]
    k, v = (x.flip(1).repeat_interleave(times, 1) for x in (k, v))
    return F.scaled_dot_product_attention(q, k, v)


@fault("RDK502", "heads attend to heads", layout="bshd")
def heads_attend_to_heads(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


@fault("RDK502", "heads where the sequence should be")
def sequence_for_heads(q, k, v):
    scores = torch.einsum("blhd,bshd->bhls", q, k) / q.shape[-1] ** 0.5
    return torch.einsum("bhls,bshd->blhd", scores.softmax(-1), v)


@fault("RDK708", "dropout that nobody applies")
def dropout_unused(q, k, v, dropout_p=0.0):
    return F.scaled_dot_product_attention(q, k, v)


@fault("RDK708", "dropout does not ask whether it trains")
def drops_in_eval(q, k, v, dropout_p=0.0, training=False):
    return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout_p)


@fault("RDK708", "a sink that further arguments swallow")
def sink_swallowed(q, k, v, s_aux=None, **kwargs):
    return F.scaled_dot_product_attention(q, k, v)


@fault("RDK708", "slopes that are never added")
def slopes_unused(q, k, v, alibi_slopes=None):
    return scaled(q, k).softmax(-1) @ v


@fault("RDK708", "a sink that is dropped before it could count")
def sink_without_share(q, k, v, sinks=None):
    scores = scaled(q, k)
    return scores.softmax(-1) @ v
