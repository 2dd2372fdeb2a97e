"""Dropout on the weights that goes on in evaluation mode."""

import math

import torch
import torch.nn.functional as F
from faults import models_sound as sound
from faults.transformer import Size
from torch import nn

CODE = "RDK607"
TITLE = "dropout in evaluation"


def scale(size: Size) -> float:
    return size.standard


class DropoutFunction(sound.DropoutFunction):
    """``F.dropout`` takes it for training unless it is told otherwise."""

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        weights = scores.softmax(dim=-1)
        weights = F.dropout(weights, self.dropout)  # fault
        return weights @ v


class Causal(sound.Causal):
    dropout = 0.1

    def attend(self, q, k, v):
        scores = q @ k.transpose(-2, -1) / math.sqrt(self.head_dim)
        scores = scores.masked_fill(self.hidden(scores), float("-inf"))
        weights = F.dropout(scores.softmax(dim=-1), self.dropout)  # fault
        return weights @ v


class DropoutModule(sound.DropoutModule):
    """A module made in the forward pass is never told to evaluate."""

    def attend(self, q, k, v):
        scores = torch.einsum("bhqd,bhkd->bhqk", q * self.head_dim**-0.5, k)
        weights = nn.Dropout(self.dropout)(scores.softmax(dim=-1))  # fault
        return torch.einsum("bhqk,bhkd->bhqd", weights, v)


class DropoutSdpa(sound.DropoutSdpa):
    """The fused kernel has no training flag."""

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout)  # fault


class DropoutBmm(sound.Bmm):
    """The function under ``F.dropout``, told that it trains."""

    dropout = 0.1

    def attend(self, q, k, v):
        scores = torch.bmm(q, k.transpose(1, 2))
        scores.div_(math.sqrt(self.head_dim))
        weights = F.softmax(scores, dim=2)
        weights = torch.dropout(weights, self.dropout, train=True)  # fault
        return torch.bmm(weights, v)


class MhaFunctional(sound.MhaFunctional):
    """``training`` is True when it is not given."""

    def forward(self, x):
        x = x.transpose(0, 1)
        x, _ = F.multi_head_attention_forward(x, x, x, **self.arguments())  # fault
        return x.transpose(0, 1)
