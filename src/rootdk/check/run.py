"""``check``: frontends and rules, put together into a diagnosis."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rootdk import frontends, rules
from rootdk._lib.errors import ArgumentError
from rootdk.check.comments import apply_comments
from rootdk.check.expectations import apply_expectations
from rootdk.check.options import CheckOptions
from rootdk.frontends import Trace
from rootdk.records import AttentionSite, Diagnosis, Finding, Skipped

__all__ = ["check"]


def check(
    model: Any,
    /,
    *args: Any,
    rootdk: CheckOptions | Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Diagnosis:
    """Run one forward pass of an unchanged model and judge every attention call in it.

    Parameters
    ----------
    model : torch.nn.Module, a function of JAX arrays, a path or a mapping
        The model, in training or evaluation mode; it is left as it was. A function of JAX can be
        a module of Flax, Equinox or Keras, compiled or not. A path names an ``.onnx`` model, or
        tensors saved elsewhere, in a ``.npz`` or ``.safetensors`` file or a mapping of arrays,
        named as docs/saved-tensors.md says.
    *args, **kwargs
        What the model is called with. Only ``rootdk``, and ``expect`` where the model's
        forward has no parameter of that name, are not passed on.
    rootdk : CheckOptions or mapping, optional
        The options of :class:`rootdk.check.CheckOptions`, such as
        ``rootdk={"select": ["RDK1"], "state": "init"}``.
    expect : mapping, optional
        Short for ``rootdk={"expect": ...}``: a glob of sites to the scale they should have.

    Returns
    -------
    Diagnosis
        Sites, statistics per head, findings, and what was skipped or not understood.

    Raises
    ------
    ArgumentError
        If an option is unknown or means nothing.
    TargetError
        If no frontend can trace the model. What the model itself raises is passed on.
    """
    options = _options(model, rootdk, kwargs)
    judged = rules.chosen(rules.all_rules(), select=options.select, ignore=options.ignore)
    trace = _trace(model, args, kwargs, options)
    sites, unmet = apply_expectations(trace.sites, options.expect)
    state = trace.state if options.state == "auto" else options.state
    findings, skipped = _judge(sites, trace, state, options)
    other, decided = _seen_again(model, sites, options)
    if other:
        findings, skipped = _judge(sites, trace, state, options, other)
    findings, ignored = apply_comments(findings, sites, meant=_meant, judged=judged)
    empty = () if sites else (f"no attention found among {trace.operations} operations",)
    return Diagnosis(
        target=options.target or _name(model),
        state=state,  # type: ignore[arg-type]  # options admit only these words
        state_reason=trace.state_reason if options.state == "auto" else "given",
        sites=sites,
        summaries=trace.summaries,
        findings=findings,
        skipped=skipped,
        unhandled=trace.unhandled,
        remarks=(*empty, *trace.remarks, *unmet, *decided, *ignored),
        environment=trace.environment,
    )


def _name(model: object) -> str:
    """The name of a file, of a function, or of a module's class."""
    if isinstance(model, str | Path):
        return str(model)
    return str(getattr(model, "__name__", type(model).__name__))


def _options(
    model: object, given: CheckOptions | Mapping[str, Any] | None, kwargs: dict[str, Any]
) -> CheckOptions:
    options = CheckOptions.of(given)
    if "expect" in kwargs and not _has_parameter(model, "expect"):
        expect = CheckOptions(expect=kwargs.pop("expect")).expect
        options = dataclasses.replace(options, expect={**options.expect, **expect})
    return options.merged()


def _has_parameter(model: object, name: str) -> bool:
    try:
        return name in inspect.signature(getattr(model, "forward", model)).parameters  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False


def _meant(entry: str) -> frozenset[str]:
    """Return the codes that an entry of an ignore comment means; none if it means nothing."""
    try:
        return rules.chosen(rules.all_rules(), select=(entry,))
    except ArgumentError:
        return frozenset()


def _trace(
    model: object, args: tuple[Any, ...], kwargs: Mapping[str, Any], options: CheckOptions
) -> Trace:
    return frontends.trace(
        model, args, kwargs, rows=options.rows, seed=options.seed, progress=options.progress
    )


def _judge(
    sites: tuple[AttentionSite, ...],
    trace: Trace,
    state: str,
    options: CheckOptions,
    other_sites: Mapping[str, AttentionSite] = MappingProxyType({}),
) -> tuple[tuple[Finding, ...], tuple[Skipped, ...]]:
    return rules.judge(
        sites,
        trace.summaries,
        state,
        other_sites=other_sites,
        select=options.select,
        ignore=options.ignore,
    )


def _seen_again(
    model: object,
    sites: tuple[AttentionSite, ...],
    options: CheckOptions,
) -> tuple[dict[str, AttentionSite], tuple[str, ...]]:
    """Return the sites whose scale one length leaves open, at another length, and remarks."""
    unclear = {s.name for s in sites if s.resolved and rules.ambiguous(s)}
    if not unclear or options.second_inputs is None:
        return {}, ()
    facts = f"the scale of {len(unclear)} site(s) fits several laws at this length"
    try:
        args, kwargs = options.second_inputs()
        again = _trace(model, args, kwargs, options).sites
    except Exception as error:  # noqa: BLE001 - the first pass stands by itself
        why = f"{type(error).__name__}: {error}"
        return {}, (f"{facts}, and a pass at another length failed: {why}",)
    again, _ = apply_expectations(again, options.expect)
    other = {site.name: site for site in again if site.resolved and site.name in unclear}
    lengths = ", ".join(sorted({str(site.keys) for site in other.values()}))
    return other, (f"{facts}; a second pass at {lengths} keys decided",) if other else ()
