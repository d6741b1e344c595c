"""Owns numbers that compare fits: counts of parameters, AIC, BIC, the likelihood-ratio test."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2

from asterism.errors import ModelError
from asterism.learning.em.fitting import Fit
from asterism.numerics.arrays import IntArray
from asterism.timeline.evidence import Evidence


class LikelihoodRatio(NamedTuple):
    """Twice the difference of the log-likelihoods, against a χ² distribution."""

    statistic: float
    degrees_of_freedom: int
    p_value: float


def n_parameters(fit: Fit) -> int:
    """Numbers that were learned: a row of k probabilities counts k − 1."""
    coordinates, best = fit.task.coordinates, fit.outcome.best.estimate
    return len(coordinates.vector(best)) - int(coordinates.redundant(best).sum())


def starts_are_seen(evidence: Evidence, n_states: IntArray) -> bool:
    """Whether the data show where trajectories start, of the nodes with so many states each.

    Nodes that were added for factors come after them and do not count.
    """
    points, spans = evidence.points, evidence.spans
    seen = np.zeros((evidence.n_trajectories, evidence.n_nodes), dtype=np.bool_)
    seen[:, list(evidence.exogenous)] = True
    at_start = spans.start == evidence.start[spans.trajectory]
    seen[spans.trajectory[at_start], spans.node[at_start]] = True
    rows = np.flatnonzero(points.time == evidence.start[points.trajectory])
    for n, size in enumerate(n_states):
        mine = rows[points.node[rows] == n]
        logs = points.log_likelihood[points.offset[mine][:, None] + np.arange(size)]
        certain = mine[np.isfinite(logs).sum(axis=1) == 1]
        seen[points.trajectory[certain], n] = True
    return bool(seen[:, : len(n_states)].all())


def likelihood_ratio_test(smaller: Any, larger: Any) -> LikelihoodRatio:
    """Whether the larger of two fits is better than chance would make it.

    The smaller model must be the larger one with some parameters fixed, equal or left out, and
    both must be maximum-likelihood fits of the same data.
    """
    for learner in (smaller, larger):
        learner._require_fitted("network_")
        if learner.prior_ is not None:
            raise ModelError("A likelihood-ratio test needs fits without a prior (prior=None).")
    if list(smaller.log_evidence_by_trajectory_.index) != list(
        larger.log_evidence_by_trajectory_.index
    ):
        raise ModelError("The two fits are of different trajectories; fit both to the same data.")
    extra = larger.n_parameters_ - smaller.n_parameters_
    if extra <= 0:
        raise ModelError(
            f"The second fit has {larger.n_parameters_} parameters and the first "
            f"{smaller.n_parameters_}; give the smaller model first."
        )
    statistic = 2.0 * (larger.log_evidence_ - smaller.log_evidence_)
    return LikelihoodRatio(statistic, extra, float(chi2.sf(max(statistic, 0.0), extra)))
