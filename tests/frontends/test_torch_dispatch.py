"""The PyTorch frontend: what it recognises, and that it leaves the model as it was."""

import gc
import random
import warnings
import weakref

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

import rootdk
from rootdk.frontends import Trace, trace
from rootdk.frontends._torch.recorder import Recorder

HEADS, HEAD_DIM, WIDTH, BATCH, LENGTH = 4, 8, 32, 3, 11
SCALE = HEAD_DIM**-0.5


@pytest.fixture(autouse=True)
def faults_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the tracer fails the test instead of costing a site."""
    monkeypatch.setattr(Recorder, "strict", True)


class Attention(nn.Module):
    """Projections and a hand-written attention, to be overridden."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)

    def split(self, x: torch.Tensor) -> torch.Tensor:
        return x.view(*x.shape[:2], HEADS, HEAD_DIM).transpose(1, 2)

    def attend(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return (q @ k.mT * SCALE).softmax(-1) @ v

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        q, k, v = (self.split(f(y)) for f in (self.query, self.key, self.value))
        return x + self.out(self.attend(q, k, v).transpose(1, 2).reshape(x.shape))


class Sdpa(Attention):
    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v)


def tokens(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(BATCH, LENGTH, WIDTH, dtype=dtype)


def only(found: Trace):
    assert len(found.sites) == 1, found.sites
    (site,) = found.sites
    assert site.unresolved is None, site.unresolved
    return site


def assert_resolved(found: Trace, scale: float = SCALE, sites: int = 1) -> None:
    """Every site is resolved and proven, with this scale."""
    assert [s.unresolved for s in found.sites] == [None] * sites
    for site in found.sites:
        assert site.effective_scale == pytest.approx(scale, rel=1e-6)
        assert site.verification.operands == "equal"
        assert site.verification.rows > 0


# -- spellings that torch itself makes -----------------------------------------------------------


@pytest.mark.parametrize("model", [Attention, Sdpa])
@pytest.mark.parametrize("mode", ["grad", "no_grad", "inference"])
def test_the_mode_of_the_caller_does_not_matter(model: type[Attention], mode: str) -> None:
    instance = model().eval()
    context = {
        "grad": torch.enable_grad,
        "no_grad": torch.no_grad,
        "inference": torch.inference_mode,
    }[mode]
    with context():
        assert_resolved(trace(instance, (tokens(),)))


@pytest.mark.parametrize("backend", [SDPBackend.MATH, SDPBackend.FLASH_ATTENTION])
def test_every_backend_of_sdpa_is_one_factor_of_the_kernel(backend: SDPBackend) -> None:
    with sdpa_kernel(backend):
        found = trace(Sdpa(), (tokens(),))
    assert_resolved(found)
    places = [(f.place, pytest.approx(SCALE) == f.value) for f in found.sites[0].factors]
    assert places == [("kernel", True)]


@pytest.mark.parametrize("weights", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_multihead_attention_with_and_without_its_fast_path(weights: bool, training: bool) -> None:
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

        def forward(self, x):
            return self.attention(x, x, x, need_weights=weights)[0]

    found = trace(Wrapped().train(training), (tokens(),))
    assert_resolved(found)
    site = found.sites[0]
    assert (site.num_heads, site.queries, site.head_dim) == (HEADS, LENGTH, HEAD_DIM)
    assert site.module_path == "attention"


@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize("activation", ["gelu", "relu"])
def test_encoder_layers_run_as_one_operator(norm_first: bool, activation: str) -> None:
    layer = nn.TransformerEncoderLayer(
        WIDTH, HEADS, 64, activation=activation, batch_first=True, norm_first=norm_first
    )
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    found = trace(encoder, (tokens(),))
    assert_resolved(found, sites=2)
    assert [site.module_path for site in found.sites] == ["layers.0", "layers.1"]


def test_key_padding_of_the_fast_path_hides_keys() -> None:
    attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).eval()
    x = tokens()
    padding = torch.zeros(BATCH, LENGTH, dtype=torch.bool)
    padding[0, 7:] = True
    found = trace(attention, (x, x, x), {"key_padding_mask": padding})
    assert_resolved(found)
    visible = found.summaries[found.sites[0].name].visible_scores
    assert set(visible) == {LENGTH * (2 * LENGTH + 7)}


@pytest.mark.parametrize(
    ("modifier", "scale", "softcap", "kinds"),
    [
        (None, SCALE, None, []),
        (lambda s, b, h, i, j: s + 0.1 * (j - i), SCALE, None, ["bias"]),
        (lambda s, b, h, i, j: torch.where(i >= j, s, -float("inf")), SCALE, None, ["mask"]),
        (lambda s, b, h, i, j: 2.0 * s, 2 * SCALE, None, []),
        (lambda s, b, h, i, j: 5.0 * torch.tanh(s / 5.0), SCALE, 5.0, []),
    ],
    ids=["plain", "bias", "mask", "factor", "softcap"],
)
def test_flex_attention_is_read_through_its_modifier(modifier, scale, softcap, kinds) -> None:
    from torch.nn.attention.flex_attention import flex_attention

    class Flex(Attention):
        def attend(self, q, k, v):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return flex_attention(q, k, v, score_mod=modifier)

    found = trace(Flex(), (tokens(),))
    assert_resolved(found, scale)
    assert found.sites[0].softcap == pytest.approx(softcap, rel=1e-3) if softcap else True
    assert [a.kind for a in found.sites[0].addends] == kinds


def test_grouped_queries_keep_their_kv_heads() -> None:
    class Grouped(Attention):
        def attend(self, q, k, v):
            return F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True)

    site = only(trace(Grouped(), (tokens(),)))
    assert (site.num_heads, site.num_kv_heads) == (HEADS, 2)


