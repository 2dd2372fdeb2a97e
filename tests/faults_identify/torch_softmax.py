"""Faults of the softmax in PyTorch."""

import math

import torch
import torch.nn.functional as F
from faults_identify.registry import fault


def scaled(q, k):
    return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])


@fault("RDK301", "the axis of three dimensions in four")
def axis_two_of_four(q, k, v):
    return F.softmax(scaled(q, k), dim=2) @ v


@fault("RDK301", "over the batch")
def over_batch(q, k, v):
    return F.softmax(scaled(q, k), dim=0) @ v


@fault("RDK301", "over the heads, which come last here", layout="bshd")
def heads_come_last(q, k, v):
    scores = torch.einsum("bqhd,bkhd->bqkh", q, k) / math.sqrt(q.shape[-1])
    return torch.einsum("bqkh,bkhd->bqhd", scores.softmax(dim=-1), v)


@fault("RDK302", "exp over its sum")
def exp_over_sum(q, k, v):
    powers = torch.exp(scaled(q, k))
    return (powers / powers.sum(-1, keepdim=True)) @ v


@fault("RDK302", "exp over its sum in base two")
def exp2_over_sum(q, k, v):
    powers = torch.exp2(scaled(q, k) * math.log2(math.e))
    return (powers @ v) / powers.sum(dim=-1, keepdim=True)


@fault("RDK303", "weights in need of a sum")
def sigmoid_weights(q, k, v):
    return torch.sigmoid(scaled(q, k)) @ v


@fault("RDK303", "lengths instead of sums")
def euclidean_length(q, k, v):
    scores = scaled(q, k)
    terms = torch.exp(scores - scores.amax(-1, keepdim=True))
    return F.normalize(terms, dim=-1) @ v


@fault("RDK303", "the sum so far is not rescaled when the maximum moves")
def sum_not_rescaled(q, k, v, block=128):
    top = torch.full((*q.shape[:-1], 1), -torch.inf, dtype=q.dtype)
    total = torch.zeros_like(top)
    out = torch.zeros(*q.shape[:-1], v.shape[-1], dtype=q.dtype)
    for keys, values in zip(k.split(block, -2), v.split(block, -2), strict=True):
        scores = scaled(q, keys)
        new = torch.maximum(top, scores.amax(-1, keepdim=True))
        terms = torch.exp(scores - new)
        total = total + terms.sum(-1, keepdim=True)
        out = out * torch.exp(top - new) + terms @ values
        top = new
    return out / total


@fault("RDK304", "terms and their sum kept in the input's precision")
def summed_one_by_one(q, k, v):
    scores = scaled(q, k)
    terms = torch.exp(scores - scores.amax(-1, keepdim=True))
    total = torch.zeros(*terms.shape[:-1], 1, dtype=terms.dtype)
    for j in range(terms.shape[-1]):
        total = total + terms[..., j : j + 1]
    return (terms / total) @ v


@fault("RDK305", "softmax of a call that already gives weights")
def softmax_of_weights(q, k, v):
    weights = torch.softmax(scaled(q, k), dim=-1)
    return torch.softmax(weights, dim=-1) @ v


@fault("RDK305", "the mask before the first softmax only", also="RDK402 RDK408 RDK401")
def second_softmax_without_mask(q, k, v, attn_mask=None):
    scores = scaled(q, k)
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, -1e9)
    return scores.softmax(-1).softmax(-1) @ v


@fault("RDK306", "a wrapper whose kernel knows no cap")
def wrapper_without_cap(q, k, v, softcap=0.0, softmax_scale=None):
    return F.scaled_dot_product_attention(q, k, v, scale=softmax_scale)


@fault("RDK306", "the tangent of the whole score")
def cap_not_divided(q, k, v, softcap=None):
    scores = scaled(q, k)
    if softcap is not None:
        scores = softcap * torch.tanh(scores)
    return scores.softmax(-1) @ v


@fault("RDK307", "the product in half precision, the scale after it")
def product_before_scale(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(scaled(q, k), dim=-1, dtype=torch.float32).to(v.dtype) @ v


@fault("RDK307", "float32 comes too late")
def cast_after_product(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = torch.matmul(q, k.mT).float() * q.shape[-1] ** -0.5
    return (scores.softmax(-1) @ v.float()).to(q.dtype)
