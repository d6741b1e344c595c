"""Speed of star inference: beside an ODE solver, as problems grow, per step, and in memory.

Prints a table and writes it with a figure to a folder: python benchmarks/inference.py -o out/
Single-threaded figures are processor times, best of several, so that a busy machine disturbs them
little; only the two-thread comparison needs a quiet one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from common import (
    Row,
    best_of,
    gain_of_independent_loops,
    option_parser,
    peak_gigabytes,
    show_and_write,
    sum_of_exponentials,
    timed,
)

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.reference.star_ode import StarODE

import asterism as am
from asterism.engine.rules.star import solve
from asterism.star.batch import Batch, make_batch, run
from asterism.star.problem import Parameters
from asterism.timeline.build import build_evidence
from asterism.timeline.evidence import Evidence

NOISY = am.Gaussian(means=(-1, 1), scale=0.6)
#: processor time: a busy machine disturbs it little
best = partial(best_of, clock=time.process_time)


def two_parents_each(
    n_nodes: int, n_trajectories: int, duration: float, n_observations: int
) -> tuple[am.Network, Evidence]:
    """Glauber spins on a circle, each led by the two before it, with noisy measurements."""
    circle = {n: [(n - 1) % n_nodes, (n - 2) % n_nodes] for n in range(n_nodes)}
    network = am.glauber(circle, a=1.0, b=0.4)
    paths = am.simulate(network, n_trajectories, duration=duration, seed=0)
    values = am.observe(paths, NOISY, n_observations=n_observations, seed=1)
    return network, build_evidence(network, values, NOISY)


def as_inference_does(network: am.Network, evidence: Evidence, time_step: float) -> Batch:
    """The evidence on equal steps, corrected where they are smooth."""
    compiled = network.compiled
    rate = compiled.relaxation_rate
    return make_batch(evidence, compiled.graph, rate, 1.0, time_step=time_step, is_corrected=True)


def against_the_ode_solver() -> list[Row]:
    """Same network, data and number of sweeps; errors against a much finer solution."""
    network, evidence = two_parents_each(10, 1, 10.0, 10)
    times = np.linspace(0.0, 10.0, 101)
    truth = solve(network, evidence, tolerance=1e-8).marginals(times).values[0]

    def error_of(posterior: am.Posterior) -> float:
        return float(np.abs(posterior.marginals(times).values[0] - truth).max())

    equations = StarODE(network, evidence, rtol=1e-5, atol=1e-6)
    n_sweeps = solve(network, evidence, time_step=0.05).n_sweeps
    ode_time = best(lambda: equations.solve(n_sweeps), 2)
    ode_error = float(np.abs(equations.at(equations.solve(n_sweeps), times) - truth).max())
    rows: list[Row] = [
        ("sweeps of both", n_sweeps, ""),
        ("solve_ivp, seconds", ode_time, ""),
        ("solve_ivp, largest error of a marginal", ode_error, ""),
    ]
    parameters = Parameters.of(network.compiled, "star")
    for name, target in (("solve_ivp's accuracy", ode_error), ("an error of 1e-3", 1e-3)):
        step = 0.4
        while error_of(solve(network, evidence, time_step=step)) > target and step > 1e-3:
            step /= 1.05
        # a copy of the evidence does not remember how it was laid out the last time
        seconds = best(lambda step=step: solve(network, replace(evidence), time_step=step), 20)
        # the solver's own preparation, done above, is not counted either
        batch = as_inference_does(network, evidence, step)
        prepared = best(lambda batch=batch: run(batch, parameters, tolerance=1e-6), 20)
        rows += [
            (f"asterism at {name}, steps", float(batch.grid.step_start[-1]), ""),
            (f"asterism at {name}, seconds", seconds, ""),
            (f"times faster, at {name}", ode_time / seconds, "at least 2000"),
            (f"times faster when prepared, at {name}", ode_time / prepared, ""),
        ]
    for tolerance in (1e-3, 1e-5):
        name = f"error control, tolerance {tolerance:.0e}"
        infer = partial(solve, network, tolerance=tolerance)
        seconds = best(lambda infer=infer: infer(replace(evidence)), 20)
        rows += [
            (f"{name}, seconds", seconds, ""),
            (f"{name}, error", error_of(infer(evidence)), ""),
        ]
    return rows


def scaling(figure: dict[str, tuple[list[int], list[float]]]) -> list[Row]:
    """Slopes of ln(time) against ln(size)."""
    cases: dict[str, tuple[list[int], Callable[[int], tuple[am.Network, Evidence]]]] = {
        "nodes": ([10, 30, 100, 300, 1000], lambda n: two_parents_each(n, 5, 10.0, 10)),
        "trajectories": ([1, 10, 100, 1000], lambda n: two_parents_each(10, n, 10.0, 10)),
        "observations": ([10, 100, 1000, 10_000], lambda n: two_parents_each(10, 1, float(n), n)),
    }
    rows: list[Row] = []
    for name, (sizes, make) in cases.items():
        seconds = []
        for size in sizes:
            network, evidence = make(size)
            work = partial(solve, network, evidence, time_step=0.2, max_sweeps=8)
            seconds.append(best(work, 5))
        slope = float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])
        figure[name] = (sizes, seconds)
        rows.append((f"slope over {name}", slope, "at most 1.05"))
    return rows


def one_thread(repeats: int = 20) -> list[Row]:
    """Nanoseconds per (node, step, sweep) beside one exponential."""
    network, evidence = two_parents_each(10, 64, 10.0, 10)
    parameters = Parameters.of(network.compiled, "star")
    batch = as_inference_does(network, evidence, 0.025)
    outcome, _ = run(batch, parameters)
    updates = 10 * int((np.diff(batch.grid.step_start) * outcome.n_sweeps).sum())
    ours = best(lambda: run(batch, parameters), repeats) / updates
    x = np.random.default_rng(0).normal(size=1_000_000)
    sum_of_exponentials(x)
    exponential = best(lambda: sum_of_exponentials(x), repeats) / len(x)
    return [
        ("nanoseconds per node, step and sweep", 1e9 * ours, ""),
        ("nanoseconds per exponential", 1e9 * exponential, ""),
        ("ratio", ours / exponential, "at most 20"),
    ]


def two_threads() -> list[Row]:
    """What a second thread gains, beside what it gains where nothing is shared."""
    network, evidence = two_parents_each(10, 64, 10.0, 10)
    parameters = Parameters.of(network.compiled, "star")
    batch = as_inference_does(network, evidence, 0.025)
    x = np.random.default_rng(0).normal(size=8_000_000)
    ideal = gain_of_independent_loops(x, 20)
    one, two = (best_of(partial(run, batch, parameters, n_jobs=n), 20) for n in (1, 2))
    return [
        ("speed-up by two threads", one / two, ""),
        ("the same of independent loops", ideal, ""),
        ("share of it", one / two / ideal, "at least 0.8"),
    ]


def solve_a_large_network() -> None:
    """Run in a process of its own: prints seconds, peak gigabytes and whether it converged."""
    network, evidence = two_parents_each(5000, 20, 10.0, 10)
    posterior, seconds = timed(lambda: solve(network, evidence))
    print(seconds, peak_gigabytes(), int(posterior.converged))


def large_network() -> list[Row]:
    command = [sys.executable, __file__, "--large-network"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return [
        ("5,000 nodes, 20 × 10 observations, seconds", float(answer[0]), ""),
        ("peak memory, GB", float(answer[1]), "below 2"),
        ("converged", float(answer[2]), "1"),
    ]


def draw(figure: dict[str, tuple[list[int], list[float]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    canvas, axes = pyplot.subplots(figsize=(5, 4))
    for name, (sizes, seconds) in figure.items():
        axes.loglog(sizes, seconds, "o-", label=name)
    axes.set_xlabel("number of nodes, trajectories or observations")
    axes.set_ylabel("processor seconds")
    axes.legend()
    canvas.tight_layout()
    canvas.savefig(path, dpi=150)


def main() -> None:
    parser = option_parser(__doc__, "benchmark-inference")
    parser.add_argument("--large-network", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.large_network:
        solve_a_large_network()
        return
    figure: dict[str, tuple[list[int], list[float]]] = {}
    rows = [*against_the_ode_solver(), *scaling(figure), *one_thread()]
    rows += [*two_threads(), *large_network()]
    show_and_write(rows, arguments.output / "inference.csv")
    draw(figure, arguments.output / "inference.png")


if __name__ == "__main__":
    main()