def test_repeated_kv_heads_are_counted_before_they_are_repeated() -> None:
    class Repeated(Attention):
        def attend(self, q, k, v):
            k, v = (
                x[:, :2, None].expand(-1, -1, 2, -1, -1).reshape(q.shape[0], HEADS, -1, HEAD_DIM)
                for x in (k, v)
            )
            return super().attend(q, k, v)

    site = only(trace(Repeated(), (tokens(),)))
    assert (site.num_heads, site.num_kv_heads) == (HEADS, 2)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("model", [Attention, Sdpa])
def test_other_dtypes(model: type[Attention], dtype: torch.dtype) -> None:
    found = trace(model().to(dtype), (tokens(dtype),))
    assert_resolved(found)
    assert found.sites[0].score_dtype == str(dtype).removeprefix("torch.")


def test_autocast_is_honoured_and_recorded() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        found = trace(Attention(), (tokens(),))
    assert_resolved(found)
    assert found.sites[0].autocast == "bfloat16"
    assert found.sites[0].score_dtype == "bfloat16"
    assert found.environment.autocast == "bfloat16"


def test_a_compiled_model_runs_eagerly_and_stays_compiled() -> None:
    compiled = torch.compile(Attention(), backend="eager")
    assert_resolved(trace(compiled, (tokens(),)))
    assert isinstance(compiled, torch._dynamo.eval_frame.OptimizedModule)
    compiled(tokens())


def test_checkpointed_blocks_are_traced() -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Attention()

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=False)

    assert_resolved(trace(Checkpointed(), (tokens(),)))


def test_a_module_called_twice_is_two_sites() -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Attention()

        def forward(self, x):
            return self.inner(self.inner(x))

    found = trace(Twice(), (tokens(),))
    assert_resolved(found, sites=2)
    assert [site.name for site in found.sites] == ["inner#1", "inner#2"]
    assert [site.call_index for site in found.sites] == [0, 1]


@pytest.mark.parametrize("model", [Attention, Sdpa])
@pytest.mark.parametrize(("batch", "length"), [(1, 1), (3, 1), (1, 5)])
def test_sizes_of_one_are_no_fault(model: type[Attention], batch: int, length: int) -> None:
    diagnosis = rootdk.check(model(), torch.randn(batch, length, WIDTH))
    (site,) = diagnosis.sites
    assert (site.unresolved, site.queries, site.keys) == (None, length, length)
    assert site.num_heads == HEADS
    assert [f for f in diagnosis.findings if f.severity != "note"] == []


# -- what a site says ------------------------------------------------------------------------------


