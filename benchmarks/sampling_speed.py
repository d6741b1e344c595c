"""How fast is a sweep? Time per event against a scalar exponential, and how it grows.

Trees of binary nodes with rates near 1, ten noisy points per trajectory of length 10, one parent at
most. An event is anything that a path is merged with: a grid point, a measurement, a jump of the
parent or of a child. Process time of one thread. Written: ``sampling_speed.csv``.

How the time grows is measured with a prior that holds all rates near 1 (shape and rate 500), so
that every case has about as many jumps per trajectory. Left to the data, rates differ from case to
case; those slopes are noted too.
"""

from __future__ import annotations

import math
import time

import numba
import numpy as np
import pandas as pd
from common import best_of, gain_of_independent_loops, option_parser, peak_gigabytes

import asterism as am
from asterism.sampling._gibbs import EVERYWHERE, SKIP, run_paths
from asterism.sampling.model_chains import (
    ModelChain,
    run_model_chain,
    run_model_chains,
    start_model_chain,
)
from asterism.sampling.model_setup import ModelSetup, PriorChoice, candidates_of, model_setup
from asterism.timeline.build import build_evidence

DURATION, N_POINTS, NOISE = 10.0, 10, 0.6
#: nodes, trajectories and candidates of the cases whose times give each slope
SLOPES = {
    "nodes": [(25, 40, 10), (100, 40, 10), (400, 40, 10)],
    "trajectories": [(50, 10, 10), (50, 40, 10), (50, 160, 10)],
    "candidates": [(60, 40, 5), (60, 40, 15), (60, 40, 45)],
}


@numba.njit
def exponentials(values: np.ndarray) -> float:
    total = 0.0
    for x in values:
        total += math.exp(-x - 1e-9 * total)
    return total


def time_of_exponential() -> float:
    values = np.random.default_rng(0).uniform(0.0, 2.0, size=2_000_000)
    exponentials(values[:10])
    shortest = math.inf
    for _ in range(5):
        begin = time.process_time()
        exponentials(values)
        shortest = min(shortest, (time.process_time() - begin) / len(values))
    return shortest


