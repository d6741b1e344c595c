"""Every method on networks so small that the compiler can be off, against answers written out here.

With the compiler off each line of a kernel is a line of Python: a debugger can stop there, coverage
sees it, and an index that leaves its array is an error instead of a wrong number.
``test_without_the_compiler.py`` starts these tests so; compiled, larger cases are tested elsewhere.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import product
from typing import Any

import numba
import numpy as np
import pandas as pd
import pytest
from scipy.linalg import expm

import asterism as am
from asterism.engine.rules.star import solve
from asterism.exact.exact_posterior import solve as solve_exactly
from asterism.inference.posterior import KINDS
from asterism.learning._level_pass import level_pass
from asterism.timeline.evidence import JointMeasurement
from tests.agreement.test_links import seen_child
from tests.reference.random_evidence import make_evidence

pytestmark = pytest.mark.skipif(
    not numba.config.DISABLE_JIT,  # type: ignore[attr-defined]
    reason="the compiler would take longer than the tests; test_without_the_compiler.py runs it",
)

NOISE = am.Gaussian((0.0, 1.0), 0.6)
PAIR = am.Network(
    {"A": [], "B": ["A"]},
    {
        "A": [[0.0, 0.6], [1.5, 0.0]],
        "B": [[[0.0, 0.4], [2.0, 0.0]], [[0.0, 2.5], [0.5, 0.0]]],
    },
    {"A": [0, 1], "B": [0, 1]},
    {"A": [0.7, 0.3], "B": [0.4, 0.6]},
)


def measured(exact: bool = False) -> am.Observations:
    frame = pd.DataFrame({"trajectory": 0, "time": [0.3, 0.9], "A": [0.1, 0.8], "B": [0.9, 0.2]})
    if exact:
        frame[["A", "B"]] = [[0, 1], [1, 0]]
    return am.Observations.from_frame(frame, start=0.0, end=1.2)


@contextmanager
def quiet() -> Iterator[None]:
    """Few draws and few iterations are warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


# ---- a node that its parent does not move is a chain of its own ------------------------------


def alone(rates: np.ndarray, start: np.ndarray, points: list[tuple[float, Any]], end: float) -> Any:
    """Evidence and marginals of one chain by matrix exponentials."""
    generator = rates - np.diag(rates.sum(axis=1))

    def forward(until: float, inclusive: bool) -> np.ndarray:
        now, message = 0.0, start.copy()
        for time, logs in points:
            if time < until or (inclusive and time == until):
                message = message @ expm(generator * (time - now)) * np.exp(logs)
                now = time
        return message @ expm(generator * (until - now))

    def backward(since: float) -> np.ndarray:
        now, message = end, np.ones(len(start))
        for time, logs in reversed(points):
            if time > since:
                message = np.exp(logs) * (expm(generator * (now - time)) @ message)
                now = time
        return expm(generator * (now - since)) @ message

    def marginal(time: float) -> np.ndarray:
        both = forward(time, True) * backward(time)
        return both / both.sum()

    return float(np.log(forward(end, True).sum())), marginal


@pytest.mark.parametrize("method", ["star", "mean_field", "clusters", "exact"])
@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_node_that_its_parent_does_not_move(size: int, method: str) -> None:
    rng = np.random.default_rng(size)
    own = rng.uniform(0.2, 1.5, (size, size)) * (1.0 - np.eye(size))
    above = np.array([[0.0, 0.8], [1.1, 0.0]])
    network = am.Network(
        {"P": [], "X": ["P"]},
        {"P": above, "X": np.stack([own, own])},
        {"P": [0, 1], "X": list(range(size))},
        {"P": [0.6, 0.4], "X": rng.dirichlet(np.ones(size))},
    )
    logs = {"P": np.log(rng.uniform(0.1, 1.0, (2, 2))),
            "X": np.log(rng.uniform(0.1, 1.0, (2, size)))}  # fmt: skip
    clock = np.array([0.2, 0.5])
    seen = am.Observations.from_likelihoods(
        [clock], [{n: np.exp(logs[n]) for n in logs}], start=0.0, end=0.7,
        states={n: list(network.states[n]) for n in logs},
    )  # fmt: skip
    found = am.infer(network, seen, am.Likelihood(), method=method, tolerance=0.02)
    total = 0.0
    times = [0.0, 0.1, 0.2, 0.37, 0.7]
    values = found.marginals(times)
    for name, rates in (("P", above), ("X", own)):
        start = np.asarray(network.initial[name])
        evidence, marginal = alone(rates, start, list(zip(clock.tolist(), logs[name])), 0.7)
        total += evidence
        for k, time in enumerate(times):
            mine = values.sel(node=name).values[0, k, : len(start)]
            np.testing.assert_allclose(mine, marginal(time), atol=2e-3)
    assert found.log_evidence == pytest.approx(total, abs=2e-3)
    assert found.converged


