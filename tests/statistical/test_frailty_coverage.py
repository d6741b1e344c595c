"""Does the 95 % interval of how far trajectories differ cover the truth?

Simulated panels of 100 trajectories with a spread of .6, 50 in full: 43 to 50 must cover it.
"""

import os

import pytest

import asterism as am
from tests.reference.frailty import simulated

REDUCED = os.environ.get("ASTERISM_REDUCED") == "1"
SPREAD = 0.6


@pytest.mark.slow
def test_the_interval_of_the_spread_covers_the_truth():
    n_fits = 12 if REDUCED else 50
    covered = []
    for seed in range(n_fits):
        obs = am.Observations.from_frame(simulated(seed, SPREAD, n=60 if REDUCED else 100).table)
        row = am.ParameterLearner({"B": []}, frailty="B").fit(obs).frailty_.iloc[0]
        covered.append(row.lower <= SPREAD <= row.upper)
    print(f"{sum(covered)} of {n_fits} intervals cover the truth")
    assert sum(covered) >= (0.75 if REDUCED else 0.86) * n_fits
