"""Which proposed families join the graph, and that runaway pairs of nodes do not stop a search."""

from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import asterism as am
from asterism.learning.search.found import FamilyTable
from asterism.learning.search.score import GraphSolution, Parents
from asterism.learning.search.screened import Refusals, adopt, propose
from asterism.learning.search.settings import StructureSettings, numbered_prior
from asterism.learning.search.task import SearchRun, prepare
from asterism.learning.tasks import Silent
from tests.paper_settings import paper_learner

NODES = ("a", "b", "c", "d")
EMPTY: Parents = ((), (), (), ())


def solution(parents: Parents, score: float, restless: tuple[int, ...] = ()) -> GraphSolution:
    none = np.zeros(0)
    return GraphSolution(
        parents, score, score, none, none, none, none, none, none, 1, not restless, restless
    )


class ScoresByGraph:
    """Stands for the coupled solve: the score is a sum over families, or nodes are restless."""

    def __init__(self, worth: dict[tuple[int, tuple[int, ...]], float]) -> None:
        self.worth = worth
        self.asked: list[Parents] = []
        self.begun: list[GraphSolution] = []
        self.astray: list[set[int]] = []

    def solve(
        self, parents: Parents, earlier: GraphSolution, n_jobs: int, overwrite: bool
    ) -> GraphSolution:
        self.asked.append(parents)
        self.begun.append(earlier)
        restless = tuple(n for n in range(4) if any(n in parents[m] for m in parents[n]))
        return solution(parents, sum(self.worth.get(f, 0.0) for f in enumerate(parents)), restless)

    def resumed(
        self, failed: GraphSolution, before: GraphSolution, astray: set[int]
    ) -> GraphSolution:
        self.astray.append(astray)
        return failed


def task_with(worth: dict[tuple[int, tuple[int, ...]], float]) -> Any:
    prior = numbered_prior(NODES, 1)
    settings = SimpleNamespace(n_jobs=1)
    scorer = ScoresByGraph(worth)
    search: Any = SimpleNamespace(
        nodes=NODES, prior=prior, settings=settings, scorer=scorer, progress=Silent()
    )
    search.total_score = partial(SearchRun.total_score, search)
    return search


def table(**scores: float) -> FamilyTable:
    """Single parents by name, ``none`` for the family without."""
    pairs = [((), s) if n == "none" else ((NODES.index(n),), s) for n, s in scores.items()]
    return FamilyTable.from_pairs(pairs)


def test_of_two_new_opposite_edges_the_surer_comes_first() -> None:
    tables = {0: table(none=0.0, b=9.0, c=8.5), 1: table(none=0.0, a=9.0, d=1.0)}
    assert propose(task_with({}), tables, EMPTY) == {0: (2,), 1: (0,)}


def test_an_edge_opposite_to_one_in_the_graph_may_be_proposed() -> None:
    tables = {0: table(none=0.0, b=9.0)}
    assert propose(task_with({}), tables, ((), (0,), (), ())) == {0: (1,)}


def test_differences_that_do_not_matter_are_not_proposed() -> None:
    assert propose(task_with({}), {0: table(none=0.0, b=1e-3)}, EMPTY) == {}


def test_all_is_adopted_at_once_where_the_score_rises() -> None:
    task = task_with({(0, (1,)): 5.0, (2, (3,)): 1.0})
    tables = {0: table(none=0.0, b=4.0), 2: table(none=0.0, d=2.0)}
    found = adopt(task, solution(EMPTY, 0.0), tables, {0: (1,), 2: (3,)}, Refusals())
    assert found.parents == ((1,), (), (3,), ())
    assert len(task.scorer.asked) == 1


def test_a_family_that_lowers_the_coupled_score_is_refused_and_stays_behind() -> None:
    task = task_with({(0, (1,)): -3.0})
    tables, refusals = {0: table(none=0.0, b=4.0)}, Refusals()
    found = adopt(task, solution(EMPTY, 0.0), tables, {0: (1,)}, refusals)
    assert found.parents == EMPTY
    after = refusals.applied_to(0, tables[0], ())
    np.testing.assert_allclose(after.scores, [0.0, -3.0])
    assert propose(task, {0: after}, EMPTY) == {}


def test_the_weaker_half_waits_where_together_they_lower_the_score() -> None:
    task = task_with({(0, (1,)): 5.0, (2, (3,)): -9.0})
    tables, refusals = {0: table(none=0.0, b=4.0), 2: table(none=0.0, d=2.0)}, Refusals()
    found = adopt(task, solution(EMPTY, 0.0), tables, {0: (1,), 2: (3,)}, refusals)
    assert found.parents == ((1,), (), (), ())
    assert not refusals.behind


