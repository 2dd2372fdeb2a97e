"""What a model gave back, where it says that nothing, or not everything, has run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Iterator

from rootdk._lib.errors import ArgumentError

__all__ = ["outcome_remarks", "worth_saying"]

_LATER = (Coroutine, AsyncIterator, Iterator)


def worth_saying(outcome: object) -> object:
    """What a model gave, if there is something to say of it; an empty tuple for anything else."""
    return outcome if outcome is None or isinstance(outcome, _LATER) else ()


def outcome_remarks(outcome: object, model: str, *, found: bool) -> tuple[str, ...]:
    """What there is to say of what one call of ``model`` gave.

    ``found`` says whether attention was seen in it.

    Raises
    ------
    ArgumentError
        If the call only prepared a computation (a generator, another iterator, a coroutine), and
        no attention ran.

    Examples
    --------
    >>> outcome_remarks(None, "Encoder", found=False)
    ('Encoder returned None: does it end with a return?',)
    >>> outcome_remarks(None, "Encoder", found=True)
    ()
    """
    if outcome is None and not found:
        return (f"{model} returned None: does it end with a return?",)
    later = _later(outcome)
    if later is None:
        return ()
    if found:
        return (f"{model} returned {later}; what it computes when it is read was not run",)
    raise ArgumentError(
        f"{model} returned {later}, of which nothing has run; expected a call that computes its "
        "output (wrap it: a forward that reads it to the end and returns what it gives)"
    )


def _later(outcome: object) -> str | None:
    """What computes only when it is read or awaited, in words; None for anything else."""
    if isinstance(outcome, Coroutine):
        # Nobody will await it, and it would warn of that.
        outcome.close()
        return "a coroutine"
    if isinstance(outcome, AsyncIterator):
        return "an asynchronous iterator"
    if isinstance(outcome, Iterator):
        name = type(outcome).__name__
        return f"an iterator ({name})" if name != "generator" else "a generator"
    return None
