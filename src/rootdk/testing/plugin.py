"""The pytest plug-in: a fixture, imported with pytest and loading nothing until it is used.

It registers no option, no marker and no hook, so that suites which do not ask for the fixture
run as they did.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from rootdk.records import Datasheet

__all__ = ["assert_attention"]


@pytest.fixture
def assert_attention(request: pytest.FixtureRequest) -> Callable[..., Datasheet]:
    """Assert that a function computes attention as it should; see rootdk.testing.

    As ``rootdk.testing.assert_attention``, and the whole datasheet is shown beside a failure.
    """
    from rootdk.testing._assertions import AttentionError, assert_attention

    def asserted(function: Callable[..., Any], **declared: Any) -> Datasheet:
        __tracebackhide__ = True
        try:
            return assert_attention(function, **declared)
        except AttentionError as error:
            request.node.add_report_section("call", "rootdk datasheet", str(error.datasheet))
            raise

    return asserted
