"""Sampling in large networks: families beyond those that the search kept."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import asterism as am
from asterism.learning.search import sampled, task
from tests.flat_settings import regrouped

NOISE = am.Gaussian((-1.0, 1.0), 0.5)


def observed(parents: dict[str, list[str]], n_trajectories: int, seed: int) -> am.Observations:
    net = am.glauber(parents, a=1.0, b=0.9)
    paths = am.simulate(net, n_trajectories, duration=8.0, seed=seed)
    return am.observe(paths, NOISE, n_observations=16, seed=seed + 1)


def learned(obs: am.Observations, n_sweeps: int, **options: object) -> am.StructureLearner:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return am.StructureLearner(
            NOISE, method="sample", n_jobs=1, **regrouped(max_draws=n_sweeps, **options)
        ).fit(obs)


@pytest.mark.slow
def test_moves_over_all_parents_find_what_listing_all_families_finds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One candidate per node instead of all: the same probabilities within their errors."""
    obs = observed({"A": [], "B": ["A"], "C": ["B"], "D": ["A", "C"]}, 20, seed=3)
    every = learned(obs, 3000)
    monkeypatch.setattr(sampled, "UNSCREENED_LIMIT", 0)
    monkeypatch.setattr(task, "UNSCREENED_LIMIT", 0)
    few = learned(obs, 6000, n_candidates=1, search="screened")
    assert len(few.family_scores_) < len(every.family_scores_) / 2
    names = list(every.edge_probabilities_.index)
    a, b = (one.edge_probabilities_.loc[names, names].to_numpy() for one in (every, few))
    errors = [one.edges_.set_index(["parent", "child"])["error"] for one in (every, few)]
    apart = []
    for i, parent in enumerate(names):
        for j, child in enumerate(names):
            if i != j:
                error = np.hypot(*(e[parent, child] for e in errors))
                apart.append(abs(a[i, j] - b[i, j]) / (error + 0.005))
    assert a.max() > 0.9
    assert max(apart) < 4.0, np.round(apart, 1)


def test_no_allowed_pair_has_probability_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled, "UNSCREENED_LIMIT", 0)
    monkeypatch.setattr(task, "UNSCREENED_LIMIT", 0)
    names = [f"N{i}" for i in range(7)]
    obs = observed({n: names[i - 1 : i] if i else [] for i, n in enumerate(names)}, 6, seed=4)
    found = learned(
        obs,
        300,
        n_candidates=1,
        search="screened",
        forbidden=[("N0", "N1")],
        required=[("N2", "N6")],
    )
    table = found.edge_probabilities_
    assert table.loc["N0", "N1"] == 0.0
    assert table.loc["N2", "N6"] == pytest.approx(1.0)
    allowed = table.to_numpy()[~np.eye(7, dtype=bool)]
    assert (allowed == 0.0).sum() == 1
    held = [g.has_edge("N2", "N6") and not g.has_edge("N0", "N1") for g in found.sample_graphs(50)]
    assert all(held)
