"""What a type checker sees of the public names: checked by mypy, never run."""

from typing import Any, assert_type

import rootdk
import rootdk.attention
import rootdk.check
import rootdk.diagnose


def functions_stay_functions(query: Any, key: Any, value: Any, model: Any) -> None:
    """Importing a submodule does not hide the function of the same name."""
    rootdk.attention(query, key, value, causal="top_left")
    rootdk.diagnose(spread=4.0, head_dim=64)
    assert_type(rootdk.check(model), rootdk.Diagnosis)
    assert_type(rootdk.measure(query, key), rootdk.Summary)
    assert_type(rootdk.__version__, str)


def wrong_calls_are_seen(query: Any) -> None:
    """A call that a function would refuse is refused here too."""
    rootdk.attention(query)  # type: ignore[call-overload]
    rootdk.diagnose(spread="large")  # type: ignore[call-arg,arg-type]
