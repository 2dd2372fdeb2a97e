"""Every error that rootdk raises on purpose, each with a place in the documentation."""

from __future__ import annotations

from typing import ClassVar, Self


class RootdkError(Exception):
    """Base of every error that rootdk raises on purpose.

    A message states the fact, the value, and what was expected, in that order.

    Attributes
    ----------
    anchor : str
        Where the documentation's page on errors explains this class. Anchors are
        for ever: they may be linked to from outside.

    Examples
    --------
    >>> RootdkError.unexpected("softcap", -1.0, "a number above 0, or None for no cap")
    RootdkError('softcap is -1.0; expected a number above 0, or None for no cap')
    """

    anchor: ClassVar[str] = "rootdk-error"

    @classmethod
    def unexpected(cls, name: str, value: object, expected: str) -> Self:
        """Return the error for a named value that is not what was expected."""
        return cls(f"{name} is {value!r}; expected {expected}")


class ShapeError(RootdkError, ValueError):
    """An array's shape does not fit its own pattern, or another array's shape."""

    anchor = "shape-error"


class ArgumentError(RootdkError, ValueError):
    """An argument has the right type and a value that means nothing."""

    anchor = "argument-error"


class DtypeError(RootdkError, TypeError):
    """An array's dtype cannot be computed with."""

    anchor = "dtype-error"


class ArrayError(RootdkError, TypeError):
    """Something is not an array, or arrays of two libraries were mixed in one call."""

    anchor = "array-error"


class MissingExtraError(RootdkError, ImportError):
    """A package that an optional part of rootdk needs is not installed.

    Parameters
    ----------
    package : str
        The package whose import failed.
    extra : str
        The extra of rootdk that installs it.
    purpose : str
        What it was wanted for, as a phrase that follows "is needed".

    Examples
    --------
    >>> MissingExtraError("torch", extra="torch", purpose="to trace a model").args[0].split("; ")
    ['torch is needed to trace a model, and it cannot be imported',
     "install it with: pip install 'rootdk[torch]'"]
    """

    anchor = "missing-extra-error"

    def __init__(self, package: str, *, extra: str, purpose: str) -> None:
        super().__init__(
            f"{package} is needed {purpose}, and it cannot be imported; "
            f"install it with: pip install 'rootdk[{extra}]'"
        )
        self.package = package
        self.extra = extra
        self.purpose = purpose

    def __reduce__(self) -> tuple[object, ...]:
        # An exception is pickled by its message alone, which is not how this one is made.
        return _rebuild_missing_extra, (self.package, self.extra, self.purpose)


def _rebuild_missing_extra(package: str, extra: str, purpose: str) -> MissingExtraError:
    return MissingExtraError(package, extra=extra, purpose=purpose)


class TargetError(RootdkError):
    """What was to be examined (a model, a function, a file) cannot be loaded or run."""

    anchor = "target-error"


class SweepError(RootdkError):
    """A sweep of many tasks cannot go on: a worker died, or the cluster is gone.

    The message says what is done and where it is kept; the same call goes on from there.
    """

    anchor = "sweep-error"


class DiscoveryError(RootdkError):
    """A registry's folder or a plug-in holds something broken, twice named, or nothing."""

    anchor = "discovery-error"
