"""Faults of heads, and of arguments that change nothing, in NumPy."""

import numpy as np
from faults_identify.numpy_scale import weights_of
from faults_identify.numpy_softmax import scaled
from faults_identify.registry import fault


@fault("RDK501", "np.tile for np.repeat")
def tile_for_repeat(q, k, v):
    times = q.shape[1] // k.shape[1]
    k, v = (np.tile(x, (1, times, 1, 1)) for x in (k, v))
    return weights_of(scaled(q, k)) @ v


@fault("RDK501", "the head's number modulo the number of groups")
def modulo_groups(q, k, v):
    head = np.arange(q.shape[1]) % k.shape[1]
    return weights_of(scaled(q, k[:, head])) @ v[:, head]


@fault("RDK502", "the sequence and the heads are exchanged", layout="bshd")
def exchanged(q, k, v):
    return weights_of(scaled(q, k)) @ v


@fault("RDK708", "dropout in the signature")
def dropout_in_signature(q, k, v, dropout_rate=0.0, training=False):
    return weights_of(scaled(q, k)) @ v


@fault("RDK708", "a bias in the signature", also="RDK407")
def bias_in_signature(q, k, v, position_bias=None):
    return weights_of(scaled(q, k)) @ v
