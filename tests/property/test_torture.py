"""Numeric torture: extreme networks and data through every method, and what must hold anyway.

No NaN, probabilities that sum to one, the same answer in any unit of time and in any order of
nodes, no news from a measurement that says nothing, and agreement of all methods where nothing
couples. A refusal in one sentence is an answer too; a NaN, a crash or a silent minute is not.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import asterism as am
from asterism.errors import AsterismError
from asterism.inference.methods import METHODS
from tests.faults import harness

#: "sample" draws at random: its answers are compared within its errors only
EVERY = tuple(METHODS)
SOLVED = tuple(name for name in METHODS if METHODS[name].has_evidence)
SECONDS = 1.0
#: most joint states of a case, so that exact inference is an answer and not a refusal
LARGEST = 400


@st.composite
def cases(draw: Any, coupled: bool = True) -> tuple[am.Network, am.Observations]:
    """A random network with extreme rates, and likelihoods of extreme measurements."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    n_nodes = draw(st.sampled_from([1, 2, 2, 3, 3, 4, 7]))
    names = [f"n{i}" for i in range(n_nodes)]
    sizes: dict[str, int] = {}
    for name in names:
        room = (
            LARGEST
            // int(np.prod(list(sizes.values()), dtype=int))
            // 2 ** (n_nodes - len(sizes) - 1)
        )
        sizes[name] = draw(st.integers(2, max(2, min(6, room))))
    scale = 10.0 ** draw(st.integers(-9, 9))
    span = 10.0 ** draw(st.integers(-9, 9))
    if scale * span > 300.0:  # longer courses cost time, not truth
        span = 300.0 / scale
    spread = draw(st.sampled_from([0.0, 1.0, 6.0]))
    parents: dict[str, list[str]] = {}
    rates = {}
    for name in names:
        others = [other for other in names if other != name]
        most = min(len(others), 6) if coupled else 0
        above = list(rng.permutation(others)[: draw(st.integers(0, most))]) if most else []
        parents[name] = [str(p) for p in above]
        shape = (*(sizes[p] for p in parents[name]), sizes[name], sizes[name])
        table = scale * 10.0 ** (spread * rng.uniform(-1, 0, shape))
        table[rng.random(shape) < 0.1] = 0.0
        rates[name] = table * (1 - np.eye(sizes[name]))
    network = am.Network(parents, rates, {n: [str(x) for x in range(sizes[n])] for n in names})
    lowest = draw(st.sampled_from([1e-1, 1e-12, 1e-300]))
    times, tables = [], []
    for _ in range(draw(st.integers(1, 2))):
        n_times = draw(st.integers(0, 4))
        clock = np.sort(rng.random(n_times)) * span
        if n_times > 1 and draw(st.booleans()):
            clock[1] = clock[0]  # measured twice at one time
        times.append(clock)
        tables.append({n: np.maximum(lowest, rng.random((n_times, sizes[n])) ** 8) for n in names})
    obs = am.Observations.from_likelihoods(
        times, tables, start=0.0, end=span, states={n: list(network.states[n]) for n in names}
    )
    return network, obs


def solved(network: am.Network, obs: am.Observations, method: str) -> am.Posterior | None:
    """The posterior, checked; None where the method refuses with a sentence."""
    begin = time.process_time()
    options: dict[str, Any] = (
        {"seed": 0, "n_draws": 100, "n_chains": 2} if method == "sample" else {}
    )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            posterior = am.infer(
                network, obs, am.Likelihood(), method=method, minutes=SECONDS / 60, **options
            )
            middle = float(obs.start[0] + obs.end[0]) / 2
            marginals = posterior.marginals([float(obs.start[0]), middle, float(obs.end[0])])
    except AsterismError:
        harness.count(f"torture, {method}", "refused in a sentence")
        return None
    for node in network.nodes:
        values = marginals.sel(node=node).values[..., : len(network.states[node])]
        assert np.isfinite(values).all()
        assert (values >= 0.0).all()
        assert np.abs(values.sum(axis=-1) - 1.0).max(initial=0.0) < 1e-10
    if METHODS[method].has_evidence:
        assert np.isfinite(posterior.log_evidence) or posterior.log_evidence == -np.inf
    for node in network.nodes:
        for table in (posterior.statistics.dwell_times, posterior.statistics.transitions):
            assert np.isfinite(table[node]).all()
            assert (np.asarray(table[node]) >= 0.0).all()
    assert posterior.stop_reason
    if time.process_time() - begin > 60.0:  # it may have compiled: then once more is quick
        begin = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            am.infer(network, obs, am.Likelihood(), method=method, minutes=SECONDS / 60, **options)
        assert time.process_time() - begin < 60.0, "a minute passed, whatever the limit said"
    said = "settled" if posterior.converged else "said that it did not settle"
    harness.count(f"torture, {method}", said)
    return posterior


def at(posterior: am.Posterior, node: str, share: float, obs: am.Observations) -> np.ndarray:
    """Probabilities of a node in the first trajectory."""
    n = len(posterior.network.states[node])
    time = float(obs.end[0] - obs.start[0]) * share + float(obs.start[0])
    return posterior.marginals([time]).sel(node=node).values[0, 0, :n]


