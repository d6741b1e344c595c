"""ParameterLearner: its contract, its special cases, and the pieces of EM behind it."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError

import asterism as am
from asterism.errors import DataError, ModelError
from asterism.learning.em.rates_update import rate_update

NOISE = am.Gaussian(means=(-1, 1), scale=0.4)


def two_nodes() -> am.Network:
    return am.Network(
        {"A": [], "B": ["A"]},
        {
            "A": [[0, 0.5], [0.8, 0]],
            "B": [[[0, 0.3], [1.5, 0]], [[0, 2.0], [0.4, 0]]],
        },
        {"A": ["off", "on"], "B": ["off", "on"]},
    )


@pytest.fixture(scope="module")
def data() -> am.Observations:
    paths = am.simulate(two_nodes(), n_trajectories=60, duration=6.0, seed=1)
    return am.observe(paths, NOISE, n_observations=12, seed=2)


@pytest.fixture(scope="module")
def learner(data) -> am.ParameterLearner:
    return am.ParameterLearner(two_nodes().graph, NOISE, method="exact").fit(data)


# ---- contract -------------------------------------------------------------------------------


def test_settings_round_trip():
    learner = am.ParameterLearner({"A": []}, NOISE, prior=am.GammaPrior(2, 1), n_init=3)
    copy = clone(learner)
    assert copy.get_params()["n_init"] == 3
    assert copy.get_params()["prior"] == am.GammaPrior(2, 1)
    assert copy.set_params(n_init=1).n_init == 1
    with pytest.raises(ModelError, match="no setting 'colour'"):
        copy.set_params(colour=1)


def test_nothing_is_learned_before_fit(data):
    learner = am.ParameterLearner({"A": [], "B": ["A"]}, NOISE)
    with pytest.raises(NotFittedError):
        learner.score(data)
    with pytest.raises(NotFittedError):
        _ = learner.rate_intervals_


@pytest.mark.smoke
def test_results(learner, data):
    assert learner.converged_
    assert "below 1e-06" in learner.stop_reason_
    assert learner.n_iter_ == len(learner.history_)
    assert learner.network_.states["A"] == ("off", "on")
    assert learner.log_evidence_ == pytest.approx(learner.posterior_.log_evidence, rel=1e-9)
    assert learner.score_samples(data).sum() == pytest.approx(learner.log_evidence_, rel=1e-9)
    assert len(learner.score_samples(data)) == data.n_trajectories
    assert learner.score(data) == pytest.approx(learner.log_evidence_ / data.n_trajectories)
    assert learner.log_evidence_given_first_ > learner.log_evidence_
    for node in ("A", "B"):
        np.testing.assert_allclose(
            learner.statistics_.dwell_times[node],
            learner.posterior_.statistics.dwell_times[node],
            rtol=1e-6,
        )
        assert learner.statistics_.dwell_times[node].sum() == pytest.approx(
            (data.end - data.start).sum()
        )


def test_history_rises(learner):
    gains = np.diff(learner.history_.objective)
    assert (gains > -1e-9).all()
    assert learner.history_.remaining_gain.iloc[-1] < 1e-6


def test_intervals(learner):
    table = learner.rate_intervals_
    assert list(table.columns[:5]) == ["node", "configuration", "from", "to", "rate"]
    assert len(table) == 6
    assert not table.isna().any().any()
    assert ((table.lower < table.rate) & (table.rate < table.upper)).all()
    assert ((table.conditional_lower < table.rate) & (table.rate < table.conditional_upper)).all()
    row = table[(table.node == "B") & (table.configuration == "A=on") & (table["from"] == "off")]
    assert row.rate.item() == pytest.approx(learner.network_.rates["B"][1, 0, 1])
    wide = clone(learner).set_params(level=0.99).fit(learner._observations).rate_intervals_
    assert (wide.upper > table.upper).all()


def test_standard_errors_are_those_of_the_numeric_hessian(data):
    """One single node: second differences of the log evidence itself, in ln R."""
    learner = am.ParameterLearner({"A": []}, NOISE, method="exact", initial="uniform")
    obs = am.Observations.from_frame(data.to_frame()[["trajectory", "time", "A"]])
    learner.fit(obs)
    rates = learner.network_.rates["A"][[0, 1], [1, 0]]

    def log_evidence(logs):
        a, b = np.exp(logs)
        network = am.Network({"A": []}, {"A": [[0, a], [b, 0]]})
        return am.infer(network, obs, NOISE, method="exact").log_evidence

    h = 2e-3
    at = np.log(rates)
    hessian = np.empty((2, 2))
    for i in range(2):
        for j in range(2):
            di, dj = h * np.eye(2)[i], h * np.eye(2)[j]
            hessian[i, j] = (
                log_evidence(at + di + dj)
                - log_evidence(at + di - dj)
                - log_evidence(at - di + dj)
                + log_evidence(at - di - dj)
            ) / (4 * h * h)
    expected = rates * np.sqrt(np.diag(np.linalg.inv(-hessian)))
    np.testing.assert_allclose(learner.rate_intervals_.se, expected, rtol=1e-3)


def test_same_answer_for_any_number_of_threads(data, learner):
    again = clone(learner).set_params(n_jobs=2).fit(data)
    assert again.network_ == learner.network_
    assert again.log_evidence_ == learner.log_evidence_


def test_unit_of_time_does_not_matter(data, learner):
    slow = clone(learner).fit(data.scale_time(60.0))
    for node in ("A", "B"):
        np.testing.assert_allclose(
            60.0 * slow.network_.rates[node], learner.network_.rates[node], rtol=1e-4
        )


# ---- other data -----------------------------------------------------------------------------


def test_probabilities_and_forecast(learner, data):
    found = learner.predict_proba(data, [0.0, 3.0, 50.0, 60.0])
    assert found.dims == ("trajectory", "time", "node", "state")
    np.testing.assert_allclose(found.sum("state"), 1.0, atol=1e-10)
    late = found.sel(time=[50.0, 60.0]).std("trajectory")
    assert float(late.max()) < 1e-6  # long after the data all trajectories look alike


def test_imputed_table(learner, data):
    table = learner.impute(data)
    assert list(table.columns) == ["trajectory", "time", "A", "B"]
    assert set(table.A) <= {"off", "on"}
    assert len(table) == len(data.to_frame())
    seen = data.to_frame()
    agree = np.mean((seen.A.to_numpy() > 0) == (table.A.to_numpy() == "on"))
    assert agree > 0.95
    assert len(learner.impute(data, times=[1.0, 2.0])) == 2 * data.n_trajectories


# ---- priors ---------------------------------------------------------------------------------


def test_prior_enters_once(data):
    prior = am.GammaPrior(shape=3.0, rate=4.0)
    for use_mode, added in ((False, 3.0), (True, 2.0)):
        learner = am.ParameterLearner(
            {"A": [], "B": ["A"]}, NOISE, prior=prior, method="exact", map=use_mode
        ).fit(data)
        m = learner.statistics_.transitions["B"]
        t = learner.statistics_.dwell_times["B"]
        expected = (m + added) / (t[..., None] + 4.0)
        off = ~np.eye(2, dtype=bool)
        np.testing.assert_allclose(
            learner.network_.rates["B"][..., off], expected[..., off], rtol=1e-3
        )


def test_automatic_prior_rate(data):
    learner = am.ParameterLearner(
        {"A": [], "B": ["A"]}, NOISE, prior=am.GammaPrior(5.0), method="exact"
    ).fit(data)
    single = am.ParameterLearner({"A": [], "B": []}, NOISE, method="exact").fit(data)
    time = sum(single.statistics_.dwell_times[n].sum() for n in "AB")
    jumps = sum(single.statistics_.transitions[n].sum() for n in "AB")
    assert learner.prior_.rate_value == pytest.approx(5.0 * time / jumps, rel=1e-2)


def test_a_node_that_never_switches():
    table = pd.DataFrame({"trajectory": [1, 1, 2, 2], "time": [0.0, 1, 0, 1], "A": ["on"] * 4})
    obs = am.Observations.from_frame(table)
    states = {"A": ["off", "on"]}
    with_prior = am.ParameterLearner(
        {"A": []}, am.Exact(), prior=am.GammaPrior(2.0), method="exact", states=states
    ).fit(obs)
    assert with_prior.prior_.rate_value == pytest.approx(4.0, rel=0.3)  # α·T / 1
    assert np.isfinite(with_prior.network_.rates["A"]).all()
    without = am.ParameterLearner({"A": []}, am.Exact(), method="exact", states=states).fit(obs)
    assert without.network_.rates["A"][1, 0] < 1e-3
    assert not without.rate_intervals_.isna().any().any()
    assert without.log_evidence_ == pytest.approx(0.0, abs=1e-3)


def test_states_that_cannot_be_left_get_no_imagined_exits():
    allowed = np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]], dtype=bool)
    table = pd.DataFrame(
        {"trajectory": [1, 1, 1, 2, 2, 2], "time": [0.0, 1, 2] * 2, "A": [1, 2, 3, 1, 1, 2]}
    )
    learner = am.ParameterLearner(
        {"A": []},
        am.Exact(),
        prior=am.GammaPrior(2.0),
        method="exact",
        allowed_transitions={"A": allowed},
    ).fit(am.Observations.from_frame(table, labels=["A"]))
    rates = learner.network_.rates["A"]
    off = ~np.eye(3, dtype=bool)
    assert (rates[off & ~allowed] == 0.0).all()
    assert (rates[allowed] > 0.0).all()
    assert len(learner.rate_intervals_) == 2


def test_rate_update_by_hand():
    network = am.Network({"A": []}, {"A": [[0, 1, 1], [1, 0, 0], [0, 0, 0]]})
    graph = network.compiled.graph
    update = rate_update(graph, network.compiled.rates > 0, am.GammaPrior(2.0, 3.0), False, 1e9)
    moves = np.array([0.0, 4, 1, 2, 0, 0, 0, 0, 0])
    dwell = np.array([5.0, 2.0, 7.0])
    found = update.improved(moves, dwell, np.zeros(9), np.zeros(0))[0].reshape(3, 3)
    np.testing.assert_allclose(found, [[-9 / 8, 6 / 8, 3 / 8], [4 / 5, -4 / 5, 0], [0, 0, 0]])


# ---- situations that never occur ------------------------------------------------------------


def test_unseen_configurations_take_the_pooled_rate_and_say_so():
    network = two_nodes()
    paths = am.simulate(
        network.with_rates({"A": np.zeros((2, 2))}),
        n_trajectories=40,
        duration=5.0,
        seed=3,
        initial={"A": "off", "B": "off"},
    )
    learner = am.ParameterLearner(network, method="exact").fit(paths)
    rates = learner.network_.rates["B"]
    np.testing.assert_allclose(rates[1], rates[0])
    table = learner.rate_intervals_
    unseen = table[(table.node == "B") & (table.configuration == "A=on")]
    assert unseen.note.str.startswith("not identified").all()
    assert not table.isna().any().any()
    assert (learner.network_.rates["A"] == 0.0).all()  # A never moved, and "on" was never seen


def test_exogenous_node():
    network = am.Network(
        {"drug": [], "B": ["drug"]},
        {"drug": None, "B": two_nodes().rates["B"]},
        {"drug": ["off", "on"], "B": ["off", "on"]},
    )
    inputs = am.Trajectories.from_frame(
        pd.DataFrame(
            {
                "trajectory": [0, 0],
                "time": [0.0, 4.0],
                "node": ["drug", "drug"],
                "state": ["off", "on"],
            }
        ),
        states={"drug": ["off", "on"]},
        end=8.0,
    )
    paths = am.simulate(network, n_trajectories=150, duration=8.0, seed=5, paths=inputs)
    obs = am.observe(paths, {"B": NOISE}, n_observations=20, seed=6, known=["drug"])
    for method in ("exact", "star"):
        learner = am.ParameterLearner(
            {"drug": [], "B": ["drug"]},
            {"B": NOISE},
            method=method,
            exogenous=["drug"],
            states={"B": ["off", "on"]},
        ).fit(obs)
        assert learner.network_.rates["drug"] is None
        table = learner.rate_intervals_
        assert set(table.node) == {"B"}
        true = network.rates["B"][..., [0, 1], [1, 0]].ravel()
        assert (np.abs(np.log(table.rate / true)) < 4 * table.se / table.rate).all()


# ---- emissions ------------------------------------------------------------------------------


def test_learned_means_and_scale(data):
    learner = am.ParameterLearner(
        {"A": [], "B": ["A"]},
        {"A": am.Gaussian(learn=True), "B": NOISE},
        method="exact",
        states={"A": ["off", "on"]},
    ).fit(data)
    found = learner.emission_["A"]
    np.testing.assert_allclose(found.means, (-1, 1), atol=0.08)
    assert found.scale == pytest.approx(0.4, rel=0.1)
    assert learner.emission_["B"] is NOISE
    known = am.ParameterLearner({"A": [], "B": ["A"]}, NOISE, method="exact").fit(data)
    assert learner.log_evidence_ > known.log_evidence_


def test_rows_that_report_the_state_are_left_out_of_the_emission():
    rng = np.random.default_rng(0)
    n = 400
    true = rng.integers(0, 2, n)
    reported = np.where(rng.random(n) < 0.2, 1 - true, true)
    table = pd.DataFrame({"trajectory": np.arange(n), "time": 0.0, "A": reported, "sure": False})
    # both at one time, so that learning the confusion is a matter of counting
    both = pd.concat([table.assign(A=true, sure=True), table]).sort_values("trajectory")
    obs = am.Observations.from_frame(both, exact="sure", labels=["A"], end=1.0)
    learner = am.ParameterLearner(
        {"A": []}, am.Categorical([[0.9, 0.1], [0.1, 0.9]], learn=True), method="exact"
    ).fit(obs)
    found = np.array(learner.emission_["A"].confusion)
    wrong = [np.mean(reported[true == x] != x) for x in (0, 1)]
    np.testing.assert_allclose([found[0, 1], found[1, 0]], wrong, rtol=1e-4)


def test_states_come_in_the_order_of_their_means(data):
    from asterism.learning.em.relabel import in_order_of_means

    learner = am.ParameterLearner(
        {"A": [], "B": ["A"]}, am.Gaussian(learn=True), method="exact",
        states={"A": ["off", "on"], "B": ["off", "on"]},
    ).fit(data)  # fmt: skip
    task, best = learner._fit.task, learner._fit.outcome.best
    flipped = task.coordinates.nodes[0].__class__(
        **{
            **vars(task.coordinates.nodes[0]),
            "start": am.Gaussian((1, -1), 0.4, learn=True),
        }
    )
    coordinates = task.coordinates.__class__(
        task.coordinates.update,
        task.coordinates.initial_groups,
        (flipped, *task.coordinates.nodes[1:]),
    )
    from asterism.timeline.build import build_evidence

    evidence = build_evidence(learner.network_, data, learner.emission_)
    renamed = in_order_of_means(best.estimate, coordinates, learner.network_, evidence)
    assert renamed.emissions[0].means == best.estimate.emissions[0].means[::-1]
    assert task.evaluate(renamed).log_evidence == pytest.approx(best.log_evidence, abs=1e-7)


def test_restarts_keep_the_best(data):
    learner = am.ParameterLearner(
        {"A": [], "B": ["A"]},
        am.Gaussian(learn=True),
        method="exact",
        n_init=3,
        states={"A": [0, 1], "B": [0, 1]},
        stop_gain=1e-3,
    ).fit(data)
    assert len(learner.log_evidence_by_start_) == 3
    assert learner.log_evidence_ == pytest.approx(max(learner.log_evidence_by_start_))


# ---- initial distribution -------------------------------------------------------------------


def test_initial_distribution():
    paths = am.simulate(two_nodes(), 100, duration=2.0, seed=1, initial={"A": "on"})
    obs = am.observe(paths, am.Exact(), times=[0.0, 1.0, 2.0], seed=1)
    graph = {"A": [], "B": ["A"]}
    learned = am.ParameterLearner(graph, method="exact").fit(obs)
    np.testing.assert_allclose(learned.network_.initial["A"], [0, 1], atol=1e-9)
    share = np.mean(paths.initial[:, 1])
    np.testing.assert_allclose(learned.network_.initial["B"], [1 - share, share], atol=1e-6)
    fixed = am.ParameterLearner(graph, method="exact", initial={"A": [0.25, 0.75]}).fit(obs)
    np.testing.assert_allclose(fixed.network_.initial["A"], [0.25, 0.75])
    uniform = am.ParameterLearner(graph, method="exact", initial="uniform").fit(obs)
    # everything is seen at the start, so the start does not bear on the rates
    assert uniform.log_evidence_given_first_ == pytest.approx(
        learned.log_evidence_given_first_, abs=1e-5
    )


# ---- complaints -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "guess"}, "method 'guess' is not known"),
        ({"prior": 3.0}, "give None"),
        ({"map": True}, "needs a prior"),
        ({"map": True, "prior": am.GammaPrior(0.5, 1.0)}, "mode at rate zero"),
        ({"initial": "guess"}, "initial is 'guess'"),
        ({"level": 95}, "between 0 and 1"),
        ({"n_init": 0}, "n_init .* 1, got 0"),
        ({"allowed_transitions": {"Z": np.eye(2)}}, "'Z', which is not a node"),
        ({"allowed_transitions": {"A": np.ones((3, 3))}}, r"shape \(3, 3\), expected \(2, 2\)"),
        ({"exogenous": ["Z"]}, "'Z', which is not a node"),
        ({"emission": am.Gaussian(learn=True)}, "give states="),
    ],
)
def test_bad_settings(data, settings, message):
    learner = am.ParameterLearner({"A": [], "B": ["A"]}, NOISE, method="exact")
    with pytest.raises(ModelError, match=message):
        learner.set_params(**settings).fit(data)


def test_not_observations():
    with pytest.raises(DataError, match="from_frame"):
        am.ParameterLearner({"A": []}).fit(pd.DataFrame())


def test_hitting_the_limit_is_not_convergence(data):
    learner = am.ParameterLearner({"A": [], "B": ["A"]}, NOISE, method="exact", max_iterations=3)
    with pytest.warns(ConvergenceWarning, match="Raise max_iterations"):
        learner.fit(data)
    assert not learner.converged_
    assert learner.n_iter_ == 3


def test_rates_that_vanish_at_the_maximum_are_counted() -> None:
    frame = pd.DataFrame({"time": [0.0, 1.0, 2.0, 3.0], "a": ["x", "x", "y", "y"]})
    seen = am.Observations.from_frame(frame)
    graph: dict[str, list[str]] = {"a": []}
    likely = am.ParameterLearner(graph, method="exact").fit(seen)
    assert likely.network_.rates["a"][1, 0] < 1e-9
    assert "1 rate is zero" in likely.stop_reason_
    kept = am.ParameterLearner(graph, method="exact", prior=am.GammaPrior(2.0, 2.0)).fit(seen)
    assert "zero" not in kept.stop_reason_
