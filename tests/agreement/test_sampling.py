"""Sampling against exact inference, exact scores and exact Gamma posteriors."""

from __future__ import annotations

import pickle
import signal
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import gamma

import asterism as am
from asterism.errors import AsterismError
from asterism.exact.exact_posterior import solve as solve_exactly
from asterism.sampling import model_chains, model_posterior, rounds
from asterism.sampling.diagnose import Diagnosis, monte_carlo_error
from asterism.sampling.locked import locked_groups
from asterism.sampling.model_chains import (
    AdvancedChain,
    ChainTask,
    GivenPaths,
    advanced,
    begin_with,
    chain_arrays,
    run_model_chain,
    start_model_chain,
)
from asterism.sampling.model_posterior import RunPlan, sample_models
from asterism.sampling.model_setup import (
    ModelSetup,
    PriorChoice,
    all_parents,
    candidates_of,
    model_setup,
)
from asterism.sampling.path_posterior import solve
from asterism.sampling.sampled_posterior import SampledPosterior
from asterism.timeline.build import build_evidence
from asterism.timeline.evidence import JointMeasurement
from tests.reference.path_sampler import ReferenceSampler, state_at, statistics_of
from tests.reference.random_evidence import (
    make_evidence,
    random_evidence,
    random_network,
    with_random_interventions,
)

#: Monte Carlo errors that a difference may have. About 2,000 differences are looked at, of which
#: normal errors let .1 lie further off; all seeds are fixed
LIMIT = 4.0


def assert_as_exact(network: am.Network, evidence: object, found: SampledPosterior) -> None:
    exact = solve_exactly(network, evidence)
    times = np.linspace(evidence.start.min(), evidence.end.max() + 0.5, 8)
    difference = np.abs(found.marginals(times) - exact.marginals(times)).to_numpy()
    error = found.errors.marginals(times).to_numpy()
    assert np.all(difference <= LIMIT * error + 1e-9), (difference / (error + 1e-9)).max()
    for node in network.nodes:
        if node in network.exogenous:
            continue
        for kind in ("dwell_times", "transitions"):
            own = getattr(found.statistics, kind)[node]
            wanted = getattr(exact.statistics, kind)[node]
            error = getattr(found.errors.statistics, kind)[node]
            # rare jumps: not less than their Poisson error
            error = np.hypot(error, np.sqrt(np.maximum(wanted, 0.0) / (4 * found.draws.n_draws)))
            assert np.all(np.abs(own - wanted) <= LIMIT * error + 1e-9), (node, kind)


@pytest.mark.parametrize("seed", range(1, 11))
def test_every_kind_of_evidence(seed: int) -> None:
    rng = np.random.default_rng(seed)
    exogenous = (0,) if seed > 7 else ()
    network = random_network(rng, [2, 3, 2], exogenous=exogenous)
    evidence = random_evidence(rng, network)
    assert_as_exact(network, evidence, solve(network, evidence, n_draws=1500, seed=100 + seed))