def test_eager_and_fused_give_the_same_statistics(seed: int) -> None:
    torch.manual_seed(seed)
    eager, fused = Attention(), Sdpa()
    fused.load_state_dict(eager.state_dict())
    x = tokens()
    one, two = (trace(model, (x,)) for model in (eager, fused))
    (first,), (second,) = one.summaries.values(), two.summaries.values()
    for name in ("spread", "row_spread", "entropy_nats", "max_weight", "query_std", "value_std"):
        np.testing.assert_allclose(first[name], second[name], rtol=1e-5)


@pytest.mark.parametrize(
    ("keys", "alignment"), [(LENGTH, "top_left"), (LENGTH + 4, "bottom_right")]
)
def test_a_causal_mask_is_recognised_by_its_shape(keys: int, alignment: str) -> None:
    class Cached(Attention):
        def attend(self, q, k, v):
            k, v = (F.pad(x, (0, 0, keys - LENGTH, 0)) for x in (k, v))
            hidden = torch.ones(LENGTH, keys, dtype=torch.bool).triu(keys - LENGTH + 1)
            scores = (q @ k.mT * SCALE).masked_fill(hidden, -torch.inf)
            return scores.softmax(-1) @ v

    site = only(trace(Cached(), (tokens(),)))
    assert site.causal == alignment
    assert (site.queries, site.keys) == (LENGTH, keys)


def test_the_source_is_the_users_line() -> None:
    site = only(trace(Attention(), (tokens(),)))
    assert site.source is not None
    assert site.source.frames[0].file == __file__
    assert "softmax" in site.source.text
    assert site.factors[0].source is not None
    assert "SCALE" in site.factors[0].source.text
    assert {frame.function for frame in site.source.frames} == {"attend", "forward"}


def test_nothing_is_measured_when_no_statistics_are_wanted() -> None:
    found = trace(Attention(), (tokens(),), statistics=False)
    assert_resolved(found)
    assert found.summaries == {}


def test_a_softmax_that_meets_no_values_is_no_attention() -> None:
    class Contrast(Attention):
        def forward(self, x):
            q, k = self.split(self.query(x)), self.split(self.key(x))
            return (q @ k.mT * SCALE).softmax(-1).mean()

    assert trace(Contrast(), (tokens(),)).sites == ()


# -- the model is left as it was ------------------------------------------------------------------


