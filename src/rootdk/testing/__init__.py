"""Assertions for test suites: one line that says what an attention function must compute.

>>> from rootdk.testing import assert_attention

Installed, rootdk is also a pytest plug-in with a fixture of that name, which shows the whole
datasheet beside a failure. pytest imports this package whenever it runs, so that importing it
loads nothing, not even NumPy.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rootdk.testing._assertions import AttentionError, assert_attention

__all__ = ["AttentionError", "assert_attention"]


if not TYPE_CHECKING:  # a type checker reads the imports above, and refuses other names

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from rootdk.testing import _assertions

        return getattr(_assertions, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
