"""Faults of masks in PyTorch."""

import math

import torch
import torch.nn.functional as F
from faults_identify.registry import fault
from faults_identify.torch_softmax import scaled

LOWEST = torch.finfo(torch.float32).min


@fault("RDK401", "masked_fill with minus infinity")
def filled_with_infinity(q, k, v, attn_mask=None):
    scores = scaled(q, k)
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, float("-inf"))
    return scores.softmax(-1) @ v


@fault("RDK402", "a boolean added to the scores", also="RDK408")
def added_boolean(q, k, v, attn_mask=None):
    scores = scaled(q, k)
    if attn_mask is not None:
        scores = scores + attn_mask
    return scores.softmax(dim=-1) @ v


@fault("RDK402", "minus ten thousand", also="RDK408")
def minus_ten_thousand(q, k, v, attention_mask=None):
    scores = scaled(q, k)
    if attention_mask is not None:
        scores = scores + (1.0 - attention_mask.to(scores.dtype)) * -10000.0
    return scores.softmax(dim=-1) @ v


@fault("RDK402", "zero for what is hidden", also="RDK408")
def zero_fill(q, k, v, mask=None):
    scores = scaled(q, k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, 0.0)
    return scores.softmax(dim=-1) @ v


@fault("RDK402", "a fill of 1e-9", also="RDK408")
def fill_near_zero(q, k, v, mask=None):
    scores = scaled(q, k)
    if mask is not None:
        scores = scores.masked_fill(~mask, 1e-9)
    return scores.softmax(dim=-1) @ v


@fault("RDK402", "capped after the mask, so that the fill is capped too", also="RDK408 RDK306")
def capped_after_mask(q, k, v, attn_mask=None, softcap=15.0):
    scores = scaled(q, k)
    if attn_mask is not None:
        scores = scores.masked_fill(~attn_mask, float("-inf"))
    scores = softcap * torch.tanh(scores / softcap)
    return scores.softmax(dim=-1) @ v


@fault("RDK402", "the mask as a number of keys", also="RDK401 RDK408 RDK407")
def mask_as_length(q, k, v, attn_mask=None):
    scores = scaled(q, k)
    if attn_mask is not None:
        last = k.shape[-2] - attn_mask.flip(-1).to(torch.int64).argmax(-1)
        some = attn_mask.any(-1)
        lengths = torch.where(some, last, torch.zeros_like(last))
        visible = torch.arange(k.shape[-2]) < lengths[..., None]
        scores = scores.masked_fill(~visible, LOWEST)
    return scores.softmax(-1) @ v


@fault("RDK403", "causal as long as queries and keys are as many", also="RDK407")
def causal_when_square(q, k, v, is_causal=False):
    causal = is_causal and q.shape[-2] == k.shape[-2]
    return F.scaled_dot_product_attention(q, k, v, is_causal=causal)


@fault("RDK403", "ends on the last key but one", causal="bottom_right", also="RDK401 RDK408")
def shifted_by_one(q, k, v, causal=False):
    scores = scaled(q, k)
    if causal:
        shift = k.shape[-2] - q.shape[-2] - 1
        visible = torch.ones(scores.shape[-2:], dtype=torch.bool).tril(shift)
        scores = scores.masked_fill(~visible, LOWEST)
    return scores.softmax(-1) @ v


@fault("RDK403", "a decode step that sees the first key", causal="bottom_right")
def decode_sees_first_key(q, k, v, is_causal=False):
    return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal)


@fault("RDK404", "torch's padding convention for an attention mask", also="RDK401 RDK408")
def padding_convention(q, k, v, attn_mask=None):
    scores = scaled(q, k)
    if attn_mask is not None:
        scores = scores.masked_fill(attn_mask, LOWEST)
    return scores.softmax(-1) @ v


@fault("RDK404", "inverted on its way to the fused call", also="RDK401 RDK408")
def inverted_for_fused(q, k, v, mask=None):
    hidden = None if mask is None else ~mask
    return F.scaled_dot_product_attention(q, k, v, attn_mask=hidden)


@fault("RDK404", "a padding mask that hides what is real", also="RDK401 RDK408")
def padding_mask_upside_down(q, k, v, key_padding_mask=None):
    visible = None if key_padding_mask is None else key_padding_mask[:, None, None, :]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=visible)


