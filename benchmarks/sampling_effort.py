"""How many effective draws per second? Beside the plain references and a naive sampler.

*Paths*: a chain of three binary nodes, one trajectory with ten noisy points; the state of every
node at 21 times. Beside: the plain reference in Python, and a naive compiled sampler that draws
each node on a fine grid of times (steps of .01, so it is not exact either). *Graphs*: six nodes,
up to two parents; beside: the compiled reference of ``tests/reference/structure_posterior.py``,
which draws from the same conditionals and so mixes alike. Processor time of one thread. Written:
``sampling_effort.csv``.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pandas as pd
from calibration import EMISSION, N_POINTS, N_TRAJECTORIES, RATE, SHAPE, draw_network
from common import option_parser

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.reference.path_sampler import ReferenceSampler, state_at
from tests.reference.structure_posterior import Measured, sample_graphs

import asterism as am
from asterism.learning.search.settings import numbered_prior
from asterism.sampling.diagnose import effective_size
from asterism.sampling.kept_draws import KeptDraws
from asterism.sampling.model_chains import run_model_chain, start_model_chain
from asterism.sampling.model_setup import PriorChoice, candidates_of, model_setup
from asterism.sampling.path_chains import path_model, run_chain, start_chain
from asterism.timeline.build import build_evidence
from asterism.timeline.evidence import Evidence

STEP, DURATION = 0.01, 10.0
TIMES = np.linspace(0.0, DURATION, 21)


@numba.njit
def sweep_grid(states, parent, rate, log_likelihood, first, step):  # type: ignore[no-untyped-def]
    """Each node on a grid of times; ``rate[n, u, x]`` is the rate of leaving x under parent u."""
    n_nodes, n_times = states.shape
    filtered = np.empty((n_times, 2))
    for n in range(n_nodes):
        for k in range(n_times):
            if k == 0:
                filtered[0] = first
            else:
                u = states[parent[n], k - 1] if parent[n] >= 0 else 0
                a, b = step * rate[n, u, 0], step * rate[n, u, 1]
                filtered[k, 0] = filtered[k - 1, 0] * (1 - a) + filtered[k - 1, 1] * b
                filtered[k, 1] = filtered[k - 1, 0] * a + filtered[k - 1, 1] * (1 - b)
            for x in range(2):
                weight = np.exp(log_likelihood[n, k, x])
                if k + 1 < n_times:
                    for child in range(n_nodes):
                        if parent[child] == n:
                            y, z = states[child, k], states[child, k + 1]
                            leave = step * rate[child, x, y]
                            weight *= leave if y != z else 1 - leave
                filtered[k, x] *= weight
            filtered[k] /= filtered[k].sum()
        for k in range(n_times - 1, -1, -1):
            p1 = filtered[k, 1]
            if k < n_times - 1:
                u = states[parent[n], k] if parent[n] >= 0 else 0
                y = states[n, k + 1]
                a, b = step * rate[n, u, 0], step * rate[n, u, 1]
                w0 = filtered[k, 0] * (a if y == 1 else 1 - a)
                w1 = filtered[k, 1] * (1 - b if y == 1 else b)
                p1 = w1 / (w0 + w1)
            states[n, k] = 1 if np.random.random() < p1 else 0  # noqa: NPY002 (compiled)


def paths_case() -> tuple[am.Network, Evidence]:
    network = am.glauber({"A": [], "B": ["A"], "C": ["B"]}, a=2.0, b=1.0)
    noise = am.Gaussian((-1, 1), 0.6)
    seen = am.observe(am.simulate(network, 1, duration=DURATION, seed=1), noise, 10, seed=2)
    return network, build_evidence(network, seen, noise)


def effective(series: np.ndarray) -> float:
    """The median over what was watched, of (draws, quantities)."""
    return float(np.median(effective_size(np.asarray(series, dtype=float)[None])))


def compiled_paths(network: am.Network, evidence: Evidence) -> tuple[float, float, int]:
    compiled = network.compiled
    model = path_model(compiled.graph, compiled.rates, compiled.initial, evidence)
    chain = start_chain(model, 0, 0, ("0",), network.nodes)
    run_chain(model, chain, 200, True)
    begin = time.process_time()
    record = run_chain(model, chain, 20_000, True)
    seconds = time.process_time() - begin
    assert record is not None
    states = KeptDraws(model, [[record]]).states(0, TIMES)[0]
    return effective(states.reshape(len(states), -1)), seconds, 20_000


def plain_paths(network: am.Network, evidence: Evidence) -> tuple[float, float, int]:
    sampler = ReferenceSampler(network, evidence, 0, np.random.default_rng(0))
    paths: list[Any] = [(0, []) for _ in network.nodes]
    series = []
    begin = time.process_time()
    for sweep in range(220):
        if sweep == 20:
            begin = time.process_time()
        for n in range(len(paths)):
            sampler.redraw(n, paths)
        series.append([state_at(path, t) for path in paths for t in TIMES])
    return effective(np.array(series[20:])), time.process_time() - begin, 200


def grid_paths(network: am.Network, evidence: Evidence) -> tuple[float, float, int]:
    n_times = round(DURATION / STEP) + 1
    log_likelihood = np.zeros((3, n_times, 2))
    points = evidence.points
    for i in range(len(points.node)):
        own = points.log_likelihood[points.offset[i] : points.offset[i] + 2]
        log_likelihood[points.node[i], round(points.time[i] / STEP)] += own
    rate = np.zeros((3, 2, 2))
    for n, name in enumerate(network.nodes):
        table = np.broadcast_to(network.rates[name], (2, 2, 2))
        rate[n] = -table[:, [0, 1], [0, 1]]
    parent = np.array([-1, 0, 1])
    states = np.zeros((3, n_times), dtype=np.int64)
    first = np.array([0.5, 0.5])
    for _ in range(50):
        sweep_grid(states, parent, rate, log_likelihood, first, STEP)
    at = np.round(TIMES / STEP).astype(int)
    series = []
    begin = time.process_time()
    for _ in range(3000):
        sweep_grid(states, parent, rate, log_likelihood, first, STEP)
        series.append(states[:, at].ravel().copy())
    return effective(np.array(series)), time.process_time() - begin, 3000


def graphs() -> tuple[tuple[float, float, int], tuple[float, float, int]]:
    """Ours and the compiled reference on one network of six nodes."""
    network = draw_network(0, 6)
    paths = am.simulate(network, N_TRAJECTORIES, duration=12.0, seed=1000)
    seen = am.observe(paths, EMISSION, N_POINTS, seed=2000)
    nodes = network.nodes
    prior = numbered_prior(nodes)
    families = [prior.families(n) for n in range(6)]
    flips = [[-1.0, 1.0], [1.0, -1.0]]
    empty = am.Network({n: [] for n in nodes}, dict.fromkeys(nodes, flips), network.states)
    setup = model_setup(
        build_evidence(empty, seen, EMISSION),
        [2] * 6,
        candidates_of([2] * 6, families, [prior.log_prior(n, f) for n, f in enumerate(families)]),
        PriorChoice(SHAPE, RATE, [~np.eye(2, dtype=bool)] * 6, True, empty.compiled.initial),
        nodes,
    )
    chain = start_model_chain(setup, 0, 0, setup.candidates.start[:-1].copy())
    run_model_chain(setup, chain, 300, 1, False)
    begin = time.process_time()
    drawn = run_model_chain(setup, chain, 4000, 1, False)
    seconds = time.process_time() - begin
    size = effective(drawn.edges)
    measured = Measured.of(seen, nodes, EMISSION)
    start = np.repeat(np.arange(6)[:, None], 2, axis=1)
    sample_graphs(measured, 2, start, (SHAPE, RATE), sweeps=20, burn_in=0)
    begin = time.process_time()
    sample_graphs(measured, 2, start, (SHAPE, RATE), sweeps=1500, burn_in=0)
    other = time.process_time() - begin
    return (size, seconds, 4000), (size * 1500 / 4000, other, 1500)


def main() -> None:
    options = option_parser(__doc__, "benchmarks/results").parse_args()
    network, evidence = paths_case()
    found = {
        ("paths", "asterism"): compiled_paths(network, evidence),
        ("paths", "fine grid of times"): grid_paths(network, evidence),
        ("paths", "plain reference"): plain_paths(network, evidence),
    }
    found["graphs", "asterism"], found["graphs", "compiled reference"] = graphs()
    rows = [
        {
            "what": what,
            "sampler": who,
            "sweeps": n_sweeps,
            "microseconds_per_sweep": 1e6 * seconds / n_sweeps,
            "effective_per_sweep": size / n_sweeps,
            "effective_per_second": size / seconds,
        }
        for (what, who), (size, seconds, n_sweeps) in found.items()
    ]
    options.output.mkdir(parents=True, exist_ok=True)
    table = pd.DataFrame(rows).round(4)
    table.to_csv(options.output / "sampling_effort.csv", index=False)
    print(table.to_string(index=False))


if __name__ == "__main__":
    main()
