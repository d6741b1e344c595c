"""Restrictions in words, and values that are entries, codes or sets."""

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.errors import DataError, ModelError
from asterism.model.priors import as_mask, transition_pairs

STATES = [1, 2, 3]


def test_transitions_in_words():
    expected = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=bool)
    for text in ("1>2, 2>3", "1->2,2→3", am.Transitions([(1, 2), ("2", "3")])):
        np.testing.assert_array_equal(as_mask("s", text, STATES), expected)
    np.testing.assert_array_equal(as_mask("s", "progressive", STATES), np.triu(np.ones((3, 3)), 1))
    mask = as_mask("s", am.Transitions(absorbing=[3]), STATES)
    assert not mask[2].any()
    assert mask[0, 1]
    assert mask[1, 0]


@pytest.mark.parametrize(
    ("given", "message"),
    [("1>4", "no state '4'"), ("1-2", "not a transition"), ("1>1", "no transition"),
     (np.ones((2, 2)), "shape"), (am.Transitions(absorbing=["x"]), "no state 'x'")],
)  # fmt: skip
def test_transitions_that_cannot_be(given, message):
    with pytest.raises(ModelError, match=message):
        as_mask("s", given, STATES)


def test_pairs_are_read_either_way():
    assert transition_pairs("a>b") == transition_pairs([("a", "b")]) == [("a", "b")]


@pytest.fixture
def table():
    return pd.DataFrame(
        {
            "trajectory": [1, 1, 1, 2, 2, 2, 3, 3],
            "time": [0.0, 1.0, 2.5, 0.0, 1.0, 2.0, 0.0, 3.0],
            "s": [1, 2, 3, 1, 99, 2, 2, 3],
            "sex": ["m", "m", "m", "f", "f", "f", "m", "m"],
        }
    )


def observations(table, **options):
    return am.Observations.from_frame(table, labels=["s"], ignore=["sex"], **options)


def test_exact_entries_become_events(table):
    obs = observations(table).with_exact_entries("s", 3)
    assert sorted(obs.events.time) == [2.5, 3.0]
    assert len(obs.measurements["s"]) == 6
    with pytest.raises(DataError, match="never measured as '7'"):
        observations(table).with_exact_entries("s", 7)


def test_sets_of_states_are_sums(table):
    network = am.Network(
        {"s": []}, {"s": np.array([[0, 0.5, 0.1], [0.2, 0, 0.3], [0, 0, 0]])}, {"s": STATES}
    )
    obs = observations(table).with_state_sets("s", {99: [1, 2]})
    whole = am.infer(network, obs, am.Exact(), method="exact").log_evidence_by_trajectory
    parts = []
    for state in (1, 2):
        one = table.replace({"s": {99: state}})
        parts.append(am.infer(network, observations(one), am.Exact(), method="exact"))
    each = np.array([p.log_evidence_by_trajectory.to_numpy() for p in parts])
    assert whole.to_numpy()[1] == pytest.approx(np.logaddexp(*each[:, 1]))
    assert whole.to_numpy()[0] == pytest.approx(each[0, 0])


def test_sets_are_not_states(table):
    obs = observations(table).with_state_sets("s", {99: [1, 2]})
    learner = am.ParameterLearner(
        {"s": []}, method="exact", allowed_transitions={"s": "progressive"}
    )
    assert learner.fit(obs).network_.states["s"] == (1, 2, 3)


def test_codes_and_silent_states():
    rng = np.random.default_rng(0)
    rows = []
    for d in range(60):
        death = rng.exponential(6.0)
        turn = rng.exponential(3.0)
        for t in np.arange(0.0, 8.0):
            if t > death:
                rows.append((d, death, 999.0))
                break
            rows.append((d, t, (100.0 if t < turn else 60.0) + rng.normal(0, 5)))
    frame = pd.DataFrame(rows, columns=["trajectory", "time", "fev"])
    obs = am.Observations.from_frame(frame).with_state_codes("fev", {999: "dead"})
    obs = obs.with_exact_entries("fev", "dead")
    emission = am.SilentStates(am.Gaussian(means=(60, 100), scale=8.0, learn=True), ["dead"])
    learner = am.ParameterLearner(
        {"fev": []},
        emission={"fev": emission},
        method="exact",
        states={"fev": ["low", "high", "dead"]},
        allowed_transitions={"fev": am.Transitions(absorbing=["dead"])},
    ).fit(obs)
    means = learner.emission_["fev"].emission.means
    np.testing.assert_allclose(means, (60, 100), atol=2.5)
    assert learner.emission_["fev"].silent == ("dead",)
    again = am.SilentStates.from_dict(
        {k: v for k, v in learner.emission_["fev"].to_dict().items() if k != "kind"}
    )
    assert again == learner.emission_["fev"]
    assert np.isfinite(learner.log_evidence_)


def test_observations_are_split_by_trajectory(table):
    obs = am.Observations.from_frame(table, labels=["s"], covariates=["sex"])
    assert len(obs) == 3
    assert obs.shape == (3,)
    assert obs[1].trajectories == (2,)
    assert obs[[2, 0]].trajectories == (3, 1)
    assert obs[np.array([True, False, True])].trajectories == (1, 3)
    assert obs[-1].covariates.values["sex"].tolist() == ["m", "m"]
    assert [part.trajectories[0] for part in obs] == [1, 2, 3]
    assert obs.select(nodes=["s"]).nodes == ("s",)
    assert obs.select(trajectories=[3]).trajectories == (3,)
    with pytest.raises(DataError, match="no node 'x'"):
        obs.select(nodes=["x"])
    with pytest.raises(DataError, match="'age', which is not a column"):
        am.Observations.from_frame(table, ignore=["age"])


def test_covariates_hold_until_the_next_row(table):
    from asterism.data.covariates import values_at

    frame = pd.DataFrame(
        {"trajectory": [1, 1, 2, 3], "time": [0.5, 2.0, 0.0, 0.0], "dose": [1.0, np.nan, 3.0, 4.0],
         "arm": ["a", "b", "b", "a"]}
    )  # fmt: skip
    obs = observations(table).with_covariates(frame)
    at = (np.zeros(4, dtype=int), np.array([0.0, 0.5, 1.9, 2.0]))
    assert values_at(obs.covariates, "arm", *at).tolist() == ["a", "a", "a", "b"]
    assert values_at(obs.covariates, "dose", *at).tolist() == [1.0, 1.0, 1.0, 1.0]
    with pytest.raises(DataError, match="no value in trajectory 3"):
        observations(table).with_covariates(frame[frame.trajectory < 3])
