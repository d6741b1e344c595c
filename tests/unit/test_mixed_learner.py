"""Graphs of nodes that jump beside nodes that move continuously."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.errors import DataError, ModelError

SWITCH = [[0, 0.25], [0.25, 0]]
KINDS = {
    "j": am.Gaussian(levels=2, learn=True),
    "k": am.Gaussian(levels=2, learn=True),
    "x": am.Continuous(),
    "y": am.Continuous(),
}
#: a third of the range between both levels
NOISE = {"j": am.Gaussian((0.0, 3.0), 1.0), "k": am.Gaussian((0.0, 3.0), 1.0)}


def measured(connected: bool, seed: int) -> am.Observations:
    """j sets the level of y; x turns k on and off; or nobody does anything to anybody."""
    if connected:
        network = am.Network(
            {"j": [], "k": ["x"], "x": [], "y": ["j"]},
            {"j": SWITCH, "k": SWITCH},
            drifts={
                "x": am.Drift(0.25, 0.7, noise_sd=0.1),
                "y": am.Drift(0.6, 0.5, shifts={"j": (-0.8, 0.8)}, noise_sd=0.1),
            },
            slopes={"k": {"x": [[0, 1.5], [-1.5, 0]]}},
        )
    else:
        network = am.Network(
            {"j": [], "k": [], "x": [], "y": []},
            {"j": SWITCH, "k": SWITCH},
            drifts={n: am.Drift(0.4, 0.6, noise_sd=0.1) for n in "xy"},
        )
    paths = am.simulate(network, 8, duration=40.0, seed=seed)
    return am.observe(paths, NOISE, interval=1.0, seed=seed + 1)


@pytest.fixture(scope="module")
def learner() -> am.StructureLearner:
    # names whose order is not that of the alphabet
    states = {node: ["low", "high"] for node in "jk"}
    return am.StructureLearner(KINDS, states=states, n_jobs=1).fit(measured(True, 10))


def test_edges_between_kinds_are_found(learner: am.StructureLearner) -> None:
    chance = learner.edge_probabilities_
    assert chance.loc["j", "y"] > 0.5
    assert chance.loc["x", "k"] > 0.5
    others = [(p, c) for p in "jkxy" for c in "jkxy" if p != c and p + c not in ("jy", "xk")]
    assert [pair for pair in others if chance.loc[pair] > 0.5] == []
    assert not chance.isna().any().any()
    assert learner.not_scored_ == []


def test_what_was_learned_has_numbers_of_both_kinds(learner: am.StructureLearner) -> None:
    network = learner.network_
    assert network.parents["k"] == ("x",)
    slope = network.slopes["k"]["x"]
    assert slope[0, 1] > 0.3
    assert slope[1, 0] < -0.3
    shifts = network.drifts["y"].shifts["j"]
    assert network.states["j"] == ("low", "high")
    assert (shifts[1] - shifts[0]) / network.drifts["y"].decay > 1.0
    edges = learner.edges_.set_index(["parent", "child"])
    assert edges.loc[("x", "k"), "effect"] == "raises"
    assert edges.loc[("x", "k"), "fold_change"] > 1.5
    assert edges.loc[("j", "y"), "effect"] == "raises"
    assert edges.loc[("j", "y"), "shift"] > 0.5
    kinds = learner.nodes_.set_index("node")["kind"]
    assert kinds.to_dict() == {"j": "jumps", "k": "jumps", "x": "continuous", "y": "continuous"}
    rates = learner.rate_intervals_
    assert rates is not None
    assert set(rates.loc[rates["node"] == "k", "configuration"]) == {"x=low", "x=high"}
    assert am.simulate(network, 2, duration=3.0, seed=0).n_trajectories == 2


def test_kinds_are_found_by_evidence() -> None:
    found = am.StructureLearner(n_jobs=1).fit(measured(True, 10))
    kinds = found.nodes_.set_index("node")
    assert kinds["kind"].to_dict() == {n: "jumps" if n in "jk" else "continuous" for n in "jkxy"}
    assert (kinds["log_evidence_jumps"] > kinds["log_evidence_continuous"])[["j", "k"]].all()
    assert found.edge_probabilities_.loc["j", "y"] > 0.5
    assert found.edge_probabilities_.loc["x", "k"] > 0.5
    assert "unlike the other 2 columns" in found.stage_


def test_one_kind_where_both_cannot_be_learned() -> None:
    data = measured(False, 10).select(nodes=["j", "x", "y"])
    assert am.StructureLearner().fit(data).nodes_["kind"].nunique() == 2
    told = data.with_stimuli(
        pd.DataFrame({"name": ["drug"], "trajectory": [None], "start": [1.0], "end": [9.0]})
    )
    found = am.StructureLearner().fit(told)
    assert set(found.nodes_["kind"]) == {"continuous"}
    assert "taken as one kind" in found.stage_


def labelled(kind: str) -> pd.DataFrame:
    """As ``measured``, without noise in j and k: text, 0 and 1, or counts."""
    frame = measured(True, 10).to_frame()
    for node in "jk":
        high = frame[node] > 1.5
        rng = np.random.default_rng(3)
        frame[node] = {
            "text": np.where(high, "on", "off"),
            "0/1": high.astype(int),
            "counts": rng.poisson(np.where(high, 20.0, 3.0)),
        }[kind]
    return frame


@pytest.mark.parametrize("kind", ["text", "0/1", "counts"])
def test_labels_and_counts_jump_beside_columns_that_move(kind: str) -> None:
    learner = am.StructureLearner(n_jobs=1).fit(am.Observations.from_frame(labelled(kind)))
    kinds = learner.nodes_.set_index("node")["kind"]
    assert kinds.to_dict() == {"j": "jumps", "k": "jumps", "x": "continuous", "y": "continuous"}
    assert isinstance(learner.emission_["j"], am.Poisson if kind == "counts" else am.Exact)
    chance = learner.edge_probabilities_
    assert chance.loc["j", "y"] > 0.5
    assert chance.loc["x", "k"] > 0.5
    assert not chance.isna().any().any()


def test_what_is_known_beforehand_is_respected_between_kinds() -> None:
    data = am.Observations.from_frame(labelled("text"))
    learner = am.StructureLearner(
        structure_prior=am.StructurePrior(
            required=[("j", "x"), ("y", "k")],
            forbidden=[("j", "y")],
            exogenous=["j"],
            probabilities={("x", "k"): 1e-9},
        ),
        n_jobs=1,
    ).fit(data)
    chance = learner.edge_probabilities_
    assert set(learner.network_.drifts) == {"x", "y"}
    assert chance.loc["j", "x"] == pytest.approx(1.0)
    assert chance.loc["y", "k"] == pytest.approx(1.0)
    assert chance.loc["j", "y"] == 0.0
    assert (chance["j"] == 0.0).all()
    assert chance.loc["x", "k"] < 0.01
    assert {("j", "x"), ("y", "k")} <= set(learner.graph_.edges)


def test_draws_of_continuous_nodes_leave_jumping_ones_to_the_star() -> None:
    """Errors and graphs of jumping children are not those of draws that they had no part in."""
    frame, rng = labelled("text"), np.random.default_rng(0)
    for node in "jkxy":
        frame.loc[rng.random(len(frame)) < 0.4, node] = None
    data = am.Observations.from_frame(frame)
    sampling = am.Sampling(chains=2, max_draws=100)
    learner = am.StructureLearner(n_jobs=1, sampling=sampling, random_state=1).fit(data)
    assert learner.method_ == "sample"
    rows = learner.edges_.set_index(["parent", "child"])
    assert rows.loc[("j", "y"), "error"] > 0.0
    graphs = learner.sample_graphs(200)
    for pair in (("x", "k"), ("j", "y")):
        share = np.mean([graph.has_edge(*pair) for graph in graphs])
        assert share == pytest.approx(learner.edge_probabilities_.loc[pair], abs=0.25)


@pytest.mark.parametrize("method", ["star", "sample"])
def test_the_method_does_not_change_the_kinds(method: str) -> None:
    data = measured(True, 10)
    sampling = am.Sampling(chains=2, max_draws=40)
    learner = am.StructureLearner(method=method, sampling=sampling, n_jobs=1).fit(data)
    assert set(learner.network_.drifts) == {"x", "y"}


@pytest.mark.parametrize("seed", [20, 30])
def test_unconnected_tables_claim_nothing(seed: int) -> None:
    found = am.StructureLearner(KINDS, n_jobs=1).fit(measured(False, seed))
    assert found.edge_probabilities_.to_numpy().max() < 0.5


def test_what_is_not_learned_yet_is_said() -> None:
    data = measured(False, 1)
    told = pd.DataFrame({"name": ["drug"], "trajectory": [None], "start": [1.0], "end": [2.0]})
    with pytest.raises(DataError, match="stimuli"):
        am.StructureLearner(KINDS).fit(data.with_stimuli(told))
    with pytest.raises(ModelError, match="'k'"):
        am.StructureLearner({**KINDS, "k": am.Likelihood()}).fit(data)
    frame = data.to_frame()
    frame["x"] = np.pi
    with pytest.raises(DataError, match="'x'"):
        am.StructureLearner(KINDS).fit(am.Observations.from_frame(frame))
