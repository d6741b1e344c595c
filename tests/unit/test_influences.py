"""Stimuli of nodes that jump, trends, and checks for what the model does not have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats
from scipy.special import gammaln

import asterism as am
from asterism.data.interventions import stimulus_paths
from asterism.errors import DataError, ModelError
from asterism.learning.held_out import held_out_gain
from asterism.learning.search.rate_factors import sentences
from asterism.sampling._factors import FactorPrior, log_ratio
from tests.command_line import invoke

DRUG = am.Network(
    {"A": ["drug"], "B": [], "drug": []},
    {
        "A": [[[0, 0.2], [2.0, 0]], [[0, 3.0], [0.2, 0]]],
        "B": [[0, 0.6], [0.6, 0]],
        "drug": None,
    },
    {"A": ("0", "1"), "B": ("0", "1"), "drug": ("off", "on")},
)


def treated(n_trajectories: int = 12, seed: int = 0) -> am.Observations:
    """Measurements of A and B; a drug that acts on A is on for half of the time."""
    rng = np.random.default_rng(seed)
    begin = rng.uniform(0.0, 5.0, n_trajectories)
    told = pd.DataFrame(
        {"name": "drug", "trajectory": range(n_trajectories), "start": begin, "end": begin + 5.0}
    )
    pieces = []
    for d in range(n_trajectories):
        known = pd.DataFrame(
            {"time": [0.0, begin[d], begin[d] + 5.0], "state": ["off", "on", "off"], "node": "drug"}
        )
        path = am.simulate(
            DRUG,
            duration=10.0,
            seed=int(rng.integers(2**31)),
            paths=am.Trajectories.from_frame(
                known.assign(trajectory=0), states={"drug": ("off", "on")}, end=10.0
            ),
        )
        seen = am.observe(path, am.Gaussian((0.0, 1.0), 0.2), n_observations=20, seed=d)
        frame = seen.to_frame()
        pieces.append(frame.assign(trajectory=d)[["trajectory", "time", "A", "B"]])
    return am.Observations.from_frame(pd.concat(pieces), start=0.0, end=10.0).with_stimuli(told)


def test_a_stimulus_is_off_and_on_from_the_start_to_the_end() -> None:
    told = pd.DataFrame(
        [("x", "a", 2.0, 4.0), ("x", "a", 3.0, 5.0), ("x", "b", 0.0, 10.0)],
        columns=["name", "trajectory", "start", "end"],
    )
    found = stimulus_paths(told, ("a", "b", "c"), np.zeros(3), np.full(3, 10.0))
    rows = list(zip(found.trajectory, found.start, found.end, found.state))
    assert rows == [
        *((0, 0.0, 2.0, "off"), (0, 2.0, 4.0, "on"), (0, 4.0, 5.0, "on"), (0, 5.0, 10.0, "off")),
        *((1, 0.0, 10.0, "on"), (2, 0.0, 10.0, "off")),
    ]


def test_targets_of_a_stimulus_are_found_and_are_no_edges() -> None:
    obs = treated()
    learner = am.StructureLearner(am.Gaussian((0.0, 1.0), 0.2), method="star").fit(obs)
    chance = learner.targets_.set_index("node")["probability"]
    assert chance["A"] > 0.9 > 0.5 > chance["B"]
    assert set(learner.edges_["parent"]) == {"A", "B"}
    assert list(learner.edge_probabilities_) == ["A", "B"]
    assert learner.network_.parents["A"] == ("drug",)
    # the network reads the times of the drug from the data
    assert np.isfinite(learner.score(obs))
    posterior = am.infer(learner.network_, obs, am.Gaussian((0.0, 1.0), 0.2), method="exact")
    assert np.isfinite(posterior.log_evidence)


def test_the_command_says_and_writes_whom_a_stimulus_acts_on(tmp_path: Path) -> None:
    obs = treated()
    obs.to_frame()[["trajectory", "time", "A", "B"]].to_csv(tmp_path / "data.csv", index=False)
    assert obs.stimuli is not None
    obs.stimuli.to_csv(tmp_path / "drug.csv", index=False)
    flags = ("--method", "star", "--emission", "gaussian:0,1:0.2", "-o", tmp_path / "RUN")
    result = invoke(
        "learn", tmp_path / "data.csv", "--stimuli", tmp_path / "drug.csv", "--null", 0, *flags
    )
    assert "drug acts on A (" in result.output
    written = pd.read_csv(tmp_path / "RUN" / "targets.csv")
    assert written["node"].tolist() == ["A", "B"]
    assert written["probability"][0] > 0.9
    assert "drug acts on A (" in (tmp_path / "RUN" / "report.html").read_text()


def test_a_stimulus_with_the_name_of_a_node_is_refused() -> None:
    obs = treated(2)
    told = pd.DataFrame({"name": ["A"], "trajectory": [0], "start": [1.0], "end": [2.0]})
    with pytest.raises(DataError, match="'A' has the name of a node"):
        am.StructureLearner(am.Gaussian((0.0, 1.0), 0.2), method="star").fit(obs.with_stimuli(told))


@pytest.mark.parametrize(("i", "jumps", "expected"), [(0, 0, 2.0), (1, 5, 1.5), (2, 2, 4.0)])
def test_ratio_of_a_cell_is_the_integral_over_its_factor(
    i: int, jumps: int, expected: float
) -> None:
    shape = np.array([1.0, 3.0, 10.0])
    counts = gammaln(shape[:, None] + np.arange(4)) - gammaln(shape)[:, None]

    def weighed(factor: float) -> float:
        likelihood = factor**jumps * np.exp(-(factor - 1.0) * expected)
        return float(stats.gamma.pdf(factor, shape[i], scale=1.0 / shape[i]) * likelihood)

    whole = integrate.quad(weighed, 0.0, 50.0, limit=200)[0]
    prior = FactorPrior(shape, counts, np.ones(4))
    found = log_ratio.py_func(prior, i, float(jumps), expected)
    assert found == pytest.approx(np.log(whole), abs=1e-6)


def _changing(trend: bool) -> am.Observations:
    """Three nodes without edges, measured exactly often; with a trend they are slow later on."""
    rng = np.random.default_rng(5)
    rows = []
    for d in range(10):
        state, when = rng.integers(0, 2, 3), np.arange(0.0, 10.0, 0.25)
        for t in when:
            speed = 0.15 if trend and t >= 5.0 else 1.0
            state = np.where(rng.random(3) < 1 - np.exp(-0.25 * speed), 1 - state, state)
            rows.append((d, t, *(state + rng.normal(0.0, 0.1, 3))))
    return am.Observations.from_frame(pd.DataFrame(rows, columns=["trajectory", "time", *"ABC"]))


@pytest.mark.parametrize("trend", [False, True])
def test_rates_that_change_over_time_are_noticed(trend: bool) -> None:
    learner = am.StructureLearner(
        am.Gaussian((0.0, 1.0), 0.1), method="sample", sampling=am.Sampling(max_draws=100)
    ).fit(_changing(trend))
    likely = {check.what for check in learner.checks_ if check.is_likely}
    assert likely == ({"trend"} if trend else set())
    shown = learner.edges_[learner.edges_["in_graph"]]
    assert set(shown["caveat"]) <= ({"could be a trend"} if trend else {""})
    assert ["over time" in told for told in sentences(learner.checks_)] == [True] * trend


def test_trajectories_that_differ_are_taken_up_with_their_spread() -> None:
    rng = np.random.default_rng(6)
    rows = []
    for d in range(20):
        state, speed = rng.integers(0, 2, 3), np.array([1.0, 1.0, 1.0])
        speed[:2] *= np.exp(rng.normal(0.0, 1.2))  # A and B go fast and slowly together, C never
        for t in np.arange(0.0, 10.0, 0.25):
            state = np.where(rng.random(3) < 1 - np.exp(-0.25 * speed), 1 - state, state)
            rows.append((d, t, *(state + rng.normal(0.0, 0.1, 3))))
    obs = am.Observations.from_frame(pd.DataFrame(rows, columns=["trajectory", "time", *"ABC"]))
    learner = am.StructureLearner(
        am.Gaussian((0.0, 1.0), 0.1), method="sample", sampling=am.Sampling(max_draws=100)
    ).fit(obs)
    found = {c.node: c for c in learner.checks_ if c.what == "trajectories differ"}
    assert found["A"].probability > 0.9
    assert found["B"].probability > 0.9
    assert found["C"].probability < 0.5
    assert found["A"].lower < np.exp(1.2) < found["A"].upper
    (told,) = sentences(learner.checks_)
    assert "by a factor of" in told
    assert "A, B" in told or "B, A" in told


def told(**columns: object) -> pd.DataFrame:
    return pd.DataFrame({"name": "drug", **columns})


def test_a_column_that_is_the_same_for_all_nodes_is_a_stimulus() -> None:
    rows = [
        *(("a", 0.0, 1.0, 0), ("a", 1.0, 2.0, 1), ("a", 2.0, 1.0, 1), ("a", 3.0, 2.0, None)),
        *(("b", 0.0, 1.0, 1), ("b", 2.0, 2.0, 1), ("c", 0.0, 1.0, 0), ("c", 4.0, 1.0, 0)),
    ]
    frame = pd.DataFrame(rows, columns=["trajectory", "time", "A", "drug"])
    seen = am.Observations.from_frame(frame, end=5.0).with_stimuli("drug")
    assert seen.nodes == ("A",)
    assert seen.stimuli is not None
    found = list(seen.stimuli.itertuples(index=False, name=None))
    # an empty cell of a time at which something else was measured says that nothing is on
    assert found == [("drug", "a", 1.0, 3.0), ("drug", "b", 0.0, 5.0)]
    words = frame.assign(drug=["no", "X", "X", "Y", "off", "Y", "", "none"])
    seen = am.Observations.from_frame(words, end=5.0).with_stimuli("drug")
    assert seen.stimuli is not None
    assert set(seen.stimuli["name"]) == {"X", "Y"}
    with pytest.raises(DataError, match="no node 'dose'"):
        am.Observations.from_frame(frame).with_stimuli("dose")


def test_a_column_of_a_stimulus_has_one_value_at_a_time() -> None:
    rows = [("a", 0.0, 1.0, 0), ("a", 0.0, 2.0, 1), ("a", 1.0, 2.0, 1)]
    frame = pd.DataFrame(rows, columns=["trajectory", "time", "A", "drug"])
    with pytest.raises(DataError, match="'off' and 'drug' at time 0"):
        am.Observations.from_frame(frame).with_stimuli("drug")


def test_known_targets_are_taken_as_they_are() -> None:
    obs = treated(6)
    assert obs.stimuli is not None
    known = obs.with_stimuli(obs.stimuli.assign(node="B"))
    assert known.rename({"B": "C"}).stimuli["node"].unique().tolist() == ["C"]
    learner = am.StructureLearner(am.Gaussian((0.0, 1.0), 0.2), method="star").fit(known)
    chance = learner.targets_.set_index("node")["probability"]
    assert chance["A"] == 0.0
    assert chance["B"] == pytest.approx(1.0)
    moving = am.StructureLearner(am.Continuous()).fit(known)
    assert moving.targets_["node"].tolist() == ["B", "A"]
    assert moving.targets_["probability"].tolist() == pytest.approx([1.0, 0.0])
    with pytest.raises(ModelError, match="not drawn yet"):
        am.StructureLearner(am.Continuous(), method="sample").fit(known)


def test_targets_that_cannot_be_are_refused() -> None:
    obs = treated(2)
    with pytest.raises(DataError, match="'Z' is not a node"):
        obs.with_stimuli(told(trajectory=[0, 1], node="Z"))
    with pytest.raises(DataError, match="in some rows only"):
        obs.with_stimuli(told(trajectory=[0, 1], node=["A", None]))


def test_a_network_without_edges_still_feels_stimuli() -> None:
    learner = am.StructureLearner(am.Gaussian((0.0, 1.0), 0.2), method="star", max_parents=1)
    obs = treated(8)
    assert obs.stimuli is not None
    known = obs.with_stimuli(obs.stimuli.assign(node="A"))
    gain = held_out_gain(learner.fit(known), known, 2)
    # the drug explains A on both sides, and there is no edge
    assert np.abs(gain).max() < 1e-6


@pytest.mark.parametrize("kind", ["wide", "long"])
def test_the_command_reads_a_stimulus_from_a_column(tmp_path: Path, kind: str) -> None:
    obs = treated(8)
    assert obs.stimuli is not None
    wide = obs.to_frame()[["trajectory", "time", "A", "B"]]
    span = obs.stimuli.set_index("trajectory")
    on = [span.start[d] <= t < span.end[d] for d, t in zip(wide["trajectory"], wide["time"])]
    table = wide.assign(drug=np.array(on).astype(int))
    if kind == "long":
        table = table.melt(["trajectory", "time", "drug"], ["A", "B"], "node", "value")
    table.to_csv(tmp_path / "data.csv", index=False)
    flags = ("--method", "star", "--emission", "gaussian:0,1:0.2", "--null", 0)
    run = ("-o", tmp_path / "RUN")
    result = invoke("learn", tmp_path / "data.csv", "--stimuli", "drug", *flags, *run)
    assert "drug acts on A (" in result.output
    assert pd.read_csv(tmp_path / "RUN" / "edges.csv")["parent"].isin(["A", "B"]).all()
    wrong = invoke("learn", tmp_path / "data.csv", "--stimuli", "dose", *flags)
    assert "neither a file nor a column" in wrong.output