class Stateful(nn.Module):
    """Batch statistics, dropout, a buffer written in place, and one that is replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Attention()
        self.batch_norm = nn.BatchNorm1d(LENGTH)
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("last", torch.zeros(BATCH, LENGTH, WIDTH))

    def forward(self, x):
        self.seen += 1
        self.last = x
        random.random()
        np.random.rand()  # noqa: NPY002 - the global generator is what is tested
        return F.dropout(self.batch_norm(self.inner(x)), 0.5, self.training)


def test_random_states_and_buffers_are_restored() -> None:
    model = Stateful().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()  # noqa: NPY002
    x = tokens()
    states = torch.get_rng_state(), *states[1:]
    given = x.clone()
    trace(model, (x,))
    after = model.state_dict()
    assert before.keys() == after.keys()
    for name, value in before.items():
        assert torch.equal(value, after[name]), name
    assert torch.equal(x, given)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert random.getstate() == states[1]
    assert np.array_equal(np.random.get_state()[1], states[2])  # noqa: NPY002
    assert model.training


def test_an_input_that_is_written_in_place_is_put_back() -> None:
    class Writes(Attention):
        def forward(self, x):
            x.mul_(2.0)
            return super().forward(x)

    x = tokens()
    given = x.clone()
    assert_resolved(trace(Writes(), (x,)))
    assert torch.equal(x, given)


def test_a_model_that_raises_leaves_no_hooks_and_no_mode() -> None:
    class Raises(Attention):
        def attend(self, q, k, v):
            super().attend(q, k, v)
            raise RuntimeError("as planned")

    from torch.nn.modules import module as hooks

    before = len(hooks._global_forward_hooks), len(hooks._global_forward_pre_hooks)
    with pytest.raises(RuntimeError, match="as planned"):
        trace(Raises(), (tokens(),))
    assert (len(hooks._global_forward_hooks), len(hooks._global_forward_pre_hooks)) == before
    assert torch.utils._python_dispatch._get_current_dispatch_mode() is None
    assert torch.compiler.get_stance() if hasattr(torch.compiler, "get_stance") else True


def test_the_output_is_bit_identical_under_the_tracer() -> None:
    outputs = []

    class Keeps(Stateful):
        def forward(self, x):
            outputs.append(super().forward(x))
            return outputs[-1]

    model, x = Keeps().train(), tokens()
    torch.manual_seed(5)
    trace(model, (x,), seed=None)
    torch.manual_seed(5)
    with torch.no_grad():
        model(x)
    assert torch.equal(outputs[0], outputs[1])


def test_a_seeded_pass_is_the_same_whatever_came_before() -> None:
    class Noisy(Attention):
        def attend(self, q, k, v):
            return super().attend(q + torch.randn_like(q), k, v)

    model, x = Noisy(), tokens()
    first = trace(model, (x,), seed=3)
    torch.rand(7)
    second = trace(model, (x,), seed=3)
    (one,), (two,) = first.summaries.values(), second.summaries.values()
    np.testing.assert_array_equal(one["spread"], two["spread"])


# -- a fault of ours ------------------------------------------------------------------------------


def test_a_fault_of_the_tracer_costs_a_site_and_not_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from rootdk.frontends._sites import attend

    def fails(*args, **kwargs):
        raise ValueError("broken on purpose")

    monkeypatch.setattr(Recorder, "strict", False)
    monkeypatch.setattr(attend, "check_weights", fails)
    (site,) = rootdk.check(Attention(), tokens()).sites
    assert site.unresolved == "the tracer failed here (ValueError: broken on purpose)"


def test_memory_holds_one_layers_scores() -> None:
    """Whatever the depth, scores and weights of earlier layers are let go of."""
    made: list[weakref.ref[torch.Tensor]] = []
    alive: list[int] = []

    class Counts(Attention):
        def attend(self, q, k, v):
            gc.collect()
            alive.append(sum(reference() is not None for reference in made))
            raw = q @ k.mT
            scores = raw * SCALE
            weights = scores.softmax(-1)
            made.extend(weakref.ref(t) for t in (raw, scores, weights))
            return weights @ v

    model = nn.Sequential(*(Counts() for _ in range(6)))
    assert_resolved(trace(model, (tokens(),)), sites=6)
    assert alive == [0] * 6


def tensors_alive() -> dict[int, torch.Size]:
    """Shapes by identity; the type alone is looked at, since what else lives may mind."""
    found = [each for each in gc.get_objects() if issubclass(type(each), torch.Tensor)]
    return {id(each): each.shape for each in found}


@pytest.mark.parametrize("model", [Attention, Sdpa])
def test_a_trace_leaves_nothing_to_the_garbage_collector(model: type[Attention]) -> None:
    """What was held for the verification is let go of at once, not when cycles are looked for."""
    built = model()
    trace(built, (tokens(),))
    gc.collect()
    gc.disable()
    try:
        before = tensors_alive()
        trace(built, (tokens(),))
        assert [shape for at, shape in tensors_alive().items() if at not in before] == []
    finally:
        gc.enable()


def test_what_a_hook_does_is_told_of_the_line_that_called_its_module() -> None:
    """A module's own hooks run after its call has ended for the recorder, one after the other."""

    class Hooked(Attention):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.norm(x)
            q = self.query(y)
            k = self.key(y)
            v = self.split(self.value(y))
            out = self.attend(self.split(q), self.split(k), v)
            return x + self.out(out.transpose(1, 2).reshape(x.shape))

    model = Hooked()
    for layer, factor in ((model.query, 2.0), (model.key, 4.0)):
        layer.register_forward_hook(lambda _, given, out, factor=factor: out * factor)
    site = only(trace(model, (tokens(),)))
    first = Hooked.forward.__code__.co_firstlineno
    lines = {
        factor.value: [
            frame.line - first for frame in factor.source.frames if frame.function == "forward"
        ]
        for factor in site.factors
        if factor.value in {2.0, 4.0}
    }
    assert lines == {2.0: [2], 4.0: [3]}
