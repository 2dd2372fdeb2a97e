"""RDK707."""

from __future__ import annotations

from collections.abc import Iterable

from rootdk.records import Behaviour, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._behaviour_examples import behaving, fires_of, silent_of, skips_of
from rootdk.rules._examples import Example


class StochasticInEval(Rule):
    """The same call gives two outputs, though nobody asked for dropout.

    What it does
    ------------
    Finds a function whose plain call, without any argument that asks for training or dropout,
    gives another output each time.

    Why it matters
    --------------
    Dropout that stays on in evaluation adds noise to every answer, costs accuracy that no
    training gives back, and makes a validation loss of two runs differ. A functional dropout is
    on unless it is told otherwise.

    How it is measured
    ------------------
    The function is called twice (and more, if the two differ) on the same arrays.

    Remedy
    ------
    Pass the training flag on to every dropout: dropout(weights, p, training=self.training).

    When it stays silent
    --------------------
    Where repeated calls agree to the rounding of their dtype, as kernels that add in any order
    do; and for dropout that the caller asked for.

    References
    ----------
    PyTorch's documentation of torch.nn.functional.dropout (2.0, 2023): training=True by default.
    Cases seen in public: NVIDIA/torch-harmonics#221, pytorch/pytorch#124464.
    """

    code = "RDK707"
    name = "stochastic-in-eval"
    since = "0.1"
    severities = (Severity.ERROR,)
    supersedes = ("RDK109", "RDK303", "RDK402", "RDK708")

    def judge_function(self, behaviour: Behaviour) -> Findings:
        """Yield one finding if the plain call is not repeatable."""
        if behaviour.deterministic is None:
            self.skip("the plain call was not repeated")
        if behaviour.deterministic:
            return
        yield self.finding(
            behaviour,
            Severity.ERROR,
            "2 plain calls on the same arrays give different outputs",
            evidence={"fact": "deterministic"},
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        yield fires_of(
            "dropout that is always on",
            Severity.ERROR,
            behaving(deterministic=False),
            says=("2 plain calls",),
        )
        yield silent_of("a function that repeats itself")
        yield skips_of("nobody called it twice", behaving(deterministic=None))
