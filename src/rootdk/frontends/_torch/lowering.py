"""From ATen operations to the canonical ones of the graph.

One function lowers a family of operations: it names the canonical operation, the tensors that
are its inputs in order, and the plain arguments that matter. A new operation is one entry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rootdk.frontends._torch import layout_operations, quantised
from rootdk.frontends._torch.table import (
    TABLE,
    Lowered,
    argument,
    entry,
    is_tensor,
    same,
    tensors_of,
)

__all__ = ["Lowered", "lower"]

# Importing the module is what enters its operations into the table.
_ENTERED = (layout_operations, quantised)


def lower(name: str, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> Lowered:
    """Lower one call of ``aten::name``; what is not known is ``opaque``."""
    base = name.rstrip("_") if not name.endswith("__") else name
    handler = TABLE.get(name) or TABLE.get(base)
    if handler is None:
        return Lowered("opaque", tensors_of(args, kwargs), {"name": f"aten.{name}"})
    lowered = handler(base, args, kwargs, out)
    lowered.attrs.setdefault("name", base)
    return lowered


same(
    "constant",
    *"arange ones empty scalar_tensor ones_like empty_like new_ones new_empty new_empty_strided "
    "empty_strided eye linspace logspace tril_indices triu_indices empty_permuted range "
    "hann_window".split(),
)
same(
    "identity",
    *"clone contiguous detach alias _to_copy lift_fresh lift to type_as positive view_as "
    "_reshape_alias_copy real conj resolve_conj resolve_neg to_dense lift_fresh_copy "
    "_conj".split(),
)
same(
    "compare",
    *"eq ne lt le gt ge logical_and logical_or logical_not logical_xor bitwise_and bitwise_or "
    "bitwise_not isnan isinf isfinite any all isin is_nonzero equal nonzero bitwise_xor "
    "searchsorted bucketize __and__ __or__ signbit".split(),
)


@entry("zeros", "zeros_like", "new_zeros", "zero", "full", "full_like", "new_full", "fill")
def _filled(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    at = 2 if name == "new_full" else 1
    value = 0.0 if "zero" in name else argument(args, kwargs, at, "fill_value")
    known = {"fill": float(value)} if isinstance(value, (int, float)) else {}
    return Lowered("constant", tensors_of(args, kwargs), known)


same("pool", "cumsum", "cummax", "cummin")
same("relu", "relu")
same("abs", "abs")
same(
    "pool",
    *"max_pool1d max_pool2d avg_pool1d avg_pool2d _adaptive_avg_pool2d adaptive_avg_pool1d "
    "_adaptive_avg_pool3d avg_pool3d adaptive_avg_pool2d".split(),
)
same("rsqrt", "rsqrt")
same("sqrt", "sqrt")
same("reciprocal", "reciprocal")
same("exp", "exp")
same("exp2", "exp2", "special_exp2")
same("tanh", "tanh")
same("neg", "neg", "negative")
same("log", "log", "log2", "log10", "log1p")
same(
    "nonlinear",
    *"gelu silu sigmoid softplus elu leaky_relu hardtanh mish hardswish hardsigmoid erf "
    "cos sin expm1 round floor ceil trunc sign topk sort argsort frac pow_ max min var std "
    "var_mean std_mean prod cumprod remainder fmod floor_divide glu atan2 "
    "one_hot histc bincount upsample_bilinear2d upsample_nearest2d upsample_bicubic2d "
    "upsample_linear1d upsample_nearest1d grid_sampler_2d selu celu log_sigmoid_forward acos "
    "asin tan atan cosh sinh nan_to_num hypot unique_dim _unique2 "
    "unique_consecutive median mode diff trapezoid cdist _cdist_forward _pdist_forward "
    "_local_scalar_dense kthvalue heaviside gcd lcm xlogy special_xlogy digamma lgamma erfinv "
    "bitwise_left_shift __lshift__ __rshift__ bitwise_right_shift square huber_loss mse_loss "
    "nll_loss_forward max_pool2d_with_indices max_pool3d_with_indices softshrink threshold "
    "aminmax count_nonzero linalg_inv_ex _linalg_det linalg_qr _linalg_svd relu6 "
    "special_i0 sinc logit rrelu_with_noise log_normal "
    "col2im im2col polar complex real imag angle clamp_min_ lstm gru tril triu".split(),
)
same("norm", "native_batch_norm", "cudnn_batch_norm", "_native_batch_norm_legit")
same("norm", "_batch_norm_with_update", "_native_batch_norm_legit_no_training")
same("norm", "instance_norm", "_batch_norm_no_update", "batch_norm")
same("random", "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "multinomial")
same("random", "normal", "uniform", "exponential", "randint_like", "geometric", "random")
same("argmax", "argmax", "argmin")


@entry("bernoulli")
def _bernoulli(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    keep = argument(args, kwargs, 1, "p")
    # A share such as 0.3 is to be told as what was asked for.
    drop = round(1.0 - float(keep), 12) if isinstance(keep, (int, float)) else 0.5
    return Lowered("random", [], {"p": drop})


@entry("native_dropout", "dropout", "_fused_dropout", "feature_dropout", "alpha_dropout")
def _dropout(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    on = argument(args, kwargs, 2, "train", True)
    rate = float(args[1]) if on or on is None else 0.0
    return Lowered("dropout", [args[0]], {"p": rate})


@entry("native_layer_norm", "native_group_norm", "layer_norm", "group_norm")
def _normalise(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    return Lowered("norm", tensors_of(args, kwargs))


@entry("_fused_rms_norm", "rms_norm")
def _rms(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    return Lowered("norm", tensors_of(args, kwargs))


@entry("linalg_vector_norm", "norm", "linalg_norm")
def _vector_norm(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    order = argument(args, kwargs, 1, "ord" if name != "norm" else "p", 2)
    dims = argument(args, kwargs, 2, "dim")
    rank = args[0].dim()
    dims = [dims] if isinstance(dims, int) else dims
    named = tuple(d % rank for d in dims) if dims else tuple(range(rank))
    plain = float(order) if isinstance(order, (int, float)) else None
    return Lowered("vector_norm", [args[0]], {"ord": plain, "dims": named})


# -- arithmetic --------------------------------------------------------------------------------


@entry("mul", "multiply", "div", "divide", "true_divide")
def _multiply(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    op = "mul" if name.startswith("mul") else "div"
    if kwargs.get("rounding_mode") is not None:
        return Lowered("nonlinear", tensors_of(args, kwargs))
    return _binary(op, args[0], args[1])


def _binary(op: str, one: Any, two: Any, **attrs: Any) -> Lowered:
    if is_tensor(one) and is_tensor(two):
        return Lowered(op, [one, two], dict(attrs))
    path, scalar = (one, two) if is_tensor(one) else (two, one)
    value: Any = scalar if isinstance(scalar, complex) else float(scalar)
    return Lowered(op, [path], {"scalar": value, **attrs})


@entry("add", "sub", "subtract", "rsub")
def _add(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    alpha = argument(args, kwargs, 2, "alpha", 1)
    if name == "add":
        return _binary("add", args[0], args[1], alpha=alpha)
    if name == "rsub":
        if is_tensor(args[1]):
            return Lowered("sub", [args[1], args[0]], {"alpha": alpha})
        return Lowered("sub", [args[0]], {"scalar": float(args[1]), "reverse": True})
    return _binary("sub", args[0], args[1], alpha=alpha)


@entry("addcmul", "addcdiv")
def _addcmul(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    return Lowered("opaque", tensors_of(args, kwargs), {"name": f"aten.{name}"})


@entry("pow")
def _pow(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    return Lowered("pow", tensors_of(args, kwargs))


@entry("clamp", "clip", "clamp_min", "clamp_max")
def _clamp(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    low = high = None
    if name == "clamp_min":
        low = args[1]
    elif name == "clamp_max":
        high = args[1]
    else:
        low, high = argument(args, kwargs, 1, "min"), argument(args, kwargs, 2, "max")
    bounds = {"low": low, "high": high}
    plain = {k: float(v) for k, v in bounds.items() if isinstance(v, (int, float))}
    return Lowered("clamp", [args[0]], plain)


@entry("maximum", "minimum", "fmax", "fmin")
def _maximum(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    return Lowered("maximum", tensors_of(args, kwargs), {"largest": name in {"maximum", "fmax"}})


@entry("max", "min", "amax", "amin")
def _extreme(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    if len(args) > 1 and is_tensor(args[1]):
        return _maximum("maximum" if "max" in name else "minimum", args, kwargs, out)
    op = "amax" if "max" in name else "nonlinear"
    return Lowered(op, [args[0]])


@entry("sum", "mean")
def _reduce(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    rank = args[0].dim()
    dims = argument(args, kwargs, 1, "dim")
    dims = [dims] if isinstance(dims, int) else dims
    named = tuple(d % rank for d in dims) if dims else tuple(range(rank))
    keep = bool(argument(args, kwargs, 2, "keepdim", False))
    return Lowered(name, [args[0]], {"dims": named, "keep": keep})


@entry("logsumexp")
def _logsumexp(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    return Lowered("logsumexp", [args[0]])


@entry("where")
def _where(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    scalars = [a for a in args[1:] if isinstance(a, (int, float))]
    inputs = tensors_of(args, kwargs)
    return Lowered("where", inputs, {"scalar": float(scalars[0])} if scalars else {})


@entry("masked_fill")
def _masked_fill(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    if is_tensor(args[2]):
        return Lowered("masked_fill", [args[0], args[1], args[2]])
    return Lowered("masked_fill", [args[0], args[1]], {"scalar": float(args[2])})


# -- products ----------------------------------------------------------------------------------


@entry("mm", "bmm", "matmul", "mv", "dot")
def _matmul(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    return Lowered("matmul" if name != "dot" else "nonlinear", [args[0], args[1]], {"name": name})


@entry("addmm", "baddbmm", "addbmm", "addmv")
def _addmm(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    attrs = {
        "alpha": float(kwargs.get("alpha", 1)),
        "beta": float(kwargs.get("beta", 1)),
    }
    op = "matmul" if name in {"addmm", "baddbmm"} else "opaque"
    return Lowered(op, [args[1], args[2], args[0]], attrs)


@entry("_grouped_mm", "grouped_mm")
def _grouped(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    return Lowered("linear", [args[0], args[1]])


@entry("linear")
def _linear(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    return Lowered("linear", tensors_of(args, kwargs))


@entry(
    "convolution",
    "_convolution",
    "conv1d",
    "conv2d",
    "conv3d",
    "_conv_depthwise2d",
    "mkldnn_convolution",
    "convolution_overrideable",
)
def _conv(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    return Lowered("conv", tensors_of(args, kwargs))


@entry("softmax", "_softmax", "_safe_softmax", "special_softmax")
def _softmax(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    return Lowered("softmax", [args[0]], {"dim": args[1] % max(args[0].dim(), 1)})


@entry("log_softmax", "_log_softmax")
def _log_softmax(name: str, args: Any, kwargs: Any, out: Any) -> Lowered:
    return Lowered("log_softmax", [args[0]], {"dim": args[1] % max(args[0].dim(), 1)})
