"""The small transformer for Keras, on the backend of JAX."""

import os
import tempfile
from typing import Any

# Keras reads both when it is imported, and writes a file into its folder.
os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("KERAS_HOME", tempfile.mkdtemp(prefix="keras-"))

import keras
from frontends.same.transformer import Case
from keras import ops

__all__ = ["build"]


def softmax(scores: Any, case: Case) -> Any:
    fault = case.fault
    if fault.bare:
        powers = ops.exp(scores)
        return powers / ops.sum(powers, axis=fault.axis, keepdims=True)
    weights = ops.softmax(scores, axis=fault.axis)
    return ops.softmax(weights, axis=fault.axis) if fault.again else weights


@keras.saving.register_keras_serializable("rootdk-tests")
class Attention(keras.layers.Layer):
    def __init__(self, case: Case, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.case = case
        dense = {"use_bias": False}
        self.query, self.key, self.value, self.output_projection = (
            keras.layers.Dense(case.size.width, name=name, **dense)
            for name in ("query", "key", "value", "output")
        )

    def call(self, x: Any) -> Any:
        fault, size = self.case.fault, self.case.size
        q, k, v = (
            ops.reshape(dense(x), (-1, size.length, size.heads, size.head_dim))
            for dense in (self.query, self.key, self.value)
        )
        scores = ops.einsum("bqhd,bkhd->bhqk", q * fault.query(size), k)
        weights = softmax(scores * fault.scores(size), self.case) * fault.weights(size)
        out = ops.einsum("bhqk,bkhd->bqhd", weights, v)
        return self.output_projection(ops.reshape(out, (-1, size.length, size.width)))


def build(case: Case, spelling: str = "layer") -> tuple[Any, tuple[Any, ...]]:
    """``layer`` is a layer of one's own, ``library`` the one that Keras has."""
    size = case.size
    x = given = keras.Input((size.length, size.width))
    layers = []
    for number in range(2):
        norm = keras.layers.LayerNormalization(epsilon=1e-5, name=f"norm_{number}")
        if spelling == "library":
            attention: Any = keras.layers.MultiHeadAttention(
                size.heads, size.head_dim, use_bias=False, name=f"attention_{number}"
            )
            y = norm(x)
            x = x + attention(y, y)
        else:
            attention = Attention(case, name=f"attention_{number}")
            x = x + attention(norm(x))
        layers.append(attention)
    model = keras.Model(given, x)
    for number, attention in enumerate(layers):
        arrays = case.block(number)
        for variable in attention.trainable_variables:
            name = variable.path.split("/")[-2].removeprefix("attention_")
            name = "output" if name.startswith("output") or name == "attention_output" else name
            variable.assign(arrays[name].reshape(variable.shape))
    return model, (case.x,)