@pytest.mark.parametrize("size", [2, 3, 5])
def test_nodes_without_parents(size: int) -> None:
    """Nothing couples: sums over gaps take the place of messages."""
    rng = np.random.default_rng(size)
    own = rng.uniform(0.2, 1.5, (size, size)) * (1.0 - np.eye(size))
    network = am.Network({"X": []}, {"X": own}, {"X": list(range(size))})
    logs = np.log(rng.uniform(0.1, 1.0, (2, size)))
    seen = am.Observations.from_likelihoods(
        [np.array([0.2, 0.5])], [{"X": np.exp(logs)}], start=0.0, end=0.7,
        states={"X": list(range(size))},
    )  # fmt: skip
    evidence, _ = alone(own, np.full(size, 1.0 / size), [(0.2, logs[0]), (0.5, logs[1])], 0.7)
    fits = {
        method: am.ParameterLearner(
            {"X": []},
            am.Likelihood(),
            am.GammaPrior(2.0, 1.0),
            method=method,
            max_iterations=3,
            states={"X": list(range(size))},
            accuracy=am.Accuracy(tolerance=0.05),
        )
        for method in ("exact", "star")
    }
    with quiet():
        rates = [np.asarray(f.fit(seen).network_.rates["X"]) for f in fits.values()]
    np.testing.assert_allclose(rates[1], rates[0], rtol=1e-3)
    star = am.infer(network, seen, am.Likelihood(), tolerance=0.05)
    assert star.log_evidence == pytest.approx(evidence, abs=1e-6)


# ---- what is seen exactly -----------------------------------------------------------------------


@pytest.mark.parametrize("method", ["star", "mean_field", "clusters", "exact", "sample"])
def test_paths_honour_what_was_seen(method: str) -> None:
    more: dict[str, Any] = {"tolerance": 0.05}
    if method == "sample":
        more = {"n_draws": 4, "n_chains": 2, "seed": 0, "burn_in": 4}
    with quiet():
        found = am.infer(PAIR, measured(exact=True), am.Exact(), method=method, **more)
    for kind in KINDS:
        paths = found.sample(3, kind=kind, seed=1)
        assert paths.n_trajectories == 3
        clock = np.tile([0.3, 0.9], (3, 1))
        states = paths.state_at(clock)
        for d in range(3):
            assert states[d].tolist() == [[0, 1], [1, 0]]
    later = found.marginals([1.2, 1.5]).sel(node="A").values[0]
    np.testing.assert_allclose(later.sum(axis=-1), 1.0)


@pytest.mark.parametrize("method", ["star", "clusters", "exact", "sample"])
def test_a_held_node_stays(method: str) -> None:
    rows = [(0, "A", 0.4, 0.8, 1)]
    columns = ["trajectory", "node", "start", "end", "state"]
    seen = measured().with_interventions(pd.DataFrame(rows, columns=columns))
    more: dict[str, Any] = {"tolerance": 0.05}
    if method == "sample":
        more = {"n_draws": 4, "n_chains": 2, "seed": 0, "burn_in": 4}
    with quiet():
        found = am.infer(PAIR, seen, NOISE, method=method, **more)
    held = found.marginals([0.5, 0.7]).sel(node="A").values[0, :, 1]
    np.testing.assert_allclose(held, 1.0, atol=1e-9)


