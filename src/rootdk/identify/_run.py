"""``identify``: probes run over a function, rules over what they measured."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import logging
import time
from collections.abc import Iterable, Mapping
from typing import Any

from rootdk._lib.arrays import float_info
from rootdk._lib.errors import ArgumentError
from rootdk.identify.adapters import Wanted, adapt
from rootdk.identify.bench import Bench, NotReady
from rootdk.identify.expectations import agrees_with, expected_mapping
from rootdk.identify.notebook import Notebook
from rootdk.identify.probes import probes
from rootdk.identify.probes.plain_call import BASE
from rootdk.identify.properties import properties_of
from rootdk.identify.subject import Refused, Subject, first_line
from rootdk.records import Behaviour, Datasheet, Environment, Skipped
from rootdk.rules import judge_behaviour

__all__ = ["identify"]

_NOTHING: Mapping[str, Any] = {}
_log = logging.getLogger(__name__)


def identify(
    function: Any,
    *,
    layout: str | None = None,
    arguments: Mapping[str, Any] | None = None,
    dtype: str | None = None,
    device: str | None = None,
    expect: object = None,
    against: Any = None,
    select: Iterable[str] = (),
    ignore: Iterable[str] = (),
    name: str | None = None,
    seed: int = 0,
    seconds: float = 10.0,
) -> Datasheet:
    """Return what an attention function really computes, measured by calling it.

    With one-hot values an output *is* a row of weights, and the log-ratio of two weights over
    the difference of their products q·k is the effective scale. Repeated over sizes, masks,
    dtypes and arguments, such calls give the datasheet.

    Parameters
    ----------
    function : callable, or a path to an ONNX model
        ``function(query, key, value, ...)``. NumPy, PyTorch and JAX arrays are tried, those
        first that annotations or the function's own code speak of.
    layout : str, optional
        The axes of its arrays: ``"bhsd"`` (the default), ``"bshd"``, ``"hsd"``, ``"sd"``,
        ``"bs(hd)"``. Functions of known signatures bring their own.
    arguments : mapping, optional
        What arguments mean whose names do not say it: ``{"temp": "temperature"}``;
        ``{"mode": ("fixed", "full")}`` passes a value in every call; ``{"query": "torch"}`` names
        the library.
    dtype : str, optional
        The dtype of the measurements, float32 by default.
    device : str, optional
        Where torch's arrays are put.
    expect : number, str or mapping, optional
        What its author means it to do; a deviation that is declared is silent. A number or an
        expression is the scale: ``"1/sqrt(head_dim)"``. A mapping may also name ``causal``,
        ``softcap``, ``row_sums``, ``kv_map``, ``mask``, ``empty_rows``, ``axis``, ``bias``,
        ``window``.
    against : callable, optional
        Another function; the datasheet then lists the properties in which the two differ.
    select, ignore : iterable of str
        Rules to run, or to leave out: codes, beginnings of codes, names or families.
    name : str, optional
        What to call the function.
    seed : int
        Of the random inputs.
    seconds : float
        The time limit of one call; a first call may take 60.

    Returns
    -------
    Datasheet
        Formula, properties, findings and every measured number.

    Raises
    ------
    TargetError
        If the function is not one of query, key and value.
    ArgumentError
        If an argument means nothing.

    Examples
    --------
    >>> import numpy as np
    >>> def attend(query, key, value):
    ...     scores = np.exp(query @ key.swapaxes(-1, -2) / query.shape[-1])
    ...     return scores / scores.sum(-1, keepdims=True) @ value
    >>> sheet = identify(attend)
    >>> sheet.formula
    'softmax(query·keyᵀ/head_dim) · value'
    >>> [finding.code for finding in sheet.findings]
    ['RDK302', 'RDK104']
    """
    expected = expected_mapping(expect)
    wanted = Wanted(layout=layout, arguments=arguments or _NOTHING, name=name)
    if dtype is not None:
        float_info(dtype)
    if type(seed) is not int or not 0 <= seed < 2**63:
        raise ArgumentError.unexpected("seed", seed, "a whole number from 0 to 2**63 - 1")
    if not seconds > 0:
        raise ArgumentError.unexpected("seconds", seconds, "a number above 0")
    how = {"dtype": dtype, "device": device, "seed": seed, "seconds": seconds}
    sheet = _datasheet(function, wanted, expected, tuple(select), tuple(ignore), how)
    if against is None:
        return sheet
    other_wanted = Wanted(layout=layout, arguments=arguments or _NOTHING)
    other = _datasheet(against, other_wanted, expected, tuple(select), tuple(ignore), how)
    return dataclasses.replace(sheet, against=other.function, differences=sheet.diff(other))


def _datasheet(
    function: Any,
    wanted: Wanted,
    expected: Mapping[str, object],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    how: Mapping[str, Any],
) -> Datasheet:
    started = time.perf_counter()
    bench = _examined(function, wanted, expected, how)
    behaviour = _behaviour(bench, how, time.perf_counter() - started)
    findings, skipped = judge_behaviour(behaviour, select=select, ignore=ignore)
    not_run = tuple(
        Skipped(code=f"probe {name}", why=why, site=behaviour.name)
        for name, why in bench.skipped.items()
    )
    adapted = bench.subject.adapted
    return Datasheet(
        function=adapted.name,
        formula=bench.formula,
        behaviour=behaviour,
        recipe=adapted.recipe(bench.subject.library, bench.subject.output_layout),
        properties=properties_of(behaviour),
        findings=findings,
        skipped=(*not_run, *skipped),
        remarks=(*adapted.remarks, *_on_inputs(bench), *bench.notebook.remarks),
        environment=_environment(bench, how["seed"]),
    )


def _on_inputs(bench: Bench) -> tuple[str, ...]:
    changed = bench.subject.changed
    return (f"it changes its own inputs in place: {', '.join(changed)}",) if changed else ()


def _examined(
    function: Any, wanted: Wanted, expected: Mapping[str, object], how: Mapping[str, Any]
) -> Bench:
    """Return the bench after every probe has run."""
    adapted = adapt(function, wanted)
    subject = Subject(
        adapted,
        adapted.libraries[0],
        dtype=how["dtype"] or "float32",
        device=how["device"],
        seconds=how["seconds"],
    )
    bench = Bench(
        subject=subject,
        notebook=Notebook(),
        sizes=BASE,
        seed=how["seed"],
        expected=expected,
        dtype_asked=how["dtype"],
    )
    for probe in probes():
        try:
            probe.run(bench)
        except NotReady as reason:
            bench.skipped[probe.name] = str(reason)
            if bench.notebook.get("call.outcome") != "ok" or bench.is_random:
                break
        except Refused as refusal:
            bench.refused(probe.name, "what the probe needs", refusal)
            bench.skipped[probe.name] = f"the function refused: {refusal.error}"
        except Exception as error:  # noqa: BLE001 - a fault of ours must not hide the rest
            bench.skipped[probe.name] = f"a fault of rootdk: {first_line(error)}"
            _log.warning("the probe %s failed", probe.name, exc_info=True)
    return bench


def _behaviour(bench: Bench, how: Mapping[str, Any], seconds: float) -> Behaviour:
    subject, note = bench.subject, bench.notebook
    note.write(call__calls=subject.calls, call__seconds=seconds)
    return note.behaviour(
        name=subject.adapted.name,
        source=subject.adapted.source,
        framework=subject.library.name,
        layout=subject.layout.text,
        formula=bench.formula,
        expected=dict(bench.expected),
        scale_as_expected=agrees_with(bench.expected, note.get("scale.points", ())),
        dtype_asked=how["dtype"],
    )


def _environment(bench: Bench, seed: int) -> Environment:
    packages = ("rootdk", "numpy", bench.subject.library.name, *bench.subject.adapted.versions)
    versions = {}
    for package in dict.fromkeys(packages):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return Environment(
        versions=versions,
        device=bench.subject.device or "cpu",
        dtype=bench.subject.dtype,
        seed=seed,
    )
