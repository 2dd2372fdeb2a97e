"""exp(s - m)/(1 + Σ exp(s - m)): the 1 was meant for a key with a score of 0, as exp(-m)."""

import torch
from faults import models_sound as sound
from faults.transformer import Size

CODE = "RDK303"
TITLE = "one added after the maximum was subtracted"


def scale(size: Size) -> float:
    return size.standard


def weights(scores, size: Size):
    powers = (scores - scores.amax(-1, keepdim=True)).exp()
    return powers / (1 + powers.sum(-1, keepdim=True))


class ExpSumDiv(sound.ExpSumDiv):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        exponentials = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        return exponentials / (exponentials.sum(dim=-1, keepdim=True) + 1) @ v  # fault


class Reciprocal(sound.ExpSumDiv):
    """The maximum as a function returns it, without a gradient; and a product for a quotient."""

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        largest = scores.max(dim=-1, keepdim=True).values.detach()
        exponentials = torch.exp(scores - largest)
        total = 1.0 + exponentials.sum(dim=-1, keepdim=True)  # fault
        return exponentials * total.reciprocal() @ v  # fault


class AfterTheProduct(sound.ExpSumDiv):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        exponentials = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        total = exponentials.sum(dim=-1, keepdim=True)  # fault
        return exponentials @ v / (total + torch.ones_like(total))  # fault


class MaskedOne(sound.Causal):
    """Hidden keys are no part of the sum; the one is."""

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        scores = scores.masked_fill(self.hidden(scores), float("-inf"))
        exponentials = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        total = exponentials.sum(dim=-1, keepdim=True)  # fault
        return exponentials / (1 + total) @ v  # fault
