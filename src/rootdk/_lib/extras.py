"""Optional packages: imported where they are used, and named when they are missing."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType

from rootdk._lib.errors import MissingExtraError


def require(module_name: str, *, extra: str, purpose: str) -> ModuleType:
    """Import and return a module that an extra of rootdk installs.

    Parameters
    ----------
    module_name : str
        The module, possibly dotted: ``"matplotlib.figure"``.
    extra : str
        The extra that installs it: ``"plots"`` for ``rootdk[plots]``.
    purpose : str
        What it is wanted for, as a phrase that follows "is needed": ``"to draw"``.

    Returns
    -------
    ModuleType
        The module.

    Raises
    ------
    MissingExtraError
        If the package is not installed. A package that *is* installed and fails on an
        import of its own raises its own error, so that its fault is not hidden.

    Examples
    --------
    >>> require("math", extra="none", purpose="to take a root").sqrt(4.0)
    2.0
    """
    package = module_name.partition(".")[0]
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        missing = error.name or package
        if missing == module_name or module_name.startswith(missing + "."):
            raise MissingExtraError(package, extra=extra, purpose=purpose) from error
        raise


def is_loaded(module_name: str) -> bool:
    """Tell whether a module has been imported by anyone; never import it.

    An object can only be a framework's own if the framework is loaded, so this is
    enough to ask before an ``isinstance`` check.

    Examples
    --------
    >>> is_loaded("sys"), is_loaded("a_module_that_is_not_there")
    (True, False)
    """
    return sys.modules.get(module_name) is not None
