"""The methods of inference, as data: which there are, and what each can do.

A method is one entry of :data:`METHODS`: its name, what it is in one sentence, which options only
it has, whether it gives an evidence value, and the module whose ``solve`` carries it out.
``infer``, both learners, the command line, the table in the docs and the error messages read this
registry. Nothing is loaded here, so that ``--help`` can list the methods at once; ``infer`` loads
a method on first use.

To add a method: write ``solve(network, evidence, **options) -> Posterior`` and add one entry.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

#: options that ``infer`` takes for every method; a method ignores those it does not need, so that
#: whoever compares methods can pass the same ones to all
COMMON_OPTIONS = ("tolerance", "time_step", "max_sweeps", "n_jobs")


@dataclass(frozen=True)
class Method:
    """One way to find out what the hidden paths probably were."""

    name: str
    summary: str
    """What it is and where it fits, in one sentence."""
    module: str
    """Home of its ``solve``."""
    uses: tuple[str, ...] = COMMON_OPTIONS
    """Which of the common options it reads."""
    options: tuple[str, ...] = ()
    """Options that only it has."""
    fixed: tuple[tuple[str, Any], ...] = ()
    """Arguments by which several methods share one ``solve``."""
    has_evidence: bool = True
    """Whether it gives a value of ln P(Y)."""
    is_comparable: bool = False
    """Whether its evidence is good enough to compare networks that differ much."""
    has_intervals: bool = False
    """Whether intervals of learned rates from its evidence cover as often as they say."""
    scores_graphs: bool = False
    """Whether a structure search can use it."""
    graph_learner: str = "asterism.learning.search.task"
    """Home of the ``learn_from_observations`` that learns graphs by it, and of the
    ``graph_scorer`` that scores single ones where it has an evidence value."""
    e_step: str = ""
    """Where its E-step is made, as module:function; without one it does not learn rates by EM."""
    is_exact: bool = False
    """Whether rounding is its only error."""


_ENTRIES = (
    Method(
        "star",
        "Each node with its parents' averages: any size, quick; evidence and transitions too high.",
        "asterism.engine.rules.star",
        fixed=(("method", "star"),),
        scores_graphs=True,
        e_step="asterism.learning.em.e_step:VariationalStep",
    ),
    Method(
        "mean_field",
        "Independent nodes: any size, quick; a lower bound of the evidence, often a loose one.",
        "asterism.engine.rules.star",
        fixed=(("method", "mean_field"),),
        scores_graphs=True,
        e_step="asterism.learning.em.e_step:VariationalStep",
    ),
    Method(
        "clusters",
        "Every family as one chain, neighbours agree on what they share: any size, nearly exact.",
        "asterism.engine.rules.clusters",
        options=("cluster_size", "state_limit"),
        is_comparable=True,
        has_intervals=True,
        scores_graphs=True,
        graph_learner="asterism.learning.search.cluster_scores",
        e_step="asterism.learning.em.cluster_step:ClusterStep",
    ),
    Method(
        "exact",
        "All nodes as one chain: no error, for small networks only.",
        "asterism.exact.exact_posterior",
        uses=("n_jobs",),
        options=("joint_limit",),
        is_comparable=True,
        has_intervals=True,
        e_step="asterism.learning.em.e_step:ExactStep",
        is_exact=True,
    ),
    Method(
        "sample",
        "Draws of hidden paths: any size and graph, exact up to the Monte Carlo error it states.",
        "asterism.sampling.path_posterior",
        uses=("n_jobs",),
        options=("n_chains", "n_draws", "seed", "burn_in", "max_draws"),
        has_evidence=False,
        has_intervals=True,
        scores_graphs=True,
        graph_learner="asterism.learning.search.sampled",
    ),
)

#: every method by its name
METHODS: dict[str, Method] = {entry.name: entry for entry in _ENTRIES}


def methods_that_score_graphs() -> tuple[str, ...]:
    """Names of the methods that a structure search can use."""
    return tuple(m.name for m in METHODS.values() if m.scores_graphs)


def methods_that_learn_rates() -> tuple[str, ...]:
    """Names of the methods that a fit of rates can use: by an E-step, or by draws."""
    return tuple(m.name for m in METHODS.values() if m.e_step or not m.has_evidence)