@pytest.mark.parametrize("seed", range(1, 6))
def test_interventions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng, [2, 3, 2], exogenous=(0,) if seed == 5 else ())
    kinds = ("points", "joint") if seed < 4 else ("points", "jumps", "joint")
    evidence = random_evidence(rng, network, kinds)
    evidence = with_random_interventions(rng, network, evidence)
    assert len(evidence.interventions.node)
    assert_as_exact(network, evidence, solve(network, evidence, n_draws=1500, seed=100 + seed))


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_plain_reference(seed: int) -> None:
    """The reference, exact inference and the compiled sampler say the same of one trajectory."""
    rng = np.random.default_rng(seed)
    network = random_network(rng, [2, 3, 2], exogenous=(0,) if seed == 2 else ())
    kinds = ("points", "joint") if seed == 1 else ("points", "jumps", "spans", "joint")
    evidence = random_evidence(rng, network, kinds, n_trajectories=1)
    if seed == 1:
        evidence = with_random_interventions(rng, network, evidence)
    found = solve(network, evidence, n_draws=1500, seed=100 + seed)
    drawn = found.sample(1, seed=0)
    paths = [
        (
            int(drawn.initial[0, n]),
            [
                (float(t), int(x))
                for t, m, x in zip(drawn.jump_time, drawn.jump_node, drawn.jump_state)
                if m == n
            ],
        )
        for n in range(3)
    ]
    sampler = ReferenceSampler(network, evidence, 0, rng)
    middle = 0.5 * (evidence.start[0] + evidence.end[0])
    free = [n for n in range(3) if network.rates[network.nodes[n]] is not None]
    series = []
    for _ in range(150 if seed == 1 else 600):
        for n in free:
            sampler.redraw(n, paths)
        counted = statistics_of(network, evidence, 0, paths)
        states = [state_at(paths[n], middle) == x for n in free for x in (0, 1)]
        series.append([*np.concatenate([t.ravel() for t in counted.values()]), *states])
    draws = np.array(series, dtype=float)[None]
    exact = solve_exactly(network, evidence)
    for post, own_error in ((exact, 0.0), (found, 1.0)):
        at = post.marginals([middle]).to_numpy()[0, 0]
        expected, error = [], []
        for name in (network.nodes[n] for n in free):
            moves, time = post.statistics.transitions[name], post.statistics.dwell_times[name]
            table = np.array(moves, dtype=float)
            every = np.arange(table.shape[-1])
            table[..., every, every] = time
            expected += table.ravel().tolist()
            wide = np.zeros_like(table)
            if own_error:
                wide = np.array(post.errors.statistics.transitions[name], dtype=float)
                wide[..., every, every] = post.errors.statistics.dwell_times[name]
            error += wide.ravel().tolist()
        expected += [at[n, x] for n in free for x in (0, 1)]
        error += [0.01 * own_error] * (2 * len(free))
        total = np.hypot(monte_carlo_error(draws), np.array(error))
        # rare jumps: not less than their Poisson error
        total = np.hypot(total, np.sqrt(np.maximum(expected, 0.0) / draws.shape[1]))
        assert np.all(np.abs(draws.mean(axis=(0, 1)) - expected) <= LIMIT * total + 1e-9)


def test_summary_rates() -> None:
    table = np.array([[[0, 0.3], [2.0, 0]], [[0, 1.0], [1.0, 0]], [[0, 2.0], [0.3, 0]]])
    network = am.Network(
        {"a": [], "b": [], "c": ["a", "b"]},
        {
            "a": [[-1, 1], [1, -1]],
            "b": [[-0.7, 0.7], [1, -1]],
            "c": am.SummaryRates({"a": [0, 1], "b": [0, 1]}, table),
        },
    )
    rng = np.random.default_rng(3)
    evidence = random_evidence(rng, network)
    assert_as_exact(network, evidence, solve(network, evidence, n_draws=1500, seed=3))


def test_nodes_locked_by_a_joint_measurement_are_drawn_together() -> None:
    rng = np.random.default_rng(4)
    network = random_network(rng, [2, 2, 3])
    one_of_two = np.log(np.array([[1e-300, 1.0], [1.0, 1e-300]]))
    one_of_two[one_of_two < -600] = -np.inf
    joint = [JointMeasurement(0, t, (0, 1), one_of_two) for t in (0.5, 1.5)]
    points = [(0, n, 1.0, np.log(rng.uniform(0.1, 1, size=s))) for n, s in enumerate((2, 2, 3))]
    evidence = make_evidence([2, 2, 3], [0.0], [2.0], points, joint=joint)
    assert locked_groups(network.compiled, evidence) == [(0, 1)]
    assert_as_exact(network, evidence, solve(network, evidence, n_draws=1500, seed=1))


def test_nodes_that_gate_each_other_are_drawn_together() -> None:
    # a turns on only while b is off, b only while a is on, and so on: a cycle of four states
    up, down = [[-2.0, 2.0], [0.0, 0.0]], [[0.0, 0.0], [2.0, -2.0]]
    network = am.Network({"a": ["b"], "b": ["a"]}, {"a": [up, down], "b": [down, up]})
    certain = np.array([0.0, -np.inf])
    points = [(0, n, t, certain) for n in (0, 1) for t in (0.0, 4.0)]
    evidence = make_evidence([2, 2], [0.0], [4.0], points)
    assert locked_groups(network.compiled, evidence) == [(0, 1)]
    assert_as_exact(network, evidence, solve(network, evidence, n_draws=1500, seed=1))


