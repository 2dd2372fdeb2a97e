"""ONNX graphs: every spelling is one site, every number is recomputed, every file is data."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from attention.test_onnx_cases import CASES
from frontends.onnx_graphs import (
    BATCH,
    BOOL,
    HEAD_DIM,
    HEADS,
    INT64,
    LENGTH,
    SPELLINGS,
    STANDARD,
    WIDTH,
    Graph,
    attention,
    layer,
    projected,
    saved,
    turned,
)
from onnx import helper
from onnx.backend.test.case.test_case import TestCase

import rootdk
from rootdk._lib.errors import ArgumentError, TargetError
from rootdk.frontends._onnx import interpret
from rootdk.frontends._sites.recording import Recording
from rootdk.records import AttentionSite, Diagnosis

# Constants in these graphs are float32, and a few are multiplied.
RELATIVE = 1e-6


@pytest.fixture(autouse=True)
def faults_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Recording, "strict", True)


def entering(rng: np.random.Generator, dtype: Any = np.float32) -> np.ndarray:
    return rng.normal(size=(BATCH, LENGTH, WIDTH)).astype(dtype)


def only(diagnosis: Diagnosis) -> AttentionSite:
    (site,) = diagnosis.sites
    return site


def loud(diagnosis: Diagnosis) -> list[str]:
    return [f.code for f in diagnosis.findings if f.severity.reaches("warning")]


# ------------------------------------------------------------------ spellings


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize(
    ("scale", "code"),
    [(STANDARD, None), (1.0, "RDK101"), (1 / HEAD_DIM, "RDK104"), (WIDTH**-0.5, "RDK103")],
)
def test_a_spelling_is_one_site_of_the_right_scale(
    spelling: str, scale: float, code: str | None, rng: np.random.Generator
) -> None:
    diagnosis = rootdk.check(attention(spelling, scale), x=entering(rng))
    site = only(diagnosis)
    assert site.unresolved is None
    assert site.effective_scale == pytest.approx(scale, rel=RELATIVE)
    shape = (site.batch, site.num_heads, site.num_kv_heads, site.queries, site.keys, site.head_dim)
    assert shape == (BATCH, HEADS, HEADS, LENGTH, LENGTH, HEAD_DIM)
    assert site.verification.rows > 0
    assert site.verification.operands == "equal"
    assert site.query_path is not None
    assert site.query_path.terminal == "projection"
    if code == "RDK104" and spelling in {"halves", "from shape"}:
        # 1/d in two factors of 1/√d each is that factor twice.
        code = "RDK102"
    assert loud(diagnosis) == ([] if code is None else [code])
    assert diagnosis.state == "init"
    assert not diagnosis.unhandled


def test_spellings_give_the_same_statistics(rng: np.random.Generator) -> None:
    x = entering(rng)
    told = [rootdk.check(attention(spelling), x=x) for spelling in SPELLINGS]
    first = told[0].summaries[only(told[0]).name]
    for diagnosis in told[1:]:
        summary = diagnosis.summaries[only(diagnosis).name]
        assert set(summary.quantities) >= set(first.quantities) - {"projection_gain", "input_rms"}
        for name in ("spread", "entropy_nats", "max_weight", "query_std", "value_std"):
            # float32 products in another order: eps times the depth of the sums.
            np.testing.assert_allclose(summary[name], first[name], rtol=1e-5)


def test_statistics_are_those_of_measure(rng: np.random.Generator) -> None:
    x = entering(rng)
    site = only(diagnosis := rootdk.check(attention("mul"), x=x))
    normed = x - x.mean(-1, keepdims=True)
    normed = normed / np.sqrt((normed**2).mean(-1, keepdims=True) + 1e-5)
    weights = {
        n: np.random.default_rng(i).normal(size=(WIDTH, WIDTH)) * WIDTH**-0.5
        for i, n in enumerate("qkv")
    }
    query, key, value = (
        (normed @ w.astype(np.float32)).reshape(BATCH, LENGTH, HEADS, HEAD_DIM).swapaxes(1, 2)
        for w in weights.values()
    )
    mine = rootdk.measure(query, key, value)
    found = diagnosis.summaries[site.name]
    for name in ("spread", "row_spread", "entropy_nats", "query_std", "value_std"):
        np.testing.assert_allclose(found[name], mine[name], rtol=1e-5)
    np.testing.assert_allclose(found["input_rms"], 1.0, rtol=1e-4)


def after_softmax(g: Graph, q: str, k: str, v: str, scale: float) -> str:
    weights = g("Softmax", g("MatMul", q, turned(g, k)))
    return g("MatMul", g("Mul", weights, g.const(scale)), v)


def on_output(g: Graph, q: str, k: str, v: str, scale: float) -> str:
    return g("Mul", g("MatMul", g("Softmax", g("MatMul", q, turned(g, k))), v), g.const(scale))


def twice(g: Graph, q: str, k: str, v: str, scale: float) -> str:
    scores = g("MatMul", g("Mul", q, g.const(scale)), turned(g, k))
    return g("MatMul", g("Softmax", g("Mul", scores, g.const(scale))), v)


def over_queries(g: Graph, q: str, k: str, v: str, scale: float) -> str:
    scores = g("Mul", g("MatMul", q, turned(g, k)), g.const(scale))
    return g("MatMul", g("Softmax", scores, axis=2), v)


def over_heads(g: Graph, q: str, k: str, v: str, scale: float) -> str:
    scores = g("Mul", g("MatMul", q, turned(g, k)), g.const(scale))
    return g("MatMul", g("Softmax", scores, axis=1), v)


def softmax_twice(g: Graph, q: str, k: str, v: str, scale: float) -> str:
    scores = g("Mul", g("MatMul", q, turned(g, k)), g.const(scale))
    return g("MatMul", g("Softmax", g("Softmax", scores)), v)


def bare_exponential(g: Graph, q: str, k: str, v: str, scale: float) -> str:
    scores = g("Mul", g("MatMul", q, turned(g, k)), g.const(scale))
    powers = g("Exp", scores)
    total = g("ReduceSum", powers, g.const([-1], np.int64), keepdims=1)
    return g("MatMul", g("Div", powers, total), v)


@pytest.mark.parametrize(
    ("core", "code"),
    [
        (after_softmax, "RDK109"),
        (on_output, "RDK109"),
        (twice, "RDK102"),
        (over_queries, "RDK301"),
        (over_heads, "RDK301"),
        (softmax_twice, "RDK305"),
        (bare_exponential, "RDK302"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
def test_a_fault_of_the_graph_gets_its_code(core: Any, code: str, rng: np.random.Generator) -> None:
    diagnosis = rootdk.check(layer(core), x=entering(rng))
    assert loud(diagnosis) == [code]


# ------------------------------------------------------------------ masks, sharing, halves


def test_masks_are_told_from_biases(rng: np.random.Generator) -> None:
    later = np.triu(np.full((LENGTH, LENGTH), -np.inf, np.float32), 1)
    slopes = rng.normal(size=(HEADS, LENGTH, LENGTH)).astype(np.float32)

    def core(g: Graph, q: str, k: str, v: str, scale: float) -> str:
        scores = g("Mul", g("MatMul", q, turned(g, k)), g.const(scale))
        scores = g("Add", g("Add", scores, g.const(slopes)), g.const(later))
        hidden = g.const(np.arange(LENGTH) == 2, np.bool_)
        scores = g("Where", hidden, g.const(-1e9), scores)
        return g("MatMul", g("Softmax", scores), v)

    site = only(rootdk.check(layer(core), x=entering(rng)))
    assert site.unresolved is None
    assert [a.kind for a in site.addends] == ["bias", "mask", "mask"]
    assert [a.fill for a in site.addends] == [None, -np.inf, -1e9]
    assert site.observed.forbidden_weight == 0.0


def test_shared_heads_are_counted(rng: np.random.Generator) -> None:
    g = Graph()
    query = projected(g, "x", "q", 0)
    weights = np.random.default_rng(3).normal(size=(2, WIDTH, WIDTH // 2)) * WIDTH**-0.5
    sides = []
    for i, weight in enumerate(weights):
        y = g("MatMul", "x", g.hold(weight.astype(np.float32), f"w{i}"))
        y = g("Reshape", y, g.const([0, 0, HEADS // 2, HEAD_DIM], np.int64))
        y = g("Unsqueeze", g("Transpose", y, perm=[0, 2, 1, 3]), g.const([2], np.int64))
        y = g("Expand", y, g.const([BATCH, HEADS // 2, 2, LENGTH, HEAD_DIM], np.int64))
        sides.append(g("Reshape", y, g.const([0, HEADS, LENGTH, HEAD_DIM], np.int64)))
    key, value = sides
    scores = g("Mul", g("MatMul", query, turned(g, key)), g.const(STANDARD))
    out = g("MatMul", g("Softmax", scores), value)
    site = only(rootdk.check(g.model({"x": [BATCH, LENGTH, WIDTH]}, out), x=entering(rng)))
    assert site.unresolved is None
    assert (site.num_heads, site.num_kv_heads) == (HEADS, HEADS // 2)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("spelling", ["mul", "halves", "operator 23"])
def test_half_precision_graphs_are_resolved(
    dtype: str, spelling: str, rng: np.random.Generator
) -> None:
    import ml_dtypes

    kind = np.dtype(ml_dtypes.bfloat16) if dtype == "bfloat16" else np.dtype(dtype)
    diagnosis = rootdk.check(attention(spelling, dtype=kind), x=entering(rng, kind))
    site = only(diagnosis)
    assert site.unresolved is None
    assert site.score_dtype == dtype
    assert site.effective_scale == pytest.approx(STANDARD, rel=4 * float(ml_dtypes.finfo(kind).eps))
    assert loud(diagnosis) == []


# ------------------------------------------------------------------ the Attention operator


def operator(g: Graph, *, packed: bool = False, shared: int = HEADS, **attributes: Any) -> str:
    """The Attention operator on projections of x, with attributes of its own."""
    rng = np.random.default_rng(7)
    sides = []
    for name, heads in (("q", HEADS), ("k", shared), ("v", shared)):
        weight = rng.normal(size=(WIDTH, heads * HEAD_DIM)) * WIDTH**-0.5
        y = g("MatMul", "x", g.hold(weight.astype(np.float32), f"{name}.weight"))
        if not packed:
            y = g("Reshape", y, g.const([0, 0, heads, HEAD_DIM], np.int64))
            y = g("Transpose", y, perm=[0, 2, 1, 3])
        sides.append(y)
    if packed:
        attributes |= {"q_num_heads": HEADS, "kv_num_heads": shared}
    more = attributes.pop("more", ())
    return g("Attention", *sides, *more, **attributes)


@pytest.mark.parametrize("packed", [False, True], ids=["apart", "packed"])
@pytest.mark.parametrize("shared", [HEADS, 1])
@pytest.mark.parametrize("opset", [23, 24])
@pytest.mark.parametrize(
    "attributes",
    [{}, {"is_causal": 1}, {"softcap": 2.0}, {"scale": 1.0}],
    ids=["plain", "causal", "softcap", "scale"],
)
def test_the_operator_is_verified(
    packed: bool, shared: int, opset: int, attributes: dict[str, Any], rng: np.random.Generator
) -> None:
    g = Graph(opset=opset)
    out = operator(g, packed=packed, shared=shared, **attributes)
    site = only(rootdk.check(g.model({"x": [BATCH, LENGTH, WIDTH]}, out), x=entering(rng)))
    assert site.unresolved is None
    assert site.verification.rows > 0
    assert site.effective_scale == pytest.approx(attributes.get("scale", STANDARD), rel=RELATIVE)
    assert (site.num_heads, site.num_kv_heads) == (HEADS, shared)
    assert site.softcap == attributes.get("softcap")
    assert site.causal == ("top_left" if attributes.get("is_causal") else None)


@pytest.mark.parametrize("kind", ["bool", "float"])
def test_the_operator_takes_masks(kind: str, rng: np.random.Generator) -> None:
    g = Graph(opset=23)
    shown = rng.random((LENGTH, LENGTH)) > 0.4
    np.fill_diagonal(shown, True)
    if kind == "bool":
        mask = g.const(shown, np.bool_)
    else:
        mask = g.const(np.where(shown, rng.normal(size=shown.shape), -np.inf))
    out = operator(g, more=(mask,))
    site = only(rootdk.check(g.model({"x": [BATCH, LENGTH, WIDTH]}, out), x=entering(rng)))
    assert site.unresolved is None
    assert [a.kind for a in site.addends] == (["mask"] if kind == "bool" else ["mask", "bias"])


def test_a_cache_stands_before_the_keys(rng: np.random.Generator) -> None:
    g = Graph(opset=23)
    past = ("past_k", "past_v")
    out = operator(g, more=("", *past), is_causal=1)
    inputs = {"x": [BATCH, LENGTH, WIDTH], **{n: [BATCH, HEADS, "past", HEAD_DIM] for n in past}}
    model = g.model(inputs, out)
    cached = {n: rng.normal(size=(BATCH, HEADS, 5, HEAD_DIM)) for n in past}
    site = only(rootdk.check(model, x=entering(rng), **cached))
    assert site.unresolved is None
    assert (site.queries, site.keys, site.causal) == (LENGTH, LENGTH + 5, "bottom_right")


# ------------------------------------------------------------------ structure


def test_functions_are_inlined(rng: np.random.Generator) -> None:
    nodes = [
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "kt"], ["s"]),
        helper.make_node("Mul", ["s", "c"], ["t"]),
        helper.make_node("Softmax", ["t"], ["w"]),
        helper.make_node("MatMul", ["w", "v"], ["o"]),
    ]
    opsets = [helper.make_opsetid("", 21)]
    function = helper.make_function("own", "Attend", ["q", "k", "v", "c"], ["o"], nodes, opsets)
    g = Graph()
    sides = [projected(g, "x", n, i) for i, n in enumerate("qkv")]
    out = g("Attend", *sides, g.const(1.0), domain="own")
    model = g.model({"x": [BATCH, LENGTH, WIDTH]}, out, functions=[function])
    diagnosis = rootdk.check(model, x=entering(rng))
    assert only(diagnosis).effective_scale == 1.0
    assert loud(diagnosis) == ["RDK101"]


@pytest.mark.parametrize("taken", [True, False])
def test_the_branch_that_is_taken_is_traced(taken: bool, rng: np.random.Generator) -> None:
    g = Graph()
    names = [projected(g, "x", n, i) for i, n in enumerate("qkv")]

    def branch(scale: float) -> onnx.GraphProto:
        inner = Graph()
        inner.scope = f"/branch{scale}"
        scores = inner("MatMul", names[0], turned(inner, names[1]))
        out = inner("MatMul", inner("Softmax", inner("Mul", scores, inner.const(scale))), names[2])
        return helper.make_graph(
            inner.nodes, "b", [], [onnx.ValueInfoProto(name=out)], inner.initializers
        )

    out = g("If", "flag", then_branch=branch(STANDARD), else_branch=branch(1.0))
    model = g.model({"x": [BATCH, LENGTH, WIDTH], "flag": []}, out, types={"flag": BOOL})
    site = only(rootdk.check(model, x=entering(rng), flag=np.asarray(taken)))
    assert site.unresolved is None
    assert site.effective_scale == pytest.approx(STANDARD if taken else 1.0, rel=RELATIVE)


def test_attention_inside_a_loop_is_said(rng: np.random.Generator) -> None:
    inner = [
        helper.make_node("Identity", ["keep"], ["go"]),
        helper.make_node("Softmax", ["state"], ["next"]),
    ]
    body = helper.make_graph(
        inner,
        "body",
        [
            helper.make_tensor_value_info("i", INT64, []),
            helper.make_tensor_value_info("keep", BOOL, []),
            helper.make_tensor_value_info("state", onnx.TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("go", BOOL, []),
            helper.make_tensor_value_info("next", onnx.TensorProto.FLOAT, None),
        ],
    )
    g = Graph()
    out = g("Loop", g.const(2, np.int64), "", "x", body=body)
    model = g.model({"x": [BATCH, LENGTH, WIDTH]}, out)
    diagnosis = rootdk.check(model, x=entering(rng))
    assert [u.operation for u in diagnosis.unhandled] == ["Loop with attention inside"]


@pytest.mark.parametrize("kind", ["MultiHeadAttention", "GroupQueryAttention"])
def test_contributed_operators_are_listed(kind: str, rng: np.random.Generator) -> None:
    g = Graph()
    rng_weights = np.random.default_rng(0)
    sides = [
        g("MatMul", "x", g.hold(rng_weights.normal(size=(WIDTH, WIDTH)).astype(np.float32), n))
        for n in "qkv"
    ]
    if kind == "MultiHeadAttention":
        out = g(kind, *sides, num_heads=HEADS, domain="com.microsoft")
    else:
        lengths = g.const([LENGTH - 1] * BATCH, np.int32)
        total = g.const(LENGTH, np.int32)
        made = g(
            kind,
            *sides,
            "",
            "",
            lengths,
            total,
            outputs=3,
            num_heads=HEADS,
            kv_num_heads=HEADS,
            domain="com.microsoft",
        )
        out = made[0]
    diagnosis = rootdk.check(g.model({"x": [BATCH, LENGTH, WIDTH]}, out), x=entering(rng))
    assert [u.operation for u in diagnosis.unhandled] == [f"com.microsoft::{kind}"]


def test_places_are_the_names_of_nodes(rng: np.random.Generator) -> None:
    diagnosis = rootdk.check(layer(SPELLINGS["mul"][0], 1.0, layers=2), x=entering(rng))
    assert [site.name for site in diagnosis.sites] == ["layers.0.attn", "layers.1.attn"]
    assert [site.layer for site in diagnosis.sites] == [0, 1]
    finding = diagnosis.findings[0]
    assert str(finding.source).startswith("/layers.0/attn/MatMul_")


def test_an_exporters_metadata_give_module_and_line(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    code = tmp_path / "code.py"
    code.write_text("scores = query @ key\n")
    model = layer(SPELLINGS["mul"][0], 1.0)
    quoted = {"scores = query @ key": True, "guess": False}
    for text, shown in quoted.items():
        for node in model.graph.node:
            del node.metadata_props[:]
            stack = f'File "{code}", line 1, in forward\n    {text}\n'
            for key, value in (
                ("pkg.torch.onnx.name_scopes", "['', 'h.3', 'h.3.attn', 'matmul']"),
                ("pkg.torch.onnx.stack_trace", stack),
            ):
                node.metadata_props.add(key=key, value=value)
        finding = rootdk.check(model, x=entering(rng)).findings[0]
        assert finding.site == "h.3.attn"
        assert finding.source is not None
        # A line is quoted only if the model holds the same text.
        assert finding.source.text == (text if shown else "")


# ------------------------------------------------------------------ leaves


def test_weights_are_told_from_tables_and_numbers(rng: np.random.Generator) -> None:
    """Rotary tables as initializers are a rotation; a vector that multiplies a norm is a gain."""
    angles = np.arange(LENGTH)[:, None] * 10000.0 ** (-np.arange(HEAD_DIM // 2) / (HEAD_DIM // 2))
    angles = np.concatenate([angles, angles], -1)

    def core(g: Graph, q: str, k: str, v: str, scale: float) -> str:
        cos, sin = (g.const(f(angles)[None, None]) for f in (np.cos, np.sin))

        def turn(x: str) -> str:
            first, second = g("Split", x, outputs=2, axis=-1, num_outputs=2)
            half = g("Concat", g("Neg", second), first, axis=-1)
            return g("Add", g("Mul", x, cos), g("Mul", half, sin))

        scores = g("Mul", g("MatMul", turn(q), turned(g, turn(k))), g.const(scale))
        return g("MatMul", g("Softmax", scores), v)

    site = only(rootdk.check(layer(core, 1.0), x=entering(rng)))
    assert site.unresolved is None
    assert site.effective_scale == 1.0
    assert site.query_path is not None
    assert site.query_path.rotary


def test_a_vector_of_constants_is_not_taken_for_one(rng: np.random.Generator) -> None:
    """A scale per channel is learned, as far as a graph can tell, and never read as 1."""

    def core(g: Graph, q: str, k: str, v: str, scale: float) -> str:
        gains = g.hold(np.linspace(0.5, 2.0, HEAD_DIM, dtype=np.float32), "gain")
        scores = g("MatMul", g("Mul", q, gains), turned(g, k))
        return g("MatMul", g("Softmax", scores), v)

    site = only(rootdk.check(layer(core), x=entering(rng)))
    assert any(factor.kind == "learned" for factor in site.factors)


# ------------------------------------------------------------------ inputs


def embedded(positions: bool = False) -> onnx.ModelProto:
    """Tokens and a mask of them, into one layer."""
    g = Graph()
    rng = np.random.default_rng(0)
    table = g.hold(rng.normal(size=(7, WIDTH)).astype(np.float32), "embedding.weight")
    x = g("Gather", table, "input_ids")
    query, key, value = (projected(g, x, n, i) for i, n in enumerate("qkv"))
    mask = g("Unsqueeze", "attention_mask", g.const([1, 2], np.int64))
    low = g("Where", g("Equal", mask, g.const(0, np.int64)), g.const(-1e9), g.const(0.0))
    scores = g("Add", g("Mul", g("MatMul", query, turned(g, key)), g.const(STANDARD)), low)
    out = g("MatMul", g("Softmax", scores), value)
    shapes = {"input_ids": ["batch", "seq"], "attention_mask": ["batch", "seq"]}
    return g.model(shapes, out, types=dict.fromkeys(shapes, INT64))


def test_inputs_are_made_within_the_vocabulary_and_said() -> None:
    diagnosis = rootdk.check(embedded())
    site = only(diagnosis)
    assert site.unresolved is None
    assert (site.batch, site.keys) == (1, 32)
    assert diagnosis.remarks == (
        "made up (seed 0), not real data: input_ids [1, 32], attention_mask [1, 32]",
    )


def test_inputs_can_be_given_by_name_by_order_or_as_a_mapping() -> None:
    ids = np.asarray([[1, 2, 3, 4, 5]])
    mask = np.asarray([[1, 1, 1, 1, 0]])
    named = {"input_ids": ids, "attention_mask": mask}
    told = [
        rootdk.check(embedded(), **named),
        rootdk.check(embedded(), ids, mask),
        rootdk.check(embedded(), named),
        rootdk.check(embedded(), input_ids=ids.astype(np.int32), attention_mask=mask),
    ]
    for diagnosis in told:
        site = only(diagnosis)
        assert (site.keys, diagnosis.remarks) == (5, ())
        assert [a.kind for a in site.addends] == ["mask"]
    half = rootdk.check(embedded(), input_ids=ids)
    assert half.remarks == ("made up (seed 0), not real data: attention_mask [1, 5]",)


def test_wrong_inputs_are_refused() -> None:
    with pytest.raises(ArgumentError, match="ids is given; graph takes input_ids, attention_mask"):
        rootdk.check(embedded(), ids=np.zeros((1, 3)))
    with pytest.raises(ArgumentError, match="input_ids is given 1 dimensions; expected 2"):
        rootdk.check(embedded(), input_ids=np.zeros(3))
    with pytest.raises(TargetError, match=r"Gather .* cannot be run"):
        rootdk.check(embedded(), np.full((1, 3), 99), np.ones((1, 3)))


def test_sizes_that_do_not_run_are_tried_in_turn(rng: np.random.Generator) -> None:
    """A graph whose symbol can only be 16 is run at 16."""
    g = Graph()
    y = g("Reshape", "x", g.const([1, 16, WIDTH], np.int64))
    model = g.model({"x": [1, "length", WIDTH]}, attention_of(g, y))
    diagnosis = rootdk.check(model)
    assert only(diagnosis).keys == 16
    assert diagnosis.remarks == (f"made up (seed 0), not real data: x [1, 16, {WIDTH}]",)


def attention_of(g: Graph, x: str) -> str:
    query, key, value = (projected(g, x, n, i) for i, n in enumerate("qkv"))
    return SPELLINGS["mul"][0](g, query, key, value, STANDARD)


# ------------------------------------------------------------------ memory


def test_what_is_alive_does_not_grow_with_depth(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    """One operation's tensors, and what later ones need: the same for 2 layers and for 8."""
    peaks = {}
    for depth in (2, 8):
        sizes: list[int] = []
        run = interpret.Interpreter._node

        def counted(
            self: Any, node: Any, values: dict[str, Any], run: Any = run, sizes: Any = sizes
        ) -> None:
            run(self, node, values)
            weights = self._loaded.weights
            alive = [v.array for n, v in values.items() if v is not None and n not in weights]
            sizes.append(sum(array.nbytes for array in alive))

        monkeypatch.setattr(interpret.Interpreter, "_node", counted)
        rootdk.check(layer(SPELLINGS["mul"][0], layers=depth), x=entering(rng))
        monkeypatch.setattr(interpret.Interpreter, "_node", run)
        peaks[depth] = max(sizes)
    assert peaks[8] == peaks[2]
    scores = BATCH * HEADS * LENGTH * LENGTH * 4
    assert peaks[8] <= 4 * scores + 8 * BATCH * LENGTH * WIDTH * 4


