"""Networks whose rates are to be found again: drawn, simulated, observed with noise.

Shared by the statistical test and by the benchmark that writes the table in the documents.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import asterism as am

#: nodes, states of each, seed
Case = tuple[int, tuple[int, ...], int]
REDUCED_CASES: list[Case] = [(3, (2, 2, 2), 0), (5, (2, 2, 2, 2, 2), 1)]
CASES: list[Case] = [
    *REDUCED_CASES,
    (3, (3, 3, 3), 0),
    (5, (2, 2, 2, 2, 2), 2),
    (5, (2, 3, 2, 3, 2), 3),
]
N_TRAJECTORIES, DURATION, N_OBSERVATIONS, SCALE = 200, 8.0, 20, 0.5


def simulated(case: Case) -> tuple[am.Network, dict[str, am.Gaussian], am.Observations]:
    """The true network, how it is seen, and what was seen."""
    n_nodes, n_states, seed = case
    network = am.random_network(n_nodes=n_nodes, n_states=list(n_states), max_parents=2, seed=seed)
    emission = {
        node: am.Gaussian(means=tuple(2.0 * np.arange(size)), scale=SCALE)
        for node, size in zip(network.nodes, n_states)
    }
    paths = am.simulate(network, N_TRAJECTORIES, duration=DURATION, seed=seed + 10)
    # common times: equal gaps are solved once, so that exact inference stays quick
    times = np.sort(np.random.default_rng(seed).uniform(0.0, DURATION, N_OBSERVATIONS))
    return network, emission, am.observe(paths, emission, times=times, seed=seed + 20)


def true_rates(learner: am.ParameterLearner, network: am.Network) -> np.ndarray[Any, Any]:
    """In the order of the rows of ``rate_intervals_``, looked up by their labels."""
    table = learner.rate_intervals_
    found = []
    for row in table.to_dict("records"):
        node = row["node"]
        above = dict(item.split("=") for item in row["configuration"].split(", ") if item)
        names = {p: [str(s) for s in network.states[p]] for p in network.parents[node]}
        where = tuple(names[p].index(above[p]) for p in network.parents[node])
        states = list(network.states[node])
        found.append(network.rates[node][where][states.index(row["from"]), states.index(row["to"])])
    return np.array(found)


def standardised_errors(learner: am.ParameterLearner, network: am.Network) -> np.ndarray[Any, Any]:
    """(ln estimate − ln truth) / standard error of ln R; a rate found to be zero by its limit.

    Infinite where there is no standard error, so that it never counts as close to the truth.
    """
    table = learner.rate_intervals_
    true = true_rates(learner, network)
    at_zero = table.note.str.startswith("at zero").to_numpy()
    inside = np.log(np.maximum(table.rate, 1e-300) / true) * table.rate / table.se
    found = np.where(at_zero, np.sqrt(true / table.se), inside)
    return np.where(np.isfinite(table.se), found, np.inf)
