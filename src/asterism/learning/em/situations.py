"""Owns the answers of inference without the nodes that stand for covariates and factors.

Inference takes the covariates of its data as a node (``Fit.with_situations``); ``own_view`` and
``statistics_of`` leave that node out of the answer again.
"""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from asterism.data.statistics import Statistics
from asterism.inference import posterior as inferred
from asterism.inference.posterior import Posterior
from asterism.learning.em.fitting import Fit
from asterism.numerics.arrays import FloatArray


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
    return inferred.statistics_of(network, dwell, transitions)
