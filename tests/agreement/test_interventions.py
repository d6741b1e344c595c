"""Interventions: exact inference against a chain written out by hand, the star against exact."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.errors import DataError, ModelError
from tests.flat_settings import regrouped
from tests.reference.held_chain import held_chain

RATES = {
    "A": np.array([[[0, 1.1], [0.4, 0]], [[0, 0.3], [1.7, 0]]]),
    "B": np.array([[[0, 0.2], [1.3, 0]], [[0, 2.1], [0.5, 0]]]),
}
NOISE = am.Gaussian(means=(0.0, 1.0), scale=0.5)
TIMES = (0.0, 0.7, 1.5, 2.2, 3.0)
VALUES = {"A": (0.1, 0.8, 0.4, 1.2, 0.3), "B": (0.9, 0.2, 1.1, 0.6, 0.0)}
HELD = [("B", 0.5, 1.5, 1), ("A", 2.0, 3.0, 0)]


def network(coupled: bool = True) -> am.Network:
    rates = RATES if coupled else {n: np.broadcast_to(r[0], r.shape) for n, r in RATES.items()}
    return am.Network({"A": ["B"], "B": ["A"]}, rates, {"A": [0, 1], "B": [0, 1]})


def seen(held=HELD) -> am.Observations:
    frame = pd.DataFrame({"trajectory": 1, "time": TIMES, **VALUES})
    table = pd.DataFrame(
        [(1, *row) for row in held], columns=["trajectory", "node", "start", "end", "state"]
    )
    return am.Observations.from_frame(frame).with_interventions(table)


def reference(coupled: bool = True, held=HELD):
    rates = network(coupled).rates
    points = []
    for i, node in enumerate("AB"):
        logs = NOISE.log_likelihood(np.array(VALUES[node]), [0, 1])
        points += [(t, i, np.exp(row)) for t, row in zip(TIMES, logs)]
    return held_chain(rates, points, [("AB".index(n), s, e, x) for n, s, e, x in held], 3.0)


@pytest.mark.parametrize("held", [HELD, [("B", 0.0, 3.0, 1)], [("A", 0.7, 2.2, 1)], []])
def test_exact_inference_agrees_with_a_chain_written_out(held):
    post = am.infer(network(), seen(held), NOISE, method="exact")
    log_evidence, dwell, moves = reference(held=held)
    assert post.log_evidence == pytest.approx(log_evidence, abs=1e-8)
    for node in "AB":
        np.testing.assert_allclose(post.statistics.dwell_times[node], dwell[node], atol=2e-5)
        np.testing.assert_allclose(post.statistics.transitions[node], moves[node], atol=2e-5)


def test_sampling_agrees_with_exact_inference():
    exact = am.infer(network(), seen(), NOISE, method="exact")
    found = am.infer(network(), seen(), NOISE, method="sample", n_draws=3000, seed=1)
    times = [0.2, 0.5, 1.0, 1.5, 1.8, 2.0, 2.5]
    difference = np.abs(found.marginals(times) - exact.marginals(times))
    assert np.all(difference <= 4.0 * found.errors.marginals(times) + 1e-9)
    for node in "AB":
        for which in ("dwell_times", "transitions"):
            own, true = (getattr(p.statistics, which)[node] for p in (found, exact))
            error = getattr(found.errors.statistics, which)[node]
            assert np.all(np.abs(own - true) <= 4.0 * error + 1e-9), (node, which)


def test_a_sampled_family_does_not_learn_from_what_was_set_by_hand():
    """B is held throughout: its rates keep their prior, while those of its child do not."""
    always = seen([("B", 0.0, 1.5, 1), ("B", 1.5, 3.0, 0)])
    fit = am.ParameterLearner(
        network().parents, NOISE, am.GammaPrior(2.0, 2.0), "sample", states=network().states
    ).fit(always)
    table = fit.rate_intervals_.set_index("node")
    np.testing.assert_allclose(table.loc["B", "rate"], 1.0, rtol=0.15)
    np.testing.assert_allclose(table.loc["B", "upper"], 2.786, rtol=0.15)
    learner = am.StructureLearner(
        NOISE,
        method="sample",
        prior=am.GammaPrior(2.0, 2.0),
        states=network().states,
        sampling=am.Sampling(max_draws=200),
        structure_prior="uniform",
    ).fit(always)
    assert learner.edge_probabilities_.loc["A", "B"] == pytest.approx(0.5, abs=1e-6)
    assert abs(learner.edge_probabilities_.loc["B", "A"] - 0.5) > 1e-4


@pytest.mark.parametrize("method", ["star", "mean_field"])
def test_variational_inference_is_exact_without_coupling(method):
    net = network(coupled=False)
    exact = am.infer(net, seen(), NOISE, method="exact")
    found = am.infer(net, seen(), NOISE, method=method)
    assert found.log_evidence == pytest.approx(exact.log_evidence, abs=1e-8)
    for node in "AB":
        for which in ("dwell_times", "transitions"):
            np.testing.assert_allclose(
                getattr(found.statistics, which)[node],
                getattr(exact.statistics, which)[node],
                atol=3e-5,  # statistics of pairs have the error of the grid
            )


def test_a_held_node_is_in_its_state_and_tells_its_parent_nothing():
    parents = {"A": [], "B": ["A"]}
    net = am.Network(parents, {"A": RATES["A"][0], "B": RATES["B"]}, network().states)
    always = [("B", 0.0, 3.0, 1)]
    for method in ("sample", "star", "mean_field", "clusters", "exact"):
        post = am.infer(net, seen(always), NOISE, method=method)
        held = post.marginals([0.3, 1.0, 2.9]).sel(node="B", state=1)
        np.testing.assert_allclose(held, 1.0, atol=1e-10)
        alone = am.infer(
            am.Network({"A": []}, {"A": RATES["A"][0]}, {"A": [0, 1]}),
            am.Observations.from_frame(
                pd.DataFrame({"trajectory": 1, "time": TIMES, "A": VALUES["A"]})
            ),
            NOISE,
            method="exact",
        )
        np.testing.assert_allclose(
            post.marginals([0.3, 1.0, 2.9]).sel(node="A"),
            alone.marginals([0.3, 1.0, 2.9]).sel(node="A"),
            atol=0.03 if method == "sample" else 1e-7,
        )
        assert np.abs(post.statistics.dwell_times["B"]).max() == pytest.approx(0.0, abs=1e-12)
    # a child that is held is the same as none; one that is seen to stay is not
    free = am.infer(net, seen([]), NOISE, method="exact")
    assert np.abs(free.marginals([1.0]) - post.marginals([1.0])).max() > 1e-3


def test_children_feel_a_held_parent():
    """With the only parent held throughout, star and exact agree on everything."""
    parents = {"A": [], "B": ["A"]}
    net = am.Network(parents, {"A": RATES["A"][0], "B": RATES["B"]}, network().states)
    held = [("A", 0.0, 1.2, 1), ("A", 1.2, 3.0, 0)]
    exact = am.infer(net, seen(held), NOISE, method="exact")
    star = am.infer(net, seen(held), NOISE, method="star")
    assert star.log_evidence == pytest.approx(exact.log_evidence, abs=1e-8)
    np.testing.assert_allclose(
        star.statistics.dwell_times["B"], exact.statistics.dwell_times["B"], atol=1e-6
    )


def two_clusters() -> am.Network:
    """Families {A, B, C} and {B, C, D}, which share two nodes."""
    parents = {"A": [], "B": ["A"], "C": ["A", "B"], "D": ["B", "C"]}
    rng = np.random.default_rng(2)
    rates = {
        n: np.exp(rng.uniform(-1.2, 1.2, size=(2,) * (len(p) + 2))) * (1 - np.eye(2))
        for n, p in parents.items()
    }
    return am.Network(parents, rates, {n: [0, 1] for n in parents})


@pytest.mark.parametrize(
    "held",
    [
        [("B", 0.5, 1.5, 1), ("A", 2.0, 3.0, 0)],
        [("C", 0.0, 3.0, 0)],
        [("B", 0.0, 0.7, 0), ("B", 0.7, 1.5, 1), ("C", 1.5, 2.2, 1)],
    ],
)
@pytest.mark.parametrize("cluster_size", [1, 4])
def test_clusters_take_interventions_as_exact_inference_does(held, cluster_size):
    net = two_clusters()
    frame = pd.DataFrame(
        {
            "trajectory": 1,
            "time": TIMES,
            **VALUES,
            "C": (0.4, 0.9, 0.2, 0.7, 1.1),
            "D": (0.9, 0.1, 0.3, 1.2, 0.6),
        }
    )
    table = pd.DataFrame(
        [(1, *row) for row in held], columns=["trajectory", "node", "start", "end", "state"]
    )
    # a jump of C at the moment at which B is set: the rate is that of the state set
    event = pd.DataFrame({"trajectory": [1], "time": [0.5], "node": ["C"], "to": [1]})
    is_free = all(not (n == "C" and s <= 0.5 <= e) for n, s, e, _ in held)
    told = am.Observations.from_frame(frame, events=event if is_free else None)
    told = told.with_interventions(table)
    exact = am.infer(net, told, NOISE, method="exact")
    found = am.infer(net, told, NOISE, method="clusters", cluster_size=cluster_size, tolerance=1e-4)
    close = 1e-8 if cluster_size == 4 else 2e-3
    assert found.converged
    assert (len(found.courses.clusters) == 1) == (cluster_size == 4)
    assert found.log_evidence == pytest.approx(exact.log_evidence, abs=close)
    for node in "ABCD":
        for which in ("dwell_times", "transitions"):
            np.testing.assert_allclose(
                getattr(found.statistics, which)[node],
                getattr(exact.statistics, which)[node],
                atol=close,
            )
    times = [0.1, 0.6, 1.2, 1.9, 2.6, 3.5]
    np.testing.assert_allclose(found.marginals(times), exact.marginals(times), atol=close)
    pair = found.joint_marginals(("B", "C"), times)
    np.testing.assert_allclose(pair, exact.joint_marginals(("B", "C"), times), atol=close)


def test_paths_drawn_by_clusters_obey_interventions():
    net = network()
    paths = am.infer(net, seen(), NOISE, method="clusters").sample(40, seed=1)
    frame = paths.to_frame()
    for node, start, end, state in HELD:
        mine = frame[frame.node == node]
        inside = mine[(mine.time > start) & (mine.time < end)]
        assert len(inside) == 0
        for _, one in mine.groupby("trajectory"):
            assert one[one.time <= start].state.iloc[-1] == state


def test_what_only_interventions_can_tell_is_told():
    """Two nodes that copy each other's state quickly: which leads shows only when one is held."""
    table, held = [], []
    rng = np.random.default_rng(0)
    lead = np.array([[0, 0.4], [0.4, 0]])
    follow = np.array([[[0, 0.05], [6.0, 0]], [[0, 6.0], [0.05, 0]]])
    net = am.Network({"A": [], "B": ["A"]}, {"A": lead, "B": follow}, {"A": [0, 1], "B": [0, 1]})
    noise = am.Gaussian((0.0, 1.0), 0.25)
    free = am.observe(am.simulate(net, 10, duration=10.0, seed=1), noise, n_observations=10, seed=2)
    table.append(free.to_frame())
    # B held in 1: A does not care; A held in 1: B follows at once
    alone = am.Network({"A": []}, {"A": lead}, {"A": [0, 1]})
    for d in range(10, 20):
        node = "B" if d % 2 else "A"
        state = (d // 2) % 2
        held.append((d, node, 0.0, 10.0, state))
        times = np.sort(rng.uniform(0, 10, 10))
        own = am.observe(am.simulate(alone, 1, duration=10.0, seed=d), noise, times=[times], seed=d)
        other = rng.normal(state, 0.25, 10)
        values = own.measurements["A"].value if node == "B" else other
        followed = other if node == "B" else rng.normal(state, 0.25, 10)
        table.append(pd.DataFrame({"trajectory": d, "time": times, "A": values, "B": followed}))
    frame = pd.concat(table, ignore_index=True)
    told = am.Observations.from_frame(frame, start=0.0, end=10.0).with_interventions(
        pd.DataFrame(held, columns=["trajectory", "node", "start", "end", "state"])
    )
    # rates of .05 and 6 side by side: shape 2 expects that, the default of 5 does not
    settings = {"states": net.states, "max_parents": 1, "n_jobs": 1, "prior": am.GammaPrior(2.0)}
    learner = am.StructureLearner(noise, method="star", **regrouped(**settings)).fit(told)
    assert sorted(learner.graph_.edges) == [("A", "B")]
    assert learner.edge_probabilities_.loc["A", "B"] > 0.95
    assert learner.edge_probabilities_.loc["B", "A"] < 0.2
    # without interventions the wrong direction is claimed too
    learner = am.StructureLearner(noise, method="star", **regrouped(**settings)).fit(free)
    assert sorted(learner.graph_.edges) == [("A", "B"), ("B", "A")]


def test_bad_tables_are_refused_with_their_place():
    obs = am.Observations.from_frame(pd.DataFrame({"trajectory": 1, "time": TIMES, **VALUES}))

    def told(**cells):
        row = {"trajectory": 1, "node": "A", "start": 0.0, "end": 1.0, "state": 0} | cells
        return obs.with_interventions(pd.DataFrame([row]))

    for cells, words in (
        ({"trajectory": 9}, "row 2.*there is no trajectory 9"),
        ({"node": "Z"}, "row 2.*'Z' is not a node"),
        ({"start": 5.0, "end": 6.0}, "trajectory 1: .*nothing lies in the trajectory"),
        ({"start": "x"}, "the start 'x' is not a number"),
        ({"state": None}, "column 'state': the cell is empty"),
    ):
        with pytest.raises(DataError, match=words):
            told(**cells)
    with pytest.raises(DataError, match="no column 'state'"):
        obs.with_interventions(pd.DataFrame({"trajectory": [1], "node": ["A"]}))
    two = pd.DataFrame(
        {"trajectory": 1, "node": "A", "start": [0, 1], "end": [2, 3], "state": [0, 1]}
    )
    with pytest.raises(DataError, match="rows 2 and 3: both hold 'A'"):
        obs.with_interventions(two)
    with pytest.raises(DataError, match="no state 7"):
        am.infer(network(), told(state=7), NOISE)
    with pytest.raises(ModelError, match="cannot take interventions yet"):
        am.infer(network(), told(), NOISE).sample(1)
    assert len(told(start=None, end=None).interventions) == 1
    assert told(start=None, end=None).interventions.end[0] == 3.0
    assert "1 interventions" in repr(told()) or "intervention" in repr(told())
