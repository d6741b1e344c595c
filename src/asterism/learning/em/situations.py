"""Owns the fitted network at given covariates: of one person, or of the data of many.

``network_for`` is the network at some values of the covariates, for anything that follows from
rates. Inference takes the covariates of its data as a node (``Fit.with_situations``);
``own_view`` and ``statistics_of`` leave that node out of the answer again.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from typing import Any

import numpy as np

from asterism.data.measurements import objects
from asterism.data.statistics import Statistics
from asterism.errors import ModelError
from asterism.inference.posterior import Posterior
from asterism.learning.em.estimate import Estimate
from asterism.learning.em.fitting import Fit
from asterism.model.network import Network
from asterism.timeline.evidence import FloatArray


def standardised(fit: Fit, covariates: Mapping[str, Any] | None) -> FloatArray:
    """Covariates of one person as the numbers of the model; the reference where none is given."""
    columns = fit.model.columns
    known = dict.fromkeys(c.covariate for c in columns)
    given = dict(covariates or {})
    for name in given:
        if name not in known:
            listed = ", ".join(known) or "none"
            raise ModelError(f"There is no covariate {name!r} in this fit; there are: {listed}.")
    return np.array(
        [
            float(c.standardised(objects([given[c.covariate]]))[0]) if c.covariate in given else 0.0
            for c in columns
        ]
    )


def network_for(fit: Fit, estimate: Estimate, covariates: Mapping[str, Any] | None) -> Network:
    """The network without covariates, at these values of them."""
    return fit.network_for(estimate, standardised(fit, covariates))


def own_view(fit: Fit, posterior: Posterior) -> Posterior:
    """The posterior as of the network without covariates; for courses and marginals only."""
    if posterior.network.n_nodes == fit.network.n_nodes:
        return posterior
    view = copy(posterior)
    view.network = fit.network
    view.courses = _OwnCourses(posterior.courses, fit.network.n_nodes)
    return view


class _OwnCourses:
    """The courses of the first nodes only."""

    def __init__(self, courses: Any, n_nodes: int) -> None:
        self._courses, self._n_nodes = courses, n_nodes

    def marginals(self, trajectory: int, times: FloatArray) -> list[FloatArray]:
        """As the courses it shows."""
        return list(self._courses.marginals(trajectory, times))[: self._n_nodes]

    def sample(self, n: int, kind: str, rng: np.random.Generator) -> Any:
        """Paths, those of the covariates among them."""
        return self._courses.sample(n, kind, rng)


def statistics_of(fit: Fit) -> Statistics:
    """Expected times and transitions of every family, summed over the covariates."""
    expected, network = fit.outcome.best.expected, fit.network
    graph = network.compiled.graph
    transitions, dwell = expected.transitions, expected.dwell
    if fit.expanded.network is not network:
        larger = fit.expanded.network.compiled.graph
        moves, time = [], []
        for n in range(graph.n_nodes):
            width, size = np.diff(graph.table_start)[n], np.diff(graph.dwell_start)[n]
            own = slice(*larger.dwell_start[n : n + 2])
            moves.append(transitions[larger.place(n)].reshape(-1, width).sum(axis=0))
            time.append(dwell[own].reshape(-1, size).sum(axis=0))
        transitions, dwell = np.concatenate(moves), np.concatenate(time)
    return Statistics.from_flat(
        network.nodes, network.parents, graph, dwell, transitions, network.states
    )
