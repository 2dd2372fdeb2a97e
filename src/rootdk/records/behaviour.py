"""What probes measured about one attention function: numbers and words, no framework.

Every field is None (or empty) when it was not measured; ``refusals`` says why not. Keys of
``witnesses`` are dotted names of fields here (``"mask.bias_factor"``), and a finding that a rule
makes of a field says so in its evidence, ``evidence={"fact": "mask.bias_factor", ...}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from rootdk.records.behaviour_mask import MaskFacts
from rootdk.records.behaviour_scale import Estimate, ScaleFacts, ScaleLaw, ScalePoint, Sizes, Varies
from rootdk.records.source import Source

__all__ = [
    "Agreement",
    "ArgumentFact",
    "Behaviour",
    "BiasFacts",
    "CallFacts",
    "Estimate",
    "GradientFacts",
    "HeadFacts",
    "MaskFacts",
    "PrecisionFacts",
    "Refusal",
    "ScaleFacts",
    "ScaleLaw",
    "ScalePoint",
    "Sizes",
    "SoftcapFacts",
    "SoftmaxFacts",
    "Varies",
    "Witness",
]


@dataclass(frozen=True, kw_only=True)
class Witness:
    """The smallest input that shows a fact, as NumPy expressions that a script can hold.

    ``setup`` are lines that make arrays; ``query``, ``key``, ``value`` and the values of
    ``arguments`` are expressions over them. An argument's expression that starts with ``np.``
    gives a NumPy array (made the function's own kind), any other a plain value. ``seen`` is an
    expression over those arrays and ``output`` (NumPy, ``(batch, heads, queries, value_dim)``);
    ``expected`` is one for what a right function gives. ``statement`` says in words what the
    numbers show. ``dtype`` is that of the arrays.
    """

    statement: str
    query: str
    key: str
    value: str
    seen: str
    expected: str
    setup: tuple[str, ...] = ()
    arguments: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    dtype: str = "float32"


@dataclass(frozen=True, kw_only=True)
class CallFacts:
    """What the plain call ``function(query, key, value)`` did.

    ``outcome``: ``ok``, ``raised`` (with the first line of the error), ``wrong-shape`` (with
    ``expected_shape`` and ``shape``), ``hung`` (past ``seconds``), ``not-an-array`` or
    ``non-finite``. ``calls`` counts every call that all probes made. ``empty_batch`` is what a
    batch of no samples gave: an output of the ``right-shape`` or another, or an error.
    """

    outcome: Literal["ok", "raised", "wrong-shape", "hung", "not-an-array", "non-finite"]
    error: str | None = None
    shape: tuple[int, ...] | None = None
    expected_shape: tuple[int, ...] | None = None
    empty_batch: Literal["right-shape", "wrong-shape", "refused"] | None = None
    calls: int = 0
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True)
class SoftcapFacts:
    """A bound on the scores that the function applies unasked.

    ``value`` is the bound in scaled scores; ``form``: ``tanh``, ``clamp``, or ``other`` (bounded,
    neither). ``residual`` is the largest departure of the scores from that form, in nats.
    """

    value: float
    form: Literal["tanh", "clamp", "other"]
    residual: float
    after_mask: bool | None = None


@dataclass(frozen=True, kw_only=True)
class BiasFacts:
    """What the function adds to the scores unasked, seen at query = 0.

    ``kind``: ``none``; ``alibi`` (linear in the key's position, ``slopes`` nats per key, one a
    head); ``relative`` (a function of key − query); ``per-position`` (anything else). A constant
    per row cannot be seen. ``largest`` is the largest difference within a row, in nats.
    """

    kind: Literal["none", "alibi", "relative", "per-position"]
    largest: float
    slopes: tuple[float, ...] = ()
    standard_slopes: bool | None = None


@dataclass(frozen=True, kw_only=True)
class SoftmaxFacts:
    """How scores become weights.

    ``axis`` is what the weights of one group run over: ``keys`` is right. ``times`` is 2 when
    the weights are a softmax of a softmax. ``row_sum_min`` and ``row_sum_max`` are over rows of
    a plain call, without a mask (constant value). ``factor`` is their common value when all
    rows agree and it is not 1, and ``factor_law`` how it depends on sizes. ``sink``: the
    denominator holds a further e^sink, one number a head (0 is "softmax plus one");
    ``sink_follows_maximum``: that term is relative to the row's maximum, so that it is not a
    sink. ``lowest_weight`` is the smallest weight seen, negative ones included.
    ``renormalised``: the axis is queries, and rows were normalised again (slot attention).
    ``rows_normalised``: every row sums to 1, at all sizes tried; ``rows_at`` are the sizes at
    which rows first did not, where those of the plain call did.
    ``linear_in_value``: doubling value doubles the output, and the sum's output is the sum.
    """

    axis: Literal["keys", "queries", "heads", "batch", "queries-and-keys", "unknown"] | None = None
    times: int | None = None
    row_sum_min: float | None = None
    row_sum_max: float | None = None
    factor: float | None = None
    factor_law: ScaleLaw | None = None
    sink: tuple[float, ...] | None = None
    sink_follows_maximum: bool | None = None
    lowest_weight: float | None = None
    renormalised: bool | None = None
    linear_in_value: bool | None = None
    rows_normalised: bool | None = None
    rows_at: Sizes | None = None


@dataclass(frozen=True, kw_only=True)
class HeadFacts:
    """Which heads, and which samples, read which.

    ``kv_map[h]`` is the key–value head that query head h reads, at ``kv_heads`` of them; −1 where
    it is a mixture. ``pattern``: ``repeated`` (h // (H/K)), ``tiled`` (h % K), ``stuck`` (all
    one), ``other``. ``swapped``: the function runs over heads where it should run over keys.
    ``neighbour_leak`` is how far an output moves when another sample of the batch changes,
    ``head_leak`` when another head changes.
    """

    kv_heads: int | None = None
    kv_map: tuple[int, ...] | None = None
    pattern: Literal["repeated", "tiled", "stuck", "other"] | None = None
    needs_argument: str | None = None
    swapped: bool | None = None
    neighbour_leak: float | None = None
    head_leak: float | None = None


@dataclass(frozen=True, kw_only=True)
class PrecisionFacts:
    """What one dtype does to the result, against float64 on the same (rounded) inputs.

    ``errors`` holds (largest |scaled score|, largest error of an output of size 1). ``error`` is
    that at scores of size 1, ``bound`` what a float32 softmax with inputs of this dtype allows.
    ``shift_breaks_at``: the smallest |score| tried, common to a whole row, at which the output
    was no longer right, and ``shift_outcome`` how (``nan``, ``inf``, ``zero``, ``wrong``); a
    softmax that subtracts the maximum has none. ``shift_uneven``: that was seen only where other
    rows lay at other heights; ``shift_peaked``: only where one key of a row lay far above the
    others, where the row's mean is not its maximum. ``product_breaks_at``: the smallest |q·k|
    tried at which an output was wrong although every scaled score was small.
    ``softmax_dtype``: the widest dtype that the errors of the softmax fit; None if not told.
    ``inner_dtype``: the half dtype whose digits are all that a wider input has inside, seen in
    ``inner_rows``: (rows that did not move when every entry of query did, rows that could move).
    """

    dtype: str
    error: float | None = None
    bound: float | None = None
    errors: tuple[tuple[float, float], ...] = ()
    shift_breaks_at: float | None = None
    shift_outcome: Literal["nan", "inf", "zero", "wrong"] | None = None
    shift_reached: float | None = None
    shift_uneven: bool | None = None
    shift_peaked: bool | None = None
    product_breaks_at: float | None = None
    product_outcome: Literal["nan", "inf", "zero", "wrong"] | None = None
    product_reached: float | None = None
    softmax_dtype: str | None = None
    softmax_error: float | None = None
    inner_dtype: str | None = None
    inner_rows: tuple[int, int] | None = None
    output_dtype: str | None = None


@dataclass(frozen=True, kw_only=True)
class GradientFacts:
    """Gradients of the function against those of the reference in float64, relative errors."""

    query: float | None = None
    key: float | None = None
    value: float | None = None
    bound: float | None = None
    finite: bool | None = None
    masked_finite: bool | None = None


@dataclass(frozen=True, kw_only=True)
class ArgumentFact:
    """What one accepted argument does in a regime where it must do something.

    ``name`` is the function's own, ``meaning`` ours: ``scale``, ``softcap``, ``mask``, ``bias``,
    ``causal``, ``window``, ``dropout``, ``training``, ``sink``, ``gqa``, ``weights``, ``other``.
    ``effect``: ``as-asked``, ``none`` (the output did not move), ``wrong`` (it moved, elsewhere
    than asked; ``detail`` says how), or ``refused`` (``detail`` is the error's first line).
    ``difference`` is how far the output moved, ``from_asked`` how far it is from what was asked.
    ``asked`` is the number that was given, for a meaning that has one, and ``acted`` the number
    that it acted as: the scale that was measured, the bound that the scores reached.
    """

    name: str
    meaning: str
    tried: str
    effect: Literal["as-asked", "none", "wrong", "refused"]
    detail: str = ""
    difference: float | None = None
    from_asked: float | None = None
    asked: float | None = None
    acted: float | None = None


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Two ways to the same result: ``difference`` between them, ``bound`` that rounding allows.

    ``what`` names the ways: ``"boolean mask and bias of -inf"``, ``"formula and function"``.
    """

    what: str
    difference: float
    bound: float

    @property
    def agrees(self) -> bool:
        """Whether rounding accounts for the difference."""
        return self.difference <= self.bound


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A call that the function refused, or that ended without a usable output.

    ``what`` was asked of it; ``error`` is the first line. ``same_shapes_worked``: a call with
    the same shapes and arguments and other values had worked, so that it is no matter of
    support.
    """

    probe: str
    what: str
    error: str
    kind: Literal["raised", "hung", "wrong-shape"] = "raised"
    same_shapes_worked: bool = False


_NO_WITNESSES: Mapping[str, Witness] = MappingProxyType({})
_NOTHING: Mapping[str, object] = MappingProxyType({})


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """All that was measured about one function. ``name`` and ``source`` are the function's.

    ``expected`` is what its author declared, by name: ``scale`` (a number or an expression),
    ``causal`` (``"top_left"``, ``"bottom_right"``), ``softcap``, ``row_sums`` (``"sink"``, or a
    number), ``kv_map`` (``"tiled"``), ``mask`` (``"true_forbids"``), ``empty_rows``, ``axis``,
    ``bias``, ``window``. A deviation that is declared is silent.

    ``dtype_asked`` is the dtype that the caller named; None when the dtypes were ours to try.
    ``scale_as_expected`` says whether the declared scale is the measured one. ``formula`` is
    what the function computes in one line, and ``verified`` how an output computed from these
    facts alone compares with the function's; when that does not agree, the facts above it may
    be parts of something that was not understood, and rules say nothing of scale and softmax.
    """

    name: str
    source: Source | None = None
    framework: str = "numpy"
    layout: str = "bhsd"
    formula: str | None = None
    call: CallFacts
    scale: ScaleFacts | None = None
    softcap: SoftcapFacts | None = None
    bias: BiasFacts | None = None
    softmax: SoftmaxFacts | None = None
    mask: MaskFacts | None = None
    heads: HeadFacts | None = None
    precision: Mapping[str, PrecisionFacts] = field(default_factory=lambda: MappingProxyType({}))
    gradients: GradientFacts | None = None
    arguments: Mapping[str, ArgumentFact] = field(default_factory=lambda: MappingProxyType({}))
    paths: tuple[Agreement, ...] = ()
    deterministic: bool | None = None
    verified: Agreement | None = None
    refusals: tuple[Refusal, ...] = ()
    expected: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    scale_as_expected: bool | None = None
    dtype_asked: str | None = None
    witnesses: Mapping[str, Witness] = field(default_factory=lambda: _NO_WITNESSES)

    @property
    def understood(self) -> bool:
        """Whether an output computed from the facts alone agrees with the function's."""
        return self.verified is not None and self.verified.agrees

    def argument(self, meaning: str) -> ArgumentFact | None:
        """Return what is known of the first argument of a meaning, None if there is none."""
        return next((a for a in self.arguments.values() if a.meaning == meaning), None)
