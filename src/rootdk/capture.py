"""``capture``: the tensors of every attention call of a running model, in a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rootdk import frontends
from rootdk._lib.errors import ArgumentError, TargetError
from rootdk.frontends import _tap
from rootdk.frontends._arrays.document import Document
from rootdk.frontends._arrays.writing import SUFFIXES, Spool

__all__ = ["capture"]

_OPTIONS = ("rows", "seed", "progress")


def capture(
    model: Any,
    /,
    *args: Any,
    path: str | Path,
    rootdk: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> Path:
    """Run one forward pass of an unchanged model and write its attention calls to a file.

    The file holds, for each site, query, key and value as they enter the attention (constant
    factors on the way taken off, and multiplied into ``scale``), masks and biases, some rows
    of the weights or of the output, and what the graph told of the site. ``rootdk.check(path)``
    gives the sites, statistics and findings that ``rootdk.check(model, ...)`` gives, but for the
    statistics of sites that are computed in parts: a remark names them. One call's arrays are in
    memory at a time; the rest waits on disk beside the file.

    Parameters
    ----------
    model : torch.nn.Module
        The model, in training or evaluation mode; it is left as it was.
    *args, **kwargs
        What the model is called with.
    path : str or Path
        The file to write, ``.npz`` or ``.safetensors``; replaced when all is written.
    rootdk : mapping, optional
        Options of the pass, as for ``rootdk.check``: ``rows`` (how many query rows of each
        site are recomputed to verify it), ``seed`` and ``progress``.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    ArgumentError
        If the path has another ending or lies in no folder.
    TargetError
        If no attention is found, none of it could be measured, or all of it is computed in parts
        (blocks of queries or keys, say), which the file has no form for.
    """
    options = _options(rootdk or {})
    target = Path(path)
    saved = isinstance(model, str | Path) and Path(model).suffix.lower() in SUFFIXES
    if saved or isinstance(model, Mapping):
        raise ArgumentError.unexpected("model", model, "a model that can be run")
    with Spool(target) as spool:
        with _tap.tapped(spool.take):
            trace = frontends.trace(model, args, kwargs, **options)
        if not trace.summaries:
            found = f"{len(trace.sites)} attention site(s) found and none measured"
            raise TargetError(f"{found}; expected at least one that can be written")
        in_parts = spool.lacks(trace.summaries)
        if len(in_parts) == len(trace.summaries):
            many = f"each of the {len(in_parts)} attention site(s) measured is computed in parts"
            raise TargetError(f"{many}; expected one whose query and key enter it whole")
        remarks = [f"{site} is computed in parts, which no file holds" for site in in_parts]
        document = Document(
            target=str(model) if isinstance(model, str | Path) else type(model).__name__,
            state=trace.state,
            state_reason=trace.state_reason,
            operations=trace.operations,
            sites=trace.sites,
            unhandled=trace.unhandled,
            remarks=(*trace.remarks, *remarks),
            environment=trace.environment,
        )
        spool.write(document, trace.summaries)
    return target


def _options(given: Mapping[str, Any]) -> dict[str, Any]:
    unknown = [str(name) for name in given if name not in _OPTIONS]
    if unknown:
        raise ArgumentError(
            f"rootdk has the option {', '.join(unknown)}; expected only {', '.join(_OPTIONS)}"
        )
    return dict(given)
