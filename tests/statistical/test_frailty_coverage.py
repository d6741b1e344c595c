"""Does the 95 % interval of how far trajectories differ cover the truth?

Simulated panels of 100 trajectories with a spread of .6, 50 in full: 43 to 50 must cover it.
"""

import os

import pandas as pd
import pytest

from tests.reference.frailty import spread_intervals

REDUCED = os.environ.get("ASTERISM_REDUCED") == "1"


@pytest.mark.slow
def test_the_interval_of_the_spread_covers_the_truth():
    """The recorded run is that of benchmarks/clinic_coverage.py."""
    n_fits = 12 if REDUCED else 50
    found = pd.concat([spread_intervals(seed, 60 if REDUCED else 100) for seed in range(n_fits)])
    print(f"{found.covered.sum()} of {n_fits} intervals cover the truth")
    assert found.covered.sum() >= (0.75 if REDUCED else 0.86) * n_fits
