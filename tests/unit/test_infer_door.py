"""``am.infer`` itself: what it refuses, in which words, and when it warns."""

from __future__ import annotations

import warnings

import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

import asterism as am
from asterism.errors import AsterismError


def case() -> tuple[am.Network, am.Observations, am.Gaussian]:
    network = am.glauber("ring:3", a=1.0, b=0.5)
    noise = am.Gaussian((-1, 1), 0.5)
    paths = am.simulate(network, 2, duration=3.0, seed=1)
    return network, am.observe(paths, noise, n_observations=3, seed=2), noise


def test_a_table_is_refused_with_the_remedy() -> None:
    network, _, noise = case()
    with pytest.raises(AsterismError, match=r"obs is a DataFrame.*Observations\.from_frame"):
        am.infer(network, pd.DataFrame({"time": [0.0]}), noise)


def test_unknown_options_are_named_with_the_valid_ones() -> None:
    with pytest.raises(AsterismError, match=r"no option 'toleranc' for 'star'.*tolerance"):
        am.infer(*case(), toleranc=1e-3)
    with pytest.raises(AsterismError, match="no option 'joint_limit' for 'mean_field'"):
        am.infer(*case(), method="mean_field", joint_limit=10)
    assert am.infer(*case(), method="exact", joint_limit=1000).converged


def test_threads_must_be_a_number() -> None:
    with pytest.raises(AsterismError, match="n_jobs is 'two'; valid are 1, 2"):
        am.infer(*case(), n_jobs="two")


def test_what_did_not_settle_is_warned_of() -> None:
    with pytest.warns(ConvergenceWarning, match="had not converged after 1 sweep"):
        posterior = am.infer(*case(), max_sweeps=1)
    assert not posterior.converged
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert am.infer(*case()).converged