def test_nodes_that_are_locked_to_each_other_are_drawn_as_one() -> None:
    """Exactly one of two is on: no path of a single node can change alone at that time."""
    flip = np.array([[0.0, 1.0], [1.0, 0.0]])
    network = am.Network({"A": [], "B": []}, {"A": flip, "B": flip}, {"A": [0, 1], "B": [0, 1]})
    either = np.where(np.eye(2, dtype=bool), -np.inf, 0.0)
    joint = am.Joint(("A", "B"), lambda value: either, column="one of them")
    frame = pd.DataFrame({"time": [0.5], "one of them": [1.0]})
    seen = am.Observations.from_frame(frame, start=0.0, end=1.0)
    with quiet():
        found = am.infer(network, seen, [NOISE, joint], method="sample", n_draws=20, n_chains=2,
                         seed=1, burn_in=10)  # fmt: skip
    paths = found.sample(20, seed=0)
    states = paths.state_at(np.full((20, 1), 0.5))[:, 0]
    assert (states.sum(axis=1) == 1).all()
    assert {tuple(s) for s in states.tolist()} == {(0, 1), (1, 0)}


@pytest.mark.parametrize("method", ["star", "mean_field"])
@pytest.mark.parametrize("sizes", [[2, 2], [3, 3]])
def test_one_hidden_node_above_a_seen_one(method: str, sizes: list[int]) -> None:
    network, evidence = seen_child(1, {"a": [], "b": ["a"]}, sizes)
    found = solve(network, evidence, method=method, tolerance=1e-2)
    expected = solve_exactly(network, evidence)
    assert found.log_evidence == pytest.approx(expected.log_evidence, abs=2e-2)


@pytest.mark.parametrize("method", ["star", "mean_field"])
def test_a_measurement_of_two_nodes(method: str) -> None:
    """Where its table is a product it is two measurements."""
    first, second = np.log([0.2, 0.7]), np.log([0.6, 0.1])
    joint = JointMeasurement(0, 0.5, (0, 1), first[:, None] + second)
    together = make_evidence([2, 2], [0.0], [1.0], joint=[joint])
    apart = make_evidence([2, 2], [0.0], [1.0], points=[(0, 0, 0.5, first), (0, 1, 0.5, second)])
    one, other = (solve(PAIR, e, method=method, tolerance=0.02) for e in (together, apart))
    assert one.log_evidence == pytest.approx(other.log_evidence, abs=5e-3)
    jump = make_evidence([2, 2], [0.0], [1.0], jumps=[(0, 1, 0.5, 1, -1)])
    expected = solve_exactly(PAIR, jump).log_evidence
    assert solve(PAIR, jump, method=method, tolerance=0.02).log_evidence == pytest.approx(
        expected, abs=0.25
    )


def test_a_network_with_given_parents_and_watched_times() -> None:
    from tests.agreement.test_path_sampling import assert_well_formed, known_everything

    network, evidence = known_everything()
    exact = solve_exactly(network, evidence)
    assert_well_formed(exact.sample(2, seed=0))
    found = solve(network, evidence, tolerance=0.05)
    assert_well_formed(found.sample(2, kind="network", seed=0))
    assert_well_formed(found.sample(2, seed=0))


# ---- learning -----------------------------------------------------------------------------------


@cache
def data() -> am.Observations:
    paths = am.simulate(PAIR, 4, duration=3.0, seed=2)
    return am.observe(paths, NOISE, n_observations=4, seed=3)


@pytest.mark.parametrize("search", ["exhaustive", "screened"])
def test_a_search_scores_every_family(search: str) -> None:
    learner = am.StructureLearner(
        NOISE,
        max_parents=1,
        search=search,
        prior=am.GammaPrior(5.0, 5.0),
        n_jobs=1,
        accuracy=am.Accuracy(time_step=0.5, tolerance=1e-2, tempering=1.0),
        structure_prior="uniform",
        method="star",
    ).fit(data())
    probability = learner.edge_probabilities_.to_numpy()
    off = ~np.eye(2, dtype=bool)
    assert ((probability[off] >= 0.0) & (probability[off] <= 1.0)).all()
    by_node = learner.family_scores_.groupby("node")["probability"].sum()
    np.testing.assert_allclose(by_node, 1.0, atol=1e-9)


def test_graphs_are_drawn() -> None:
    with quiet():
        learner = am.StructureLearner(
            NOISE,
            max_parents=1,
            method="sample",
            prior=am.GammaPrior(5.0, 5.0),
            n_jobs=1,
            random_state=0,
            accuracy=am.Accuracy(time_step=0.5, tolerance=1e-2),
            sampling=am.Sampling(chains=2, max_draws=30),
        ).fit(data())
    assert learner.method_ == "sample"
    probability = learner.edge_probabilities_.to_numpy()
    assert np.isfinite(probability[~np.eye(2, dtype=bool)]).all()
    assert learner.stop_reason_


