"""Models that return nothing, or something that has yet to run: said, and not as silence."""

import jax.numpy as jnp
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import rootdk
from rootdk._lib.errors import ArgumentError

X = torch.ones(2, 5, 8)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.project = nn.Linear(8, 24)

    def attend(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.project(x).chunk(3, -1)
        return F.scaled_dot_product_attention(q, k, v)


class Generator(Attention):
    def forward(self, x):
        yield self.attend(x)


class Mapped(Attention):
    def forward(self, x):
        return map(self.attend, [x])


class Awaited(Attention):
    async def forward(self, x):
        return self.attend(x)


class AwaitedParts(Attention):
    async def forward(self, x):
        yield self.attend(x)


class Forgetful(Attention):
    def forward(self, x):
        self.project(x)


class ForgetfulAfterAll(Attention):
    def forward(self, x):
        self.attend(x)


class Streaming(Attention):
    def forward(self, x):
        y = self.attend(x)
        return (part for part in y)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Generator, "Generator returned a generator, of which nothing has run"),
        (Mapped, r"Mapped returned an iterator \(map\), of which nothing has run"),
        (Awaited, "Awaited returned a coroutine, of which nothing has run"),
        (AwaitedParts, "AwaitedParts returned an asynchronous iterator, of which nothing has run"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_has_not_run_is_refused(model: type[Attention], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        rootdk.check(model(), X)


def test_what_ran_before_it_is_judged_and_the_rest_is_said() -> None:
    diagnosis = rootdk.check(Streaming(), X)
    assert len(diagnosis.sites) == 1
    assert any("when it is read was not run" in remark for remark in diagnosis.remarks)


def test_nothing_returned_and_nothing_found_is_said() -> None:
    assert "Forgetful returned None: does it end with a return?" in (
        rootdk.check(Forgetful(), X).remarks
    )
    diagnosis = rootdk.check(ForgetfulAfterAll(), X)
    assert len(diagnosis.sites) == 1
    assert diagnosis.remarks == ()


def test_the_same_of_functions_of_jax() -> None:
    def forgetful(w, x):
        x @ w

    def generator(w, x):
        yield x @ w

    async def awaited(w, x):
        return x @ w

    given = jnp.ones((8, 8)), jnp.ones((2, 5, 8))
    assert any("forgetful returned None" in r for r in rootdk.check(forgetful, *given).remarks)
    for function in (generator, awaited):
        with pytest.raises(ArgumentError, match=f"{function.__name__} returned a "):
            rootdk.check(function, *given)
