"""Graphs come back from complete paths as well as the paths allow.

20 binary nodes with 1 or 2 parents, log-uniform rates between 0.25 and 4, 50 trajectories of
length 20. Some drawn parents hardly change their child's rates, so nobody can find every edge: the
best families under the very distribution that rates and graphs were drawn from have an F1 of 0.986
on the first 20 of these graphs. A weak prior (shape 0.5) punishes needless parents most.
"""

from __future__ import annotations

import os

import pytest

import asterism as am
from tests.paper_settings import paper_learner

REDUCED = bool(os.environ.get("ASTERISM_REDUCED"))


def pooled_f1(shape: float, n_graphs: int, n_trajectories: int) -> float:
    """F1 of the edges of the best graphs, all graphs together."""
    hits = found = true = 0
    for seed in range(n_graphs):
        net = am.random_network(20, max_parents=2, min_parents=1, seed=seed)
        paths = am.simulate(net, n_trajectories, duration=20.0, seed=seed)
        learner = paper_learner(max_parents=2, prior=am.GammaPrior(shape), n_jobs=1)
        edges, truth = set(learner.fit(paths).graph_.edges), set(net.graph.edges)
        hits, found, true = hits + len(edges & truth), found + len(edges), true + len(truth)
    return 2 * hits / (found + true)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "least"), [(0.5, 0.985 if REDUCED else 0.99), (5.0, 0.98)], ids=["weak", "default"]
)
def test_most_edges_come_back(shape: float, least: float) -> None:
    assert pooled_f1(shape, n_graphs=10 if REDUCED else 40, n_trajectories=50) >= least


@pytest.mark.slow
def test_more_paths_leave_fewer_errors() -> None:
    few, many = (pooled_f1(5.0, n_graphs=5 if REDUCED else 10, n_trajectories=n) for n in (10, 500))
    assert many >= 0.99
    assert many > few