def small_case() -> tuple[am.Network, am.Observations, am.Gaussian]:
    network = am.glauber({"A": [], "B": ["A"], "C": ["B"]}, a=1.0, b=0.8)
    noise = am.Gaussian((-1, 1), 0.7)
    seen = am.observe(am.simulate(network, 3, duration=4.0, seed=3), noise, 5, seed=4)
    return network, seen, noise


@pytest.mark.smoke
def test_the_door_and_what_a_sampled_posterior_offers() -> None:
    network, seen, noise = small_case()
    found = am.infer(network, seen, noise, method="sample", seed=1)
    assert found.converged
    assert "R̂" in found.stop_reason
    assert float(found.errors.marginals().max()) <= 0.0125
    pair = found.joint_marginals(("A", "C"), times=[1.0, 2.0])
    assert pair.dims == ("trajectory", "time", "A", "C")
    np.testing.assert_allclose(pair.sum(("A", "C")), 1.0, atol=1e-10)
    np.testing.assert_allclose(
        pair.sum("C").to_numpy(), found.marginals([1.0, 2.0]).sel(node="A").to_numpy(), atol=1e-10
    )
    assert found.sample(3, seed=0).n_trajectories == 9
    with pytest.raises(AsterismError, match="no evidence value"):
        _ = found.log_evidence


def test_draws_do_not_depend_on_the_number_of_threads() -> None:
    network, seen, noise = small_case()
    setup = small_setup(seen, noise)
    places = [setup.candidates.start[:-1].copy()] * 2
    one, many = (sample_models(setup, places, plan(40, n_jobs=n)) for n in (1, 6))
    for name in ("edges", "parents", "initial", "n_jumps"):
        np.testing.assert_array_equal(one.series(name), many.series(name))
    alone, shared = (
        am.infer(network, seen, noise, method="sample", n_chains=2, n_draws=20, n_jobs=n)
        for n in (1, 6)
    )
    np.testing.assert_array_equal(alone.marginals(), shared.marginals())
    np.testing.assert_array_equal(
        alone.statistics.dwell_times["B"], shared.statistics.dwell_times["B"]
    )


def test_no_forged_checkpoint_reaches_a_compiled_loop(tmp_path: Path) -> None:
    """A file may come from anybody, with a right checksum: places outside of arrays are refused."""
    _, seen, noise = small_case()
    setup = small_setup(seen, noise)
    places = [setup.candidates.start[:-1].copy()] * 2
    path = tmp_path / "sampling.npz"
    sample_models(setup, places, plan(20, n_jobs=1, checkpoint=path))
    with np.load(path) as held:
        whole = {name: held[name] for name in held.files if name != "checksum"}

    def refused(changed: dict[str, Any]) -> bool:
        arrays = {**whole, **changed}
        arrays = {name: value for name, value in arrays.items() if value is not None}
        np.savez(path, **arrays, checksum=np.array(model_posterior._checksum(arrays)))
        try:
            sample_models(setup, places, plan(20, n_jobs=1, checkpoint=path, resume=True))
        except AsterismError as error:
            assert "damaged" in str(error)  # noqa: PT017
            return True
        return False

    assert not refused({})
    tried = 0
    for name, value in whole.items():
        if name.startswith(("1/", "key", "n_burned")) or not value.size:
            continue
        assert refused({name: None}), name
        assert refused({name: value[..., None]}), name
        # random numbers and counts lead nowhere; parents are read where a family is no candidate
        free = name.endswith(("streams", "hold", "n_sweeps", "parents"))
        if value.dtype.kind in "iu" and not free:
            for wrong, at in product((-5, np.iinfo(value.dtype).max), (0, -1)):
                forged = value.copy()
                forged.ravel()[at] = wrong
                assert refused({name: forged}), (name, wrong, at)
                tried += 1
    assert tried >= 16  # places, starts, numbers of jumps and states of paths, and more


