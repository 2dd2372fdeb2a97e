"""RDK607."""

from __future__ import annotations

from collections.abc import Iterable

from rootdk.records import AttentionSite, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._examples import Example, fires, healthy_site, line, silent


class DropoutInEval(Rule):
    """Weights are dropped at random although the module is not training.

    What it does
    ------------
    Finds dropout on the weights, at a probability above 0, while the module that runs the
    attention is in evaluation mode.

    Why it matters
    --------------
    Every call gives another output, and all of them are worse than they need be: predictions
    change when they are repeated, and validation is noisy. A functional call takes the
    probability as an argument and knows nothing of the module's mode.

    How it is measured
    ------------------
    Read off the graph: the probability that the dropout operation, or the fused call, was
    given, beside the mode of the module at that moment.

    Remedy
    ------
    Pass the probability only in training: dropout_p=self.dropout if self.training else 0.0.

    When it stays silent
    --------------------
    In training mode, and at a probability of 0.

    References
    ----------
    Srivastava et al., Dropout, 2014, Journal of Machine Learning Research 15. Cases seen in
    public: karpathy/nanoGPT#240, pytorch/pytorch#124464.
    """

    code = "RDK607"
    name = "dropout-in-eval"
    since = "0.1"
    severities = (Severity.ERROR,)
    needs_resolved = False

    def judge_mode(self, site: AttentionSite) -> Findings:
        """Yield one finding if weights are dropped in evaluation mode."""
        if site.training or not site.dropout > 0.0:
            return
        yield self.finding(
            site,
            Severity.ERROR,
            f"weights are dropped with probability {site.dropout:.4g} while the module is in "
            "evaluation mode",
            source=site.dropout_source,
            evidence={"dropout": site.dropout, "training": site.training},
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        yield fires(
            "dropout in evaluation mode",
            Severity.ERROR,
            site=healthy_site(dropout=0.1, dropout_source=line(16)),
            says=("probability 0.1",),
            line=16,
        )
        yield fires(
            "at a site that was not understood",
            Severity.ERROR,
            site=healthy_site(dropout=0.1, unresolved="an unknown operation"),
            summary=None,
            state="trained",
        )
        yield silent("training", site=healthy_site(dropout=0.1, training=True))
        yield silent("no dropout")
