"""Fused calls that drop weights: verified on the same call without it, the run left as it was."""

import pytest
import torch
import torch.nn.functional as F
from frontends.test_met_in_the_wild import LENGTH, SCALE, WIDTH, Attention

import rootdk
from rootdk.frontends import trace
from rootdk.frontends._sites.call import Call
from rootdk.frontends._sites.recording import Recording
from rootdk.frontends._torch import fused


@pytest.fixture(autouse=True)
def faults_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the tracer fails the test instead of costing a site."""
    monkeypatch.setattr(Recording, "strict", True)


class Dropping(Attention):
    """torch's own call, whose dropout is on; in inference mode it is one operator."""

    def __init__(self, **options) -> None:
        super().__init__()
        self.options = options
        self.last: torch.Tensor | None = None

    def attend(self, q, k, v):
        self.last = F.scaled_dot_product_attention(q, k, v, dropout_p=0.3, **self.options)
        return self.last


def checked(seed: int, **options):
    torch.manual_seed(seed)
    model, x = Dropping(**options).train(), torch.randn(2, LENGTH, WIDTH)
    with torch.inference_mode():
        found = trace(model, (x,), seed=seed)
        seen = model.last
        torch.manual_seed(seed)
        model(x)
    (site,) = found.sites
    return site, seen, model.last


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.5}], ids=str)
def test_a_call_with_dropout_is_compared(options: dict, seed: int) -> None:
    site, _, _ = checked(seed, **options)
    assert site.spelling == "scaled_dot_product_attention"
    assert site.unresolved is None
    assert site.verification.rows == 32
    assert site.dropout == 0.3
    assert site.effective_scale == pytest.approx(options.get("scale", SCALE))


def test_what_it_drops_is_what_it_would_have_dropped(seed: int) -> None:
    _, seen, alone = checked(seed)
    torch.testing.assert_close(seen, alone, rtol=0, atol=0)


def test_a_call_that_cannot_be_repeated_is_unresolved(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_):
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(fused, "_without_dropout", refuse)
    site, _, _ = checked(seed)
    assert "nothing was compared" in str(site.unresolved)


def test_a_wrong_reading_of_a_call_with_dropout_is_refused(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tracer that took the scale for another: the numbers refuse it, dropout or not."""

    def doubled(query, key, value, scale, **others):
        return Call(query, key, value, 2.0 * scale, **others)

    monkeypatch.setattr(fused, "Call", doubled)
    site, _, _ = checked(seed)
    assert "recomputed output differs" in str(site.unresolved)


def test_the_share_is_read_where_the_library_takes_the_call_apart(seed: int) -> None:
    torch.manual_seed(seed)
    diagnosis = rootdk.check(Dropping().train(), torch.randn(2, LENGTH, WIDTH))
    (site,) = diagnosis.sites
    assert site.spelling == "softmax"
    assert site.dropout == 0.3
