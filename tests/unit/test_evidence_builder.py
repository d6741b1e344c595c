"""From observations to evidence: numbers, likelihoods, jumps, spans, and every refusal."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.errors import DataError, ModelError
from asterism.timeline import build
from asterism.timeline.build import build_evidence

OFF = 1.0 - np.eye(2)


def network(**changes: Any) -> am.Network:
    settings: dict[str, Any] = {
        "parents": {"A": [], "B": ["A"], "C": []},
        "rates": {"A": OFF, "B": np.stack([OFF, 2 * OFF]), "C": 1.0 - np.eye(3)},
        "states": {"A": ["off", "on"], "B": ["u", "v"], "C": [0, 1, 2]},
    }
    settings.update(changes)
    return am.Network(**settings)


def with_drug() -> am.Network:
    return am.Network(
        {"drug": [], "A": ["drug"]},
        {"drug": None, "A": np.stack([OFF, 2 * OFF])},
        states={"drug": ["no", "yes"], "A": ["off", "on"]},
    )


def mixed() -> am.Observations:
    frame = pd.DataFrame(
        {
            "trajectory": ["p", "p", "p", "q", "q"],
            "time": [0.0, 1.0, 2.0, 0.5, 3.0],
            "C": [2, np.nan, 1, 0, np.nan],
            "A": [0.1, np.nan, 0.9, 1.5, -0.5],
            "B": ["u", "v", "v", None, "u"],
        }
    )
    return am.Observations.from_frame(frame, start=0.0, end=5.0)


GAUSSIAN = am.Gaussian(means=(0.0, 1.0), scale=0.5)
EMISSIONS = {"A": GAUSSIAN, "B": am.Categorical([[0.9, 0.1], [0.3, 0.7]]), "C": am.Exact()}


def row_of(evidence, i: int, n_states: int) -> np.ndarray:
    begin = evidence.points.offset[i]
    return evidence.points.log_likelihood[begin : begin + n_states]


def test_every_measurement_becomes_the_likelihood_of_its_states():
    net, obs = network(), mixed()
    evidence = build_evidence(net, obs, EMISSIONS)
    points = evidence.points
    key = list(zip(points.trajectory, points.node, points.time))
    assert key == sorted(key)
    assert len(key) == obs.n_measurements == 11
    seen = 0
    for name, record in obs.measurements.items():
        n = net.node_index(name)
        for d, t, value in zip(record.trajectory, record.time, record.value):
            i = key.index((d, n, t))
            expected = EMISSIONS[name].log_likelihood(np.array([value]), net.states[name])[0]
            np.testing.assert_array_equal(row_of(evidence, i, len(expected)), expected)
            seen += 1
    assert seen == 11
    assert evidence.labels == ("p", "q")
    assert evidence.end.tolist() == [5.0, 5.0]


def test_many_nodes_in_several_batches_agree_with_one_by_one(monkeypatch):
    rng = np.random.default_rng(0)
    names = [f"n{i}" for i in range(7)]
    net = am.glauber({n: [] for n in names})
    frame = pd.DataFrame(rng.normal(size=(12, 7)), columns=names)
    frame = frame.mask(rng.random(frame.shape) < 0.2)
    frame.insert(0, "time", np.tile(np.arange(4.0), 3))
    frame.insert(0, "trajectory", np.repeat([3, 1, 2], 4))
    obs = am.Observations.from_frame(frame)
    emission = {n: GAUSSIAN if i % 2 else am.Gaussian((-1, 1), 0.2) for i, n in enumerate(names)}
    monkeypatch.setattr("asterism.timeline.build._CHUNK_ROWS", 20)
    evidence = build_evidence(net, obs, emission)
    p = evidence.points
    for i in range(len(p.time)):
        name = names[p.node[i]]
        record = obs.measurements[name]
        at = (record.trajectory == p.trajectory[i]) & (record.time == p.time[i])
        expected = emission[name].log_likelihood(record.value[at], (-1, 1))[0]
        np.testing.assert_array_equal(row_of(evidence, i, 2), expected)


def test_exact_rows_bypass_the_emission():
    frame = pd.DataFrame({"time": [0.0, 1.0], "A": [1.0, 0.4], "C": [2.0, 1.0]})
    net = am.Network(
        {"A": [], "C": []}, {"A": OFF, "C": 1.0 - np.eye(3)}, states={"A": [0, 1], "C": [0, 1, 2]}
    )
    confused = am.Categorical(np.full((3, 3), 1 / 3))
    obs = am.Observations.from_frame(frame, exact="first")
    evidence = build_evidence(net, obs, {"A": GAUSSIAN, "C": confused})
    assert row_of(evidence, 0, 2).tolist() == [-np.inf, 0.0]
    assert np.isfinite(row_of(evidence, 1, 2)).all()
    assert row_of(evidence, 2, 3).tolist() == [-np.inf, -np.inf, 0.0]
    obs = am.Observations.from_frame(frame, exact=np.array([True, True]))
    with pytest.raises(DataError, match=r"time 1, node 'A' \(row 3\).*0\.4.*none of the states"):
        build_evidence(net, obs, GAUSSIAN)
    obs = am.Observations.from_frame(frame.assign(A=0.0, C=[1.0, 7.0]), exact=[True, True])
    with pytest.raises(DataError, match=r"time 1, node 'C' \(row 3\).*7.*none of the states"):
        build_evidence(net, obs, GAUSSIAN)
    obs = am.Observations.from_frame(frame.assign(A=[0.0, 0.4]), exact="first")
    evidence = build_evidence(net, obs, {"A": GAUSSIAN, "C": confused})
    assert row_of(evidence, 0, 2).tolist() == [0.0, -np.inf]


def test_likelihood_tables_follow_their_labels():
    frame = pd.DataFrame({"time": [0.0], "node": "A", "p_on": [0.75], "p_off": [0.25]})
    net = network()
    evidence = build_evidence(net, am.Observations.from_frame(frame), am.Likelihood())
    np.testing.assert_allclose(row_of(evidence, 0, 2), np.log([0.25, 0.75]))
    plain = am.Observations.from_likelihoods([[0.0]], [{"A": [[0.2, 0.8]]}])
    for obs in (plain, am.Observations.from_frame(plain.to_frame("long"))):
        np.testing.assert_allclose(
            row_of(build_evidence(net, obs, am.Likelihood()), 0, 2), np.log([0.2, 0.8])
        )
    several = am.Observations.from_likelihoods(
        [[0.0, 1.0, 2.0]], [{"A": [[0.2, 0.8], [0.3, 0.7], [0.4, 0.6]]}]
    )
    found = build_evidence(net, several, am.Likelihood())
    for i in range(3):
        np.testing.assert_allclose(row_of(found, i, 2), np.log([0.2 + 0.1 * i, 0.8 - 0.1 * i]))
    with pytest.raises(ModelError, match="use Likelihood"):
        build_evidence(net, plain, GAUSSIAN)
    with pytest.raises(ModelError, match="values, not likelihoods"):
        build_evidence(net, am.Observations.from_frame(mixed().to_frame()), am.Likelihood())
    wrong = am.Observations.from_likelihoods([[0.0]], [{"C": [[0.2, 0.8]]}])
    with pytest.raises(DataError, match="'C': likelihoods of 2 states, but the network has 3"):
        build_evidence(net, wrong, am.Likelihood())
    other = am.Observations.from_frame(frame.rename(columns={"p_on": "p_high"}))
    with pytest.raises(DataError, match="given for the states"):
        build_evidence(net, other, am.Likelihood())


def test_threshold_takes_its_parameters_from_the_data():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "trajectory": np.repeat(["p", "q"], 5),
            "time": np.tile(np.arange(5.0), 2),
            "A": rng.normal(size=10),
        }
    )
    obs = am.Observations.from_frame(frame)
    net = network()
    values = obs.measurements["A"].value
    whole = build_evidence(net, obs, am.Threshold()).points.log_likelihood.reshape(-1, 2)
    np.testing.assert_allclose(
        whole, am.Threshold().fitted(values).log_likelihood(values, ("off", "on"))
    )
    apart = build_evidence(net, obs, am.Threshold(per_trajectory=True))
    single = am.Threshold().fitted(values[5:]).log_likelihood(values[5:], ("off", "on"))
    np.testing.assert_allclose(apart.points.log_likelihood.reshape(-1, 2)[5:], single)


@pytest.mark.parametrize("form", ["dict", "key", "list"])
def test_joint_measurements(form: str):
    def sum_of(value):
        total = np.add.outer([0, 1], [0, 1, 2])
        return -0.5 * (value - total) ** 2

    column = "sum" if form == "key" else "A+C"
    frame = pd.DataFrame({"time": [0.0, 1.0], column: [1.0, 2.5], "A": [0.0, 1.0]})
    obs = am.Observations.from_frame(frame)
    joint = am.Joint(("A", "C"), sum_of)
    emission = {
        "dict": {"A": GAUSSIAN, "both": joint},
        "key": {"A": GAUSSIAN, "sum": joint},
        "list": [GAUSSIAN, joint],
    }[form]
    evidence = build_evidence(network(), obs, emission)
    assert len(evidence.points.time) == 2
    assert [m.time for m in evidence.joint] == [0.0, 1.0]
    assert evidence.joint[1].nodes == (0, 2)
    np.testing.assert_allclose(evidence.joint[1].log_likelihood, sum_of(2.5))
    nothing = am.Joint(("A", "C"), lambda value: np.full((2, 3), -np.inf), column=column)
    with pytest.raises(DataError, match=r"trajectory 0, time 0.*impossible"):
        build_evidence(network(), obs, [GAUSSIAN, nothing])


def test_impossible_and_unknown_measurements_are_named():
    net, obs = network(), mixed()
    never_v = {**EMISSIONS, "B": am.Categorical([[1.0, 0.0], [1.0, 0.0]])}
    with pytest.raises(
        DataError,
        match=r"trajectory 'p', time 1, node 'B' \(row 3\).*'v' is impossible under every",
    ):
        build_evidence(net, obs, never_v)
    with pytest.raises(DataError, match=r"'q', time 0\.5, node 'A' \(row 5\).*1\.5 cannot be read"):
        build_evidence(net, obs.select(["q"]), {**EMISSIONS, "A": am.Exact()})
    second = pd.DataFrame({"time": [0.0, 1.0, 2.0], "C": [1.0, 7.0, 1.0]})
    with pytest.raises(DataError, match=r"time 1, node 'C' \(row 3\).*7\.0 cannot be read"):
        build_evidence(net, am.Observations.from_frame(second), EMISSIONS)
    with pytest.raises(DataError, match="'B', which the network does not"):
        build_evidence(
            am.Network({"A": [], "C": []}, {"A": OFF, "C": 1 - np.eye(3)}), obs, GAUSSIAN
        )
    with pytest.raises(ModelError, match="'C' is measured but has no emission"):
        build_evidence(net, obs, {"A": GAUSSIAN, "B": am.Exact()})


def test_nodes_without_any_observation_are_legal():
    obs = am.Observations.from_frame(pd.DataFrame({"time": [0.0, 1.0], "A": [0.0, 1.0]}))
    evidence = build_evidence(network(), obs, GAUSSIAN)
    assert evidence.n_nodes == 3
    assert set(evidence.points.node) == {0}


# ---------------------------------------------------------------- exogenous nodes
def test_exogenous_nodes_are_carried_forward_and_the_first_value_backward():
    frame = pd.DataFrame(
        {
            "trajectory": [1, 1, 1, 1, 2],
            "time": [1.0, 2.0, 3.0, 6.0, 2.0],
            "drug": ["no", "yes", "yes", "no", "yes"],
        }
    )
    obs = am.Observations.from_frame(frame, start=0.0, end=6.0)
    spans = build_evidence(with_drug(), obs, GAUSSIAN).spans
    table = list(zip(spans.trajectory, spans.start, spans.end, spans.state))
    assert table == [(0, 0.0, 2.0, 0), (0, 2.0, 6.0, 1), (1, 0.0, 6.0, 1)]
    evidence = build_evidence(with_drug(), obs, GAUSSIAN)
    assert len(evidence.points.time) == 0
    assert len(evidence.jumps.time) == 0
    assert evidence.exogenous == {0}


def test_exogenous_nodes_from_intervals_and_events():
    intervals = pd.DataFrame(
        {"node": "drug", "start": [0.0, 2.0], "end": [2.0, 4.0], "state": ["no", "yes"]}
    )
    events = pd.DataFrame({"time": [5.0], "node": "drug", "to": "no"})
    obs = am.Observations.from_frame(intervals=intervals, events=events, end=9.0)
    spans = build_evidence(with_drug(), obs, GAUSSIAN).spans
    assert spans.start.tolist() == [0.0, 2.0, 5.0]
    assert spans.end.tolist() == [2.0, 5.0, 9.0]
    assert spans.state.tolist() == [0, 1, 0]


def test_exogenous_refusals():
    one = pd.DataFrame({"trajectory": [1, 2], "time": 0.0, "A": 0.0, "drug": ["no", None]})
    with pytest.raises(
        DataError, match=r"trajectory 2: nothing is said about the exogenous.*'drug'"
    ):
        build_evidence(with_drug(), am.Observations.from_frame(one), GAUSSIAN)
    with pytest.raises(DataError) as refused:
        build_evidence(with_drug(), am.Observations.from_frame(one), GAUSSIAN)
    assert "such trajectories" not in str(refused.value)
    many = pd.DataFrame(
        {"trajectory": [1, 2, 3], "time": 0.0, "A": 0.0, "drug": [None, "no", None]}
    )
    with pytest.raises(DataError, match=r"trajectory 1: .* \(2 such trajectories\)"):
        build_evidence(with_drug(), am.Observations.from_frame(pd.DataFrame(many)), GAUSSIAN)
    two = pd.DataFrame({"time": [0.0, 0.0, 1.0], "drug": ["no", "yes", "no"]})
    with pytest.raises(DataError, match="'no' and in 'yes'"):
        build_evidence(with_drug(), am.Observations.from_frame(two), GAUSSIAN)
    bad = pd.DataFrame({"time": [0.0], "drug": ["maybe"]})
    with pytest.raises(DataError, match="no state 'maybe'; its states are"):
        build_evidence(with_drug(), am.Observations.from_frame(bad), GAUSSIAN)


# ---------------------------------------------------------------- jumps and spans
def known(events=(), intervals=(), frame=None, end=9.0, **options) -> am.Observations:
    return am.Observations.from_frame(
        frame,
        start=0.0,
        end=end,
        events=pd.DataFrame(events, columns=["time", "node", "to"]) if events else None,
        intervals=(
            pd.DataFrame(intervals, columns=["node", "start", "end", "state"])
            if intervals
            else None
        ),
        **options,
    )


def test_spans_are_merged_and_imply_the_jumps_between_them():
    obs = known(
        intervals=[
            ("A", 0.0, 2.0, "off"),
            ("A", 1.0, 3.0, "off"),
            ("A", 3.0, 4.0, "on"),
            ("A", 6.0, 7.0, "on"),
            ("A", 6.2, 6.5, "on"),
            ("A", 6.8, 8.0, "on"),
            ("B", 1.0, 2.0, "v"),
        ],
        events=[(8.0, "A", "off"), (5.0, "B", "u")],
    )
    evidence = build_evidence(network(), obs, GAUSSIAN)
    spans, jumps = evidence.spans, evidence.jumps
    assert list(zip(spans.node, spans.start, spans.end, spans.state)) == [
        (0, 0.0, 3.0, 0),
        (0, 3.0, 4.0, 1),
        (0, 6.0, 8.0, 1),
        (1, 1.0, 2.0, 1),
    ]
    assert list(zip(jumps.node, jumps.time, jumps.from_state, jumps.to_state)) == [
        (0, 3.0, 0, 1),
        (0, 8.0, 1, 0),
        (1, 5.0, -1, 0),
    ]


def test_a_recorded_jump_between_spans_is_not_counted_twice():
    obs = known(
        intervals=[("A", 0.0, 2.0, "off"), ("A", 2.0, 3.0, "on")], events=[(2.0, "A", "on")]
    )
    jumps = build_evidence(network(), obs, GAUSSIAN).jumps
    assert list(zip(jumps.time, jumps.from_state, jumps.to_state)) == [(2.0, 0, 1)]


def test_full_paths_as_evidence_give_their_jumps_and_stays():
    paths = am.simulate(network(), n_trajectories=3, duration=4.0, seed=5)
    evidence = build_evidence(network(), am.Observations.from_trajectories(paths), am.Exact())
    assert len(evidence.jumps.time) == paths.n_jumps > 0
    assert (evidence.jumps.from_state >= 0).all()
    length = np.zeros((3, 3))
    np.add.at(
        length,
        (evidence.spans.trajectory, evidence.spans.node),
        evidence.spans.end - evidence.spans.start,
    )
    np.testing.assert_allclose(length, 4.0)
    dwell = paths.statistics(network()).dwell_times["C"]
    own = evidence.spans.node == 2
    time = np.bincount(
        evidence.spans.state[own],
        weights=(evidence.spans.end - evidence.spans.start)[own],
        minlength=3,
    )
    np.testing.assert_allclose(time, dwell)


def test_trajectories_together_are_known_as_each_by_itself():
    """Nodes and trajectories share their times, so a wrong number of either would mix them up."""
    intervals, events = [], []
    for d in range(5):
        first, second = ("off", "on") if d % 2 else ("on", "off")
        intervals += [(d, "A", 0.0, 1.0, first), (d, "A", 1.0, 2.0, second)]
        intervals += [(d, "B", 0.0, 1.25, "u"), (d, "B", 1.25, 2.0, "v")][: 1 + d % 2]
        intervals += [(d, "C", 0.5, 1.5, d % 3)]
        events += [(d, 1.25, "B", "v"), (d, 1.5, "C", (d + 1) % 3)][d % 2 :]
    obs = am.Observations.from_frame(
        None, start=0.0, end=3.0,
        intervals=pd.DataFrame(intervals, columns=["trajectory", "node", "start", "end", "state"]),
        events=pd.DataFrame(events, columns=["trajectory", "time", "node", "to"]),
    )  # fmt: skip
    together = build_evidence(network(), obs, am.Exact())
    alone = [build_evidence(network(), obs.select([d]), am.Exact()) for d in range(5)]
    for d in range(5):
        jumps = alone[d].jumps
        keys = zip(jumps.time, jumps.node, jumps.from_state, jumps.to_state)
        changed = (int(d % 2 == 0), int(d % 2))
        expected = [(1.0, 0, *changed), (1.25, 1, 0, 1), (1.5, 2, d % 3, (d + 1) % 3)]
        assert sorted(keys) == expected
    for table in ("jumps", "spans"):
        for name in type(getattr(together, table)).__dataclass_fields__:
            one = getattr(getattr(together, table), name)
            parts = [
                getattr(getattr(evidence, table), name) + (d if name == "trajectory" else 0)
                for d, evidence in enumerate(alone)
            ]
            np.testing.assert_array_equal(one, np.concatenate(parts))


def test_an_interval_of_no_length_is_a_known_state():
    obs = known(intervals=[("A", 2.0, 2.0, "on")])
    evidence = build_evidence(network(), obs, GAUSSIAN)
    assert evidence.points.time.tolist() == [2.0]
    assert row_of(evidence, 0, 2).tolist() == [-np.inf, 0.0]
    assert len(evidence.spans.node) == 0


def test_ties_of_related_nodes():
    events = [(2.0, "B", "v"), (2.0, "A", "on"), (2.0, "C", 1)]
    with pytest.raises(DataError, match="'A' and its child 'B' both jump at time 2"):
        build_evidence(network(), known(events), GAUSSIAN)
    jumps = build_evidence(network(), known(events, ties="order"), GAUSSIAN).jumps
    time = dict(zip(jumps.node.tolist(), jumps.time.tolist()))
    assert time[1] < time[0] < time[2] == 2.0
    np.testing.assert_allclose(jumps.time, 2.0, rtol=1e-14)
    unrelated = [(2.0, "A", "on"), (2.0, "C", 1)]
    assert build_evidence(network(), known(unrelated), GAUSSIAN).jumps.time.tolist() == [2.0, 2.0]
    obs = known(
        intervals=[
            ("B", 0.0, 2.0, "u"),
            ("B", 2.0, 3.0, "v"),
            ("A", 0.0, 2.0, "off"),
            ("A", 2.0, 3.0, "on"),
        ],
        events=[(2.0, "B", "v"), (2.0, "A", "on")],
        ties="order",
    )
    evidence = build_evidence(network(), obs, GAUSSIAN)
    early = evidence.jumps.time[evidence.jumps.node == 1][0]
    own = evidence.spans.node == 1
    assert early < 2.0
    assert evidence.spans.end[own].tolist() == [early, 3.0]
    assert evidence.spans.start[own].tolist() == [0.0, early]


def test_a_jump_at_the_start_is_refused():
    with pytest.raises(DataError, match="time 0: node 'A' enters 'on' at the very start"):
        build_evidence(network(), known([(0.0, "A", "on")]), GAUSSIAN)


def test_unknown_states_of_events_and_intervals():
    with pytest.raises(DataError, match="'A' has no state 'high'; its states are"):
        build_evidence(network(), known([(1.0, "A", "high")]), GAUSSIAN)
    with pytest.raises(DataError, match="'C' has no state 7"):
        build_evidence(network(), known(intervals=[("C", 1.0, 2.0, 7)]), GAUSSIAN)


@pytest.mark.parametrize(
    ("time", "label", "fine"),
    [
        (1.5, "off", True),
        (1.5, "on", False),
        (2.0, "on", True),  # the jump at 2 has happened
        (2.0, "off", False),
        (3.0, "off", False),  # the last moment of the span
        (3.0, "on", True),
        (3.5, "off", True),
    ],
)
def test_points_may_not_contradict_what_is_known(time: float, label: str, fine: bool):
    obs = known(
        intervals=[("A", 1.0, 2.0, "off"), ("A", 2.0, 3.0, "on")],
        frame=pd.DataFrame({"time": [time], "A": [label]}),
    )
    if fine:
        assert len(build_evidence(network(), obs, am.Exact()).points.time) == 1
    else:
        with pytest.raises(DataError, match=f"time {time:g}, node 'A'.*contradicts"):
            build_evidence(network(), obs, am.Exact())


def test_the_measurement_that_contradicts_is_named():
    obs = known(
        intervals=[("A", 1.0, 4.0, "off")],
        frame=pd.DataFrame({"time": [0.5, 1.5, 2.0, 2.5], "A": ["on", "off", "on", "off"]}),
    )
    with pytest.raises(DataError, match=r"time 2, node 'A' \(row 4\).*contradicts.*in 'off'"):
        build_evidence(network(), obs, am.Exact())


def test_a_measurement_at_a_jump_sees_the_new_state():
    for label, fine in (("on", True), ("off", False)):
        obs = known([(2.0, "A", "on")], frame=pd.DataFrame({"time": [2.0], "A": [label]}))
        if fine:
            assert len(build_evidence(network(), obs, am.Exact()).jumps.time) == 1
        else:
            with pytest.raises(DataError, match="contradicts what is known of 'A'"):
                build_evidence(network(), obs, am.Exact())


def test_nothing_may_follow_a_state_that_cannot_be_left():
    progressive = np.array([[0.0, 1.0], [0.0, 0.0]])
    net = network(rates={"A": progressive, "B": np.stack([OFF, OFF]), "C": 1.0 - np.eye(3)})
    last = pd.DataFrame({"time": [0.5, 2.0], "A": ["off", "on"], "B": ["u", "v"]})
    build_evidence(net, known([(2.0, "A", "on")], frame=last), am.Exact())
    still = pd.DataFrame({"time": [0.5, 3.0], "A": ["off", "on"]})
    build_evidence(net, known([(2.0, "A", "on")], frame=still), am.Exact())
    later = pd.DataFrame({"time": [0.5, 3.0], "A": ["off", "off"]})
    with pytest.raises(DataError, match=r"time 3, node 'A'.*entered 'on' at 2.*cannot be left"):
        build_evidence(net, known([(2.0, "A", "on")], frame=later), am.Exact())
    with pytest.raises(DataError, match="enters 'off' after 'on', which cannot be left"):
        build_evidence(net, known([(2.0, "A", "on"), (3.0, "A", "off")]), am.Exact())
    build_evidence(network(), known([(2.0, "A", "on")], frame=later), am.Exact())


HELD = pd.DataFrame(
    {"trajectory": ["p", "p", "p", "q"], "time": [1.0, 2.0, 3.0, 2.0],
     "A": [0.2, 0.4, 0.6, 0.8], "B": ["u", "v", "u", "v"]}
)  # fmt: skip


def held(rows: list[tuple[Any, ...]], **known_too: Any) -> am.Observations:
    seen = am.Observations.from_frame(HELD, start=0.0, end=5.0, **known_too)
    columns = ["trajectory", "node", "start", "end", "state"]
    return seen.with_interventions(pd.DataFrame(rows, columns=columns))


def test_measurements_of_a_held_node_say_nothing_about_its_state():
    emissions = {**EMISSIONS, "A": GAUSSIAN}
    rows = [("p", "A", 2.0, 3.0, "on"), ("q", "B", 0.0, 2.0, "u")]
    free = build_evidence(network(), held(rows), emissions)
    plain = build_evidence(
        network(), am.Observations.from_frame(HELD, start=0.0, end=5.0), emissions
    )
    points = free.points
    for i in range(len(points.time)):
        own, other = row_of(free, i, 2), row_of(plain, i, 2)
        d, n, time = points.trajectory[i], points.node[i], points.time[i]
        if (d, n) == (0, 0) and time >= 2.0:
            np.testing.assert_array_equal(own, other[1])
        elif (d, n) == (1, 1):
            np.testing.assert_array_equal(own, other[0])
        else:
            np.testing.assert_array_equal(own, other)
            assert own[0] != own[1]
    spans = free.interventions
    assert spans.trajectory.tolist() == [0, 1]
    assert spans.node.tolist() == [0, 1]
    assert spans.state.tolist() == [1, 0]
    assert (spans.start.tolist(), spans.end.tolist()) == ([2.0, 0.0], [3.0, 2.0])


def test_a_held_node_is_not_seen_to_jump_or_stay():
    """Only the same node of the same trajectory, and only while it is held."""
    rows = [("p", "A", 2.0, 3.0, "on")]

    def events(trajectory: str, node: str, time: float) -> pd.DataFrame:
        to = "on" if node == "A" else "v"
        return pd.DataFrame([(trajectory, time, node, to)],
                            columns=["trajectory", "time", "node", "to"])  # fmt: skip

    def stays(trajectory: str, node: str, start: float, end: float) -> pd.DataFrame:
        state = "on" if node == "A" else "v"
        return pd.DataFrame([(trajectory, node, start, end, state)],
                            columns=["trajectory", "node", "start", "end", "state"])  # fmt: skip

    emissions = {"A": am.Gaussian((0, 1), 5.0), "B": am.Categorical([[0.9, 0.1], [0.3, 0.7]])}
    for where in (("q", "A", 2.5), ("p", "B", 2.5), ("p", "A", 2.0), ("p", "A", 3.0)):
        build_evidence(network(), held(rows, events=events(*where)), emissions)
    for where in (("q", "A", 2.2, 2.8), ("p", "B", 2.2, 2.8), ("p", "A", 1.2, 2.0),
                  ("p", "A", 3.0, 4.0)):  # fmt: skip
        build_evidence(network(), held(rows, intervals=stays(*where)), emissions)
    with pytest.raises(
        DataError, match=r"'p': 'A' is held from 2 to 3, while row .* of the events"
    ):
        build_evidence(network(), held(rows, events=events("p", "A", 2.5)), emissions)
    for where in (("p", "A", 1.2, 2.1), ("p", "A", 2.9, 4.0), ("p", "A", 1.0, 4.0)):
        with pytest.raises(DataError, match="of the intervals speaks of it"):
            build_evidence(network(), held(rows, intervals=stays(*where)), emissions)


def test_a_state_that_is_one_of_several():
    frame = pd.DataFrame({"time": [0.0, 1.0, 2.0], "C": ["0", "99", "2"]})
    seen = am.Observations.from_frame(frame, start=0.0, end=3.0, labels=["C"])
    told = seen.with_state_sets("C", {99: (0, 2)})
    evidence = build_evidence(network(), told, {"C": am.Exact()})
    np.testing.assert_array_equal(row_of(evidence, 1, 3), [0.0, -np.inf, 0.0])
    np.testing.assert_array_equal(row_of(evidence, 0, 3), [0.0, -np.inf, -np.inf])
    frame.insert(1, "A", ["off", "on", "off"])
    both = am.Observations.from_frame(frame, start=0.0, end=3.0, labels=["C"])
    later = build_evidence(network(), both.with_state_sets("C", {99: (0, 2)}), am.Exact())
    np.testing.assert_array_equal(row_of(later, 4, 3), [0.0, -np.inf, 0.0])
    np.testing.assert_array_equal(row_of(later, 5, 3), [-np.inf, -np.inf, 0.0])


def test_states_that_do_not_exist_in_a_set_are_refused():
    frame = pd.DataFrame({"time": [0.0, 1.0], "C": ["0", "99"]})
    seen = am.Observations.from_frame(frame, start=0.0, end=3.0, labels=["C"])
    with pytest.raises(DataError, match=r"'C' is said to be in one of \[0, 7\]"):
        build_evidence(network(), seen.with_state_sets("C", {99: (0, 7)}), {"C": am.Exact()})


def test_joint_measurements_need_nodes_and_a_name_of_their_own():
    obs = am.Observations.from_frame(pd.DataFrame({"time": [0.0], "A": [0.0], "A+Z": [1.0]}))
    unknown = am.Joint(("A", "Z"), lambda value: np.zeros((2, 2)))
    with pytest.raises(ModelError, match="'A\\+Z' reads 'Z', which is not a node"):
        build_evidence(network(), obs, [GAUSSIAN, unknown])
    named = am.Joint(("B", "C"), lambda value: np.zeros((2, 3)), column="A")
    with pytest.raises(ModelError, match="'A' has the name of a node"):
        build_evidence(network(), obs, [GAUSSIAN, named, unknown])


def test_what_does_not_fit_a_held_state_says_nothing():
    """B was held at u and read as v without any noise: that was not this node's scale."""
    found = build_evidence(network(), held([("q", "B", 0.0, 2.0, "u")]),
                           {"A": GAUSSIAN, "B": am.Exact()})  # fmt: skip
    points = found.points
    i = int(np.flatnonzero((points.trajectory == 1) & (points.node == 1))[0])
    assert row_of(found, i, 2).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(("n_strangers", "n_nodes"), [(5, 12), (6, 13), (7, 20)])