def started(
    n_nodes: int, n_trajectories: int, n_candidates: int, shape: float = 5.0
) -> tuple[ModelSetup, ModelChain]:
    names = [f"n{i}" for i in range(n_nodes)]
    tree = {n: ([names[(i - 1) // 2]] if i else []) for i, n in enumerate(names)}
    network = am.glauber(tree, a=2.0, b=1.0)
    noise = am.Gaussian((-1, 1), NOISE)
    paths = am.simulate(network, n_trajectories, duration=DURATION, seed=1)
    evidence = build_evidence(network, am.observe(paths, noise, N_POINTS, seed=2), noise)
    rng = np.random.default_rng(3)
    families, place = [], []
    for n in range(n_nodes):
        true = [(n - 1) // 2] if n else []
        others = [m for m in rng.permutation(n_nodes).tolist() if m != n and m not in true]
        pool = [*true, *others[: n_candidates - len(true)]]
        families.append(np.array([[-1], *([m] for m in pool)], dtype=np.int64))
        place.append(len(true))
    sizes = [2] * n_nodes
    candidates = candidates_of(sizes, families, [np.zeros(len(f)) for f in families])
    setup = model_setup(
        evidence,
        sizes,
        candidates,
        PriorChoice(
            shape, shape, [~np.eye(2, dtype=bool)] * n_nodes, True, network.compiled.initial
        ),
        names,
    )
    chain = start_model_chain(setup, 0, 0, candidates.start[:-1] + np.array(place))
    run_model_chain(setup, chain, 10, 0, False)
    return setup, chain


def seconds_per_sweep(setup: ModelSetup, chain: ModelChain, repeats: int = 3) -> float:
    shortest = math.inf
    n = 1
    for _ in range(repeats + 1):
        begin = time.process_time()
        run_model_chain(setup, chain, n, 0, False)
        used = time.process_time() - begin
        shortest = min(shortest, used / n)
        n = max(1, min(200, int(0.3 / max(used / n, 1e-6))))
    return shortest


def on_two_threads(setup: ModelSetup, chain: ModelChain, n_sweeps: int) -> None:
    """One chain whose nodes and trajectories two threads share."""
    run_model_chains(setup, [chain], n_sweeps, 0, False, 2)


def nanoseconds_per_event(setup: ModelSetup, chain: ModelChain) -> float:
    """Of drawing paths alone."""
    n_nodes, n_trajectories = len(setup.names), len(setup.layout.start)
    model = chain.model(setup)
    shortest, events = math.inf, 0.0
    for _ in range(4):
        begin = time.process_time()
        chain.paths, chain.work, _, _ = run_paths(
            100, SKIP, EVERYWHERE, model, chain.paths, chain.work, chain.streams.paths
        )
        shortest = min(shortest, time.process_time() - begin)
        jumps = chain.paths.n_jumps.reshape(n_nodes, n_trajectories).sum(axis=1)
        omega = [
            chain.rates.omega[a : a + c].mean()
            for a, c in zip(setup.layout.config_start[:-1], chain.families.n_configs)
        ]
        events = sum(omega) * DURATION * n_trajectories + len(chain.seen.point_time)
        for n in range(n_nodes):
            for p in range(chain.families.n_parents[n]):
                # the child is merged with its parent, and the parent with its child
                events += jumps[n] + jumps[chain.families.parents[n, p]]
    return 1e9 * shortest / 100 / events


def main() -> None:
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument(
        "parts", nargs="*", default=["event", "large", "nodes", "trajectories", "candidates"]
    )
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / "sampling_speed.csv"
    # what is not measured now stays as it was
    known = pd.read_csv(path, keep_default_na=False).to_dict("records") if path.exists() else []
    rows: dict[str, dict[str, object]] = {str(row["what"]): dict(row) for row in known}

    def note(what: str, value: float, unit: str) -> None:
        rows[what] = {"what": what, "value": round(value, 4), "unit": unit}
        print(what, round(value, 4), unit, flush=True)
        pd.DataFrame(list(rows.values())).to_csv(path, index=False)

    if "event" in options.parts:
        one = 1e9 * time_of_exponential()
        note("scalar exponential", one, "ns")
        setup, chain = started(14, 40, 13)
        event = nanoseconds_per_event(setup, chain)
        note("event", event, "ns")
        note("event over exponential", event / one, "")
        what = "sweep, 14 nodes, 40 trajectories, 13 candidates"
        note(what, 1e3 * seconds_per_sweep(setup, chain), "ms")
    for which, (what, cases) in enumerate(SLOPES.items()):
        if what in options.parts:
            sizes = np.array([c[which] for c in cases], dtype=float)
            for shape, rates in ((500.0, ""), (5.0, ", rates left to the data")):
                times = np.array([seconds_per_sweep(*started(*c, shape)) for c in cases])
                slope = np.polyfit(np.log(sizes), np.log(times), 1)[0]
                which_sizes = f"{sizes[0]:.0f} to {sizes[-1]:.0f}"
                note(f"slope in {what}, {which_sizes}{rates}", float(slope), "")
    if "large" in options.parts:
        setup, chain = started(1000, 80, 20)
        what = "sweep, 1,000 nodes, 80 trajectories, 20 candidates, one thread"
        note(what, seconds_per_sweep(setup, chain, 1), "s")
        note("peak memory", peak_gigabytes(), "GB")
        on_two_threads(setup, chain, 1)
        both = best_of(lambda: on_two_threads(setup, chain, 1), 8, time.process_time)
        note("the same on two threads, processor time of both", both, "s")
        # what else runs on the machine shows here: 2 if nothing does
        values = np.random.default_rng(0).uniform(size=20_000_000)
        gains = [gain_of_independent_loops(values, 1)]
        clock = best_of(lambda: on_two_threads(setup, chain, 1), 8)
        gains.append(gain_of_independent_loops(values, 1))
        note("the same on two threads, by the clock", clock, "s")
        note("what two threads gained then where nothing is shared", float(np.mean(gains)), "")


if __name__ == "__main__":
    main()
