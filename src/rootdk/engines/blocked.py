"""The blocked engine: every quantity, a block of rows at a time, in a few MiB.

Products run in float32 for inputs of at most float32, unless the scores could then be off
by more than :data:`rootdk.engines.operands.LARGEST_ERROR`; everything that is summed over rows
is summed in float64. Without compiled code, rows whose scores are finite and end as they begin
(no bias, no cap) are those of :mod:`rootdk.engines.flatrows`; others are :class:`RowBlock`.
"""

from __future__ import annotations

from dataclasses import replace

from rootdk.engines import compiled, plain
from rootdk.engines.call import Call, UnfitError
from rootdk.engines.fill import Filled, of_blocks
from rootdk.engines.rownumbers import of_rows


def refusal(call: Call, names: set[str]) -> str | None:
    """Return why the engine cannot measure this; it always can."""
    return None


def run(call: Call, names: set[str]) -> Filled:
    """Measure the named statistics of a call."""
    if compiled.fits(call):
        try:
            return _run_compiled(call, names)
        except UnfitError:
            pass
    else:
        compiled.count_missed(call)
    states, engine = plain.run(call, names)
    return Filled(states=states, engine=f"blocked ({engine})")


def _run_compiled(call: Call, names: set[str]) -> Filled:
    wanted = of_blocks(names)
    known = {name for name in wanted if of_rows(name)}
    found, engine = compiled.run(call, known)
    filled = Filled(states=dict(found), engine=engine)
    others = set(wanted) - known
    if others:
        states, engine = plain.run(call, others)
        filled = filled.beside(Filled(states=states, engine=engine))
    return replace(filled, engine=f"blocked ({filled.engine})")