def test_a_message_lists_some_of_many_names(n_strangers: int, n_nodes: int):
    names = [f"n{i}" for i in range(n_nodes)]
    net = am.Network({n: [] for n in names}, dict.fromkeys(names, OFF))
    strange = {f"s{i}": [0.0] for i in range(n_strangers)}
    shown, known = (
        ", ".join(map(repr, all_of[:most]))
        + f" and {len(all_of) - most} more" * (len(all_of) > most)
        for all_of, most in [(list(strange), 5), (names, 12)]
    )
    with pytest.raises(DataError) as refused:
        build_evidence(
            net, am.Observations.from_frame(pd.DataFrame({"time": [0.0], **strange})), GAUSSIAN
        )
    assert f"have {shown}, which" in str(refused.value)
    assert str(refused.value).rstrip(".").endswith(f"nodes are {known}")


def test_ties_are_told_apart_group_by_group():
    events = [(2.0, "B", "v"), (2.0, "A", "on"), (4.0, "A", "off"), (6.0, "A", "on"),
              (6.0, "B", "u"), (7.0, "C", 1)]  # fmt: skip
    jumps = build_evidence(network(), known(events, ties="order"), GAUSSIAN).jumps
    by_node = {n: jumps.time[jumps.node == n].tolist() for n in range(3)}
    assert by_node[0][:2] == [2.0, 4.0]
    assert by_node[0][2] < 6.0 == by_node[1][1]
    assert by_node[1][0] < 2.0
    assert by_node[2] == [7.0]
    step = np.array([2.0 - by_node[1][0], 6.0 - by_node[0][2]]) / np.spacing([2.0, 6.0])
    assert step.tolist() == [8.0, 8.0]


