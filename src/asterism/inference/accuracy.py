"""How far an approximate answer may be off: solve again by a better method and compare.

The better method is exact inference where the network is small enough, otherwise clusters: for the
star and mean field with their usual size, for clusters with larger ones. The change is an
indication of the error, not a guarantee; two approximations can share a mistake.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from asterism.clusters.regions import find_regions
from asterism.clusters.solve import solve as solve_by_clusters
from asterism.errors import AsterismError, TooLargeError
from asterism.exact.exact_posterior import solve as solve_exactly
from asterism.exact.joint_layout import components
from asterism.inference.posterior import Posterior

#: joint states up to which exact inference is the better method
_EXACT_STATES = 1024
_LARGER = 2  # nodes that larger clusters may have more
_N_TIMES = 21
#: share of the transitions from which the star is called off
WARN_TRANSITIONS = 0.05


@dataclass(frozen=True)
class Accuracy:
    """Changes from an answer to a better one."""

    method: str
    compared_with: str
    log_evidence: float
    """Its value minus the better one's, all trajectories together."""
    transitions: float
    """Σ |change| / Σ of the expected transitions."""
    dwell_times: float
    marginals: float
    """Largest change of a probability."""
    is_off: bool
    """Whether transitions change by more than 5 %."""

    def __str__(self) -> str:
        if self.compared_with == self.method == "exact":
            return "Exact inference: no error of approximation."
        text = (
            f"Against {self.compared_with}: log evidence {self.log_evidence:+.2g}, expected "
            f"transitions off by {self.transitions:.1%}, times by {self.dwell_times:.1%}, "
            f"probabilities by at most {self.marginals:.2g}."
        )
        if self.is_off:
            text += f" Do not trust transitions and rates from {self.method!r} here."
        return text


def measure(posterior: Posterior) -> Accuracy:
    """Compare a posterior with a better one."""
    if posterior.method == "exact":
        return Accuracy("exact", "exact", 0.0, 0.0, 0.0, 0.0, False)
    better, name = _better(posterior)
    evidence = posterior.evidence
    moved = {"transitions": 0.0, "dwell_times": 0.0}
    total = dict.fromkeys(moved, 0.0)
    for field in moved:
        for node in posterior.network.nodes:
            if node not in posterior.network.exogenous:
                good = getattr(better.statistics, field)[node]
                own = getattr(posterior.statistics, field)[node]
                moved[field] += float(np.abs(own - good).sum())
                total[field] += float(np.abs(good).sum())
    worst = 0.0
    for d in range(evidence.n_trajectories):
        times = np.linspace(evidence.start[d], evidence.end[d], _N_TIMES)
        own, good = posterior.courses.marginals(d, times), better.courses.marginals(d, times)
        worst = max(worst, *(float(np.abs(a - b).max()) for a, b in zip(own, good)))
    share = {f: moved[f] / total[f] if total[f] > 0.0 else 0.0 for f in moved}
    return Accuracy(
        posterior.method,
        name,
        posterior.log_evidence - better.log_evidence,
        share["transitions"],
        share["dwell_times"],
        worst,
        share["transitions"] > WARN_TRANSITIONS,
    )


def _better(posterior: Posterior) -> tuple[Posterior, str]:
    """The posterior of the same evidence by a better method, and what that is."""
    network, evidence = posterior.network, posterior.evidence
    graph = network.compiled.graph
    groups = components(graph, evidence)
    largest = max((math.prod(int(graph.n_states[n]) for n in g) for g in groups), default=1)
    if largest <= _EXACT_STATES:
        return solve_exactly(network, evidence), "exact inference"
    try:
        if posterior.method != "clusters":
            return solve_by_clusters(network, evidence), "clusters"
        size = max(len(c) for c in find_regions(graph, evidence, names=network.nodes).clusters)
        larger = solve_by_clusters(network, evidence, cluster_size=size + _LARGER, state_limit=256)
        return larger, f"clusters of up to {size + _LARGER} nodes"
    except TooLargeError as problem:
        raise AsterismError(
            f"There is nothing better to compare method {posterior.method!r} with: {problem}"
        ) from None
