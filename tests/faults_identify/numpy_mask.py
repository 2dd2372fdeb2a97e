"""Faults of masks in NumPy."""

import numpy as np
from faults_identify.numpy_scale import weights_of
from faults_identify.numpy_softmax import scaled
from faults_identify.registry import fault


def zero_when_empty(weights, mask):
    """Weights of 0 in rows without a visible key."""
    return np.where(mask.any(axis=-1, keepdims=True), weights, 0.0)


@fault("RDK401", "minus infinity everywhere in a row")
def infinite_fill(q, k, v, mask=None):
    scores = scaled(q, k)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    with np.errstate(invalid="ignore"):
        return weights_of(scores) @ v


@fault("RDK402", "the exponent of the fill has the wrong sign", also="RDK408")
def tiny_fill(q, k, v, mask=None):
    scores = scaled(q, k)
    if mask is not None:
        scores = np.where(mask, scores, -1e-9)
    return weights_of(scores) @ v


@fault("RDK402", "scores times the mask", also="RDK408")
def multiplied_scores(q, k, v, mask=None):
    scores = scaled(q, k)
    if mask is not None:
        scores = scores * mask
    return weights_of(scores) @ v


@fault("RDK402", "a fill that scores can reach", also="RDK408")
def minus_hundred(q, k, v, mask=None):
    scores = scaled(q, k)
    if mask is not None:
        scores = np.where(mask, scores, -100.0)
    return weights_of(scores) @ v


@fault("RDK402", "a positive fill", also="RDK408")
def positive_fill(q, k, v, mask=None):
    scores = scaled(q, k)
    if mask is not None:
        scores = np.where(mask, scores, 1e9)
    return weights_of(scores) @ v


@fault("RDK402", "a boolean added as a number", also="RDK408")
def boolean_added(q, k, v, mask=None):
    scores = scaled(q, k)
    if mask is not None:
        scores = scores + mask
    return weights_of(scores) @ v


@fault("RDK402", "the key is set to zero instead of its score", also="RDK408")
def masked_keys_zeroed(q, k, v, mask=None):
    scores = scaled(q, k)
    if mask is not None:
        seen = mask.any(axis=-2, keepdims=True).swapaxes(-1, -2)
        scores = scaled(q, k * seen)
    return weights_of(scores) @ v


@fault("RDK403", "the diagonal is hidden", also="RDK401 RDK408")
def strictly_causal(q, k, v, causal=False):
    scores = scaled(q, k)
    if causal:
        visible = np.tril(np.ones(scores.shape[-2:], bool), -1)
        scores = np.where(visible, scores, -1e30)
    return weights_of(scores) @ v


@fault("RDK403", "one key of the future is visible")
def one_key_ahead(q, k, v, causal=False):
    scores = scaled(q, k)
    if causal:
        visible = np.tril(np.ones(scores.shape[-2:], bool), 1)
        scores = np.where(visible, scores, -1e30)
    return weights_of(scores) @ v


@fault("RDK403", "the alignment depends on which side is longer", also="RDK408")
def alignment_switches(q, k, v, is_causal=False):
    scores = scaled(q, k)
    if is_causal:
        queries, keys = scores.shape[-2:]
        visible = np.tril(np.ones((queries, keys), bool), max(keys - queries, 0))
        scores = np.where(visible, scores, -1e30)
    return weights_of(scores) @ v


@fault("RDK403", "top left where bottom right was declared", causal="bottom_right")
def top_left_undeclared(q, k, v, causal=False):
    scores = scaled(q, k)
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -1e30)
    return weights_of(scores) @ v


@fault("RDK404", "True hides", also="RDK408")
def true_hides(q, k, v, mask=None):
    scores = scaled(q, k)
    if mask is not None:
        scores = np.where(mask, -1e30, scores)
    return weights_of(scores) @ v


@fault("RDK404", "the past is hidden", also="RDK408")
def past_is_hidden(q, k, v, causal=False):
    scores = scaled(q, k)
    if causal:
        visible = np.triu(np.ones(scores.shape[-2:], bool))
        scores = np.where(visible, scores, -1e30)
    return weights_of(scores) @ v


@fault("RDK405", "mask and scores are scaled together", also="RDK408")
def bias_scaled_too(q, k, v, attn_mask=None):
    scores = q @ k.swapaxes(-1, -2)
    if attn_mask is not None:
        if attn_mask.dtype == bool:
            scores = np.where(attn_mask, scores, -1e30)
        else:
            scores = scores + attn_mask
    return weights_of(scores / np.sqrt(q.shape[-1])) @ v


@fault("RDK406", "weights times the mask")
def weights_times_mask(q, k, v, mask=None):
    weights = weights_of(scaled(q, k))
    if mask is not None:
        weights = weights * mask
    return weights @ v


@fault("RDK407", "where without its result")
def result_dropped(q, k, v, mask=None):
    scores = scaled(q, k)
    if mask is not None:
        np.where(mask, scores, -np.inf)
    return weights_of(scores) @ v


@fault("RDK407", "the causal flag is read by nobody")
def causal_flag_unread(q, k, v, causal=False):
    return weights_of(scaled(q, k)) @ v


@fault("RDK408", "a finite fill in rows without a key")
def uniform_when_empty(q, k, v, mask=None):
    scores = scaled(q, k)
    if mask is not None:
        scores = np.where(mask, scores, np.finfo(scores.dtype).min)
    return weights_of(scores) @ v


@fault("RDK408", "the mean of all values in rows without a key")
def mean_when_empty(q, k, v, mask=None):
    scores = scaled(q, k)
    if mask is None:
        return weights_of(scores) @ v
    filled = np.where(mask, scores, -1e30)
    weights = np.where(mask, weights_of(filled), 0.0)
    empty = ~mask.any(axis=-1, keepdims=True)
    return np.where(empty, 1.0 / k.shape[-2], weights) @ v


def band(queries, keys, before, after):
    distance = np.arange(keys)[None, :] - np.arange(queries)[:, None]
    return (distance >= -before) & (distance <= after)


@fault("RDK409", "one key too many behind")
def wide_behind(q, k, v, window=None):
    scores = scaled(q, k)
    if window is not None:
        visible = band(*scores.shape[-2:], window[0] + 1, window[1])
        scores = np.where(visible, scores, -1e30)
    return weights_of(scores) @ v


@fault("RDK409", "one key too few ahead")
def narrow_ahead(q, k, v, window_size=None):
    scores = scaled(q, k)
    if window_size is not None:
        left, right = window_size
        visible = band(*scores.shape[-2:], left, right - 1)
        scores = np.where(visible, scores, -1e30)
    return weights_of(scores) @ v
