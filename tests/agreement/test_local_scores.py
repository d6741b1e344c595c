"""Local scores and screening gains of large searches against plain versions, in numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import asterism as am
from asterism.learning.search.score import Parents
from asterism.learning.search.screened import local_scores
from asterism.learning.search.screening import _Averages, _gains
from asterism.learning.search.settings import StructureSettings
from asterism.learning.search.task import SearchRun, prepare
from asterism.learning.tasks import Silent
from tests.reference.local_scores import Frozen, family_score, single_parent_gain

GRAPH: Parents = ((), (0,), (1,))


def search_task(n_states: int) -> SearchRun:
    network = am.random_network(n_nodes=3, n_states=n_states, max_parents=1, seed=4)
    noise = am.Gaussian(tuple(range(n_states)), 0.4)
    paths = am.simulate(network, 2, duration=2.0, seed=1)
    seen = am.observe(paths, noise, n_observations=3, seed=2)
    prior = am.GammaPrior(shape=2.0, rate=1.5)
    settings = StructureSettings(emission=noise, max_parents=2, prior=prior, n_jobs=1)
    return prepare(settings, seen, Silent())


def frozen_world(task: SearchRun, solution: Any) -> tuple[Frozen, list[list[np.ndarray]], Any]:
    grid, evidence = task.scorer.base.grid, task.single_nodes.evidence
    sizes = list(task.scorer.n_states)
    frozen = Frozen(sizes, grid.step_start, grid.width, solution.moments)
    likelihoods = []
    for node in range(3):
        of_node = []
        for d in range(evidence.n_trajectories):
            times = grid.times(d)
            table = np.ones((len(times), sizes[node]))
            points = evidence.points
            for i in np.flatnonzero((points.trajectory == d) & (points.node == node)):
                k = int(np.argmin(np.abs(times - points.time[i])))
                logs = points.log_likelihood[points.offset[i] :][: sizes[node]]
                table[k] *= np.exp(logs)
            of_node.append(table)
        likelihoods.append(of_node)
    starts = np.split(solution.initial, np.cumsum(sizes)[:-1])
    return frozen, likelihoods, starts


def rates_of(task: SearchRun, solution: Any, node: int) -> np.ndarray:
    sizes = list(task.scorer.n_states)
    counts = [int(np.prod([sizes[p] for p in f], initial=1)) for f in solution.parents]
    start = np.cumsum([0, *(c * s * s for c, s in zip(counts, sizes))])
    shape = (counts[node], sizes[node], sizes[node])
    return np.asarray(solution.rates[start[node] : start[node + 1]]).reshape(shape)


@pytest.mark.parametrize("n_states", [2, 3])
def test_local_scores(n_states: int) -> None:
    task = search_task(n_states)
    solution = task.scorer.solve(GRAPH)
    frozen, likelihoods, starts = frozen_world(task, solution)
    node = 1
    children = {2: ((1,), rates_of(task, solution, 2))}
    families = np.array([[-1], [0], [2]])
    found = local_scores(task, solution, {node: families}, "test")[node]
    expected = [
        family_score(
            frozen, node, tuple(p for p in family if p >= 0), children, likelihoods[node],
            starts[node], np.abs(task.single_nodes.rates[node]), 2.0, task.single_nodes.prior_rate,
        )
        for family in families.tolist()
    ]  # fmt: skip
    assert found == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("n_states", [2, 3])
def test_screening_gains(n_states: int) -> None:
    task = search_task(n_states)
    solution = task.scorer.solve(((), (), ()))
    frozen, _, _ = frozen_world(task, solution)
    grid = task.scorer.base.grid
    averages = _Averages.of(grid.step_start, solution.moments, np.array(task.scorer.n_states))
    gains = _gains(task, solution, averages, np.array([0, 1, 2]), n_states)
    for child in range(3):
        rates = rates_of(task, solution, child)[0]
        for parent in range(3):
            if parent != child:
                expected = single_parent_gain(
                    frozen, child, parent, rates, 2.0, task.single_nodes.prior_rate
                )
                assert gains[child, parent] == pytest.approx(expected, abs=1e-8)
