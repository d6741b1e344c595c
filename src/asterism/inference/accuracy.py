"""How far an approximate answer may be off: solve again by a better method and compare.

The better method is exact inference where the network is small enough, otherwise clusters: for the
star and mean field with their usual size, for clusters with larger ones. The change is an
indication of the error, not a guarantee; two approximations can share a mistake.
"""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass

import numpy as np

from asterism.clusters.regions import find_regions
from asterism.engine.rules.clusters import solve as solve_by_clusters
from asterism.errors import AsterismError, Sentence, Setting, TooLargeError, counted
from asterism.exact.exact_posterior import solve as solve_exactly
from asterism.exact.groups import components
from asterism.inference.methods import METHODS
from asterism.inference.posterior import Posterior
from asterism.timeline.evidence import subset

#: joint states up to which exact inference is the better method
_EXACT_STATES = 1024
_LARGER = 2  # nodes that larger clusters may have more
_N_TIMES = 21
#: share of the transitions from which the star is called off
WARN_TRANSITIONS = 0.05
# a check in passing looks at so many trajectories, joint states, and nodes times measurements
_SOME_TRAJECTORIES = 5
_QUICK_STATES = 256
_QUICK_VALUES = 5_000


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


def measure(posterior: Posterior, exact_states: int = _EXACT_STATES) -> Accuracy:
    """Compare a posterior with a better one: exact up to so many joint states, else clusters."""
    if METHODS[posterior.method].is_exact:
        return Accuracy("exact", "exact", 0.0, 0.0, 0.0, 0.0, False)
    better, name = _better(posterior, exact_states)
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


def quick_sentence(posterior: Posterior) -> tuple[str, bool] | None:
    """One sentence on how far an answer is off, and whether that is a warning; None: not checked.

    Compares a few trajectories only, and only where that is quick: exact inference up to 256
    joint states, clusters up to 5,000 measurements. Where no node has parents there is no error.
    """
    method, evidence = posterior.method, posterior.evidence
    graph = posterior.network.compiled.graph
    groups = components(graph, evidence)
    if not METHODS[method].has_evidence or all(len(group) == 1 for group in groups):
        return None
    largest = max(math.prod(int(graph.n_states[n]) for n in g) for g in groups)
    n = min(_SOME_TRAJECTORIES, evidence.n_trajectories)
    chosen = np.unique(np.linspace(0, evidence.n_trajectories - 1, n).round().astype(np.int64))
    some = subset(evidence, chosen)
    is_long = largest > _QUICK_STATES and len(some.points.node) > _QUICK_VALUES
    if METHODS[method].is_exact or is_long:
        return None
    solve = importlib.import_module(METHODS[method].module).solve
    own = solve(posterior.network, some, **dict(METHODS[method].fixed))
    try:
        found = measure(own, _QUICK_STATES)
    except AsterismError:
        return None
    which = (
        counted(n, "trajectory")
        if n == evidence.n_trajectories
        else (f"{n} of {evidence.n_trajectories:,} trajectories")
    )
    sentence = (
        f"Checked on {which} against {found.compared_with}: expected transitions are off by "
        f"{_percent(found.transitions)}, probabilities by at most {max(found.marginals, 1e-3):.2g}."
    )
    if found.is_off and not METHODS[method].is_comparable:
        sentence = Sentence(
            f"{sentence} That is more than {WARN_TRANSITIONS:.0%}: where rates, transitions or "
            "the evidence matter, use ",
            *(Setting("method", "clusters"), "."),
        )
    return sentence, found.is_off


def must_compile(posterior: Posterior) -> bool:
    """Whether :func:`quick_sentence` would compile its better method first: some 20 s, once."""
    from asterism.clusters._cluster_sweep import solve_trajectory
    from asterism.clusters._whole_chain import pass_trajectories
    from asterism.numerics._jit import is_on_disk

    graph = posterior.network.compiled.graph
    groups = components(graph, posterior.evidence)
    largest = max((math.prod(int(graph.n_states[n]) for n in g) for g in groups), default=1)
    return not is_on_disk(pass_trajectories if largest <= _QUICK_STATES else solve_trajectory)


def _percent(share: float) -> str:
    return f"{share:.1%}" if share >= 0.001 else "less than 0.1%"


def _better(posterior: Posterior, exact_states: int) -> tuple[Posterior, str]:
    """The posterior of the same evidence by a better method, and what that is."""
    network, evidence = posterior.network, posterior.evidence
    graph = network.compiled.graph
    groups = components(graph, evidence)
    largest = max((math.prod(int(graph.n_states[n]) for n in g) for g in groups), default=1)
    if largest <= exact_states:
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
