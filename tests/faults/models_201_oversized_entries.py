"""Entries of standard deviation 2 in q and k: the scale is right and the spread is 4.

No line is guilty: it is the projections' gain, or the size of what they are given.
"""

from faults import models_sound as sound
from faults.transformer import Size

CODE = "RDK201"
TITLE = "entries of size 2"


def scale(size: Size) -> float:
    return size.standard


class MatmulGain(sound.Matmul):
    entry_std = 2.0


class EinsumGain(sound.Einsum):
    entry_std = 2.0


class SdpaGain(sound.Sdpa):
    entry_std = 2.0


class BaddbmmGain(sound.Baddbmm):
    entry_std = 2.0


class BothSidesGain(sound.BothSides):
    entry_std = 2.0


class MhaGain(sound.Mha):
    entry_std = 2.0


class MatmulInput(sound.Matmul):
    """The projections are as they should be; what they are given is too large."""

    input_std = 2.0
    boost = 1.0

    def forward(self, x):
        return super().forward(x * self.boost)


class SdpaInput(sound.Sdpa):
    """The same with a fused kernel."""

    input_std = 2.0
    boost = 1.0

    def forward(self, x):
        return super().forward(x * self.boost)
