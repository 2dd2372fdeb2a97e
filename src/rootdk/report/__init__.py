"""One renderer per file: a record becomes text, JSON, and whatever else lies in this folder."""

from __future__ import annotations

from rootdk._lib.discovery import instances
from rootdk._lib.errors import ArgumentError
from rootdk.report._renderer import Renderer
from rootdk.report._verdict import headline, verdict

__all__ = ["Renderer", "headline", "renderer_for_suffix", "renderer_named", "renderers", "verdict"]


def renderers() -> tuple[Renderer, ...]:
    """Return every renderer: one a file of this folder, then those of plug-ins."""
    return instances(
        __name__, Renderer, group="rootdk.renderers", key=lambda renderer: renderer.name
    )


def renderer_named(name: str) -> Renderer:
    """Return the renderer of a name.

    Examples
    --------
    >>> renderer_named("json").suffixes
    ('.json',)
    >>> renderer_named("pdf")
    Traceback (most recent call last):
    ...
    rootdk._lib.errors.ArgumentError: the format is 'pdf'; expected one of json, markdown, text
    """
    known = {renderer.name: renderer for renderer in renderers()}
    if name not in known:
        raise ArgumentError.unexpected("the format", name, f"one of {', '.join(sorted(known))}")
    return known[name]


def renderer_for_suffix(suffix: str) -> Renderer:
    """Return the renderer that owns a file's suffix, such as ``".json"``."""
    known = {s: renderer for renderer in renderers() for s in renderer.suffixes}
    if suffix.lower() not in known:
        raise ArgumentError.unexpected(
            "the suffix", suffix, f"one of {', '.join(sorted(known))}, which choose the format"
        )
    return known[suffix.lower()]
