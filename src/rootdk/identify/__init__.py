"""What does this attention function really compute? Probes, a scale law, a datasheet."""

from rootdk.identify._run import identify
from rootdk.identify.adapters import named_targets

__all__ = ["identify", "named_targets"]
