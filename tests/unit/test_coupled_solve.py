"""Coupled solves, extrapolated, against the kernel that iterates in one; compiling ahead."""

from __future__ import annotations

import json
import subprocess
import sys
from unittest.mock import Mock

import numpy as np
import pytest

import asterism as am
from asterism.learning import compile_ahead
from asterism.learning.search import edge_families
from asterism.learning.search.edge_families import EdgeFamily
from asterism.learning.search.settings import StructureSettings
from asterism.learning.search.task import prepare
from asterism.learning.tasks import Silent
from asterism.star import problem
from tests.paper_settings import paper_learner


@pytest.fixture(scope="module")
def seen() -> tuple[am.Observations, am.Gaussian]:
    network = am.glauber("tree:5", a=1.0, b=0.6)
    noise = am.Gaussian((-1, 1), 0.3)
    paths = am.simulate(network, 8, duration=6.0, seed=0)
    return am.observe(paths, noise, n_observations=8, seed=1), noise


@pytest.mark.parametrize("method", ["star", "mean_field"])
@pytest.mark.parametrize("digamma", [False, True])
def test_both_ways_to_solve_a_graph_agree(
    seen: tuple[am.Observations, am.Gaussian], method: str, digamma: bool
) -> None:
    settings = StructureSettings(
        emission=seen[1], method=method, accuracy=am.Accuracy(digamma=digamma)
    )
    scorer = prepare(settings, seen[0], Silent()).scorer
    graph = ((4,), (0,), (0,), (1, 2), (1,))
    in_one = scorer.solve(graph)
    in_threads = scorer.solve(graph, n_jobs=2, precise=True)
    assert in_one.converged
    assert in_threads.converged
    assert in_threads.score == pytest.approx(in_one.score, abs=2e-3)
    np.testing.assert_allclose(in_threads.rates, in_one.rates, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("method", ["star", "mean_field"])
def test_local_solves_count_what_a_solve_of_the_whole_graph_counts(
    seen: tuple[am.Observations, am.Gaussian], method: str
) -> None:
    """Exactly, where no neighbour can answer; nearly, beside a parent that can."""
    settings = StructureSettings(emission=seen[1], method=method)
    scorer = prepare(settings, seen[0], Silent()).scorer
    alone = scorer.solve(((),) * 5, n_jobs=1, precise=True)
    for family, tolerance in (((), 2e-3), ((0,), 0.1)):
        wanted = [EdgeFamily(0, 1, family)]
        local = edge_families._local(scorer, alone, wanted)[wanted[0]]
        whole = scorer.solve(((), family, (), (), ()), alone, 1, precise=True)
        for own, same in zip(local, whole.statistics(scorer.n_states)[1]):
            np.testing.assert_allclose(own, same, atol=tolerance * same.max())


def test_extrapolation_saves_iterations(
    seen: tuple[am.Observations, am.Gaussian], monkeypatch: pytest.MonkeyPatch
) -> None:
    from asterism.learning.search import coupled

    settings = StructureSettings(emission=seen[1], prior=am.GammaPrior(5))
    scorer = prepare(settings, seen[0], Silent()).scorer
    graph = ((4,), (0,), (0,), (1,), (1,))
    with_it = scorer.solve(graph, n_jobs=1, precise=True)
    monkeypatch.setattr(coupled.Extrapolation, "improve", lambda *_: False)
    without = scorer.solve(graph, n_jobs=1, precise=True)
    assert with_it.n_iterations < without.n_iterations
    assert with_it.score == pytest.approx(without.score, abs=2e-3)


@pytest.mark.parametrize("seed", range(4))
def test_close_calls_are_settled_as_by_the_exhaustive_search(seed: int) -> None:
    network = am.glauber("cycle:4", a=1.0, b=0.6)
    noise = am.Gaussian((-1, 1), 0.8)
    paths = am.simulate(network, 8, duration=5.0, seed=seed)
    seen = am.observe(paths, noise, n_observations=8, seed=seed + 50)
    found = [paper_learner(noise, search=search).fit(seen) for search in ("exhaustive", "screened")]
    assert set(found[0].graph_.edges) == set(found[1].graph_.edges)
    np.testing.assert_allclose(
        found[0].edge_probabilities_, found[1].edge_probabilities_, atol=0.02
    )


TOY_AND_SEARCH = """
import json
import asterism as am
from asterism.star._between_points import marginals_at
from asterism.learning.search._local import score_families
from asterism.learning import compile_ahead

def compiled():
    return [[str(s) for s in k.signatures] for k in (score_families, marginals_at)]

compile_ahead.compile_kernels()
toy = compiled()
net, noise = am.glauber("cycle:3"), am.Gaussian((-1, 1), 0.3)
obs = am.observe(am.simulate(net, 2, duration=2.0, seed=0), noise, n_observations=3, seed=1)
learner = am.StructureLearner(noise, search="screened", n_jobs=1).fit(obs)
am.infer(learner.network_, obs, noise).marginals()
print(json.dumps([toy, compiled()]))
"""


def test_the_toy_problem_compiles_what_a_search_needs_and_nothing_else() -> None:
    # a process of its own: other tests have compiled these kernels here already
    command = [sys.executable, "-c", TOY_AND_SEARCH]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    toy, after_a_search = json.loads(answer.splitlines()[-1])
    assert [len(kernel) for kernel in toy] == [1, 1]
    assert after_a_search == toy


@pytest.mark.parametrize(
    ("cores", "is_compiled"),
    [(2, True), (1, False)],
    ids=["all is compiled", "one core"],
)
def test_nothing_is_compiled_ahead_in_vain(
    cores: int, is_compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    if is_compiled:
        compile_ahead.compile_kernels()
        assert compile_ahead._is_compiled()
    else:
        monkeypatch.setattr(compile_ahead, "_is_compiled", lambda: False)
    monkeypatch.setattr(compile_ahead.os, "cpu_count", lambda: cores)
    monkeypatch.setattr(
        compile_ahead.subprocess, "Popen", lambda *a, **k: started.append(a) or Mock()
    )
    with compile_ahead.compiling_ahead():
        assert started == []


def test_what_compiles_ahead_ends_with_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    real = compile_ahead.subprocess.Popen

    def remember(command: list[str], **options: object) -> object:
        started.append(real([command[0], "-c", "import time; time.sleep(60)"]))
        return started[-1]

    monkeypatch.setattr(compile_ahead, "_is_compiled", lambda: False)
    monkeypatch.setattr(compile_ahead.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(compile_ahead.subprocess, "Popen", remember)
    with compile_ahead.compiling_ahead():
        assert started[0].poll() is None
    assert started[0].poll() is not None


def test_a_search_takes_the_process_that_compiles_already(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    monkeypatch.setattr(compile_ahead.os, "cpu_count", lambda: 2)
    monkeypatch.setattr(compile_ahead, "_is_compiled", lambda: False)
    monkeypatch.setattr(compile_ahead, "_waiting_for", lambda process: lambda kernel: None)
    monkeypatch.setattr(
        compile_ahead, "start_child", lambda *a, **k: started.append(Mock()) or started[-1]
    )
    for n in (1, 2):
        with compile_ahead.compiling_ahead(), compile_ahead.compiling_ahead():
            assert len(started) == n
            assert not started[-1].kill.called
        assert started[-1].kill.called


def test_evidence_too_large_to_remember_gives_the_same_numbers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is sorted again for every grid, and nobody else has its arrays."""
    network = am.glauber("chain:2", a=1.0, b=0.6)
    noise = am.Gaussian((-1, 1), 0.6)
    obs = am.observe(am.simulate(network, 5, duration=5.0, seed=0), noise, n_observations=5, seed=1)
    small = am.infer(network, obs, noise, method="star", tolerance=1e-4)
    monkeypatch.setattr(problem, "_REMEMBERED_BYTES", 0)
    large = am.infer(network, obs, noise, method="star", tolerance=1e-4)
    assert large.log_evidence == small.log_evidence
    times = np.linspace(0.0, 5.0, 11)
    np.testing.assert_array_equal(large.marginals(times), small.marginals(times))