# ---------------------------------------------------------------- how much is done at a time
@pytest.mark.parametrize(
    ("sizes", "batches"),
    [
        ([10, 10, 10], [[0, 1], [2]]),
        ([10, 11, 10], [[0], [1], [2]]),
        ([30, 1, 1], [[0], [1, 2]]),
        ([1, 1, 30], [[0, 1], [2]]),
        ([5, 5, 5, 5, 5], [[0, 1, 2, 3], [4]]),
        ([20], [[0]]),
        ([8, 8, 3, 2, 8, 8, 8], [[0, 1, 2], [3, 4, 5], [6]]),
    ],
)
def test_batches_hold_as_many_rows_as_they_may(sizes, batches, monkeypatch):
    monkeypatch.setattr(build, "_CHUNK_ROWS", 20)
    first_row = np.concatenate([[0], np.cumsum(sizes)])
    assert list(build._chunks(list(range(len(sizes))), first_row)) == batches


def test_rows_that_follow_each_other_are_named_by_their_ends():
    obs, net = mixed(), network()
    records = tuple((n, obs.measurements[n]) for n in net.nodes)
    first_row = np.concatenate([[0], np.cumsum([len(r) for _, r in records])])

    def rows(members):
        emission = am.Gaussian((0.0, 1.0), 0.5)
        numeric = tuple(("A", records[0][1]) for _ in records)
        same = np.arange(4) * len(records[0][1])
        return build._evaluated(emission, ("off", "on"), members, numeric, same, obs)[0]

    n = len(records[0][1])
    assert rows([0]) == slice(0, n)
    assert rows([1, 2]) == slice(n, 3 * n)
    assert rows([0, 1, 2]) == slice(0, 3 * n)
    assert rows([0, 2]).tolist() == [*range(n), *range(2 * n, 3 * n)]
    assert int(first_row[-1]) == obs.n_measurements


@pytest.mark.parametrize("largest", [1, 65_535, 65_536, 70_000, 2**40])
def test_rows_are_sorted_however_many_trajectories_there_are(largest: int):
    trajectory = np.array([largest, 0, 1, 0, largest, 1])
    node = np.array([0, 0, 0, 1, 1, 1])
    time = np.array([0.5, 0.2, 0.1, 0.3, 0.2, 0.1])
    order = build._sorted_by_trajectory(trajectory, node, time, 0, 2)
    expected = sorted(range(6), key=lambda i: (trajectory[i], i))
    assert order.tolist() == expected
    mixed_up = build._sorted_by_trajectory(trajectory, node[::-1], time, 1, 2)
    assert mixed_up.tolist() == sorted(
        range(6), key=lambda i: (trajectory[i], node[::-1][i], time[i])
    )
    none = np.empty(0, dtype=np.int64)
    assert len(build._sorted_by_trajectory(none, none, np.empty(0), 0, 2)) == 0
