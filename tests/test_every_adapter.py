"""Every adapter: it has a name of its own, takes only its own, and what it adapts is right."""

import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from identify import functions

from rootdk import identify
from rootdk._lib.errors import TargetError
from rootdk.identify.adapters import Adapter, Wanted, adapt, adapters, named_targets

ALL = adapters()
STANDARD = "softmax(query·keyᵀ/√head_dim) · value"


@pytest.mark.parametrize("adapter", ALL, ids=[adapter.name for adapter in ALL])
def test_it_accepts_without_raising(adapter: Adapter) -> None:
    for value in (None, 3, "text", Path("x.onnx"), functions.standard, print, object()):
        assert adapter.accepts(value) in (True, False)


@pytest.mark.parametrize("adapter", ALL, ids=[adapter.name for adapter in ALL])
def test_a_plain_function_is_left_to_the_plain_adapter(adapter: Adapter) -> None:
    assert adapter.accepts(functions.standard) is (adapter.name == "plain")


def test_plain_is_asked_last() -> None:
    assert ALL[-1].name == "plain"


def test_named_targets_are_distinct() -> None:
    names = [name for adapter in ALL for name in adapter.targets()]
    assert len(names) == len(set(names)) == len(named_targets())
    assert {"torch.sdpa", "jax.nn.dot_product_attention", "transformers.sdpa"} <= set(names)


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(TargetError, match="the function is a list"):
        adapt([], Wanted())


def identified(name: str, **options: Any) -> Any:
    return identify(named_targets()[name](), name=name, **options)


TORCH = {
    "torch.sdpa": ("top_left", {"mask": "zero", "bias": "zero"}),
    "torch.sdpa.math": ("top_left", {"mask": "zero", "bias": "zero"}),
    "torch.sdpa.flash": ("top_left", {"mask": "zero", "bias": "zero"}),
    "transformers.sdpa": ("top_left", {"bias": "zero"}),
    "transformers.eager": (None, {"bias": "nan"}),
    "torch.multi_head_attention_forward": (None, {"mask": "nan", "bias": "nan"}),
}


@pytest.mark.parametrize("name", TORCH)
def test_the_functions_of_torch(name: str) -> None:
    pytest.importorskip("torch")
    if name.startswith("transformers"):
        pytest.importorskip("transformers")
    sheet = identified(name)
    alignment, empty = TORCH[name]
    assert sheet.formula == STANDARD
    assert sheet.behaviour.verified.agrees
    assert sheet.behaviour.mask.alignment == alignment
    assert sheet.behaviour.mask.empty_rows == empty
    assert sheet.behaviour.gradients.query <= sheet.behaviour.gradients.bound
    assert set(sheet.behaviour.precision) == {"float16", "bfloat16", "float32", "float64"}
    assert all(one.error <= one.bound for one in sheet.behaviour.precision.values())
    assert all(path.agrees for path in sheet.behaviour.paths)
    assert not any(finding.severity == "error" for finding in sheet.findings)


def test_a_boolean_mask_of_multi_head_attention_hides_where_true() -> None:
    pytest.importorskip("torch")
    mask = identified("torch.multi_head_attention_forward").behaviour.mask
    assert (mask.boolean, mask.documented) == ("true_forbids", "true_forbids")


def test_a_backend_that_is_not_there_is_no_traceback() -> None:
    pytest.importorskip("torch")
    call = identified("torch.sdpa.cudnn").behaviour.call
    assert call.outcome == "raised"
    assert call.error.startswith("RuntimeError")


@pytest.mark.slow
def test_flex_attention() -> None:
    pytest.importorskip("torch")
    sheet = identified("torch.flex_attention")
    assert sheet.formula == STANDARD
    assert sheet.behaviour.mask.boolean == "true_attends"
    assert sheet.behaviour.mask.bias_factor == pytest.approx(1.0, abs=1e-4)


@pytest.mark.slow
def test_jax() -> None:
    pytest.importorskip("jax")
    sheet = identified("jax.nn.dot_product_attention")
    assert sheet.formula == STANDARD
    assert sheet.behaviour.mask.alignment == "top_left"
    assert sheet.behaviour.heads.pattern == "repeated"
    assert sheet.findings == () or {f.severity for f in sheet.findings} <= {"note", "warning"}


def flash_attn_func(
    q, k, v, dropout_p=0.0, softmax_scale=None, causal=False, window_size=(-1, -1), softcap=0.0,
    alibi_slopes=None, deterministic=False, return_attn_probs=False,
):  # fmt: skip
    """Flash-attn's signature over NumPy: sequence before heads, bottom-right, −1 for open."""
    q, k, v = (array.swapaxes(1, 2) for array in (q, k, v))
    group = q.shape[1] // k.shape[1]
    k, v = (np.repeat(array, group, axis=1) for array in (k, v))
    scale = q.shape[-1] ** -0.5 if softmax_scale is None else softmax_scale
    scores = functions.products(q, k) * scale
    if softcap > 0.0:
        scores = softcap * np.tanh(scores / softcap)
    ahead = (
        np.arange(k.shape[2])[None, :] - np.arange(q.shape[2])[:, None] - k.shape[2] + q.shape[2]
    )
    if alibi_slopes is not None:
        scores = scores - alibi_slopes[:, None, None] * np.abs(ahead)
    left, right = window_size
    visible = np.ones(ahead.shape, bool)
    visible &= (ahead >= -left) if left >= 0 else True
    visible &= (ahead <= 0) if causal else (ahead <= right) if right >= 0 else True
    weights = np.nan_to_num(functions.softmax(np.where(visible, scores, -np.inf)))
    if dropout_p > 0.0:
        weights = weights * (np.random.default_rng().random(weights.shape) > dropout_p)
    return (weights @ v).swapaxes(1, 2)