# ------------------------------------------------------------------ what is captured


def test_a_graph_is_captured_like_a_model(tmp_path: Path, rng: np.random.Generator) -> None:
    path = saved(attention("mul", 1.0), tmp_path / "m.onnx")
    x = entering(rng)
    written = rootdk.capture(str(path), x=x, path=tmp_path / "c.npz")
    mine, again = rootdk.check(path, x=x), rootdk.check(written)
    assert only(again).effective_scale == only(mine).effective_scale == 1.0
    assert loud(again) == loud(mine) == ["RDK101"]


# ------------------------------------------------------------------ the operator's own cases


@pytest.mark.parametrize("case", CASES, ids=[case.name.removeprefix("test_") for case in CASES])
def test_every_case_of_the_operator_is_resolved(case: TestCase) -> None:
    """Layouts, shared heads, caches, windows, lengths, masks, softcaps and half types."""
    ((inputs, _),) = case.data_sets
    (node,) = case.model.graph.node
    given = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    site = only(rootdk.check(case.model, *inputs))
    assert site.unresolved is None
    assert site.effective_scale == pytest.approx(
        given.get("scale", site.head_dim**-0.5), rel=RELATIVE
    )
    assert site.softcap == (given.get("softcap") or None)
    assert site.num_heads == (given.get("q_num_heads") or inputs[0].shape[1])
    assert site.verification.rows > 0
