"""RDK305."""

from __future__ import annotations

from collections.abc import Iterable
from math import e

from rootdk.records import AttentionSite, Behaviour, Normalisation, Severity
from rootdk.rules._base import Findings, Rule
from rootdk.rules._behaviour_examples import behaving, fires_of, silent_of, skips_of, softened
from rootdk.rules._examples import Example, fires, healthy_site, line, silent


class SoftmaxTwice(Rule):
    """A second softmax is taken of the weights.

    What it does
    ------------
    Finds a softmax whose input is the output of a softmax over the same attention's keys.

    Why it matters
    --------------
    Weights lie between 0 and 1, so that a softmax of them can give no key more than e times
    the weight of another: attention becomes an average, however large the scores grow. Keys
    that the mask had forbidden come back, since exp(0) is 1.

    How it is measured
    ------------------
    Read off the graph: the weights reach a second softmax before they meet the values.

    Of a function alone: however far scores are driven apart, no weight exceeds e times another,
    and the logarithms of weights follow those of a softmax of a softmax.

    Remedy
    ------
    Take the softmax once: drop the second one, or leave the first to the library's call.

    When it stays silent
    --------------------
    Where weights are only divided by their sum again, which is no softmax.

    References
    ----------
    Vaswani et al., 2017, equation 1 (arXiv:1706.03762). A case seen in public: zyy-2001/DisKT#6.
    """

    code = "RDK305"
    name = "softmax-twice"
    since = "0.1"
    severities = (Severity.ERROR,)
    supersedes = ("RDK303", "RDK402", "RDK408", "RDK601", "RDK602", "RDK605")

    def judge_graph(self, site: AttentionSite) -> Findings:
        """Yield one finding if a second softmax follows the first."""
        again = site.normalisation.softmax_again
        if again is None:
            return
        yield self.finding(
            site,
            Severity.ERROR,
            f"a second softmax is taken of the weights: of {site.keys} keys none can get more "
            f"than {e:.3g} times another's weight, {e / (e + site.keys - 1):.3g} at most",
            source=again,
            evidence={"keys": site.keys, "largest_weight_possible": e / (e + site.keys - 1)},
            related=(site.source,) if site.source is not None else (),
        )

    def judge_function(self, behaviour: Behaviour) -> Findings:
        """Yield one finding if the weights of a function are a softmax of weights."""
        softmax = behaviour.softmax
        if softmax is None or softmax.times is None:
            self.skip("how often the softmax is taken was not measured")
        if softmax.times < 2:
            return
        yield self.finding(
            behaviour,
            Severity.ERROR,
            f"the softmax is taken {softmax.times} times: no key can get more than {e:.3g} "
            "times another's weight, however far their scores are apart",
            evidence={"fact": "softmax.times", "times": softmax.times},
        )

    def examples(self) -> Iterable[Example]:
        """Yield what must fire and what must not."""
        yield fires(
            "softmax of a softmax",
            Severity.ERROR,
            site=healthy_site(normalisation=Normalisation(softmax_again=line(15))),
            says=("second softmax", "0.106 at most"),
            line=15,
        )
        yield silent("one softmax")
        yield silent(
            "weights divided by their sum",
            site=healthy_site(normalisation=Normalisation(second_normalisation=True)),
        )
        yield fires_of(
            "a function that takes it twice",
            Severity.ERROR,
            softened(times=2),
            says=("taken 2 times", "2.72"),
        )
        yield silent_of("a function that takes it once")
        yield skips_of("a function that was not driven", behaving(softmax=None))
