"""Arithmetic, reductions, choices and random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from rootdk.frontends._graph.node import Kind
from rootdk.frontends._jax.softmaxes import library_softmax
from rootdk.frontends._jax.step import Step, entry, same
from rootdk.frontends._jax.tape import Value, is_random

__all__: list[str] = []

same("neg", "neg")
same("exp", "exp")
same("exp2", "exp2")
same("tanh", "tanh")
same("rsqrt", "rsqrt")
same("sqrt", "sqrt")
same("log", "log", "log1p")
same("abs", "abs")
same("pow", "pow", "square")
same("pool", "cumsum", "cummax", "cummin", "reduce_window_sum", "reduce_window_max")
same("conv", "conv_general_dilated")
same("argmax", "argmax", "argmin")
same(
    "nonlinear",
    *"logistic erf erf_inv erfc sin cos tan asin acos atan atan2 sinh cosh asinh acosh atanh expm1 "
    "sign floor ceil round rem cbrt cumprod cumlogsumexp reduce_min reduce_prod reduce_or "
    "reduce_and clz population_count lgamma digamma nextafter sort top_k approx_top_k "
    "shift_left shift_right_logical shift_right_arithmetic".split(),
)
same("compare", *"eq ne and or xor is_finite eq_to lt_to le_to".split())
same("constant", "iota", "create_token", "eye")
same("complex", "complex", "conj")
same(
    "random",
    *"random_bits random_seed random_wrap random_unwrap random_fold_in random_split "
    "threefry2x32 rng_uniform rng_bit_generator random_gamma random_clone".split(),
)


def number(value: Value) -> float | None:
    """The number that a constant of one element holds."""
    return value.node.value if value.node.kind == Kind.CONSTANT else None


def _binary(step: Step, op: str) -> list[Value]:
    """A number beside the path is an attribute of the operation."""
    one, two = step.values
    for position, (path, side) in enumerate(((one, two), (two, one))):
        scalar = number(side)
        if scalar is None or is_random(side.node) or is_random(path.node):
            continue
        if position == 1 and op == "div":
            break
        attrs = {"scalar": scalar, "scalar_dtype": side.node.dtype}
        if position == 1 and op == "sub":
            attrs["reverse"] = True
        return [step.out(op, [path], _beside(step, position, side), attrs)]
    return step.whole(op)


def _beside(step: Step, position: int, side: Value) -> Any:
    """The primitive with the number back in its place."""
    fixed = side.array
    return (lambda x: step.bind(x, fixed)) if position == 0 else (lambda x: step.bind(fixed, x))


@entry("mul")
def _mul(step: Step) -> list[Value]:
    return _binary(step, "mul")


@entry("div")
def _div(step: Step) -> list[Value]:
    found = library_softmax(step)
    if found is not None:
        return found
    if number(step.values[0]) == 1.0 and number(step.values[1]) is None:
        fixed = step.values[0].array
        return [step.out("reciprocal", step.values[1:], lambda x: step.bind(fixed, x))]
    return _binary(step, "div")


@entry("add", "add_any")
def _add(step: Step) -> list[Value]:
    found = library_softmax(step)
    return found if found is not None else _binary(step, "add")


@entry("sub")
def _sub(step: Step) -> list[Value]:
    found = library_softmax(step)
    return found if found is not None else _binary(step, "sub")


@entry("integer_pow")
def _integer_pow(step: Step) -> list[Value]:
    return step.whole("reciprocal" if step.params["y"] == -1 else "pow")


@entry("max", "min")
def _extreme(step: Step) -> list[Value]:
    """A maximum with minus infinity is what it was taken of."""
    largest = step.name == "max"
    nothing = -np.inf if largest else np.inf
    one, two = step.values
    for path, side, position in ((one, two, 0), (two, one, 1)):
        if number(side) == nothing:
            return [step.out("identity", [path], _beside(step, position, side))]
    for path, side, position in ((one, two, 0), (two, one, 1)):
        bound = number(side)
        if bound is not None and path.node.kind > Kind.CONSTANT:
            if bound == 0.0 and largest:
                return [step.out("relu", [path], _beside(step, position, side))]
            attrs = {"low": bound} if largest else {"high": bound}
            return [step.out("clamp", [path], _beside(step, position, side), attrs)]
    return step.whole("maximum", largest=largest)


@entry("clamp")
def _clamp(step: Step) -> list[Value]:
    low, path, high = step.values
    bounds = {"low": number(low), "high": number(high)}
    if None in bounds.values():
        return step.opaque()
    return [step.out("clamp", [path], lambda x: step.bind(low.array, x, high.array), bounds)]


@entry("reduce_sum")
def _sum(step: Step) -> list[Value]:
    return step.whole("sum", dims=tuple(int(d) for d in step.params["axes"]), keep=False)


@entry("reduce_max")
def _amax(step: Step) -> list[Value]:
    return step.whole("amax", dims=tuple(int(d) for d in step.params["axes"]))


@entry("lt", "le", "gt", "ge")
def _compare(step: Step) -> list[Value]:
    """A uniform random number below a constant is kept with that probability."""
    one, two = step.values
    bound = number(two)
    if bound is None or not is_random(one.node):
        return step.whole("compare")
    return step.whole("random", p=1.0 - bound if step.name in {"lt", "le"} else bound)


@entry("not")
def _not(step: Step) -> list[Value]:
    rate = step.values[0].node.attrs.get("p")
    return step.whole("compare", **({} if rate is None else {"p": 1.0 - rate}))


@entry("select_n")
def _select(step: Step) -> list[Value]:
    """``where``, in its usual order; a choice at random between entries and 0 is a dropout."""
    if len(step.values) != 3 or step.values[0].node.dtype != "bool":
        return step.opaque()
    chosen, otherwise, taken = step.values
    rate = chosen.node.attrs.get("p") if is_random(chosen.node) else None
    if rate is not None:
        for path, other, dropped in ((taken, otherwise, rate), (otherwise, taken, 1.0 - rate)):
            if _is_zero(other):
                return [_dropout(step, path, dropped)]
    order = (chosen, taken, otherwise)
    return [step.out("where", order, lambda c, a, b: step.bind(c, b, a))]


def _dropout(step: Step, path: Value, rate: float) -> Value:
    """A division by the share that is kept, right before, belongs to the dropout."""
    node = path.node
    by = node.attrs.get("scalar")
    rescales = node.op == "div" and by is not None and abs(by - (1.0 - rate)) <= 1e-5
    hosts = [value.array for value in step.values]
    at = next(i for i, value in enumerate(step.values) if value is path)

    def run(x: Any) -> Any:
        return step.bind(*(x if i == at else fixed for i, fixed in enumerate(hosts)))

    attrs = {"p": rate, "rescales": rescales}
    beside = [value for value in step.values if value is not path]
    return step.out("dropout", [path], run, attrs, beside=beside)


def _is_zero(value: Value) -> bool:
    return value.host is not None and not value.host.any()
