"""What sampling finds in trees: parents of 14 nodes and of 1,000, and rates of 20.

*parents*: the tree of ``tree_recovery.py`` (σ = .6, 40 trajectories, at most one parent): families
right beside the star's, and which Monte Carlo error and R̂ of the edges were reached in how long.
*rates*: a tree of 20 nodes with known graph, 100 trajectories of 15 noisy points, rates drawn from
the prior of the fit (Gamma 2, 2) or log-uniform between .25 and 4: how many of the 95 % intervals
cover the truth. *large*: a tree of 1,000 nodes, 80 trajectories of 10 noisy points, 20 candidates
per node: what a given time of drawing yields, the star's search included. *mixing*: which rates of
one tree of 20 are drawn slowly: effective draws by how often a state is left between two
measurements. Written after every data set: ``sampled_parents.csv``, ``sampled_rates.csv``,
``sampled_large.csv``, ``sampled_mixing.csv``.
"""

from __future__ import annotations

import sys
import time
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import option_parser, peak_gigabytes
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.paper_settings import paper_learner
from tests.reference.recovery_graphs import families_right, tree

import asterism as am
from asterism.sampling.diagnose import effective_size

SHAPE, RATE = 2.0, 2.0
N_LARGE = 1000
N_RATES_NODES, N_TRAJECTORIES, N_POINTS, DURATION, NOISE = 20, 100, 15, 10.0, 0.6


def parents(seed: int, minutes: float, n_jobs: int) -> dict[str, Any]:
    """One data set of the 14-node tree."""
    network, seen = tree(40, seed, 0.6)
    noise = am.Gaussian((-1, 1), 0.6)
    begin = time.process_time()
    star = paper_learner(noise, max_parents=1).fit(seen)
    middle, clock = time.process_time(), time.monotonic()
    sampled = paper_learner(
        noise, max_parents=1, method="sample", minutes=minutes, max_draws=1_000_000,
        n_jobs=n_jobs, random_state=seed,
    ).fit(seen)  # fmt: skip
    end = time.process_time()
    worst = sampled.diagnostics_
    unsure = worst[worst["error"] > 0.003]
    return {
        "seed": seed,
        "star_right": families_right(star, network),
        "sampled_right": families_right(sampled, network),
        "largest_error": float(worst["error"].max()),
        "largest_r_hat": float(unsure["r_hat"].max()) if len(unsure) else 1.0,
        "sweeps_per_chain": int(sampled.n_sweeps_),
        "converged": bool(sampled.converged_),
        "star_processor_seconds": round(middle - begin, 1),
        "sampling_processor_seconds": round(end - middle, 1),
        "sampling_seconds": round(time.monotonic() - clock, 1),
        "threads": n_jobs,
    }


