"""Continuous nodes: accuracy, calibration and time on simulated networks.

Networks of ten nodes, five trajectories of 21 points: from the model itself and Hill-type gene
networks (hill_networks.py), with and without a stimulus, on even times and on random ones with
30 % of the cells missing, and nodes without any edges. Up to three parents (two of 100 nodes), the
switching time found: in closed form, and by default averaged with draws where much is missing.
Settings were chosen with seeds 1000 to 1019; these start at 0. With ``--data FOLDER``, the DREAM4
networks too, and again with 30 % of the cells deleted, at random or whole rows beside.

``--rows "no edges" --sets 40 --first-seed 2000 --name continuous_empty`` counts on more networks
what is claimed where there is nothing.

    python benchmarks/continuous.py [--sets 20] [--first-seed 0] [--large 0] [--data FOLDER]
        [--rows TEXT] [--name continuous] [-o .]
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


def closed_form(learner: am.StructureLearner, rate: float) -> np.ndarray:
    """[parent, child] by the closed form alone, with some weight of the data."""
    fit = learner._found.continuous
    assert fit is not None
    matrix = np.zeros((len(fit.names),) * 2)
    for child, families in fit.families.items():
        share = replace(families, learning_rate=rate).probabilities
        for column in families.parents.T:
            np.add.at(matrix[:, child], column[column >= 0], share[column >= 0])
    return np.minimum(matrix, 1.0)


def answers(learner: am.StructureLearner) -> dict[str, np.ndarray]:
    """[parent, child] by the closed form with full weight, and by default; between, if it differs.

    Columns of the tables are in the order of their names.
    """
    found = {"closed form, weight 1": closed_form(learner, 1.0)}
    if learner.method_ != "closed form":
        name = f"closed form, weight {LEARNING_RATE:g}"
        found[name] = closed_form(learner, LEARNING_RATE)
    return {**found, "default": learner.edge_probabilities_.to_numpy()}


def calibration_error(p: np.ndarray, t: np.ndarray, least: float) -> float:
    """Mean distance between probability and frequency in ten bins, of pairs with at least this."""
    p, t = p[p >= least], t[p >= least]
    bins = np.minimum((10 * p).astype(int), 9)
    gap = np.bincount(bins, p, 10) - np.bincount(bins, t, 10)
    return float(np.abs(gap).sum() / max(1, len(p)))


def by_chance(p: np.ndarray, least: float) -> float:
    """What the error of these probabilities would be if they were all true."""
    rng = np.random.default_rng(0)
    return float(np.mean([calibration_error(p, rng.random(len(p)) < p, least) for _ in range(200)]))


def measures(found: list[tuple[np.ndarray, np.ndarray]]) -> dict[str, float]:
    """AUPR per network; calibration error of pairs ≥ .05 and of all; log loss of all pairs."""
    off = [~np.eye(len(t), dtype=bool) for _, t in found]
    p = np.concatenate([m[o] for (m, _), o in zip(found, off)])
    t = np.concatenate([m[o] for (_, m), o in zip(found, off)])
    each = [average_precision_score(b[o], a[o]) for (a, b), o in zip(found, off) if b.any()]
    safe = np.clip(p, 1e-9, 1 - 1e-9)
    base = np.clip(t.mean(), 1e-9, 1 - 1e-9)
    return {
        "aupr": float(np.mean(each)) if each else np.nan,
        "calibration_error": calibration_error(p, t, 0.05),
        "calibration_by_chance": by_chance(p, 0.05),
        "calibration_error_all": calibration_error(p, t, 0.0),
        "calibration_all_by_chance": by_chance(p, 0.0),
        "log_loss": float(-np.mean(np.where(t, np.log(safe), np.log1p(-safe)))),
        "base_rate_log_loss": float(-(base * np.log(base) + (1 - base) * np.log1p(-base))),
        "claimed": int((p >= 0.5).sum()),
        "right": int((t & (p >= 0.5)).sum()),
        "true_edges": int(t.sum()),
    }


def lines_of(
    name: str, fits: list[tuple[am.StructureLearner, np.ndarray]], seconds: float
) -> list[dict[str, Any]]:
    """One line per answer."""
    every = [(answers(fit), truth) for fit, truth in fits]
    same = {"switching_times_found": sum(found_switch(fit) for fit, _ in fits)}
    same["seconds"] = seconds / len(fits)
    return [
        {
            "data": name,
            "networks": len(fits),
            "answer": answer,
            **measures([(found[answer], truth) for found, truth in every]),
            **same,
        }
        for answer in every[0][0]
    ]


def simulated(name: str, make: Any, design: Design, seeds: range) -> list[dict[str, Any]]:
    """One line per answer."""
    fits, seconds = [], 0.0
    for seed in seeds:
        data = make(seed, design)
        begin = time.process_time()
        fit = learn(data.frame)
        seconds += time.process_time() - begin
        fits.append((fit, data.truth))
    return lines_of(name, fits, seconds)


def deleted(table: pd.DataFrame, rows: bool, seed: int) -> pd.DataFrame:
    """Without 30 % of the cells; with ``rows`` without 30 % of the rows too."""
    rng = np.random.default_rng([9, seed])
    if rows:
        table = table[rng.random(len(table)) >= 0.3].reset_index(drop=True)
    genes = [c for c in table.columns if c not in ("trajectory", "time")]
    table = table.copy()
    table[genes] = table[genes].mask(rng.random((len(table), len(genes))) < 0.3)
    return table


def dream4(folder: Path, name: str, missing: str = "") -> list[dict[str, Any]]:
    """A network of DREAM4, whole or with parts "of cells" or "of cells and rows" deleted."""
    table = pd.read_csv(folder / f"insilico_{name}_timeseries.csv")
    edges = pd.read_csv(folder / f"insilico_{name}_goldstandard_edges.csv")
    table = table.rename(columns={"series": "trajectory"})
    genes = sorted(c for c in table.columns if c not in ("trajectory", "time"))
    number = {gene: i for i, gene in enumerate(genes)}
    truth = np.zeros((len(number),) * 2, dtype=bool)
    for a, b in zip(edges["source"], edges["target"]):
        truth[number[a], number[b]] = True
    table = table[["trajectory", "time", *genes]]
    fits, begin = [], time.process_time()
    for seed in range(3 if missing else 1):
        fits.append((learn(deleted(table, "rows" in missing, seed) if missing else table), truth))
    seconds = time.process_time() - begin
    words = f"DREAM4 {name}" + (f", without 30 % {missing}" if missing else "")
    return lines_of(words, fits, seconds)


def main() -> None:
    """Write the table."""
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument("--sets", type=int, default=20, help="networks per row (20)")
    parser.add_argument("--first-seed", type=int, default=0, help="first seed (0)")
    parser.add_argument("--large", type=int, default=0, help="networks of 100 nodes (0)")
    parser.add_argument("--data", type=Path, help="folder with DREAM4's tables")
    parser.add_argument("--rows", default="", help="only simulated rows whose name holds this")
    parser.add_argument("--name", default="continuous", help="of the CSV file (continuous)")
    options = parser.parse_args()
    seeds = range(options.first_seed, options.first_seed + options.sets)
    learn(hill_network(1, Design(n_points=8)).frame)  # compile
    lines: list[dict[str, Any]] = []
    work = [lambda n=n, row=row: simulated(n, *row, seeds) for n, row in ROWS.items()]
    work = [one for one, name in zip(work, ROWS) if options.rows in name]
    if options.data is not None:
        parts = [(n, "") for n in DREAM4]
        parts += [(n, m) for m in ("of cells", "of cells and rows") for n in DREAM4[:2]]
        work += [lambda n=n, m=m: dream4(options.data, n, m) for n, m in parts]
    if options.large:
        size = Design(n_nodes=100, n_trajectories=10, stimulus=True)
        few = range(options.first_seed, options.first_seed + options.large)
        work.append(lambda: simulated("Hill, stimulus, 100 nodes", hill_network, size, few))
    for step in work:
        more = step()
        lines += more
        print(pd.DataFrame(more).round(3).to_string(header=len(lines) <= 3), flush=True)
        options.output.mkdir(parents=True, exist_ok=True)
        pd.DataFrame(lines).round(4).to_csv(options.output / f"{options.name}.csv", index=False)


if __name__ == "__main__":
    main()
