"""One attention call of a model, as the graph and the numbers showed it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from rootdk.records.source import Source

__all__ = [
    "Addend",
    "AttentionSite",
    "Expected",
    "Factor",
    "Normalisation",
    "Observed",
    "OperandPath",
    "Verification",
]

Place = Literal["query", "key", "scores", "kernel", "weights", "output"]
Axis = Literal[
    "keys",
    "queries",
    "heads",
    "batch",
    "queries-and-keys",
    "heads-and-keys",
    "batch-and-keys",
    "other",
]
FactorKind = Literal["constant", "learned", "position-dependent"]


@dataclass(frozen=True, kw_only=True)
class Factor:
    """One factor between the projections and the product with the values.

    ``value`` multiplies; a division by 8 is 0.125. It is None where one number does not
    describe the factor (a learned vector, a factor per position). ``origin`` says in words what
    it was in the code. ``precision`` is the relative precision that the constant was stored in.
    """

    value: float | None
    place: Place
    kind: FactorKind = "constant"
    origin: str = ""
    source: Source | None = None
    precision: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Addend:
    """Something added to the scores, or that replaces some of them, before the softmax.

    ``mask``: forbids keys (a boolean mask, or a tensor of 0 and one large negative number);
    ``fill`` is the number that forbidden scores get or have added. ``bias``: a position bias.
    ``term``: a further product of activations (relative-position attention).
    ``multiplied_by`` is the product of the constant factors applied after it was added.
    """

    kind: Literal["mask", "bias", "term"]
    fill: float | None = None
    learned: bool = False
    replaces: bool = False
    multiplied_by: float = 1.0
    before_softcap: bool = False
    source: Source | None = None


@dataclass(frozen=True, kw_only=True)
class OperandPath:
    """The way from a projection to one operand of the query-key product."""

    terminal: Literal["projection", "norm", "parameter", "input", "activation"]
    module_path: str = ""
    source: Source | None = None
    normalised: bool = False
    learned_gain: bool = False
    rotary: bool = False
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Normalisation:
    """How scores became weights.

    ``axis``: what the weights of one row run over; two words where it is both together.
    ``exponentials``: ``kernel`` is a softmax operator, ``shifted`` is exp after subtracting a
    maximum or a logsumexp, ``bare`` is exp of the scores as they are. ``bounded_by``: what
    bounds the argument of a bare exponential.
    ``largest_exponent``: the largest argument that the exponential saw.
    ``second_normalisation``: the weights were normalised once more, over the keys.
    ``axis_source``: where the axis was named, if apart from the exponential.
    ``softmax_again``: a second softmax follows. ``sink``: the denominator holds a further term;
    ``added_after_shift``: it is this constant, beside exponentials less the row's maximum.
    """

    axis: Axis = "keys"
    exponentials: Literal["kernel", "shifted", "bare"] = "kernel"
    dtype: str = "float32"
    bounded_by: str | None = None
    largest_exponent: float | None = None
    separate_half: bool = False
    sink: bool = False
    added_after_shift: float | None = None
    second_normalisation: bool = False
    softmax_again: Source | None = None
    mask_after: Source | None = None
    renormalised_after_mask: bool = False
    axis_source: Source | None = None


@dataclass(frozen=True, kw_only=True)
class Observed:
    """Counts and extremes read off the tensors themselves, None where not looked at.

    ``forbidden_weight``: the largest weight on a forbidden key in a row that has a visible one.
    ``row_sum_min`` and ``row_sum_max``: of the weights after the last normalisation and before
    dropout, over rows with a visible key. ``empty_rows_nan``: rows without a visible key whose
    weights are NaN. ``nonfinite_scores``: NaN or +inf among the scores at visible keys;
    ``nonfinite_inputs`` the same among query and key. ``largest_raw_score``: the largest
    magnitude that the query-key product reached in its own dtype, before any later factor.
    ``unseen_keys``: keys after the last that a causal mask shows to any query, zeros left out.
    """

    nonfinite_scores: int | None = None
    nonfinite_inputs: int | None = None
    forbidden_weight: float | None = None
    row_sum_min: float | None = None
    row_sum_max: float | None = None
    empty_rows_nan: int | None = None
    largest_raw_score: float | None = None
    unseen_keys: int | None = None


@dataclass(frozen=True, kw_only=True)
class Expected:
    """A number that somebody declared: ``value``, or the sentence ``where`` without a number.

    ``by`` is ``user`` (an ``expect=`` or a setting of the project) or ``config`` (of the model).
    """

    value: float | None
    where: str
    by: Literal["user", "config"]


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What recomputing the site from this record alone gave.

    ``mismatch`` is the largest difference between recomputed and observed, ``bound`` what the
    dtype allows, ``rows`` how many query rows were recomputed. A fused call with dropout is
    repeated without it, and what that gives is what is observed.
    """

    rows: int = 0
    mismatch: float | None = None
    bound: float | None = None
    operands: Literal["equal", "isometric", "unchecked"] = "unchecked"


