"""Sites and numbers for tests of the scale family, and its one verdict in short."""

import struct

from rootdk.records import AttentionSite
from rootdk.rules import ScaleVerdict, classify
from rootdk.rules._examples import Numbers, numbers


def verdict(
    site: AttentionSite,
    summary: Numbers | None = None,
    state: str = "init",
    other_site: AttentionSite | None = None,
) -> ScaleVerdict:
    """The verdict with healthy numbers unless others are given."""
    healthy = numbers() if summary is None else summary
    return classify(site, healthy, state, other_site=other_site)


def as_bfloat16(value: float) -> float:
    """The nearest bfloat16, ties to even."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    bits += 0x7FFF + ((bits >> 16) & 1)
    return struct.unpack("<f", struct.pack("<I", bits & 0xFFFF0000))[0]
