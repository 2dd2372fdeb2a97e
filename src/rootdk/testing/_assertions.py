"""What a function must compute, asserted, and what to say when it does not."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rootdk._lib.errors import ArgumentError
from rootdk.records import Datasheet, Finding, FindingsError

if TYPE_CHECKING:
    from rootdk.attention.masks import Causal, Window

__all__ = ["AttentionError", "assert_attention", "failure_message"]

_BARS = ("error", "warning", "note")
_WIDTH = 92


class AttentionError(FindingsError):
    """Raised by ``assert_attention``; ``datasheet`` holds all that was measured."""

    def __init__(self, message: str, *, datasheet: Datasheet) -> None:
        super().__init__(message)
        self.datasheet = datasheet


def assert_attention(
    function: Callable[..., Any],
    *,
    expect: float | str | None = None,
    causal: Causal | None = None,
    softcap: float | None = None,
    window: Window | None = None,
    mask: str | None = None,
    empty_rows: str | None = None,
    kv_map: str | None = None,
    row_sums: str | float | None = None,
    layout: str = "bhsd",
    arguments: Mapping[str, Any] | None = None,
    dtype: str | None = None,
    device: str | None = None,
    bar: str = "warning",
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
) -> Datasheet:
    """Assert that a function computes attention as it should, and return its datasheet.

    The function is measured as a black box (``rootdk.identify``): its scale at sizes that all
    differ, its softmax, masks, heads, arguments and precision. Any finding at or above ``bar``
    fails the assertion; what is declared here is what the function is held to.

    Parameters
    ----------
    function : callable
        Takes query, key and value first; NumPy, torch or JAX arrays.
    expect : float or str, optional
        The scale: a number or an expression in ``head_dim``, ``hidden``, ``heads``, ``keys`` and
        ``queries``. 1/√head_dim when it is not given.
    causal : {"top_left", "bottom_right"}, optional
        Where the causal diagonal starts or ends when queries and keys differ in number. Either
        is right when it is not given.
    softcap : float, optional
        The bound that the function applies to its scores unasked.
    window : (int or None, int or None), optional
        The keys before and after the diagonal that the function shows unasked.
    mask : {"true_attends", "true_forbids"}, optional
        What True means in its boolean mask; by the argument's name when it is not given.
    empty_rows : {"zero", "nan", "uniform", "as-unmasked"}, optional
        What a query without a visible key gives. NaN and mixtures of forbidden values are
        findings when it is not given.
    kv_map : {"repeated", "tiled"}, optional
        How query heads share key-value heads; repeated in place when it is not given.
    row_sums : "sink" or float, optional
        What weights sum to, where that is not 1.
    layout : str
        The order of the axes of all three arrays: ``"bhsd"``, ``"bshd"``, ``"hsd"``, ``"sd"`` ….
    arguments : mapping, optional
        What the function's own arguments mean, for names that do not say so.
    dtype, device : str, optional
        Where to measure; the dtypes that the framework computes natively when not given.
    bar : {"error", "warning", "note"}
        The least severity that fails.
    select, ignore : iterable of str
        Codes, beginnings of codes, names or families.

    Returns
    -------
    Datasheet
        What the function computes, for further assertions.

    Raises
    ------
    AttentionError
        An ``AssertionError`` that says what the function computes, each finding with its
        numbers and remedy, and a script that shows the first.
    ArgumentError
        If an argument means nothing.

    Examples
    --------
    >>> import numpy as np
    >>> def attend(query, key, value):
    ...     scores = query @ key.swapaxes(-1, -2) / np.sqrt(query.shape[-1])
    ...     weights = np.exp(scores - scores.max(-1, keepdims=True))
    ...     return weights / weights.sum(-1, keepdims=True) @ value
    >>> assert_attention(attend, expect="1/sqrt(head_dim)").count("error")
    0
    """
    __tracebackhide__ = True  # pytest shows the line of the test, not this one
    if bar not in _BARS:
        raise ArgumentError.unexpected("bar", bar, f"one of {', '.join(_BARS)}")
    from rootdk.identify import identify

    declared = {
        "scale": expect,
        "causal": causal,
        "softcap": softcap,
        "window": window,
        "mask": mask,
        "empty_rows": empty_rows,
        "kv_map": kv_map,
        "row_sums": row_sums,
    }
    datasheet = identify(
        function,
        layout=layout,
        arguments=arguments,
        dtype=dtype,
        device=device,
        expect={name: value for name, value in declared.items() if value is not None},
        select=select,
        ignore=ignore,
    )
    failing = [finding for finding in datasheet.findings if finding.severity.reaches(bar)]
    if failing:
        message = failure_message(datasheet, failing, bar)
        raise AttentionError(message, datasheet=datasheet)
    return datasheet


def failure_message(datasheet: Datasheet, failing: Iterable[Finding], bar: str) -> str:
    """Return what a failed assertion says: the formula, the findings, and how to see the first."""
    return "\n".join(_lines(datasheet, list(failing), bar))


def _lines(datasheet: Datasheet, failing: list[Finding], bar: str) -> Iterator[str]:
    count = f"{len(failing)} finding{'s' if len(failing) > 1 else ''}"
    yield f"{datasheet.function} has {count} at or above {bar!r}"
    if datasheet.formula is not None:
        yield f"it computes: {datasheet.formula}"
    for finding in failing:
        yield ""
        where = f"{finding.source.location}: " if finding.source is not None else ""
        yield f"{where}{finding.code} {finding.name} ({finding.severity.value})"
        yield from _wrapped(finding.message)
        yield from _wrapped(finding.remedy, first="to fix: ")
    script = _script(datasheet, failing[0])
    if script is not None:
        yield ""
        yield f"to see {failing[0].code} without rootdk:"
        yield textwrap.indent(script.rstrip("\n"), "    ")


def _wrapped(text: str, *, first: str = "") -> Iterator[str]:
    yield from textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=f"    {first}",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def _script(datasheet: Datasheet, finding: Finding) -> str | None:
    """Return the smallest script that shows a finding, None where nothing small does."""
    with suppress(ArgumentError):
        return datasheet.reproduce(finding.code)
    return None
