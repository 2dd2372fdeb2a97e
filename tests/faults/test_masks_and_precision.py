"""Faults around the mask, the sum and the dtype: each spelling gets its code at its line."""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from lookalikes.design import Design

import rootdk

Attend = Callable[[Design, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
FAULTS: dict[str, tuple[str, str, Attend]] = {}


def fault(code: str, severity: str = "error") -> Callable[[Attend], Attend]:
    """Enter an attention with the one code that it must get."""

    def enter(attend: Attend) -> Attend:
        FAULTS[attend.__name__] = (code, severity, attend)
        return attend

    return enter


def scores_of(self: Design, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return q @ k.mT / math.sqrt(self.head_dim)


def future(self: Design) -> torch.Tensor:
    """True where a key lies in the future."""
    return torch.ones(self.length, self.length, dtype=torch.bool).triu(1)


@fault("RDK402")
def boolean_added_as_a_number(self, q, k, v):
    scores = scores_of(self, q, k)
    scores = scores + future(self)  # fault
    return scores.softmax(-1) @ v


@fault("RDK402")
def exponent_with_the_wrong_sign(self, q, k, v):
    scores = scores_of(self, q, k)
    scores = scores.masked_fill(future(self), -1e-9)  # fault
    return scores.softmax(-1) @ v


@fault("RDK402")
def tiny_number_added(self, q, k, v):
    hidden = future(self).float() * -1e-9
    scores = scores_of(self, q, k)
    scores = scores + hidden  # fault
    return scores.softmax(-1) @ v


@fault("RDK402")
def mask_multiplied_into_the_scores(self, q, k, v):
    scores = scores_of(self, q, k)
    scores = scores * (~future(self)).float()  # fault
    return scores.softmax(-1) @ v


@fault("RDK402")
def fill_that_scores_fall_below(self, q, k, v):
    scores = scores_of(self, q, k)
    scores = torch.where(future(self), torch.full((), -2.0), scores)  # fault
    return scores.softmax(-1) @ v


@fault("RDK402")
def mask_with_the_wrong_sign(self, q, k, v):
    hidden = future(self).float() * 1e9
    scores = scores_of(self, q, k)
    scores = scores + hidden  # fault
    return scores.softmax(-1) @ v


@fault("RDK402")
def mask_subtracted_with_the_wrong_sign(self, q, k, v):
    hidden = future(self).float() * -1e9
    scores = scores_of(self, q, k)
    scores = scores - hidden  # fault
    return scores.softmax(-1) @ v


@fault("RDK402")
def ones_and_zeros_added(self, q, k, v):
    visible = torch.ones(self.length, self.length).tril()
    scores = scores_of(self, q, k)
    scores = scores + visible  # fault
    return scores.softmax(-1) @ v


@fault("RDK402")
def ones_and_zeros_for_the_kernel(self, q, k, v):
    visible = torch.ones(self.length, self.length).tril()
    return F.scaled_dot_product_attention(q, k, v, attn_mask=visible)  # fault


@fault("RDK403", "warning")
def one_key_of_the_future(self, q, k, v):
    hidden = torch.ones(self.length, self.length, dtype=torch.bool).triu(2)
    scores = scores_of(self, q, k)
    scores = scores.masked_fill(hidden, -torch.inf)  # fault
    return scores.softmax(-1) @ v


@fault("RDK403", "warning")
def last_queries_see_the_first_keys(self, q, k, v):
    return F.scaled_dot_product_attention(  # fault
        q[:, :, -2:], k, v, is_causal=True
    ).repeat_interleave(self.length, 2)[:, :, : self.length]


@fault("RDK403", "warning")
def last_queries_and_a_mask_for_the_first(self, q, k, v):
    hidden = torch.ones(3, self.length, dtype=torch.bool).triu(1)
    scores = scores_of(self, q[:, :, -3:], k)
    scores = scores.masked_fill(hidden, -torch.inf)  # fault
    return (scores.softmax(-1) @ v).repeat_interleave(self.length, 2)[:, :, : self.length]


@fault("RDK404", "warning")
def future_alone(self, q, k, v):
    scores = scores_of(self, q, k)
    scores = scores.masked_fill(~future(self), -torch.inf)  # fault
    return scores.softmax(-1) @ v


@fault("RDK404", "warning")
def future_alone_for_the_kernel(self, q, k, v):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=future(self))  # fault


@fault("RDK405")
def mask_scaled_inside_the_product(self, q, k, v):
    hidden = (future(self).float() * -1e4).expand(self.batch * self.heads, -1, -1)
    q, k, v = (t.flatten(0, 1) for t in (q, k, v))
    scores = torch.baddbmm(hidden, q, k.mT, beta=0.25, alpha=0.25)  # fault
    return (scores.softmax(-1) @ v).unflatten(0, (self.batch, self.heads))


@fault("RDK405")
def mask_scaled_with_the_scores(self, q, k, v):
    hidden = future(self).float() * -1e4
    scores = q @ k.mT + hidden  # fault
    return (scores / math.sqrt(self.head_dim)).softmax(-1) @ v


@fault("RDK406")
def mask_multiplied_into_the_weights(self, q, k, v):
    weights = scores_of(self, q, k).softmax(-1)
    weights = weights * (~future(self)).float()  # fault
    return weights @ v


@fault("RDK406")
def weights_cut_to_a_triangle(self, q, k, v):
    weights = scores_of(self, q, k).softmax(-1)
    weights = weights.tril()  # fault
    return weights @ v


@fault("RDK406")
def weights_filled_with_zero(self, q, k, v):
    weights = scores_of(self, q, k).softmax(-1)
    weights = weights.masked_fill(future(self), 0.0)  # fault
    return weights @ v


@fault("RDK401", "warning")
def rows_without_a_key(self, q, k, v):
    hidden = torch.zeros(self.length, self.length, dtype=torch.bool)
    hidden[3] = True
    scores = scores_of(self, q, k).masked_fill(hidden, -torch.inf)
    return scores.softmax(-1) @ v  # fault


@fault("RDK301")
def keys_before_queries(self, q, k, v):
    scores = k @ q.mT / math.sqrt(self.head_dim)
    return scores.softmax(-1).mT @ v  # fault


@fault("RDK301")
def over_the_batch(self, q, k, v):
    return scores_of(self, q, k).softmax(0) @ v  # fault


@fault("RDK301")
def over_an_axis_of_one_head(self, q, k, v):
    q, k, v = (t[:, :1] for t in (q, k, v))
    weights = scores_of(self, q, k).softmax(1)  # fault
    return (weights @ v).repeat_interleave(self.heads, 1)


@fault("RDK301")
def over_the_one_query_of_a_step(self, q, k, v):
    weights = scores_of(self, q[:, :, -1:], k).softmax(-2)  # fault
    return (weights @ v).repeat_interleave(self.length, 2)


@fault("RDK304", "warning")
def exponentials_and_sum_in_half(self, q, k, v):
    scores = scores_of(self, q, k).half()
    exponentials = torch.exp(scores - scores.amax(-1, keepdim=True))  # fault
    weights = exponentials / exponentials.sum(-1, keepdim=True)
    return weights.float() @ v


@fault("RDK303")
def logarithms_of_weights(self, q, k, v):
    weights = F.log_softmax(scores_of(self, q, k), -1)  # fault
    return weights @ v


@fault("RDK410", "warning")
def rotated_queries_alone(self, q, k, v):
    rates = 100 ** -(torch.arange(0, self.head_dim, 2) / self.head_dim)
    angles = torch.outer(torch.arange(self.length), rates).repeat(1, 2)
    one, two = q.chunk(2, -1)
    q = q * angles.cos() + torch.cat([-two, one], -1) * angles.sin()
    scores = q @ k.mT / 4  # fault
    return scores.softmax(-1) @ v


@fault("RDK502", "warning")
def heads_attend_to_heads(self, q, k, v):
    q, k, v = (t.transpose(1, 2) for t in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v).transpose(1, 2)  # fault


@fault("RDK502", "warning")
def reshaped_without_a_transpose(self, q, k, v):
    q, k, v = (t.transpose(1, 2).reshape(t.shape) for t in (q, k, v))
    scores = q @ k.mT / 4  # fault
    return scores.softmax(-1) @ v


@fault("RDK108")
def zero(self, q, k, v):
    return (q @ k.mT * 0.0).softmax(-1) @ v  # fault


@fault("RDK108")
def negative(self, q, k, v):
    return (q @ k.mT * -0.25).softmax(-1) @ v  # fault


@fault("RDK607")
def dropout_of_the_weights(self, q, k, v):
    weights = scores_of(self, q, k).softmax(-1)
    return F.dropout(weights, 0.1) @ v  # fault


def line_of(attend: Attend) -> int:
    """The line of the file that carries the marker."""
    with open(__file__, encoding="utf-8") as file:
        lines = file.readlines()
    first = attend.__code__.co_firstlineno
    return next(n for n, text in enumerate(lines, 1) if n > first and text.endswith("# fault\n"))


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_gets_its_code_at_its_line(name: str, seed: int) -> None:
    code, severity, attend = FAULTS[name]
    torch.manual_seed(seed)
    model = type(name, (Design,), {"attend": attend})().eval()
    diagnosis = rootdk.check(model, *model.inputs())
    loud = [f for f in diagnosis.findings if f.severity != "note"]
    assert {(f.code, f.severity.value) for f in loud} == {(code, severity)}
    (finding,) = loud
    assert finding.source is not None
    assert finding.source.frames[0].file == __file__
    assert finding.source.frames[0].line == line_of(attend)


def half_scores(gain: float, *, inside: bool) -> type[Design]:
    """Attention in float16 whose entries are ``gain`` times as large and scaled back after."""

    class Half(Design):
        def attend(self, q, k, v):
            q, k = q * gain, k * gain
            scale = 0.25 / gain**2
            if inside:
                q, k, v = (t.flatten(0, 1) for t in (q, k, v))
                scores = torch.baddbmm(q.new_zeros(()), q, k.mT, beta=0, alpha=scale)
                return (scores.softmax(-1) @ v).unflatten(0, (self.batch, self.heads))
            return (q @ k.mT * scale).softmax(-1) @ v

    return Half


@pytest.mark.parametrize(
    ("gain", "expected"), [(1.0, None), (24.0, "warning"), (120.0, "error")], ids=str
)
def test_a_product_that_float16_cannot_hold_is_seen_before_it_is_scaled(
    gain: float, expected: str | None
) -> None:
    torch.manual_seed(0)
    model = half_scores(gain, inside=False)().eval().half()
    diagnosis = rootdk.check(model, *(x.half() for x in model.inputs()))
    found = [f.severity.value for f in diagnosis.findings if f.code == "RDK307"]
    assert found == ([expected] if expected else [])
    # What overflowed is said once, by its cause.
    assert "RDK606" not in {f.code for f in diagnosis.findings}


def test_a_factor_inside_the_product_keeps_its_result_small() -> None:
    torch.manual_seed(0)
    model = half_scores(60.0, inside=True)().eval().half()
    (site,) = rootdk.check(model, *(x.half() for x in model.inputs())).sites
    assert site.resolved
    assert site.observed.largest_raw_score is not None
    assert site.observed.largest_raw_score < 100.0
