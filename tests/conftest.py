"""What every test can rely on: nothing is fetched, and all randomness comes from the test's id."""

import os
import random
import sys
import zlib

# Before any framework is imported: model files come from installed packages only, and
# workers that share the cores do not each start a thread on every one of them.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
import numpy as np
import pytest

# Examples follow from the test itself: a red run is red again. To look further than the
# fixed examples, run `pytest --hypothesis-profile=explore`.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
hypothesis.settings.register_profile("explore", deadline=None, max_examples=1000)
hypothesis.settings.load_profile("ci")


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """A 32-bit seed that belongs to this test, each parametrisation its own."""
    return zlib.crc32(request.node.nodeid.encode())


@pytest.fixture
def rng(seed: int) -> np.random.Generator:
    """A NumPy generator seeded from the test's id."""
    return np.random.default_rng(seed)


@pytest.fixture(autouse=True)
def seeded_globals(seed: int) -> None:
    """Seed the global generators, so that no test depends on which ran before it."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - the legacy generator is what is being seeded
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(seed)