def test_the_signature_of_flash_attn() -> None:
    sheet = identify(flash_attn_func)
    assert sheet.behaviour.layout == "bshd"
    assert sheet.formula == STANDARD
    assert sheet.behaviour.mask.alignment == "bottom_right"
    assert all(w.asked_reach == w.seen_reach for w in sheet.behaviour.mask.window)
    effects = {name: fact.effect for name, fact in sheet.behaviour.arguments.items()}
    for name in ("softmax_scale", "softcap", "alibi_slopes", "dropout_p", "causal", "window_size"):
        assert effects[name] == "as-asked", name
    assert "deterministic" not in effects
    assert sheet.findings == ()


def memory_efficient_attention(query, key, value, attn_bias=None, p=0.0, scale=None, *, op=None):
    """The signature of xformers over NumPy."""
    q, k, v = (array.swapaxes(1, 2) for array in (query, key, value))
    scores = functions.products(q, k) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if attn_bias is not None:
        scores = scores + attn_bias
    weights = functions.softmax(scores)
    if p > 0.0:
        weights = weights * (np.random.default_rng().random(weights.shape) > p)
    return (weights @ v).swapaxes(1, 2)


def test_the_signature_of_xformers() -> None:
    sheet = identify(memory_efficient_attention)
    assert sheet.behaviour.layout == "bshd"
    assert sheet.formula == STANDARD
    assert sheet.behaviour.mask.bias_factor == pytest.approx(1.0, abs=1e-4)
    assert sheet.behaviour.arguments["p"].meaning == "dropout"
    assert sheet.behaviour.arguments["p"].effect == "as-asked"


def onnx_attention(path: Path, *, scale: float | None = None) -> Path:
    """Write a model of one Attention node with a bias."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    helper, proto = onnx.helper, onnx.TensorProto
    inputs = [
        helper.make_tensor_value_info(name, proto.FLOAT, ["b", f"h{name}", f"s{name}", f"d{name}"])
        for name in ("Q", "K", "V")
    ]
    inputs.append(helper.make_tensor_value_info("attn_mask", proto.FLOAT, ["b", "h", "q", "k"]))
    out = helper.make_tensor_value_info("Y", proto.FLOAT, ["b", "h", "q", "e"])
    given = {} if scale is None else {"scale": scale}
    node = helper.make_node("Attention", ["Q", "K", "V", "attn_mask"], ["Y"], **given)
    graph = helper.make_graph([node], "attention", inputs, [out])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)
    onnx.save(model, path)
    return path


@pytest.mark.parametrize(
    ("scale", "formula"), [(None, STANDARD), (1.0, "softmax(query·keyᵀ) · value")]
)
def test_an_onnx_model(tmp_path: Path, scale: float | None, formula: str) -> None:
    sheet = identify(onnx_attention(tmp_path / "attention.onnx", scale=scale))
    assert sheet.formula == formula
    assert sheet.behaviour.mask.bias_argument == "attn_mask"
    assert sheet.behaviour.mask.bias_factor == pytest.approx(1.0, abs=1e-4)


def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    path = tmp_path / "x.onnx"
    with pytest.raises(TargetError, match="is no file"):
        identify(path)
    path.write_bytes(b"nothing")
    with pytest.raises(TargetError, match="cannot be loaded by onnxruntime"):
        identify(path)


def test_torch_is_preferred_where_the_code_speaks_of_it() -> None:
    torch = pytest.importorskip("torch")

    def attend(q, k, v):
        return torch.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, -1) @ v

    sheet = identify(attend)
    assert sheet.behaviour.framework == "torch"
    assert sheet.formula == STANDARD


def test_annotations_name_the_library() -> None:
    def attend(q: "torch.Tensor", k: "torch.Tensor", v: "torch.Tensor"):  # noqa: F821
        return (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v

    pytest.importorskip("torch")
    adapted = adapt(attend, Wanted())
    assert adapted.libraries[0].name == "torch"


def test_the_rootdk_reference_is_right() -> None:
    import rootdk

    sheet = identify(rootdk.attention)
    assert sheet.function == "rootdk.attention"
    assert sheet.formula == STANDARD
    assert sheet.findings == ()
    assert {f.effect for f in sheet.behaviour.arguments.values()} == {"as-asked"}


def test_stand_ins_have_the_real_signatures() -> None:
    """The stand-ins above are accepted by the adapters that are written for the real ones."""
    made: dict[str, Callable[..., Any]] = {
        "flash-attn": flash_attn_func,
        "xformers": memory_efficient_attention,
    }
    for name, function in made.items():
        (adapter,) = [one for one in ALL if one.name == name]
        assert adapter.accepts(function)
        assert inspect.signature(function)
