"""Learning from joint measurements: those whose likelihood factorises are two single ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asterism as am
from tests.paper_settings import paper_learner

LEVELS, SCALE = np.array([-1.0, 1.0]), 0.6
NOISE = am.Gaussian(tuple(LEVELS), SCALE)
STATES = {"a": ["0", "1"], "b": ["0", "1"]}


@pytest.fixture(scope="module")
def network() -> am.Network:
    return am.glauber({"a": [], "b": ["a"], "c": ["b"]})


@pytest.fixture(scope="module")
def seen(network: am.Network) -> am.Observations:
    paths = am.simulate(network, 8, duration=5.0, seed=2)
    return am.observe(paths, NOISE, n_observations=8, seed=3)


@pytest.fixture(scope="module")
def read_together(seen: am.Observations) -> tuple[am.Observations, am.Joint]:
    """The same data with a and b in one column, which holds the number of the row."""
    table = seen.to_frame()
    pairs = table[["a", "b"]].to_numpy(dtype=float)

    def log_likelihood(row: Any) -> Any:
        a, b = (-0.5 * ((value - LEVELS) / SCALE) ** 2 for value in pairs[int(row)])
        return a[:, None] + b

    table["both"] = np.arange(len(table))
    columns = ["trajectory", "time", "both", "c"]
    read = am.Observations.from_frame(table[columns], start=0.0, end=5.0)
    return read, am.Joint(("a", "b"), log_likelihood, "both")


@pytest.mark.parametrize("as_list", [False, True], ids=["dictionary", "list"])
def test_structure(
    seen: am.Observations, read_together: tuple[am.Observations, am.Joint], as_list: bool
) -> None:
    read, joint = read_together
    options: dict[str, Any] = {"max_parents": 1, "search": "exhaustive", "n_jobs": 1}
    options |= {"prior": am.GammaPrior(5.0, 5.0)}
    single = paper_learner(NOISE, **options).fit(seen)
    emission = [joint, NOISE] if as_list else {"both": joint, "c": NOISE}
    together = paper_learner(emission, states=STATES, **options).fit(read)
    nodes = ["a", "b", "c"]
    assert sorted(together.edge_probabilities_) == nodes
    np.testing.assert_allclose(
        together.edge_probabilities_.loc[nodes, nodes], single.edge_probabilities_, atol=1e-3
    )


def test_rates(
    network: am.Network,
    seen: am.Observations,
    read_together: tuple[am.Observations, am.Joint],
) -> None:
    read, joint = read_together
    options: dict[str, Any] = {
        "method": "exact",
        "prior": am.GammaPrior(2.0, 2.0),
        "stop_gain": 1e-9,
    }
    single = am.ParameterLearner(network.graph, NOISE, **options).fit(seen)
    together = am.ParameterLearner(network.graph, [joint, NOISE], states=STATES, **options)
    together.fit(read)
    # the joint likelihood was given without the constant of the Gaussian
    constant = 2 * len(seen.to_frame()) * np.log(SCALE * np.sqrt(2.0 * np.pi))
    assert together.log_evidence_ - constant == pytest.approx(single.log_evidence_, abs=1e-4)
    for node in network.nodes:
        np.testing.assert_allclose(
            together.network_.rates[node], single.network_.rates[node], rtol=1e-3
        )


def test_columns_that_joint_measurements_cannot_read(
    network: am.Network, read_together: tuple[am.Observations, am.Joint]
) -> None:
    read, joint = read_together
    typo = am.Joint(("a", "b"), joint.log_likelihood, "btoh")
    twice = [joint, am.Joint(("b", "c"), joint.log_likelihood, "both"), NOISE]
    learner = paper_learner([typo, NOISE], states=STATES)
    with pytest.raises(am.errors.DataError, match=r"'btoh', which the data do not have; there are"):
        learner.fit(read)
    with pytest.raises(am.errors.DataError, match="'btoh', which the data do not have"):
        am.infer(network, read, {"btoh": typo, "c": NOISE})
    with pytest.raises(am.errors.ModelError, match="Two joint measurements read the column 'both'"):
        paper_learner(twice, states=STATES).fit(read)


def test_a_list_of_one_emission_is_that_emission(seen: am.Observations) -> None:
    options: dict[str, Any] = {"max_parents": 1, "n_jobs": 1}
    one = paper_learner(NOISE, **options).fit(seen)
    listed = paper_learner([NOISE], **options).fit(seen)
    parts = [{"a": NOISE}, {"b": NOISE, "c": NOISE}]
    split = paper_learner(parts, **options).fit(seen)
    for other in (listed, split):
        np.testing.assert_array_equal(one.edge_probabilities_, other.edge_probabilities_)
