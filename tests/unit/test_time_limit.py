"""``max_seconds``: long computations end in time with the best so far, and say so."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.errors import AsterismError, TooLargeError
from asterism.learning.search import coupled
from asterism.numerics.resources import (
    TimeLimit,
    current_limit,
    minutes_limit,
    time_limit,
    time_to_finish,
)
from asterism.report.page_data import page_data
from asterism.results.run import Run
from asterism.results.summary import sentences
from asterism.star._buffers import CONFIGURATIONS
from tests.command_line import assert_refused, invoke
from tests.flat_settings import regrouped

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
    with pytest.raises(AsterismError, match="minutes"):
        TimeLimit(value)  # type: ignore[arg-type]


def test_limits_nest_and_end() -> None:
    with time_limit(100.0) as outer:
        assert current_limit() is outer
        with time_limit(None) as inner:
            assert inner is outer
    assert current_limit().seconds == float("inf")
    assert not current_limit().stops()


def test_a_reserve_is_kept_for_the_end() -> None:
    with minutes_limit(10.0, reserve=3.0, used=100.0) as whole:
        assert 430.0 < whole.left < 441.0  # a tenth of the limit is kept
        with minutes_limit(10.0) as inner:
            assert inner.left < 441.0
            with time_to_finish() as more:
                assert 440.0 < more.left < 471.0  # half of it, the rest is for writing
    with minutes_limit(0.1, reserve=30.0) as short:
        assert 2.0 < short.left <= 3.0
    with minutes_limit(0.1, reserve=3.0, used=9.0) as late:
        assert late.passed


def test_histories_of_grids_with_unequal_numbers_of_sweeps_fit_together() -> None:
    """Where time runs short, finer grids are allowed fewer sweeps; this once crashed."""
    from asterism.engine.batch import equally_wide

    long, short = np.ones((1, 2, 170)), np.full((3, 2, 1), 2.0)
    joined = np.concatenate(equally_wide([long, short]))
    assert joined.shape == (4, 2, 170)
    assert (joined[1:, :, 0] == 2.0).all()
    assert np.isnan(joined[1:, :, 1:]).all()
    flat = [np.ones(2), np.ones(3)]
    assert equally_wide(flat) is flat


@pytest.mark.parametrize("method", ["star", "mean_field"])
@pytest.mark.usefixtures("no_time")
def test_inference_ends_with_the_best_so_far(method: str) -> None:
    network, obs = data()
    with pytest.warns(UserWarning, match="Stopped after the time limit of 1 s"):
        found = am.infer(network, obs, EMISSION, method=method, minutes=1 / 60)
    assert not found.converged
    values = found.marginals([1.0, 2.0]).values
    np.testing.assert_allclose(values.sum(axis=3), 1.0, atol=1e-10)


def test_a_limit_that_is_not_reached_changes_nothing() -> None:
    network, obs = data()
    plain = am.infer(network, obs, EMISSION)
    limited = am.infer(network, obs, EMISSION, minutes=1e6)
    assert plain.log_evidence == limited.log_evidence
    assert limited.converged


@pytest.mark.usefixtures("no_time")
def test_exact_inference_refuses_what_it_cannot_finish() -> None:
    network, obs = data()
    with pytest.raises(TooLargeError, match="more than the time limit of 6e-09 s"):
        am.infer(network, obs, EMISSION, method="exact", minutes=1e-10)


@pytest.mark.usefixtures("no_time")
@pytest.mark.parametrize("method", ["star", "exact"])
def test_a_fit_of_rates_ends_with_the_best_so_far(method: str) -> None:
    network, obs = data()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = am.ParameterLearner(network.graph, EMISSION, method=method, minutes=1.0 / 60).fit(obs)
    assert not fit.converged_
    assert "time limit of 1 s" in fit.stop_reason_
    assert np.isfinite(fit.log_evidence_)


@pytest.mark.parametrize("search", ["exhaustive", "screened"])
@pytest.mark.usefixtures("no_time")
def test_a_search_ends_with_the_best_so_far(search: str) -> None:
    _, obs = data()
    learner = am.StructureLearner(
        EMISSION, max_parents=1, search=search, minutes=1.0 / 60, method="star"
    )
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
    settings = {"max_parents": 1, "search": "screened", "edge_log_odds": 5.0, "method": "star"}
    am.StructureLearner(EMISSION, **regrouped(**settings)).fit(obs)  # compiles, outside the limit
    slow_sweeps = []

    def slow(problem: Any, *others: Any) -> None:
        update(problem, *others)
        if problem.node[:-1, CONFIGURATIONS].max() > 1:
            slow_sweeps.append(time.sleep(3.0))

    update = coupled.update_all_rates
    monkeypatch.setattr(coupled, "update_all_rates", slow)
    learner = am.StructureLearner(EMISSION, **regrouped(max_seconds=3.0, **settings)).fit(obs)
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
        some = am.simulate(network, 40, duration=20.0, seed=3, minutes=4.5 / 60)
    n = some.n_trajectories
    assert 0 < n < 40
    assert np.array_equal(some.initial, whole.initial[:n])
    assert np.array_equal(some.jump_time, whole.jump_time[: whole.jump_offset[n]])


def test_the_command_line_counts_minutes(tmp_path) -> None:
    flags = ("simulate", "--random", "2", "-o", tmp_path / "x.csv", "--minutes")
    assert invoke(*flags, "5").exit_code == 0
    assert_refused(invoke(*flags, "0"), 2, "--minutes")


class SomeFamilies(TimeLimit):
    """A limit that passes when it has been asked about so often."""

    n_times = 0

    @property
    def left(self) -> float:  # type: ignore[override]
        type(self).n_times -= 1
        return 0.0 if type(self).n_times < 0 else 100.0


@pytest.fixture
def cut_short(monkeypatch: pytest.MonkeyPatch) -> am.StructureLearner:
    """A search that scored some nodes in full, one in part, and others not at all."""
    _, obs = data()
    monkeypatch.setattr("asterism.numerics.resources.TimeLimit", SomeFamilies)
    for n_times in range(10, 400, 7):
        monkeypatch.setattr(SomeFamilies, "n_times", n_times)
        learner = am.StructureLearner(
            EMISSION,
            max_parents=1,
            search="exhaustive",
            minutes=50.0 / 60,
            n_jobs=1,
            method="star",
        ).fit(obs)
        if 0 < len(learner.not_scored_) < 4:
            return learner
    raise AssertionError("every search scored all nodes or none")


def test_a_node_not_scored_in_full_has_no_probabilities(cut_short: am.StructureLearner) -> None:
    learner = cut_short
    missing, nodes = learner.not_scored_, list(learner.network_.nodes)
    edges = learner.edges_
    of_missing = edges["child"].isin(missing)
    assert of_missing.sum() == 3 * len(missing)
    assert edges["probability"].isna().equals(of_missing)
    assert (edges.loc[of_missing, "caveat"] == "not scored").all()
    assert (edges.loc[~of_missing, "caveat"] == "").all()
    assert not edges.loc[of_missing, "in_graph"].any()
    assert all(not learner.network_.parents[node] for node in missing)
    square = learner.edge_probabilities_
    for parent in nodes:
        for child in nodes:
            unknown = child in missing and parent != child
            value = square.loc[parent, child]
            assert (value is pd.NA) if unknown else (0.0 <= value <= 1.0)
    families = learner.family_scores_
    rows = families[families["node"].isin(missing)]
    assert len(rows) == len(missing)
    assert rows["score"].isna().all()
    assert rows["probability"].isna().all()
    # of those scored, every family was
    others = families[~families["node"].isin(missing)]
    assert (others.groupby("node").size() == 4).all()
    with pytest.raises(AsterismError, match="not scored"):
        learner.sample_graphs(3)
    with pytest.raises(AsterismError, match="not scored"):
        am.metrics.edge_scores(square, [(nodes[0], nodes[1])])


def test_files_and_sentences_say_what_was_not_scored(
    cut_short: am.StructureLearner, tmp_path: Path
) -> None:
    import networkx

    learner = cut_short
    missing = learner.not_scored_
    run = am.load(learner.save(tmp_path / "run"))
    assert run.not_scored == missing
    told = sentences(run)
    assert f"{len(missing)} were not scored" in told[0]
    assert f"edges into {len(missing)} node" in told[1]
    assert all(name in told[1] for name in missing)
    text = (tmp_path / "run" / "edges.csv").read_text()
    assert "nan" not in text.lower()
    assert text.count("not scored") == 3 * len(missing)
    graph = networkx.read_graphml(tmp_path / "run" / "graph.graphml")
    assert [n for n, a in graph.nodes(data=True) if "caveat" in a] == missing
    assert run.edge_probabilities[missing].isna().sum().sum() == 3 * len(missing)
    page = page_data(run)
    names = [node["name"] for node in page["nodes"]]
    assert [names[i] for i in page["not_scored"]] == missing
    assert all(edge["p"] is not None for edge in page["edges"])
    for i, name in enumerate(names):
        column = [row[i] for j, row in enumerate(page["heatmap"]["z"]) if j != i]
        assert all((p is None) == (name in missing) for p in column)
    am.plots.edges(run)


@pytest.mark.parametrize("search", ["exhaustive", "screened"])
def test_compiled_loops_end_with_the_time(search: str) -> None:
    """One solve of these trajectories takes longer than the limit."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(8_000, 5)), columns=list("ABCDE"))
    table.insert(0, "time", np.tile([0.0, 1.0], 4_000))
    table.insert(0, "trajectory", np.repeat(np.arange(4_000), 2))
    obs = am.Observations.from_frame(table)
    few = am.Observations.from_frame(table[:20])
    settings: dict[str, Any] = {"search": search, "n_jobs": 1, "tempering": 1.0, "method": "star"}
    am.StructureLearner(EMISSION, **regrouped(**settings)).fit(few)  # compiles, outside the limit
    begin = time.process_time()
    learner = am.StructureLearner(EMISSION, **regrouped(max_seconds=2.0, **settings)).fit(obs)
    assert time.process_time() - begin < 4.5
    assert learner.not_scored_


def test_many_short_trajectories_of_noise_settle() -> None:
    """Nothing determines the rates, so they drift on; scores do not change by that."""
    rng = np.random.default_rng(0)
    n = 250
    table = pd.DataFrame(rng.normal(size=(2 * n, 3)).round(3), columns=list("ABC"))
    table.insert(0, "time", np.tile([0.0, 1.0], n))
    table.insert(0, "trajectory", np.repeat(np.arange(n), 2))
    learner = am.StructureLearner(am.Gaussian(levels="auto", learn=True), n_jobs=1, method="star")
    learner.fit(am.Observations.from_frame(table))
    assert learner.converged_, learner.stop_reason_
    assert learner.n_sweeps_ == 1
    assert not learner.edges_["in_graph"].any()