def test_chains_that_run_elsewhere_draw_the_same() -> None:
    _, seen, noise = small_case()
    setup = small_setup(seen, noise)
    places = [setup.candidates.start[:-1].copy()] * 2

    def elsewhere(setup: ModelSetup, tasks: list[ChainTask]) -> list[AdvancedChain]:
        sent = pickle.loads(pickle.dumps((setup, tasks)))
        return pickle.loads(pickle.dumps([advanced(sent[0], task) for task in sent[1]]))

    here, away = (sample_models(setup, places, plan(30, spread=s)) for s in (None, elsewhere))
    for name in ("edges", "parents", "initial", "n_jumps"):
        np.testing.assert_array_equal(here.series(name), away.series(name))
    np.testing.assert_array_equal(here.family_probabilities(), away.family_probabilities())


def test_options_are_checked() -> None:
    network, seen, noise = small_case()
    with pytest.raises(AsterismError, match="n_draws is 0"):
        am.infer(network, seen, noise, method="sample", n_draws=0)
    with pytest.raises(AsterismError, match="n_chains is 1"):
        am.infer(network, seen, noise, method="sample", n_chains=1)


def test_rates_of_known_paths_have_their_gamma_posterior() -> None:
    network, _, _ = small_case()
    paths = am.simulate(network, 10, duration=5.0, seed=5)
    learner = am.ParameterLearner(
        network.parents, method="sample", prior=am.GammaPrior(2.0, 3.0), random_state=1
    ).fit(paths)
    table = learner.rate_intervals_
    counted = paths.statistics(network)
    for _, row in table.iterrows():
        states = [str(s) for s in network.states[row["node"]]]
        x, y = states.index(str(row["from"])), states.index(str(row["to"]))
        at = tuple(
            [str(s) for s in network.states[part.split("=")[0]]].index(part.split("=")[1])
            for part in row["configuration"].split(", ")
            if part
        )
        shape = 2.0 + counted.transitions[row["node"]][(*at, x, y)]
        rate = 3.0 + counted.dwell_times[row["node"]][(*at, x)]
        assert row["rate"] == pytest.approx(shape / rate, rel=0.06)
        assert row["lower"] == pytest.approx(gamma.ppf(0.025, shape, scale=1 / rate), rel=0.15)
        assert row["upper"] == pytest.approx(gamma.ppf(0.975, shape, scale=1 / rate), rel=0.15)
    tree = learner.to_arviz()
    draws = tree["posterior"]
    assert draws["rates"].dims == ("chain", "draw", "rate")
    assert {"node", "configuration", "transition"} <= set(draws["rates"].coords)
    assert (tree["sample_stats"]["n_jumps"] >= 0).all()


def test_families_of_known_paths_have_their_exact_probabilities() -> None:
    network, _, _ = small_case()
    paths = am.simulate(network, 6, duration=5.0, seed=6)
    prior = am.GammaPrior(2.0, 3.0)
    exact = am.StructureLearner(prior=prior, structure_prior="uniform", method="star").fit(paths)
    seen = am.Observations.from_trajectories(paths)
    states = {n: network.states[n] for n in network.nodes}
    found = am.StructureLearner(
        prior=prior,
        method="sample",
        states=states,
        structure_prior="uniform",
        sampling=am.Sampling(max_draws=500),
    ).fit(seen)
    order = list(network.nodes)
    np.testing.assert_allclose(
        found.edge_probabilities_.loc[order, order],
        exact.edge_probabilities_.loc[order, order],
        atol=1e-5,
    )
    assert found.converged_
    assert len(found.sample_graphs(5)) == 5
    assert set(found.diagnostics_) >= {"parent", "child", "error", "r_hat"}


