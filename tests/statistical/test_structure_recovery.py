"""Graphs that made noisy, incomplete data are found again, as far as the data can tell.

The tree: 14 Glauber spins, the last leaf leads the root (a = 1, b = 0.6), 10 measurements per
trajectory of length 10 with σ = 0.6. benchmarks/tree_recovery.py and benchmarks/hidden_recovery.py
write the same for other noise, searches and sizes.
"""

from __future__ import annotations

import os

import numpy as np
import pytest

import asterism as am
from tests.paper_settings import paper_learner
from tests.reference.recovery_graphs import (
    N_TREE,
    SHUFFLES,
    SLOW,
    families_right,
    learn_hard,
    learn_tree,
)

REDUCED = bool(os.environ.get("ASTERISM_REDUCED"))
SIGMA = 0.6
HARD_SEEDS = range(10, 11 if REDUCED else 15)


@pytest.mark.slow
def test_tree_from_forty_trajectories() -> None:
    """The goal: 13 of 14 families in 4 of 5 seeds; with the search that is the default."""
    right = [learn_tree(40, seed, SIGMA).right for seed in range(5)]
    print(f"families right: {right}")
    assert sum(r >= N_TREE - 1 for r in right) >= 4


@pytest.mark.slow
@pytest.mark.skipif(REDUCED, reason="takes minutes")
@pytest.mark.xfail(strict=True, reason="13 families or more in 3 of 5 seeds only")
def test_tree_from_forty_trajectories_by_the_exhaustive_search() -> None:
    """The same goal. Not reached: it adopts pairs of nodes that are each other's parents."""
    right = [learn_tree(40, seed, SIGMA, "exhaustive").right for seed in range(5)]
    assert sum(r >= N_TREE - 1 for r in right) >= 4


@pytest.mark.slow
def test_what_is_wrong_in_the_tree_scores_above_the_truth() -> None:
    """No search can be to blame where the true graph has the lower score."""
    trees = [learn_tree(40, seed, SIGMA, "screened") for seed in range(3 if REDUCED else 5)]
    assert all(t.converged for t in trees)
    assert all(t.ahead > 0.0 for t in trees if t.right < N_TREE)
    assert np.mean([t.right for t in trees]) >= 0.8 * N_TREE
    assert np.mean([t.auroc for t in trees]) >= 0.95


@pytest.mark.slow
def test_tree_from_eighty_trajectories() -> None:
    seeds = range(2 if REDUCED else 5)
    right = [learn_tree(80, seed, SIGMA, "screened").right for seed in seeds]
    print(f"families right: {right}")
    assert sum(r >= N_TREE - 1 for r in right) >= len(seeds) - 1


@pytest.mark.slow
def test_tree_from_complete_paths() -> None:
    network = am.glauber(f"tree:{N_TREE}", a=1.0, b=0.6)
    for seed in range(5):
        paths = am.simulate(network, 40, duration=10.0, seed=seed)
        learner = paper_learner(max_parents=1).fit(paths)
        assert families_right(learner, network) == N_TREE


@pytest.mark.slow
def test_three_states_a_hidden_node_and_missing_values() -> None:
    """AUROC over pairs of measured nodes, beside the same data with their times shuffled.

    Rows that stay together still show which nodes go together: only shuffling every node on its
    own takes all of it away.
    """
    found, rows, values = (
        np.mean([learn_hard(SLOW, seed, how)["auroc"] for seed in HARD_SEEDS]) for how in SHUFFLES
    )
    print(f"AUROC {found:.3f}; shuffled by rows {rows:.3f}, by values {values:.3f}")
    assert found >= 0.75
    assert found > rows
    assert found >= values + 0.1
