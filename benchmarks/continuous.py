"""Continuous nodes: accuracy, calibration and time of the closed form on simulated networks.

Networks of ten nodes, five trajectories of 21 points: from the model itself and Hill-type gene
networks (hill_networks.py), with and without a stimulus, on even times and on random ones with
30 % of the cells missing, and nodes without any edges. Everything is learned with defaults, the
switching time included. Settings were chosen with seeds 1000 to 1009; these start at 0. With
``--data FOLDER``, the DREAM4 networks too.

    python benchmarks/continuous.py [--sets 20] [--first-seed 0] [--large 0] [--data FOLDER] [-o .]
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import option_parser
from hill_networks import Design, hill_network, model_network
from sklearn.metrics import average_precision_score

import asterism as am
from asterism.continuous.learn import LEARNING_RATE

SPARSE, MISSING = Design(mean_parents=0.9), {"irregular": True, "missing": 0.3}
NONE = Design(mean_parents=0.0)
ROWS = {
    "model": (model_network, SPARSE),
    "model, 30 % missing": (model_network, replace(SPARSE, **MISSING)),
    "Hill": (hill_network, Design()),
    "Hill, stimulus": (hill_network, Design(stimulus=True)),
    "Hill, 30 % missing": (hill_network, Design(**MISSING)),
    "Hill, stimulus, 30 % missing": (hill_network, Design(stimulus=True, **MISSING)),
    "model, no edges": (model_network, NONE),
    "model, no edges, stimulus": (model_network, replace(NONE, stimulus=True)),
    "Hill, no edges": (hill_network, NONE),
    "Hill, no edges, stimulus": (hill_network, replace(NONE, stimulus=True)),
}
DREAM4 = ("size10_1", "size10_2", "size100_1")


def learn(frame: pd.DataFrame) -> am.StructureLearner:
    """Sets of up to three parents in small networks; one parent per node expected beforehand."""
    n = frame.shape[1] - 2
    prior = am.StructurePrior(edge=-np.log(n - 1))
    learner = am.StructureLearner(am.Continuous(), 3 if n <= 20 else 2, structure_prior=prior)
    return learner.fit(am.Observations.from_frame(frame), progress=False)


def found_switch(learner: am.StructureLearner) -> bool:
    """Whether the end of an unknown stimulus was found."""
    return "Something acts" in learner.stage_


def probabilities(learner: am.StructureLearner, rate: float) -> np.ndarray:
    """[parent, child] with another learning rate, in the order of the columns."""
    families = learner.family_scores_
    prior = learner.structure_prior.edge * families["parents"].map(len)
    weight = np.exp(
        (rate * (families["score"] - prior) + prior)
        .groupby(families["node"])
        .transform(lambda logs: logs - logs.max())
    )
    share = weight / weight.groupby(families["node"]).transform("sum")
    nodes = list(learner.network_.nodes)
    matrix = np.zeros((len(nodes),) * 2)
    for child, parents, own in zip(families["node"], families["parents"], share):
        matrix[[nodes.index(p) for p in parents], nodes.index(child)] += own
    return matrix


def measures(found: list[tuple[np.ndarray, np.ndarray]]) -> dict[str, float]:
    """AUPR per network; calibration error (ten bins, pairs ≥ .05) and log loss of all pairs."""
    off = [~np.eye(len(t), dtype=bool) for _, t in found]
    p = np.concatenate([m[o] for (m, _), o in zip(found, off)])
    t = np.concatenate([m[o] for (_, m), o in zip(found, off)])
    each = [average_precision_score(b[o], a[o]) for (a, b), o in zip(found, off) if b.any()]
    safe = np.clip(p, 1e-9, 1 - 1e-9)
    base = np.clip(t.mean(), 1e-9, 1 - 1e-9)
    shown = p >= 0.05
    bins = np.minimum((10 * p).astype(int), 9)
    error = sum(
        np.sum(shown & (bins == k))
        * abs(p[shown & (bins == k)].mean() - t[shown & (bins == k)].mean())
        for k in range(10)
        if (shown & (bins == k)).any()
    )
    return {
        "aupr": float(np.mean(each)) if each else np.nan,
        "calibration_error": float(error / max(1, shown.sum())),
        "log_loss": float(-np.mean(np.where(t, np.log(safe), np.log1p(-safe)))),
        "base_rate_log_loss": float(-(base * np.log(base) + (1 - base) * np.log1p(-base))),
        "claimed": int((p >= 0.5).sum()),
        "right": int((t & (p >= 0.5)).sum()),
        "true_edges": int(t.sum()),
    }


def simulated(name: str, make: Any, design: Design, seeds: range) -> list[dict[str, Any]]:
    """One line per learning rate."""
    fits, seconds, switches = [], 0.0, 0
    for seed in seeds:
        data = make(seed, design)
        begin = time.process_time()
        fit = learn(data.frame)
        seconds += time.process_time() - begin
        switches += found_switch(fit)
        fits.append((fit, data.truth))
    lines = []
    for rate in (1.0, LEARNING_RATE):
        found = [(probabilities(fit, rate), truth) for fit, truth in fits]
        line = {"data": name, "networks": len(fits), "learning_rate": rate, **measures(found)}
        lines.append({**line, "switching_times_found": switches, "seconds": seconds / len(fits)})
    return lines


def dream4(folder: Path, name: str) -> list[dict[str, Any]]:
    """A network of DREAM4."""
    table = pd.read_csv(folder / f"insilico_{name}_timeseries.csv")
    edges = pd.read_csv(folder / f"insilico_{name}_goldstandard_edges.csv")
    table = table.rename(columns={"series": "trajectory"})
    genes = [c for c in table.columns if c not in ("trajectory", "time")]
    number = {gene: i for i, gene in enumerate(genes)}
    truth = np.zeros((len(number),) * 2, dtype=bool)
    for a, b in zip(edges["source"], edges["target"]):
        truth[number[a], number[b]] = True
    begin = time.process_time()
    fit = learn(table)
    seconds = time.process_time() - begin
    lines = []
    for rate in (1.0, LEARNING_RATE):
        line = {"data": f"DREAM4 {name}", "networks": 1, "learning_rate": rate}
        line |= measures([(probabilities(fit, rate), truth)])
        found = found_switch(fit)
        lines.append({**line, "switching_times_found": int(found), "seconds": seconds})
    return lines


def main() -> None:
    """Write continuous.csv."""
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument("--sets", type=int, default=20, help="networks per row (20)")
    parser.add_argument("--first-seed", type=int, default=0, help="first seed (0)")
    parser.add_argument("--large", type=int, default=0, help="networks of 100 nodes (0)")
    parser.add_argument("--data", type=Path, help="folder with DREAM4's tables")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.sets)
    learn(hill_network(1, Design(n_points=8)).frame)  # compile
    lines: list[dict[str, Any]] = []
    work = [lambda n=n, row=row: simulated(n, *row, seeds) for n, row in ROWS.items()]
    if options.data is not None:
        work += [lambda n=n: dream4(options.data, n) for n in DREAM4]
    if options.large:
        size = Design(n_nodes=100, n_trajectories=10, stimulus=True)
        few = range(options.first_seed, options.first_seed + options.large)
        work.append(lambda: simulated("Hill, stimulus, 100 nodes", hill_network, size, few))
    for step in work:
        lines += step()
        print(pd.DataFrame(lines[-2:]).round(3).to_string(header=len(lines) <= 2), flush=True)
        options.output.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(lines).round(4).to_csv(options.output / "continuous.csv", index=False)


if __name__ == "__main__":
    main()