def test_graphs_are_scored_by_clusters() -> None:
    with quiet():
        learner = am.StructureLearner(
            NOISE,
            max_parents=1,
            method="clusters",
            prior=am.GammaPrior(5.0, 5.0),
            n_jobs=1,
            accuracy=am.Accuracy(time_step=0.5, tolerance=1e-2),
        ).fit(data())
    assert learner.method_ == "clusters"
    by_node = learner.family_scores_.groupby("node")["probability"].sum()
    np.testing.assert_allclose(by_node, 1.0, atol=1e-9)


def test_emissions_are_fitted_again_on_the_graph() -> None:
    with quiet():
        learner = am.StructureLearner(
            am.Gaussian((0.2, 1.3), 0.8, learn=True),
            max_parents=1,
            prior=am.GammaPrior(5.0, 5.0),
            n_jobs=1,
            search=am.Search(refine_emissions=True),
            accuracy=am.Accuracy(time_step=0.5, tolerance=1e-2),
            method="star",
        ).fit(data())
    for emission in learner.emission_.values():
        assert emission.means[0] < emission.means[1]
        assert 0.2 < emission.scale < 1.2


@pytest.mark.parametrize("method", ["sample", "clusters"])
def test_emissions_of_every_kind_are_learned(method: str) -> None:
    frame = pd.DataFrame(
        {"time": [0.2, 0.5, 0.9], "A": [0.1, 0.9, 0.2], "B": [0, 5, 1], "C": [0, 1, 0]}
    )
    seen = am.Observations.from_frame(frame, start=0.0, end=1.0)
    start = {
        "A": am.Gaussian((0.0, 1.0), 0.6, learn=True),
        "B": am.Poisson((1.0, 4.0), learn=True),
        "C": am.Categorical(((0.8, 0.2), (0.3, 0.7)), learn=True),
    }
    learner = am.ParameterLearner(
        {"A": [], "B": ["A"], "C": ["A"]},
        start,
        am.GammaPrior(2.0, 1.0),
        method=method,
        max_iterations=2,
        random_state=0,
        minutes=0.1 / 60,
        states=dict.fromkeys("ABC", (0, 1)),
        accuracy=am.Accuracy(tolerance=0.1),
    )
    with quiet():
        learner.fit(seen)
    for table in learner.network_.rates.values():
        assert np.isfinite(np.asarray(table)).all()
        np.testing.assert_allclose(np.asarray(table).sum(axis=-1), 0.0, atol=1e-9)
    for name, emission in learner.emission_.items():
        assert type(emission) is type(start[name])


def test_levels_by_all_their_courses() -> None:
    """Forward and backward against the sum over every course of the levels."""
    rng = np.random.default_rng(5)
    n, size = 5, 2
    logs = np.log(rng.uniform(0.1, 1.0, (n, size)))
    moves = rng.dirichlet(np.ones(size), (n, size))
    is_first = np.array([True, False, False, True, False])
    initial = np.array([0.3, 0.7])
    posterior, pairs = np.zeros((n, size)), np.zeros((n, size, size))
    total = level_pass(logs, moves, np.arange(n), is_first, initial, posterior, pairs).sum()
    weight: dict[tuple[int, ...], float] = {}
    for course in product(range(size), repeat=n):
        chance = 1.0
        for i, x in enumerate(course):
            chance *= initial[x] if is_first[i] else moves[i, course[i - 1], x]
            chance *= np.exp(logs[i, x])
        weight[course] = chance
    everything = sum(weight.values())
    assert total == pytest.approx(np.log(everything))
    for i in range(n):
        for x in range(size):
            own = sum(w for course, w in weight.items() if course[i] == x) / everything
            assert posterior[i, x] == pytest.approx(own)
            for y in range(size if not is_first[i] else 0):
                both = sum(w for c, w in weight.items() if (c[i - 1], c[i]) == (x, y))
                assert pairs[i, x, y] * moves[i, x, y] == pytest.approx(both / everything)
