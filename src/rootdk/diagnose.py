"""What a measured spread says about the scale, for someone who has only that number.

The spread is the standard deviation of the scores right before the softmax. Independent
entries with standard deviations σ_q and σ_k give scale · √head_dim · σ_q · σ_k, so a spread
and a head_dim are an equation with the scale and the size of the entries as unknowns. Each
explanation below is one way to solve it, by one mistake.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rootdk._lib.errors import ArgumentError

__all__ = ["Explanation", "NumberDiagnosis", "diagnose"]

CLOSE = math.log(1.25)
"""An explanation fits if its spread is within a quarter of the measured one, either way.

Wide enough for entries that are not quite independent, of a batch that is not large, and
narrow enough to tell √head_dim from head_dim.
"""


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """One way in which the measured spread can have come about.

    Attributes
    ----------
    code : str or None
        Code of the rule that finds this fault in a model; None if nothing is wrong.
    name : str
        The rule's name, or ``as-it-should-be``.
    spread : float
        The spread that it would give.
    distance : float
        Absolute natural logarithm of the measured spread over that one; 0 is a perfect fit.
    fits : bool
        Whether the distance is small enough for an explanation.
    message : str
        What it says, with the numbers.
    measure_next : str
        What would tell it from the others.
    """

    code: str | None
    name: str
    spread: float
    distance: float
    fits: bool
    message: str
    measure_next: str


@dataclass(frozen=True, kw_only=True)
class NumberDiagnosis:
    """The explanations of a measured spread, the best first.

    Attributes
    ----------
    spread : float
        The measured standard deviation of the scores.
    head_dim : int
        Entries per query and head.
    expected_spread : float
        What the standard scale gives with these entries: query_std · key_std, 1 unless given.
    implied_scale : float
        The multiplier that gives this spread from such entries.
    entries_measured : bool
        Whether the sizes of the entries were given; otherwise they are taken to be 1.
    explanations : tuple of Explanation
        Those that fit, best first, and then the others.
    """

    spread: float
    head_dim: int
    expected_spread: float
    implied_scale: float
    entries_measured: bool
    explanations: tuple[Explanation, ...]

    @property
    def best(self) -> Explanation:
        """The first explanation."""
        return self.explanations[0]

    @property
    def fitting(self) -> tuple[Explanation, ...]:
        """The explanations that fit, best first."""
        return tuple(one for one in self.explanations if one.fits)

    def __str__(self) -> str:
        given = "" if self.entries_measured else " if the entries have standard deviation 1"
        facts = (
            f"spread {self.spread:.4g} at head_dim {self.head_dim}: "
            f"implied scale {self.implied_scale:.4g}{given}; "
            f"1/√head_dim is {1 / math.sqrt(self.head_dim):.4g} "
            f"and would give {self.expected_spread:.4g}."
        )
        lines = [facts]
        for number, one in enumerate(self.fitting, 1):
            lines.append(f"{number}. {_titled(one)}: {one.message}")
            lines.append(f"   Next: {one.measure_next}")
        others = [one for one in self.explanations if not one.fits]
        if others:
            lines.append("Too far off to explain it:")
            width = max(len(_titled(one)) for one in others)
            lines += [f"   {_titled(one):<{width}}  gives {one.spread:.4g}" for one in others]
        return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class _Law:
    """A scale that someone may have used, as powers of head_dim, num_heads and keys."""

    code: str | None
    name: str
    written: str
    says: str
    measure_next: str
    powers: tuple[float, float, float]


_LOOK = "look for the factors between the projections and the softmax, or run rootdk check"

# The right scale, and then the wrong ones that there is a name for. Where several give the
# same number, the order here is that of the answer.
_LAWS = (
    _Law(
        code=None,
        name="as-it-should-be",
        powers=(-0.5, 0.0, 0.0),
        written="1/√head_dim",
        says="the scale is as it should be",
        measure_next="nothing about the scale; entropy_share says what the weights do",
    ),
    _Law(
        code="RDK101",
        name="missing-scale",
        powers=(0.0, 0.0, 0.0),
        written="1",
        says="nothing divides the scores",
        measure_next=f"{_LOOK}: is there any?",
    ),
    _Law(
        code="RDK104",
        name="unrooted-scale",
        powers=(-1.0, 0.0, 0.0),
        written="1/head_dim",
        says="one factor divides by head_dim and not by its root",
        measure_next=f"{_LOOK}: one factor 1/head_dim, or two of 1/√head_dim (RDK102)?",
    ),
    _Law(
        code="RDK102",
        name="scale-applied-twice",
        powers=(-1.0, 0.0, 0.0),
        written="1/√head_dim · 1/√head_dim",
        says="two places divide by √head_dim, a library's default being one",
        measure_next=f"{_LOOK}: two factors of 1/√head_dim, or one 1/head_dim (RDK104)?",
    ),
    _Law(
        code="RDK103",
        name="model-width-scale",
        powers=(-0.5, -0.5, 0.0),
        written="1/√(num_heads · head_dim)",
        says="the root is of the width of the model and not of a head",
        measure_next=f"{_LOOK}: is the width taken before or after splitting into heads?",
    ),
    _Law(
        code="RDK107",
        name="head-count-scale",
        powers=(0.0, -0.5, 0.0),
        written="1/√num_heads",
        says="the root is of the number of heads and not of their width",
        measure_next=f"{_LOOK}: were two dimensions of the shape confused?",
    ),
    _Law(
        code="RDK105",
        name="sequence-length-scale",
        powers=(0.0, 0.0, -0.5),
        written="1/√keys",
        says="the root is of the length of the sequence and not of the width of a head",
        measure_next="measure again at another length: does the spread change with it?",
    ),
    _Law(
        code="RDK106",
        name="inverted-scale",
        powers=(0.5, 0.0, 0.0),
        written="√head_dim",
        says="the scores are multiplied by √head_dim and not divided by it",
        measure_next=f"{_LOOK}: a division where a library takes a multiplier, or the reverse?",
    ),
)


def diagnose(
    *,
    spread: float,
    head_dim: int,
    num_heads: int | None = None,
    keys: int | None = None,
    query_std: float | None = None,
    key_std: float | None = None,
) -> NumberDiagnosis:
    r"""Explain a measured spread of attention scores, with the best explanation first.

    .. math:: spread = scale \cdot \sqrt{head\_dim} \cdot query\_std \cdot key\_std

    for independent entries. Each law that the scale may have followed is put into it; those
    that come near the measured spread explain it, in order of :math:`|\log|` of the ratio.
    Without the sizes of the entries, entries of another size than 1 explain any spread, so
    they are listed too: after what fits, or first if nothing does.

    Parameters
    ----------
    spread : float
        Standard deviation of the scores right before the softmax, masked ones left out.
    head_dim : int
        Entries per query and head.
    num_heads : int, optional
        Number of query heads; opens the explanations that involve it.
    keys : int, optional
        Number of keys; opens the explanations that involve it.
    query_std, key_std : float, optional
        Standard deviation of the entries of the queries and of the keys, both or neither.

    Returns
    -------
    NumberDiagnosis
        Ranked explanations; ``str()`` of it is for people.

    Raises
    ------
    ArgumentError
        If a number is not finite and above 0, or a size is not a whole number from 1 up; if
        one of query_std and key_std is given alone.

    Examples
    --------
    >>> from rootdk.diagnose import diagnose
    >>> diagnose(spread=8.0, head_dim=64).best.name
    'missing-scale'
    >>> diagnose(spread=1.02, head_dim=64).best.name
    'as-it-should-be'
    >>> diagnose(spread=4.0, head_dim=64, query_std=2.0, key_std=2.0).best.name
    'oversized-entries'

    References
    ----------
    Vaswani et al. 2017, "Attention Is All You Need", section 3.2.1, footnote 4.
    """
    spread = _positive("spread", spread)
    head_dim = _whole("head_dim", head_dim)
    sizes = (
        head_dim,
        1 if num_heads is None else _whole("num_heads", num_heads),
        1 if keys is None else _whole("keys", keys),
    )
    entries = _entries(query_std, key_std)
    size = 1.0 if entries is None else entries[0] * entries[1]
    unscaled = math.sqrt(head_dim) * size
    found = [
        _explanation(law, sizes, spread, unscaled, entries is not None)
        for law in _LAWS
        # With one head, or one key, a law that involves it says nothing of its own.
        if all(size > 1 or not power for size, power in zip(sizes[1:], law.powers[1:], strict=True))
    ]
    return NumberDiagnosis(
        spread=spread,
        head_dim=head_dim,
        expected_spread=size,
        implied_scale=spread / unscaled,
        entries_measured=entries is not None,
        explanations=_ranked(found, spread, spread / unscaled, entries),
    )


def _ranked(
    found: list[Explanation], spread: float, implied: float, entries: tuple[float, float] | None
) -> tuple[Explanation, ...]:
    """Put what fits first, then what fits anything, then what does not fit.

    What fits anything is no better for it, and comes after what could have been wrong.
    """
    correct, open_ended = found[0], []
    if entries is None:
        open_ended = [] if correct.fits else [_by_unknown_entries(spread)]
    elif correct.fits and _distance(entries[0] * entries[1], 1.0) > CLOSE:
        found[0] = _by_entries(spread, entries)
    elif not any(one.fits for one in found):
        open_ended = [_unexplained(spread, implied)]
    found.sort(key=lambda one: one.distance)
    fitting = [one for one in found if one.fits]
    return (*fitting, *open_ended, *(one for one in found if not one.fits))


def _explanation(
    law: _Law, sizes: tuple[int, int, int], spread: float, unscaled: float, measured: bool
) -> Explanation:
    scale = math.prod(size**power for size, power in zip(sizes, law.powers, strict=True))
    would = scale * unscaled
    distance = _distance(spread, would)
    entries = "with these entries" if measured else "with entries of standard deviation 1"
    number = f"{scale:.4g}"
    written = number if law.written == number else f"{law.written} = {number}"
    return Explanation(
        code=law.code,
        name=law.name,
        spread=would,
        distance=distance,
        fits=distance <= CLOSE,
        message=f"{law.says}; a scale of {written} gives {would:.4g} {entries}.",
        measure_next=law.measure_next,
    )


def _by_entries(spread: float, entries: tuple[float, float]) -> Explanation:
    """The scale is right, and the measured entries alone make the spread what it is."""
    size = entries[0] * entries[1]
    code, name = _entry_rule(size)
    return Explanation(
        code=code,
        name=name,
        spread=size,
        distance=_distance(spread, size),
        fits=True,
        message=f"the scale is 1/√head_dim; the entries make the spread: query_std {entries[0]:.4g}"
        f" times key_std {entries[1]:.4g} is {size:.4g}.",
        measure_next="measure what enters the projections: input_rms tells a large input from "
        "a large projection_gain.",
    )


def _by_unknown_entries(spread: float) -> Explanation:
    """The scale may be right, and the entries of whatever size makes the spread so."""
    code, name = _entry_rule(spread)
    return Explanation(
        code=code,
        name=name,
        spread=spread,
        distance=0.0,
        fits=True,
        message=f"the scale is right and the entries are not of standard deviation 1; "
        f"{math.sqrt(spread):.4g} on both sides gives {spread:.4g}.",
        measure_next="measure query_std and key_std, and give both: they decide.",
    )


def _entry_rule(size: float) -> tuple[str, str]:
    return ("RDK201", "oversized-entries") if size > 1.0 else ("RDK202", "undersized-entries")


def _unexplained(spread: float, implied: float) -> Explanation:
    return Explanation(
        code="RDK108",
        name="unexplained-scale",
        spread=spread,
        distance=0.0,
        fits=True,
        message=f"no law fits; a scale of {implied:.4g} gives {spread:.4g} with these entries, or "
        "the entries are not independent.",
        measure_next="measure query_mean and key_mean: entries that are off centre or correlated "
        "(RDK203) change the spread by themselves; then look for the factors, or run rootdk check.",
    )


def _entries(query_std: float | None, key_std: float | None) -> tuple[float, float] | None:
    if (query_std is None) != (key_std is None):
        given, missing = ("query_std", "key_std") if key_std is None else ("key_std", "query_std")
        raise ArgumentError(
            f"{given} was given without {missing}; expected both, or neither: "
            "one alone leaves the size of the entries open"
        )
    if query_std is None or key_std is None:
        return None
    return _positive("query_std", query_std), _positive("key_std", key_std)


def _positive(name: str, value: object) -> float:
    number = float(value) if hasattr(value, "__float__") and not isinstance(value, bool) else -1.0
    if not (math.isfinite(number) and number > 0.0):
        raise ArgumentError.unexpected(name, value, "a finite number above 0")
    return number


def _whole(name: str, value: object) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < 1:
        raise ArgumentError.unexpected(name, value, "a whole number from 1 up")
    return int(value)


def _distance(mine: float, other: float) -> float:
    return abs(math.log(mine) - math.log(other))


def _titled(one: Explanation) -> str:
    return one.name if one.code is None else f"{one.code} {one.name}"
