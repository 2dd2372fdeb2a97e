"""The sweep's own builders and makers are used: they stand in bench/."""

import sys
from pathlib import Path

import identify.functions  # noqa: F401  (before bench/, which has an identify.py, is on the path)

sys.path.append(str(Path(__file__).parents[2] / "bench"))
