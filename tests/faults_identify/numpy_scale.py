"""Faults of the scale in NumPy."""

import math

import numpy as np
from faults_identify.registry import fault


def weights_of(scores):
    shifted = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def products(q, k):
    return np.einsum("bhqd,bhkd->bhqk", q, k)


@fault("RDK101", "nothing divides the products")
def bare_products(q, k, v):
    return weights_of(q @ np.swapaxes(k, -1, -2)) @ v


@fault("RDK101", "a default of 1 that nobody overrides")
def scale_defaults_to_one(query, key, value, scale=1.0):
    return weights_of(products(query, key) * scale) @ value


@fault("RDK101", "the scale is computed and never used")
def scale_computed_and_dropped(q, k, v):
    scale = 1.0 / math.sqrt(q.shape[-1])
    scores = products(q, k)
    del scale
    return weights_of(scores) @ v


@fault("RDK103", "the width of all heads")
def width_of_all_heads(q, k, v):
    heads, head_dim = q.shape[1], q.shape[3]
    return weights_of(products(q, k) / math.sqrt(heads * head_dim)) @ v


@fault("RDK103", "heads merged before the scale is chosen", layout="bshd")
def width_after_merging(q, k, v):
    width = q.reshape(*q.shape[:2], -1).shape[-1]
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) * width**-0.5
    return np.einsum("bhqk,bkhd->bqhd", weights_of(scores), v)


@fault("RDK104", "divided by the width")
def divided_by_width(q, k, v):
    return weights_of(products(q, k) / q.shape[-1]) @ v


@fault("RDK104", "the whole scale on the query and on the key")
def scaled_on_both_sides(q, k, v):
    scale = q.shape[-1] ** -0.5
    return weights_of(products(q * scale, k * scale)) @ v


@fault("RDK104", "d ** 1 / 2 is half of d")
def half_the_width(q, k, v):
    return weights_of(products(q, k) / (q.shape[-1] ** 1 / 2)) @ v


@fault("RDK105", "the root of the number of keys")
def root_of_keys(q, k, v):
    scores = products(q, k)
    return weights_of(scores / np.sqrt(scores.shape[-1])) @ v


@fault("RDK105", "the number of keys itself")
def number_of_keys(q, k, v):
    return weights_of(products(q, k) / k.shape[-2]) @ v


@fault("RDK105", "the second axis of q, which is the sequence here", layout="bshd")
def second_axis_is_the_sequence(q, k, v):
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[1])
    return np.einsum("bhqk,bkhd->bqhd", weights_of(scores), v)


@fault("RDK106", "multiplied by the root")
def multiplied_by_root(q, k, v):
    return weights_of(products(q, k) * math.sqrt(q.shape[-1])) @ v


@fault("RDK106", "multiplied by d ** 1 / 2")
def multiplied_by_half(q, k, v):
    return weights_of(products(q, k) * (q.shape[-1] ** 1 / 2)) @ v


@fault("RDK107", "the root of the number of heads")
def root_of_heads(q, k, v):
    return weights_of(products(q, k) / math.sqrt(q.shape[1])) @ v


@fault("RDK108", "a half, whatever the width")
def a_half(q, k, v):
    return weights_of(0.5 * products(q, k)) @ v


@fault("RDK108", "right at a width of 64 only")
def an_eighth(q, k, v):
    return weights_of(products(q, k) / 8.0) @ v


@fault("RDK108", "the width of the values")
def root_of_value_width(q, k, v):
    return weights_of(products(q, k) / math.sqrt(v.shape[-1])) @ v


@fault("RDK108", "the root is cut to a whole number")
def whole_root(q, k, v):
    return weights_of(products(q, k) / int(math.sqrt(q.shape[-1]))) @ v


@fault("RDK108", "the fourth root on one side only")
def fourth_root_once(q, k, v):
    return weights_of(products(q * q.shape[-1] ** -0.25, k)) @ v


@fault("RDK108", "the width is rounded up to a multiple of 64 first")
def padded_width(q, k, v):
    padded = -(-q.shape[-1] // 64) * 64
    return weights_of(products(q, k) / math.sqrt(padded)) @ v


@fault("RDK108", "a change of base that is never undone")
def base_two_forgotten(q, k, v):
    scores = products(q, k) * (math.log2(math.e) / math.sqrt(q.shape[-1]))
    return weights_of(scores) @ v


@fault("RDK108", "base two without the change of base")
def exp2_for_exp(q, k, v):
    scores = products(q, k) / math.sqrt(q.shape[-1])
    powers = np.exp2(scores - scores.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True) @ v


@fault("RDK108", "the sign is wrong")
def negative(q, k, v):
    return weights_of(-products(q, k) / math.sqrt(q.shape[-1])) @ v


@fault("RDK109", "the scale stands behind the softmax")
def behind_the_softmax(q, k, v):
    return weights_of(products(q, k)) * q.shape[-1] ** -0.5 @ v


@fault("RDK109", "the scale stands before and behind the softmax")
def before_and_behind(q, k, v):
    scale = 1 / math.sqrt(q.shape[-1])
    return (weights_of(products(q, k) * scale) @ v) * scale


@fault("RDK110", "a scale is taken and another is used")
def given_scale_unused(q, k, v, scale=None):
    own = 1 / math.sqrt(q.shape[-1])
    return weights_of(products(q, k) * own) @ v


@fault("RDK111", "the factor grows with each block of keys")
def grows_with_each_block(q, k, v, block=64):
    scale = q.shape[-1] ** -0.5
    parts = []
    for start in range(0, k.shape[-2], block):
        parts.append(products(q, k[..., start : start + block, :]) * scale)
        scale *= 1.4427
    return weights_of(np.concatenate(parts, axis=-1)) @ v


@fault("RDK111", "the first block is scaled twice")
def first_block_scaled_twice(q, k, v):
    scores = products(q, k) / math.sqrt(q.shape[-1])
    scores[..., :128] /= math.sqrt(q.shape[-1])
    return weights_of(scores) @ v
