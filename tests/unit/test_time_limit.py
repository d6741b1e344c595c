"""``max_seconds``: long computations end in time with the best so far, and say so."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import pytest

import asterism as am
from asterism.errors import AsterismError, TooLargeError
from asterism.learning.search import coupled
from asterism.numerics.resources import TimeLimit, current_limit, time_limit
from asterism.results.run import Run
from asterism.results.summary import sentences
from asterism.star._buffers import CONFIGURATIONS
from tests.command_line import assert_refused, invoke

EMISSION = am.Gaussian((-1, 1), 0.5)


class NoTime(TimeLimit):
    """A limit that has passed from the beginning, whatever the machine's speed."""

    left = 0.0  # type: ignore[assignment]


@pytest.fixture
def no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("asterism.numerics.resources.TimeLimit", NoTime)


def data() -> tuple[am.Network, am.Observations]:
    network = am.glauber("chain:4", a=1.0, b=0.8)
    paths = am.simulate(network, 4, duration=6.0, seed=0)
    return network, am.observe(paths, EMISSION, n_observations=6, seed=1)


@pytest.mark.parametrize("value", [0, -1, "soon", True, float("nan")])
def test_only_positive_limits(value: object) -> None:
    with pytest.raises(AsterismError, match="max_seconds"):
        TimeLimit(value)  # type: ignore[arg-type]


def test_limits_nest_and_end() -> None:
    with time_limit(100.0) as outer:
        assert current_limit() is outer
        with time_limit(None) as inner:
            assert inner is outer
    assert current_limit().seconds == float("inf")
    assert not current_limit().stops()


def test_histories_of_grids_with_unequal_numbers_of_sweeps_fit_together() -> None:
    """Where time runs short, finer grids are allowed fewer sweeps; this once crashed."""
    from asterism.star.refine import _equally_wide

    long, short = np.ones((1, 2, 170)), np.full((3, 2, 1), 2.0)
    joined = np.concatenate(_equally_wide([long, short]))
    assert joined.shape == (4, 2, 170)
    assert (joined[1:, :, 0] == 2.0).all()
    assert np.isnan(joined[1:, :, 1:]).all()
    flat = [np.ones(2), np.ones(3)]
    assert _equally_wide(flat) is flat


@pytest.mark.parametrize("method", ["star", "mean_field"])
@pytest.mark.usefixtures("no_time")
def test_inference_ends_with_the_best_so_far(method: str) -> None:
    network, obs = data()
    with pytest.warns(UserWarning, match="Stopped after the time limit of 1 s"):
        found = am.infer(network, obs, EMISSION, method=method, max_seconds=1.0)
    assert not found.converged
    values = found.marginals([1.0, 2.0]).values
    np.testing.assert_allclose(values.sum(axis=3), 1.0, atol=1e-10)


def test_a_limit_that_is_not_reached_changes_nothing() -> None:
    network, obs = data()
    plain = am.infer(network, obs, EMISSION)
    limited = am.infer(network, obs, EMISSION, max_seconds=1e6)
    assert plain.log_evidence == limited.log_evidence
    assert limited.converged


@pytest.mark.usefixtures("no_time")
def test_exact_inference_refuses_what_it_cannot_finish() -> None:
    network, obs = data()
    with pytest.raises(TooLargeError, match="more than the time limit of 1e-09 s"):
        am.infer(network, obs, EMISSION, method="exact", max_seconds=1e-9)


@pytest.mark.usefixtures("no_time")
@pytest.mark.parametrize("method", ["star", "exact"])
def test_a_fit_of_rates_ends_with_the_best_so_far(method: str) -> None:
    network, obs = data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = am.ParameterLearner(network.graph, EMISSION, method=method, max_seconds=1.0).fit(obs)
    assert not fit.converged_
    assert "time limit of 1 s" in fit.stop_reason_
    assert np.isfinite(fit.log_evidence_)


@pytest.mark.parametrize("search", ["exhaustive", "screened"])
@pytest.mark.usefixtures("no_time")
def test_a_search_ends_with_the_best_so_far(search: str) -> None:
    _, obs = data()
    learner = am.StructureLearner(EMISSION, max_parents=1, search=search, max_seconds=1.0)
    learner.fit(obs)
    assert not learner.converged_
    assert learner.stop_reason_.startswith("Stopped after the time limit of 1 s")
    assert "not scored" in learner.stop_reason_
    assert learner.network_.nodes
    told = " ".join(sentences(Run.from_learner(learner)))
    assert "No edge was scored: the time was too short." in told
    assert "supported" not in told


def test_a_coupled_solve_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    _, obs = data()
    settings = {"max_parents": 1, "search": "screened", "edge_log_odds": 5.0}
    am.StructureLearner(EMISSION, **settings).fit(obs)  # compiles, outside the limit
    slow_sweeps = []

    def slow(problem: Any, *others: Any) -> None:
        update(problem, *others)
        if problem.node[:-1, CONFIGURATIONS].max() > 1:
            slow_sweeps.append(time.sleep(3.0))

    update = coupled.update_all_rates
    monkeypatch.setattr(coupled, "update_all_rates", slow)
    learner = am.StructureLearner(EMISSION, max_seconds=3.0, **settings).fit(obs)
    assert len(slow_sweeps) == 1
    assert not learner.converged_
    assert "time limit of 3 s" in learner.stop_reason_


def test_too_many_jumps_are_refused_before_they_are_drawn() -> None:
    fast = np.array([[0.0, 1e308], [1e308, 0.0]])
    begin = time.process_time()
    with pytest.raises(TooLargeError, match="endlessly many jumps"):
        am.simulate(am.Network({"A": []}, {"A": fast}), 5, duration=1.0)
    network = am.glauber("chain:3", a=1e9)
    with pytest.raises(TooLargeError, match=r"about \d\.\de\+\d+ jumps"):
        am.simulate(network, 5, duration=1e3)
    with pytest.raises(TooLargeError, match="jumps"):
        am.simulate(network, 10**6, n_transitions=10**6)
    assert time.process_time() - begin < 20.0


def test_paths_drawn_in_time_are_the_first_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    network = am.glauber("chain:3", a=50.0)
    whole = am.simulate(network, 40, duration=20.0, seed=3)
    monkeypatch.setattr("asterism.simulation.simulator._SLOWEST_PACE", 1.0)
    monkeypatch.setattr(
        "asterism.simulation.simulator._require_few_jumps", lambda *_: whole.n_jumps / 40.0
    )
    with pytest.warns(UserWarning, match=r"Stopped after the time limit of .*of 40 paths"):
        some = am.simulate(network, 40, duration=20.0, seed=3, max_seconds=4.5)
    n = some.n_trajectories
    assert 0 < n < 40
    assert np.array_equal(some.initial, whole.initial[:n])
    assert np.array_equal(some.jump_time, whole.jump_time[: whole.jump_offset[n]])


def test_the_command_line_counts_minutes(tmp_path) -> None:
    flags = ("simulate", "--random", "2", "-o", tmp_path / "x.csv", "--minutes")
    assert invoke(*flags, "5").exit_code == 0
    assert_refused(invoke(*flags, "0"), 2, "--minutes")