def small_setup(
    seen: am.Observations,
    emission: object,
    prior: tuple[float, Any] = (2.0, 3.0),
    beyond: bool = False,
) -> ModelSetup:
    """Every family of up to one parent, for the three nodes of the small case.

    ``beyond``: the candidates are those of no parent, and every other set of parents may be.
    """
    nodes = ("A", "B", "C")
    empty = am.Network(
        {n: [] for n in nodes}, {n: [[-1.0, 1.0], [1.0, -1.0]] for n in nodes},
        {n: [-1, 1] for n in nodes},
    )  # fmt: skip
    families = [np.array([[-1], *([m] for m in range(3) if m != n)]) for n in range(3)]
    if beyond:
        families = [np.array([[-1]])] * 3
    candidates = candidates_of([2, 2, 2], families, [np.zeros(len(f)) for f in families])
    none = np.zeros((3, 3))
    others = all_parents(
        candidates, np.full(3, 2), ~np.eye(3, dtype=bool), none.astype(bool), none, none
    )
    return model_setup(
        build_evidence(empty, seen, emission),
        [2, 2, 2],
        candidates,
        PriorChoice(*prior, [~np.eye(2, dtype=bool)] * 3, True, empty.compiled.initial),
        nodes,
        others=others if beyond else None,
    )


@pytest.mark.parametrize("duration", [5.0, 80.0], ids=["few jumps", "many jumps"])
def test_family_scores_are_those_of_complete_paths(duration: float) -> None:
    network, _, _ = small_case()
    paths = am.simulate(network, 6, duration=duration, seed=6)
    rate = np.linspace(1.0, 8.0, 12).reshape(3, 2, 2)
    setup = small_setup(am.Observations.from_trajectories(paths), None, (2.0, rate.ravel()))
    models = sample_models(setup, [setup.candidates.start[:-1].copy()] * 2, plan(20))
    found = models.family_probabilities().reshape(3, 3)
    scores = np.empty((3, 3))
    for n, name in enumerate(network.nodes):
        others = [m for m in network.nodes if m != name]
        for f, above in enumerate([[], [others[0]], [others[1]]]):
            graph = {m: (above if m == name else []) for m in network.nodes}
            counted = paths.statistics(graph)
            moves, time = counted.transitions[name], counted.dwell_times[name]
            m = moves.reshape(-1, 2, 2)[:, [0, 1], [1, 0]]
            t, b = time.reshape(-1, 2), rate[n][[0, 1], [1, 0]]
            scores[n, f] = np.sum(
                2 * np.log(b) + gammaln(m + 2) - gammaln(2.0) - (m + 2) * np.log(t + b)
            )
    exact = np.exp(scores - scores.max(axis=1, keepdims=True))
    np.testing.assert_allclose(found, exact / exact.sum(axis=1, keepdims=True), atol=1e-10)


def plan(max_sweeps: int, **options: Any) -> RunPlan:
    return RunPlan(
        judge=lambda models: (Diagnosis(1.0, 2.0, 1.0), False, "not judged"),
        burn_in=20, max_sweeps=max_sweeps, seed=3, **options,
    )  # fmt: skip


@pytest.mark.parametrize("beyond", [False, True], ids=["listed families", "all families"])
def test_a_resumed_run_goes_on_with_the_same_draws(tmp_path: Path, beyond: bool) -> None:
    _, seen, noise = small_case()
    setup = small_setup(seen, noise, beyond=beyond)
    places = [setup.candidates.start[:-1].copy()] * 2
    sample_models(setup, places, plan(60, n_jobs=1, checkpoint=tmp_path / "a.npz"))
    with np.load(tmp_path / "a.npz") as held:
        assert (min(held["0/place"].min(), held["1/place"].min()) < 0) == beyond
    resumed = sample_models(
        setup, places, plan(120, n_jobs=2, checkpoint=tmp_path / "a.npz", resume=True)
    )
    at_once = sample_models(setup, places, plan(120, n_jobs=1))
    for name in ("edges", "parents", "initial", "n_jumps"):
        np.testing.assert_array_equal(resumed.series(name), at_once.series(name))
    np.testing.assert_allclose(
        resumed.family_probabilities(), at_once.family_probabilities(), atol=1e-12
    )
    other = small_setup(seen, am.Gaussian((-1, 1), 0.9))
    with pytest.raises(AsterismError, match="other data, settings or program"):
        sample_models(other, places, plan(120, checkpoint=tmp_path / "a.npz", resume=True))