def rates_network(rng: np.random.Generator, how: str) -> am.Network:
    names = [f"n{i}" for i in range(N_RATES_NODES)]
    above = {n: ([names[(i - 1) // 2]] if i else []) for i, n in enumerate(names)}
    rates: dict[str, Any] = {}
    for n in names:
        shape = (*[2] * len(above[n]), 2, 2)
        if how == "prior":
            table = rng.gamma(SHAPE, size=shape) / RATE
        else:
            table = np.exp(rng.uniform(np.log(0.25), np.log(4.0), size=shape))
        table[..., [0, 1], [0, 1]] = 0.0
        table[..., [0, 1], [0, 1]] = -table.sum(axis=-1)
        rates[n] = table
    return am.Network(above, rates, {n: ["0", "1"] for n in names})


def fitted_rates(
    seed: int, how: str, n_sweeps: int
) -> tuple[am.ParameterLearner, NDArray[np.float64]]:
    """A fit of one data set of the tree of 20, and the true rates in the order of its table."""
    network = rates_network(np.random.default_rng([seed, how == "prior"]), how)
    noise = am.Gaussian((-1.0, 1.0), NOISE)
    paths = am.simulate(network, N_TRAJECTORIES, duration=DURATION, seed=100 + seed)
    seen = am.observe(paths, noise, N_POINTS, seed=200 + seed)
    fit = am.ParameterLearner(
        network.parents, emission=noise, method="sample", prior=am.GammaPrior(SHAPE, RATE),
        states=network.states, max_iterations=n_sweeps // 20, random_state=seed, n_jobs=-1,
    ).fit(seen)  # fmt: skip
    true = []
    for row in fit.rate_intervals_.itertuples():
        at = tuple(int(part.split("=")[1]) for part in str(row.configuration).split(", ") if part)
        true.append(network.rates[row.node][(*at, int(row[3]), int(row[4]))])
    return fit, np.array(true)


def rates(seed: int, how: str, n_sweeps: int) -> dict[str, Any]:
    """One data set of the tree of 20, with at most so many sweeps per chain."""
    begin = time.process_time()
    fit, truth = fitted_rates(seed, how, n_sweeps)
    table = fit.rate_intervals_
    factor = np.exp(np.abs(np.log(table["rate"].to_numpy() / truth)))
    return {
        "rates_drawn": how,
        "seed": seed,
        "rates": len(truth),
        "covered": int(((table["lower"] <= truth) & (truth <= table["upper"])).sum()),
        "typical_factor": float(np.exp(np.median(np.log(factor)))),
        "largest_factor": float(factor.max()),
        "largest_r_hat": float(table["r_hat"].max()),
        "most_sweeps": n_sweeps,
        "converged": bool(fit.converged_),
        "processor_seconds": round(time.process_time() - begin, 1),
    }


def mixing(seed: int, how: str, n_sweeps: int) -> pd.DataFrame:
    """Effective draws of the rates of one data set, by the jumps between two measurements."""
    fit, truth = fitted_rates(seed, how, n_sweeps)
    draws = fit.to_arviz()["posterior"]["rates"]
    names = draws["rate"].to_numpy().astype(str)
    moves = [name.rpartition(":")[2].split("->") for name in names]
    drawn = draws.to_numpy()[:, :, [a != b for a, b in moves]]
    effective = effective_size(drawn)
    per_gap = truth * DURATION / N_POINTS
    limits = [0.0, 0.25, 0.5, 1.0, 2.0, np.inf]
    rows = []
    for low, high in pairwise(limits):
        own = effective[(per_gap >= low) & (per_gap < high)]
        if len(own):
            rows.append(
                {
                    "rates_drawn": how,
                    "seed": seed,
                    "jumps_per_gap_from": low,
                    "rates": len(own),
                    "draws": drawn.shape[0] * drawn.shape[1],
                    "median_effective": round(float(np.median(own)), 1),
                    "smallest_effective": round(float(own.min()), 1),
                }
            )
    return pd.DataFrame(rows)


def large(seed: int, minutes: float, n_jobs: int) -> dict[str, Any]:
    """One data set of the tree of 1,000 nodes."""
    names = [f"n{i}" for i in range(N_LARGE)]
    above = {n: ([names[(i - 1) // 2]] if i else []) for i, n in enumerate(names)}
    network = am.glauber(above, a=2.0, b=1.0)
    noise = am.Gaussian((-1, 1), 0.6)
    seen = am.observe(am.simulate(network, 80, duration=10.0, seed=seed), noise, 10, seed=seed + 1)
    settings: dict[str, Any] = {"max_parents": 1, "search": "screened", "n_candidates": 20}
    begin, clock = time.process_time(), time.monotonic()
    learner = paper_learner(
        noise, method="sample", minutes=minutes, max_draws=1_000_000, n_jobs=n_jobs,
        random_state=seed, **settings,
    ).fit(seen)  # fmt: skip
    worst = learner.diagnostics_
    unsure = worst[worst["error"] > 0.003]
    return {
        "seed": seed,
        "nodes": N_LARGE,
        "sampled_right": families_right(learner, network),
        "edges_looked_at": len(worst),
        "share_with_error_to_03": float((worst["error"] <= 0.03).mean()),
        "unsure_edges": len(unsure),
        "share_of_unsure_with_r_hat_to_105": float((unsure["r_hat"] <= 1.05).mean()),
        "largest_error": float(worst["error"].max()),
        "largest_r_hat": float(unsure["r_hat"].max()),
        "sweeps_per_chain": int(learner.n_sweeps_),
        "stop_reason": learner.stop_reason_,
        "minutes": round((time.monotonic() - clock) / 60.0, 2),
        "processor_minutes": round((time.process_time() - begin) / 60.0, 2),
        "threads": n_jobs,
        "peak_gigabytes": round(peak_gigabytes(), 2),
    }


def main() -> None:
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument("which", choices=("parents", "rates", "large", "mixing"))
    parser.add_argument("--seeds", type=int, nargs="+", default=list(range(15)))
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--how", choices=("prior", "log-uniform"), default="prior")
    parser.add_argument("--sweeps", type=int, default=5000, help="of rates, per chain")
    parser.add_argument("--seconds", type=float, default=780.0, help="stop after so long")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / f"sampled_{options.which}.csv"
    rows = pd.read_csv(path).to_dict("records") if path.exists() else []
    begin = time.monotonic()
    warnings.simplefilter("ignore")
    if options.which == "mixing":
        table = pd.concat([mixing(s, options.how, options.sweeps) for s in options.seeds])
        table.to_csv(path, index=False)
        print(table)
        return
    for seed in options.seeds:
        if time.monotonic() - begin > options.seconds:
            break
        if options.which != "rates":
            if any(r["seed"] == seed for r in rows):
                continue
            run = parents if options.which == "parents" else large
            rows.append(run(seed, options.minutes, options.jobs))
        else:
            if any(r["seed"] == seed and r["rates_drawn"] == options.how for r in rows):
                continue
            rows.append(rates(seed, options.how, options.sweeps))
        print(rows[-1], flush=True)
        pd.DataFrame(rows).round(4).to_csv(path, index=False)
    if options.which == "rates":
        table = pd.DataFrame(rows)
        for how, own in table.groupby("rates_drawn"):
            print(how, "covered", own["covered"].sum() / own["rates"].sum())


if __name__ == "__main__":
    main()
