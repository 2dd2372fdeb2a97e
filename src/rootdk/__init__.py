"""Numerical health of attention: softmax(QKᵀ/√d_k)V has one number that never crashes.

The names below are the whole public interface. Each is imported when it is first used, so
that ``import rootdk`` costs nothing and loads no framework.

=====================  =============================================================
``check``              is the attention in this model scaled, masked and normalised
                       as it should be, and if not, which line is wrong?
``identify``           what does this attention function really compute?
``capture``            the tensors of every attention call, in a file that ``check`` reads
``diagnose``           the same question, for someone who has only measured a spread
``measure``            statistics of one attention call, per head
``spread_parts``       what the spread of its scores is made of
``attention``          the reference: slow, obvious, on any array library
``lab``                experiments on the scale: replayed, sampled and exact
=====================  =============================================================
"""

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import inspect

    from rootdk import lab
    from rootdk.attention import attention, entropy_nats, logsumexp, softmax, softmax_jacobian
    from rootdk.capture import capture
    from rootdk.check import check
    from rootdk.diagnose import diagnose
    from rootdk.engines import SpreadParts, measure, spread_parts
    from rootdk.identify import identify
    from rootdk.records import (
        AttentionSite,
        Datasheet,
        Diagnosis,
        Finding,
        FindingsError,
        Skipped,
        Unhandled,
    )
    from rootdk.stats import Summary

__version__ = "0.1.0"

__all__ = [
    "AttentionSite",
    "Datasheet",
    "Diagnosis",
    "Finding",
    "FindingsError",
    "Skipped",
    "SpreadParts",
    "Summary",
    "Unhandled",
    "__version__",
    "attention",
    "capture",
    "check",
    "diagnose",
    "entropy_nats",
    "identify",
    "lab",
    "logsumexp",
    "measure",
    "softmax",
    "softmax_jacobian",
    "spread_parts",
]

_HOMES = {
    "AttentionSite": "rootdk.records",
    "Datasheet": "rootdk.records",
    "Diagnosis": "rootdk.records",
    "Finding": "rootdk.records",
    "FindingsError": "rootdk.records",
    "Skipped": "rootdk.records",
    "SpreadParts": "rootdk.engines",
    "Summary": "rootdk.stats",
    "Unhandled": "rootdk.records",
    "attention": "rootdk.attention",
    "capture": "rootdk.capture",
    "check": "rootdk.check",
    "diagnose": "rootdk.diagnose",
    "entropy_nats": "rootdk.attention",
    "identify": "rootdk.identify",
    "lab": "rootdk.lab",
    "logsumexp": "rootdk.attention",
    "measure": "rootdk.engines",
    "softmax": "rootdk.attention",
    "softmax_jacobian": "rootdk.attention",
    "spread_parts": "rootdk.engines",
}


class _Verb(ModuleType):
    """A module that can be called like the function of the same name inside it.

    ``rootdk.attention`` is a package, and the import system binds it to that name as soon
    as anyone imports it; yet ``rootdk.attention(query, key, value)`` is the public call.
    """

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    @property
    def _function(self) -> Any:
        return getattr(self, self.__name__.rpartition(".")[2])

    @property
    def __signature__(self) -> "inspect.Signature":
        import inspect

        return inspect.signature(self._function)

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return importlib.import_module, (self.__name__,)


class _Package(ModuleType):
    """The package itself: a submodule that shares its name with a function becomes callable.

    The lab is a package of many functions, and stays one.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if isinstance(value, ModuleType) and _HOMES.get(name) == value.__name__ and name != "lab":
            value.__class__ = _Verb
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


if not TYPE_CHECKING:  # a type checker reads the imports above, and refuses other names

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = importlib.import_module(_HOMES[name])
        if home.__name__ == f"{__name__}.{name}":
            return home  # bound to its name, and made callable, when it was imported
        value = getattr(home, name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