@fault("RDK405", "the sum of product and bias is scaled")
def sum_is_scaled(q, k, v, attn_bias=None):
    scores = q @ k.mT
    if attn_bias is not None:
        scores = scores + attn_bias
    return (scores * q.shape[-1] ** -0.5).softmax(-1) @ v


@fault("RDK405", "base two for the scores and not for the bias")
def bias_in_another_base(q, k, v, bias=None):
    scores = scaled(q, k) * math.log2(math.e)
    if bias is not None:
        scores = scores + bias
    powers = torch.exp2(scores - scores.amax(-1, keepdim=True))
    return powers @ v / powers.sum(-1, keepdim=True)


@fault("RDK405", "the mask is divided with the query", also="RDK408")
def mask_divided(q, k, v, mask=None):
    scores = q @ k.mT
    if mask is not None:
        scores = scores + (mask if mask.is_floating_point() else torch.where(mask, 0.0, -1e9))
    return (scores / math.sqrt(q.shape[-1])).softmax(-1) @ v


@fault("RDK406", "hidden weights are set to zero at the end")
def zeroed_at_the_end(q, k, v, attn_mask=None):
    weights = scaled(q, k).softmax(-1)
    if attn_mask is not None:
        weights = weights.masked_fill(~attn_mask, 0.0)
    return weights @ v


@fault("RDK406", "tril of the weights")
def tril_of_weights(q, k, v, is_causal=False):
    weights = scaled(q, k).softmax(-1)
    return (weights.tril() if is_causal else weights) @ v


@fault("RDK407", "masked_fill is not in place", also="RDK401 RDK408")
def not_in_place(q, k, v, attn_mask=None):
    scores = scaled(q, k)
    if attn_mask is not None:
        scores.masked_fill(attn_mask.logical_not(), float("-inf"))
    return torch.softmax(scores, dim=-1) @ v


@fault("RDK407", "a mask that only counts beside the causal flag", also="RDK401 RDK408")
def mask_beside_causal(q, k, v, attn_mask=None, is_causal=False):
    scores = scaled(q, k)
    if is_causal:
        visible = torch.ones(scores.shape[-2:], dtype=torch.bool).tril()
        if attn_mask is not None:
            visible = visible & attn_mask
        scores = scores.masked_fill(~visible, LOWEST)
    return scores.softmax(-1) @ v


@fault("RDK407", "a window that a minus sign opens")
def window_opened(q, k, v, sliding_window=None):
    scores = scaled(q, k)
    if sliding_window is not None:
        left = -sliding_window
        distance = torch.arange(q.shape[-2])[:, None] - torch.arange(k.shape[-2])
        visible = (distance <= left) | torch.tensor(left < 0)
        scores = scores.masked_fill(~visible, LOWEST)
    return scores.softmax(-1) @ v


@fault("RDK408", "the lowest number of the dtype", also="RDK401")
def lowest_number(q, k, v, mask=None):
    scores = scaled(q, k)
    if mask is not None:
        scores = scores.masked_fill(~mask, LOWEST)
    return scores.softmax(-1) @ v


@fault("RDK409", "triu by the window, not by one less")
def one_key_more(q, k, v, sliding_window=None):
    scores = scaled(q, k)
    if sliding_window is not None:
        ones = torch.ones(scores.shape[-2:], dtype=torch.bool)
        visible = ones.tril() & ones.triu(-sliding_window)
        scores = scores.masked_fill(~visible, LOWEST)
    return scores.softmax(-1) @ v


@fault("RDK409", "strictly inside on the left")
def strictly_inside(q, k, v, window_size=(-1, -1)):
    scores = scaled(q, k)
    left, right = window_size
    distance = torch.arange(k.shape[-2]) - torch.arange(q.shape[-2])[:, None]
    if left >= 0:
        scores = scores.masked_fill(distance <= -left, LOWEST)
    if right >= 0:
        scores = scores.masked_fill(distance > right, LOWEST)
    return scores.softmax(-1) @ v


@fault("RDK409", "a window of w keys where w + 1 are meant", window=(3, 0))
def built_in_window(q, k, v):
    scores = scaled(q, k)
    distance = torch.arange(k.shape[-2]) - torch.arange(q.shape[-2])[:, None]
    visible = (distance > -3) & (distance <= 0)
    return scores.masked_fill(~visible, LOWEST).softmax(-1) @ v