def torture(**drawn: Any) -> Any:
    """A few cases by default; a thousand over all properties with ``-m slow``."""

    def decorated(test: Any) -> Any:
        def repeated(n_cases: int) -> None:
            @settings(
                max_examples=n_cases,
                deadline=None,
                suppress_health_check=list(HealthCheck),
                derandomize=True,
                database=None,
                phases=(Phase.explicit, Phase.generate),
            )
            @given(**drawn)
            def check(**values: Any) -> None:
                test(**values)

            check()

        repeated.__doc__ = test.__doc__
        many = pytest.param(12 if harness.REDUCED else 200, marks=pytest.mark.slow)
        return pytest.mark.parametrize("n_cases", [8, many])(repeated)

    return decorated


@torture(case=cases(), method=st.sampled_from(EVERY))
def test_no_nan_and_probabilities_that_sum_to_one(case: Any, method: str) -> None:
    """What is checked of every posterior stands in ``solved``."""
    posterior = solved(*case, method)
    assert posterior is None or posterior.stop_reason


@torture(case=cases(coupled=False))
def test_methods_agree_where_nothing_couples(case: Any) -> None:
    network, obs = case
    found = [p for method in SOLVED if (p := solved(network, obs, method)) and p.converged]
    sampled = solved(network, obs, "sample")
    if found and sampled is not None and sampled.converged:
        for node in network.nodes:
            off = np.abs(at(sampled, node, 0.4, obs) - at(found[0], node, 0.4, obs))
            assert off.max() < 0.3, "draws are nowhere near the answer"
    for other in found[1:]:
        scale = max(1.0, abs(found[0].log_evidence))
        assert abs(other.log_evidence - found[0].log_evidence) / scale < 2e-3
        for node in network.nodes:
            np.testing.assert_allclose(
                at(other, node, 0.4, obs), at(found[0], node, 0.4, obs), atol=5e-3
            )


@torture(case=cases(), power=st.integers(-9, 9), method=st.sampled_from(SOLVED))
def test_the_unit_of_time_does_not_matter(case: Any, power: int, method: str) -> None:
    network, obs = case
    unit = 10.0**power
    scaled = network.with_rates(
        {n: np.asarray(r) / unit for n, r in network.rates.items() if r is not None}
    )
    one, other = solved(network, obs, method), solved(scaled, obs.scale_time(unit), method)
    if one is None or other is None or not (one.converged and other.converged):
        return
    scale = max(1.0, abs(one.log_evidence))
    assert abs(one.log_evidence - other.log_evidence) / scale < 2e-3
    node = network.nodes[-1]
    later = obs.scale_time(unit)
    np.testing.assert_allclose(at(one, node, 0.5, obs), at(other, node, 0.5, later), atol=5e-3)


@torture(case=cases(), method=st.sampled_from(SOLVED))
def test_a_measurement_that_says_nothing_changes_nothing(case: Any, method: str) -> None:
    network, obs = case
    rows = obs.to_frame("long")
    rows = rows[rows["trajectory"] == obs.trajectories[0]]
    node = network.nodes[0]
    states = [f"p_{s}" for s in network.states[node]]
    middle = float(obs.start[0] + obs.end[0]) / 2
    silent = {"trajectory": obs.trajectories[0], "time": middle, "node": node}
    silent |= dict.fromkeys(states, 1.0)
    limits = {"start": float(obs.start[0]), "end": float(obs.end[0])}
    if rows.empty:
        return
    few = am.Observations.from_frame(rows, kind="long", **limits)
    more = pd.concat([rows, pd.DataFrame([silent])], ignore_index=True)
    more = am.Observations.from_frame(more, kind="long", sort=True, **limits)
    one, other = solved(network, few, method), solved(network, more, method)
    if one is None or other is None or not (one.converged and other.converged):
        return
    scale = max(1.0, abs(one.log_evidence))
    moved = abs(one.log_evidence - other.log_evidence) / scale
    said = "as before" if moved < 3e-3 else "moved by more than 0.3 %"
    harness.count(f"torture, evidence after a measurement that says nothing, {method}", said)
    assert moved < 3e-3


@torture(case=cases(), method=st.sampled_from(SOLVED))
def test_the_order_of_nodes_does_not_matter(case: Any, method: str) -> None:
    network, obs = case
    names = list(network.nodes)[::-1]
    turned = am.Network(
        {n: network.parents[n] for n in names},
        {n: network.rates[n] for n in names},
        {n: network.states[n] for n in names},
    )
    one, other = solved(network, obs, method), solved(turned, obs, method)
    if one is None or other is None or not (one.converged and other.converged):
        return
    # sweeps in another order may settle elsewhere within the tolerance, or at another fixed point
    if method == "exact":
        assert one.log_evidence == pytest.approx(other.log_evidence, rel=1e-8, abs=1e-8)


def test_a_node_with_one_state_is_refused_in_a_sentence() -> None:
    with pytest.raises(AsterismError, match="at least two states"):
        am.Network({"A": []}, {"A": [[0.0]]}, {"A": ["only"]})
