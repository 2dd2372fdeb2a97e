"""Renderers are found by name and by suffix."""

import pytest

from rootdk._lib.errors import ArgumentError
from rootdk.report import renderer_for_suffix, renderer_named, renderers


def test_every_renderer_is_found_by_its_name_and_its_suffixes() -> None:
    assert {"text", "json"} <= {renderer.name for renderer in renderers()}
    for renderer in renderers():
        assert renderer_named(renderer.name) is renderer
        for suffix in renderer.suffixes:
            assert renderer_for_suffix(suffix.upper()) is renderer


def test_no_two_renderers_claim_a_suffix() -> None:
    suffixes = [suffix for renderer in renderers() for suffix in renderer.suffixes]
    assert len(suffixes) == len(set(suffixes))


def test_an_unknown_name_or_suffix_is_answered_with_the_known_ones() -> None:
    with pytest.raises(
        ArgumentError, match="the format is 'pdf'; expected one of json, markdown, text"
    ):
        renderer_named("pdf")
    with pytest.raises(
        ArgumentError, match=r"the suffix is '.pdf'; expected one of .json, .md, .txt"
    ):
        renderer_for_suffix(".pdf")
