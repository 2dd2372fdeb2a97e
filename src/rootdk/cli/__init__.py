"""The command line: one command per file of this folder."""

from __future__ import annotations

import os
import sys
import warnings

from rootdk.cli._app import build as _build

__all__ = ["main"]


def main() -> None:
    """Run the command line; the entry point of ``rootdk``."""
    if not sys.warnoptions:
        # What libraries warn of is not this tool's answer; python -W shows it.
        warnings.simplefilter("ignore")
    if not sys.stderr.isatty():
        os.environ.setdefault("TQDM_DISABLE", "1")
    _build()()