@pytest.mark.parametrize("at_sweep", [95, 131])
def test_ctrl_c_waits_for_the_end_of_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_sweep: int
) -> None:
    _, seen, noise = small_case()
    setup = small_setup(seen, noise)
    places = [setup.candidates.start[:-1].copy()] * 2
    at_once = sample_models(setup, places, plan(120, n_jobs=1))
    original, n_sweeps = model_chains.run_paths, 0

    def interrupted(*given: Any) -> Any:
        nonlocal n_sweeps
        n_sweeps += 1
        result = original(*given)
        if n_sweeps == at_sweep:
            signal.raise_signal(signal.SIGINT)
        return result

    monkeypatch.setattr(model_chains, "run_paths", interrupted)
    monkeypatch.setattr(rounds, "LOOK", 0.0)  # batches of one sweep of every chain
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        stopped = sample_models(setup, places, plan(120, n_jobs=1, checkpoint=tmp_path / "a.npz"))
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, usual)
    assert stopped.interrupted
    n = stopped.n_draws
    assert 4 <= n < 120
    np.testing.assert_array_equal(stopped.series("n_jumps"), at_once.series("n_jumps")[:, :n])
    resumed = sample_models(
        setup, places, plan(120, n_jobs=1, checkpoint=tmp_path / "a.npz", resume=True)
    )
    np.testing.assert_array_equal(resumed.series("n_jumps"), at_once.series("n_jumps"))
    np.testing.assert_allclose(
        resumed.family_probabilities(), at_once.family_probabilities(), atol=1e-12
    )


def test_rates_that_are_drawn_near_zero_leave_room_for_other_paths() -> None:
    _, seen, noise = small_case()
    setup = small_setup(seen, noise, prior=(500.0, 1e7))
    chain = start_model_chain(setup, 1, 0, setup.candidates.start[:-1].copy())
    run_model_chain(setup, chain, 3, 0, False)
    length = float(np.mean(setup.layout.end - setup.layout.start))
    for n, first in enumerate(setup.layout.config_start[:-1].tolist()):
        used = chain.rates.omega[first : first + int(chain.families.n_configs[n])]
        assert (used * length >= 1.0 - 1e-12).all()


def test_thinned_draws_are_those_of_a_run_that_keeps_all(monkeypatch: pytest.MonkeyPatch) -> None:
    _, seen, noise = small_case()
    setup = small_setup(seen, noise)
    places = [setup.candidates.start[:-1].copy()] * 2
    every = sample_models(setup, places, plan(100))
    monkeypatch.setattr(model_posterior, "_MEMORY", 1)
    monkeypatch.setattr(model_posterior, "_FEWEST_KEPT", 30)
    thinned = sample_models(setup, places, plan(100))
    assert (every.keep_every, thinned.keep_every) == (1, 4)
    assert thinned.n_draws == 25
    np.testing.assert_array_equal(thinned.series("parents"), every.series("parents")[:, 3::4])
    edges = every.series("edges").reshape(2, 25, 4, -1).mean(axis=2)
    np.testing.assert_allclose(thinned.series("edges"), edges, rtol=1e-5)
    np.testing.assert_allclose(thinned.family_probabilities(), every.family_probabilities())


def test_a_chain_begins_with_the_paths_it_is_given() -> None:
    _, seen, noise = small_case()
    setup = small_setup(seen, noise)
    chain = start_model_chain(setup, 1, 0, setup.candidates.start[:-1].copy())
    n = len(setup.layout.start)
    before = chain_arrays(chain)["paths.n_jumps"].copy()
    given = GivenPaths(
        np.ones(n, dtype=np.int64), np.ones(n, dtype=np.int64), setup.layout.start + 0.1,
        np.zeros(n, dtype=np.int64),
    )  # fmt: skip
    begin_with(setup, chain, {1: given})
    after = chain_arrays(chain)["paths.n_jumps"]
    assert (after[n : 2 * n] == 1).all()
    np.testing.assert_array_equal(after[:n], before[:n])
    np.testing.assert_array_equal(after[2 * n :], before[2 * n :])
    first = int(before[:n].sum())
    times = chain_arrays(chain)["paths.time"][first : first + n]
    np.testing.assert_array_equal(times, given.time)