def test_families_under_which_rates_run_away_are_dropped() -> None:
    task = task_with({(0, (1,)): 99.0, (1, (0,)): 5.0, (2, (3,)): 1.0})
    tables = {0: table(none=0.0, b=4.0), 2: table(none=0.0, d=2.0)}
    begin, refusals = solution(((), (0,), (), ()), 5.0), Refusals()
    found = adopt(task, begin, tables, {0: (1,), 2: (3,)}, refusals)
    assert found.parents == ((), (0,), (3,), ())
    assert refusals.dropped == {(0, (1,))}
    # the node that settled is not solved again from the start
    assert task.scorer.astray == [{0, 1}]
    assert [b is begin for b in task.scorer.begun] == [True, False]
    assert len(refusals.applied_to(0, tables[0], ()).scores) == 1


def test_no_graph_comes_back() -> None:
    task = task_with({(0, (1,)): 1e-3})
    tables, refusals = {0: table(none=0.0, b=4.0)}, Refusals(left={((1,), (), (), ())})
    assert adopt(task, solution(EMPTY, 0.0), tables, {0: (1,)}, refusals).parents == EMPTY


def test_required_parents_are_adopted_whatever_the_score() -> None:
    task = task_with({(0, (1,)): -3.0})
    found = adopt(task, solution(EMPTY, 0.0), {0: table(b=4.0)}, {0: (1,)}, Refusals())
    assert found.parents[0] == (1,)


@pytest.fixture(scope="module")
def much_data() -> tuple[am.Observations, am.Gaussian]:
    network = am.glauber({"a": [], "b": ["a"], "c": ["b"]}, a=1.0, b=0.6)
    noise = am.Gaussian((-1, 1), 0.6)
    paths = am.simulate(network, 100, duration=10.0, seed=0)
    return am.observe(paths, noise, n_observations=10, seed=1), noise


def test_a_solve_that_runs_away_is_given_up_and_names_the_nodes(
    much_data: tuple[am.Observations, am.Gaussian],
) -> None:
    settings = StructureSettings(
        emission=much_data[1],
        prior=am.GammaPrior(5, 10),
        accuracy=am.Accuracy(time_step=0.9),
        n_jobs=1,
    )
    scorer = prepare(settings, much_data[0], Silent()).scorer
    single = scorer.solve(((), (), ()), n_jobs=1)
    apart = scorer.solve(((), (0,), (1,)), single, n_jobs=1)
    assert apart.converged
    assert apart.restless == ()
    opposite = scorer.solve(((1,), (0,), (1,)), single, n_jobs=1)
    assert not opposite.converged
    assert {0, 1} <= set(opposite.restless)
    assert opposite.n_iterations < scorer.max_iterations


def test_only_nodes_near_the_restless_ones_start_again(
    much_data: tuple[am.Observations, am.Gaussian],
) -> None:
    settings = StructureSettings(emission=much_data[1], prior=am.GammaPrior(5, 10), n_jobs=1)
    scorer = prepare(settings, much_data[0], Silent()).scorer
    before = scorer.solve(((), (), ()), n_jobs=1)
    failed = scorer.solve(((), (0,), (1,)), before, n_jobs=1)
    kept = failed.moments.copy()
    begin = scorer.resumed(failed, before, {1})
    assert begin.parents == ((), (), (1,))
    np.testing.assert_array_equal(begin.rates[:4], failed.rates[:4])
    np.testing.assert_array_equal(begin.rates[4:8], before.rates[4:8])
    np.testing.assert_array_equal(begin.rates[8:], failed.rates[12:])
    steps = np.diff(scorer.base.problem.step_start)
    for new, old, node in ((kept, before.moments, 1), (before.moments, kept, 0)):
        # trajectory by trajectory, node by node: four rows of moments as long as there are steps
        blocks = np.split(begin.moments, np.cumsum(12 * steps)[:-1])
        olds = np.split(old, np.cumsum(12 * steps)[:-1])
        news = np.split(new, np.cumsum(12 * steps)[:-1])
        for k, block, there, elsewhere in zip(steps, blocks, olds, news):
            own = slice(4 * k * node, 4 * k * (node + 1))
            np.testing.assert_array_equal(block[own], there[own])
            assert not np.array_equal(block[own], elsewhere[own])
    again = scorer.solve(((), (0,), (1,)), begin, n_jobs=1, overwrite=True)
    assert again.score == pytest.approx(failed.score, abs=0.1)


def test_a_search_settles_where_opposite_edges_would_run_away(
    much_data: tuple[am.Observations, am.Gaussian],
) -> None:
    learner = paper_learner(
        much_data[1],
        max_parents=1,
        prior=am.GammaPrior(5, 10),
        search="screened",
        time_step=0.9,
        n_jobs=1,
    ).fit(much_data[0])
    assert learner.converged_
    assert set(learner.graph_.edges) == {("a", "b"), ("b", "c")}
