"""The exponential of the scores as they are: right for small scores, inf/inf for large ones."""

import torch
import torch.nn.functional as F
from faults import models_sound as sound
from faults.transformer import Size

CODE = "RDK302"
TITLE = "unstable exponentials"


def scale(size: Size) -> float:
    return size.standard


class ExpSumDiv(sound.ExpSumDiv):
    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        exponentials = torch.exp(scores)  # fault
        weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
        return weights @ v


class ExpNormalize(sound.ExpNormalize):
    def attend(self, q, k, v):
        scores = torch.einsum("bhid,bhjd->bhij", q, k) * self.head_dim**-0.5
        exponentials = scores.exp()  # fault
        weights = F.normalize(exponentials, p=1.0, dim=-1)
        return torch.einsum("bhij,bhjd->bhid", weights, v)


class ExpCausal(sound.Causal):
    """The exponential of -inf is 0, which makes the mask right and nothing stable."""

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) * self.head_dim**-0.5
        scores = scores.masked_fill(self.hidden(scores), float("-inf"))
        exponentials = torch.exp(scores)  # fault
        weights = exponentials / exponentials.sum(dim=-1, keepdim=True)
        return weights @ v


class ExpInPlace(sound.ExpInPlace):
    def attend(self, q, k, v):
        scores = torch.bmm(q * self.head_dim**-0.5, k.mT)
        scores.exp_()  # fault
        scores.div_(scores.sum(dim=-1, keepdim=True))
        return torch.bmm(scores, v)


class ExpBothSides(sound.BothSides):
    """Fourth roots on q and k, and a sum that drops its axis."""

    def attend(self, q, k, v):
        scores = (q * self.scale) @ (k * self.scale).transpose(-2, -1)
        exponentials = torch.exp(scores)  # fault
        weights = exponentials / exponentials.sum(-1)[..., None]
        return weights @ v
