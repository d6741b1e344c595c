"""Owns the answers of inference without the nodes that stand for covariates and factors.

Inference takes the covariates of its data as a node (``Fit.evidence_of``), and so does EM. Here
that node is left out of the answer again; the nodes of the network itself come before it.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from asterism.data.statistics import Statistics
from asterism.data.trajectories import Trajectories
from asterism.inference import posterior as inferred
from asterism.inference.posterior import Posterior
from asterism.learning.em.fitting import Fit
from asterism.model.network import Network
from asterism.numerics.arrays import FloatArray


class OwnPosterior(Posterior):
    """A posterior as of the network without these nodes."""

    def __init__(self, whole: Posterior, network: Network) -> None:
        self.__dict__.update(vars(whole))
        self._whole, self.network = whole, network
        self.courses = _OwnCourses(whole.courses, network)

    @cached_property
    def statistics(self) -> Statistics:
        """Summed over the covariates."""
        return _own_statistics(self._whole.statistics, self.network)

    @cached_property
    def accuracy(self) -> Any:
        """That of the whole."""
        return self._whole.accuracy

    @cached_property
    def log_evidence_given_first(self) -> float:
        """That of the whole."""
        return self._whole.log_evidence_given_first


class _OwnCourses:
    """The courses of the network's own nodes."""

    def __init__(self, courses: Any, network: Network) -> None:
        self._courses, self._network = courses, network

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # of a copy that has no courses yet
            raise AttributeError(name)
        return getattr(self._courses, name)

    def marginals(self, trajectory: int, times: FloatArray) -> list[FloatArray]:
        """As the courses it shows."""
        return list(self._courses.marginals(trajectory, times))[: self._network.n_nodes]

    def sample(self, n: int, kind: str, rng: np.random.Generator) -> Trajectories:
        """Paths of these nodes."""
        drawn: Trajectories = self._courses.sample(n, kind, rng)
        return drawn.select(nodes=self._network.nodes)


def _own_statistics(whole: Statistics, network: Network) -> Statistics:
    """Summed over the nodes that were added, which are the first parents."""

    def own(tables: dict[str, FloatArray], node: str) -> FloatArray:
        added = len(whole.parents[node]) - len(network.parents[node])
        return np.asarray(tables[node].sum(axis=tuple(range(added))))

    return Statistics(
        {node: own(whole.dwell_times, node) for node in network.nodes},
        {node: own(whole.transitions, node) for node in network.nodes},
        {node: network.parents[node] for node in network.nodes},
        {node: whole.states[node] for node in network.nodes},
    )


def statistics_of(fit: Fit) -> Statistics:
    """Expected times and transitions of every family at the maximum."""
    expected = fit.outcome.best.expected
    found = inferred.statistics_of(fit.expanded.network, expected.dwell, expected.transitions)
    return _own_statistics(found, fit.network)
