"""Exact inference against the plain-Python joint chain, for every kind of evidence."""

from __future__ import annotations

import numpy as np
import pytest

import asterism as am
from asterism.errors import DataError, TooLargeError
from asterism.exact import forward_backward as exact
from asterism.exact.exact_posterior import solve
from tests.reference.joint_chain import ReferenceChain
from tests.reference.random_evidence import make_evidence, random_evidence, random_network

SIZES = [[3], [2, 3], [2, 2, 3], [3, 2, 2]]


@pytest.fixture(params=["dense", "sparse"])
def numerics(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Force one of the two ways of propagating."""
    monkeypatch.setattr(exact, "_prefers_dense", lambda *_: request.param == "dense")
    return str(request.param)


def assert_as_the_reference(network: am.Network, evidence: object, posterior: am.Posterior) -> None:
    reference = ReferenceChain(network, evidence)
    dwell = [0.0] * len(network.nodes)
    moves = [0.0] * len(network.nodes)
    for d in range(evidence.n_trajectories):
        inside = np.linspace(evidence.start[d], evidence.end[d] + 0.7, 6)
        times = [
            float(t) for t in (*inside, *evidence.points.time[evidence.points.trajectory == d])
        ]
        expected = reference.solve(d, times)
        assert posterior.log_evidence_by_trajectory.iloc[d] == pytest.approx(
            expected["log_evidence"], abs=1e-9
        )
        found = posterior.courses.marginals(d, np.array(times))
        for i in range(len(times)):
            for n in range(len(network.nodes)):
                np.testing.assert_allclose(found[n][i], expected["marginals"][i][n], atol=1e-9)
        for n in range(len(network.nodes)):
            dwell[n] = dwell[n] + expected["dwell_times"][n]
            moves[n] = moves[n] + expected["transitions"][n]
    for n, node in enumerate(network.nodes):
        np.testing.assert_allclose(posterior.statistics.dwell_times[node], dwell[n], atol=1e-9)
        if node not in network.exogenous:
            np.testing.assert_allclose(posterior.statistics.transitions[node], moves[n], atol=1e-9)


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_every_kind_of_evidence(numerics: str, sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, sizes)
    evidence = random_evidence(rng, network)
    assert_as_the_reference(network, evidence, solve(network, evidence))


@pytest.mark.parametrize("seed", range(4))
def test_known_inputs(numerics: str, seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    network = random_network(rng, [2, 3, 2], exogenous=(0,))
    evidence = random_evidence(rng, network)
    assert_as_the_reference(network, evidence, solve(network, evidence))


def test_uncoupled_components_multiply() -> None:
    rng = np.random.default_rng(5)
    network = random_network(rng, [2, 3, 2, 2], n_parents=0)
    evidence = random_evidence(rng, network, kinds=("points", "jumps"))
    assert_as_the_reference(network, evidence, solve(network, evidence))
    # 40 single nodes have 2^40 joint states, but never meet
    many = am.Network(
        {f"n{i}": [] for i in range(40)}, {f"n{i}": [[-1, 1], [2, -2]] for i in range(40)}
    )
    assert solve(many, make_evidence([2] * 40, [0.0], [1.0])).log_evidence == pytest.approx(0.0)


def test_summary_rates_equal_their_full_table(numerics: str) -> None:
    rng = np.random.default_rng(1)
    table = rng.uniform(0.2, 2, size=(4, 2, 2)) * (1 - np.eye(2))
    single = [[-1.0, 1.0], [0.5, -0.5]]
    full = np.empty((2, 3, 2, 2))
    for i in range(2):
        for j in range(3):
            full[i, j] = table[i + j]
    three = rng.uniform(0.2, 2, size=(3, 3)) * (1 - np.eye(3))
    parents = {"a": [], "b": [], "c": ["a", "b"]}
    summary = am.SummaryRates({"a": [0, 1], "b": [0, 1, 2]}, table)
    one = am.Network(parents, {"a": single, "b": three, "c": summary})
    other = am.Network(parents, {"a": single, "b": three, "c": full})
    evidence = random_evidence(rng, one)
    found, expected = solve(one, evidence), solve(other, evidence)
    assert found.log_evidence == pytest.approx(expected.log_evidence, abs=1e-10)
    by_sum = np.zeros((4, 2))
    for i in range(2):
        for j in range(3):
            by_sum[i + j] += expected.statistics.dwell_times["c"][i, j]
    np.testing.assert_allclose(found.statistics.dwell_times["c"], by_sum, atol=1e-10)
    jumps = found.statistics.transitions["c"].sum()
    assert jumps == pytest.approx(expected.statistics.transitions["c"].sum())


def test_both_numerics_agree_on_a_larger_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    network = random_network(rng, [2, 3, 2, 3, 2])
    evidence = random_evidence(rng, network)
    results = []
    for dense in (True, False):
        monkeypatch.setattr(exact, "_prefers_dense", lambda *_, choice=dense: choice)
        results.append(solve(network, evidence))
    assert results[0].log_evidence == pytest.approx(results[1].log_evidence, abs=1e-9)
    for node in network.nodes:
        np.testing.assert_allclose(
            results[0].statistics.transitions[node],
            results[1].statistics.transitions[node],
            atol=1e-9,
        )


def test_fully_seen_paths_give_their_log_density_and_counts() -> None:
    rng = np.random.default_rng(3)
    network = random_network(rng, [2, 3, 2])
    paths = am.simulate(network, n_trajectories=5, duration=3.0, seed=4)
    posterior = am.infer(network, paths, method="exact")
    counts = paths.statistics(network)
    density = 0.0
    for node in network.nodes:
        rates = network.rates[node]
        off = np.where(counts.transitions[node] > 0, rates, 1.0)
        density += float((counts.transitions[node] * np.log(off)).sum())
        density += float((counts.dwell_times[node] * np.einsum("...ii->...i", rates)).sum())
        np.testing.assert_allclose(
            posterior.statistics.transitions[node], counts.transitions[node], atol=1e-12
        )
        np.testing.assert_allclose(
            posterior.statistics.dwell_times[node], counts.dwell_times[node], atol=1e-12
        )
    for n, node in enumerate(network.nodes):
        density += float(np.log(network.initial[node][paths.initial[:, n]]).sum())
    assert posterior.log_evidence == pytest.approx(density, abs=1e-9)
    start = float(
        sum(np.log(network.initial[node][paths.initial[:, n]]).sum()
            for n, node in enumerate(network.nodes))
    )  # fmt: skip
    assert posterior.log_evidence_given_first == pytest.approx(density - start, abs=1e-9)


def test_given_first_when_the_first_measurement_comes_after_the_start() -> None:
    rng = np.random.default_rng(11)
    network = random_network(rng, [2, 3])
    first = [(0, 0, 0.4, np.log([0.2, 0.9])), (0, 1, 0.4, np.log([0.3, 0.5, 0.1]))]
    later = [(0, 0, 1.1, np.log([0.6, 0.3]))]
    both = make_evidence([2, 3], [0.0], [2.0], first + later)
    only = make_evidence([2, 3], [0.0], [0.4], first)
    expected = (
        ReferenceChain(network, both).solve(0)["log_evidence"]
        - ReferenceChain(network, only).solve(0)["log_evidence"]
    )
    assert solve(network, both).log_evidence_given_first == pytest.approx(expected, abs=1e-10)


def test_stiff_rates_and_long_gaps_stay_finite() -> None:
    rates = {"a": [[-1e6, 1e6], [1e-6, -1e-6]], "b": [[[-3e5, 3e5], [1, -1]], [[-1, 1], [2, -2]]]}
    network = am.Network({"a": [], "b": ["a"]}, rates)
    exact_zero = [0.0, -np.inf]
    points = [(0, 0, 0.0, exact_zero), (0, 1, 0.0, exact_zero), (0, 0, 1e5, exact_zero)]
    posterior = solve(network, make_evidence([2, 2], [0.0], [1e6], points))
    # a returns at rate 1e-6 and leaves at once: P(back in 0 at 1e5) is about 1e-12
    assert posterior.log_evidence == pytest.approx(np.log(0.25) + np.log(1e-12), abs=1e-4)
    assert posterior.statistics.dwell_times["a"].sum() == pytest.approx(1e6, rel=1e-9)


def test_held_for_a_very_long_time_has_the_right_tiny_probability() -> None:
    network = am.Network({"a": []}, {"a": [[-50.0, 50.0], [0.0, 0.0]]})
    evidence = make_evidence([2], [0.0], [100.0], spans=[(0, 0, 0.0, 100.0, 0)])
    posterior = solve(network, evidence)
    assert posterior.log_evidence == pytest.approx(np.log(0.5) - 5000.0, rel=1e-12)
    assert posterior.statistics.dwell_times["a"][0] == pytest.approx(100.0, rel=1e-12)


def test_impossible_data_name_trajectory_and_time() -> None:
    network = am.Network({"a": []}, {"a": [[-1.0, 1.0], [0.0, 0.0]]})
    points = [(1, 0, 0.0, [-np.inf, 0.0]), (1, 0, 2.5, [0.0, -np.inf])]
    evidence = make_evidence([2], [0.0, 0.0], [3.0, 3.0], points)
    with pytest.raises(DataError, match=r"patient 1.*time 2\.5"):
        solve(network, evidence)


def test_too_large_says_how_large_and_what_instead() -> None:
    net = am.glauber({i: [i - 1] if i else [] for i in range(13)})
    with pytest.raises(TooLargeError, match=r"8,192.*4,096.*star"):
        solve(net, make_evidence([2] * 13, [0.0], [1.0]))


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    rng = np.random.default_rng(8)
    network = random_network(rng, [2, 3, 2])
    evidence = random_evidence(rng, network, n_trajectories=40)
    one, three = solve(network, evidence), solve(network, evidence, n_jobs=3)
    assert one.log_evidence == three.log_evidence
    for node in network.nodes:
        assert np.array_equal(one.statistics.transitions[node], three.statistics.transitions[node])


def test_a_seen_path_with_a_known_input_gives_its_log_density() -> None:
    network = random_network(np.random.default_rng(21), [2, 3, 2], exogenous=(0,))
    inputs = am.Network({"n0": []}, {"n0": [[-1.0, 1.0], [1.0, -1.0]]}, {"n0": ["s0", "s1"]})
    given = am.simulate(inputs, 4, duration=3.0, seed=1)
    paths = am.simulate(network, 4, duration=3.0, seed=2, paths=given)
    posterior = am.infer(network, paths, method="exact")
    counts = paths.statistics(network)
    density = 0.0
    for n, node in enumerate(network.nodes):
        np.testing.assert_allclose(
            posterior.statistics.dwell_times[node], counts.dwell_times[node], atol=1e-12
        )
        np.testing.assert_allclose(
            posterior.statistics.transitions[node], counts.transitions[node], atol=1e-12
        )
        if node == "n0":
            continue
        rates, moves = network.rates[node], counts.transitions[node]
        density += float((moves * np.log(np.where(moves > 0, rates, 1.0))).sum())
        density += float((counts.dwell_times[node] * np.einsum("...ii->...i", rates)).sum())
        density += float(np.log(network.initial[node][paths.initial[:, n]]).sum())
    assert posterior.log_evidence == pytest.approx(density, abs=1e-9)
    drawn = posterior.sample(2, seed=0)  # nothing is hidden, so a draw repeats the path
    np.testing.assert_array_equal(
        drawn.state_at(np.linspace(0, 3, 50))[::2], paths.state_at(np.linspace(0, 3, 50))
    )


def test_only_known_inputs() -> None:
    network = am.Network({"drug": []}, {"drug": None}, {"drug": ["no", "yes"]})
    spans = [(0, 0, 0.0, 1.0, 0), (0, 0, 1.0, 3.0, 1)]
    posterior = solve(network, make_evidence([2], [0.0], [3.0], spans=spans, exogenous=(0,)))
    assert posterior.log_evidence == 0.0
    np.testing.assert_array_equal(posterior.statistics.dwell_times["drug"], [1.0, 2.0])
    assert posterior.marginals([0.5, 2.0]).values[0, :, 0].tolist() == [[1, 0], [0, 1]]