@dataclass(frozen=True, kw_only=True)
class AttentionSite:
    """One attention call: where it is, its shapes, what multiplies, what is added.

    Shapes follow the glossary: scores are ``(batch, num_heads, queries, keys)``. A site is
    *resolved* when ``unresolved`` is None; then ``effective_scale`` is the product of all
    constant factors from the projections to the softmax, and numbers have confirmed it.
    ``output_factors`` are constants on the values or on what the product with them gives.
    ``expected`` is a scale that somebody declared, ``initial_std`` the standard deviation that the
    model's config declares for its initial weights; ``unconfigured`` says in words why there is no
    config that could declare either, None where one was looked for. ``term_widths`` are the
    channels of each score term beside the first. Where a mask follows a diagonal exactly,
    ``diagonal`` is its offset: query i sees the keys up to i + diagonal, or, ``only_later``, those
    after it alone. ``attends_over``: what the query and key axes were cut from in the projections'
    outputs, their positions, their features, or both across each other. ``rotated``: which of them
    a rotation by position was applied to, where both are projections of one tensor. ``kv_map`` and
    ``value_map`` say for each query head which key and which value head it reads, numbered in the
    order in which they are first read; None where heads are not shared, or it could not be told.
    ``repeat_source`` is where the key heads were repeated.
    """

    name: str
    spelling: str
    batch: int
    num_heads: int
    num_kv_heads: int
    queries: int
    keys: int
    head_dim: int
    value_dim: int | None = None
    hidden: int | None = None
    kv_map: tuple[int, ...] | None = None
    value_map: tuple[int, ...] | None = None
    repeat_source: Source | None = None
    layer: int | None = None
    module_path: str = ""
    call_index: int = 0
    layout: str = "bhsd"
    attends_over: Literal["positions", "features", "mixture"] = "positions"
    source: Source | None = None
    product_source: Source | None = None
    factors: tuple[Factor, ...] = ()
    output_factors: tuple[Factor, ...] = ()
    effective_scale: float | None = None
    scale_precision: float = 0.0
    expected: Expected | None = None
    initial_std: Expected | None = None
    unconfigured: str | None = None
    score_terms: int = 1
    term_widths: tuple[int, ...] = ()
    rotated: Literal["both", "query", "key"] | None = None
    query_path: OperandPath | None = None
    key_path: OperandPath | None = None
    softcap: float | None = None
    addends: tuple[Addend, ...] = ()
    causal: Literal["top_left", "bottom_right"] | None = None
    diagonal: int | None = None
    only_later: bool = False
    window: tuple[int | None, int | None] | None = None
    normalisation: Normalisation = field(default_factory=Normalisation)
    observed: Observed = field(default_factory=Observed)
    score_dtype: str = "float32"
    autocast: str | None = None
    dropout: float = 0.0
    dropout_source: Source | None = None
    training: bool = False
    verification: Verification = field(default_factory=Verification)
    unresolved: str | None = None

    @property
    def resolved(self) -> bool:
        """Whether the graph was understood and the numbers agreed."""
        return self.unresolved is None

    @property
    def standard_scale(self) -> float:
        """1/√head_dim (NaN for a head_dim of 0)."""
        return float(self.head_dim) ** -0.5 if self.head_dim else float("nan")

    @property
    def scale_ratio(self) -> float | None:
        """Effective scale over 1/√head_dim; None when unresolved."""
        if self.effective_scale is None:
            return None
        return self.effective_scale / self.standard_scale
