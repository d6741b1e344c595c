"""Are edge probabilities right? Networks drawn from the learner's own priors, sampled and star.

Graphs (every family of up to two parents equally probable), rates (Gamma) and starts come from the
priors that the learner is given; 15 trajectories of 15 noisy points each. If a method's
probabilities are right, then of the edges it gives .3, three in ten are there. Written:
``calibration.csv`` (expected calibration error, log loss, AUROC, AUPR per method) and
``calibration_bins.csv`` (the reliability diagram).
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pandas as pd
from common import option_parser
from sklearn.metrics import average_precision_score, roc_auc_score

import asterism as am
from asterism.evidence.build import build_evidence
from asterism.learning.search.settings import structure_prior
from asterism.sampling.diagnose import Diagnosis
from asterism.sampling.model_posterior import RunPlan, SampledModels, sample_models
from asterism.sampling.model_setup import PriorChoice, candidates_of, model_setup

SHAPE, RATE = 2.0, 4.0
DURATION, N_TRAJECTORIES, N_POINTS, NOISE = 12.0, 15, 15, 0.5
EMISSION = am.Gaussian((-1.0, 1.0), NOISE)


def draw_network(seed: int, n_nodes: int) -> am.Network:
    rng = np.random.default_rng(seed)
    nodes = [f"n{i}" for i in range(n_nodes)]
    prior = structure_prior(nodes)
    parents: dict[str, list[str]] = {}
    rates: dict[str, Any] = {}
    initial: dict[str, Any] = {}
    for n, name in enumerate(nodes):
        families = prior.families(n)
        row = families[int(rng.integers(len(families)))]
        parents[name] = [nodes[p] for p in row if p >= 0]
        table = rng.gamma(SHAPE, size=(*[2] * len(parents[name]), 2, 2)) / RATE
        table[..., [0, 1], [0, 1]] = 0.0
        table[..., [0, 1], [0, 1]] = -table.sum(axis=-1)
        rates[name] = table
        initial[name] = rng.dirichlet(np.ones(2))
    return am.Network(parents, rates, {n: ["0", "1"] for n in nodes}, initial)


def sampled_edges(
    network: am.Network, obs: am.Observations, n_sweeps: int, seed: int
) -> tuple[np.ndarray, Diagnosis]:
    nodes = network.nodes
    prior = structure_prior(nodes)
    empty = am.Network(
        {n: [] for n in nodes}, {n: [[-1.0, 1.0], [1.0, -1.0]] for n in nodes}, network.states
    )
    evidence = build_evidence(empty, obs, EMISSION)
    families = [prior.families(n) for n in range(len(nodes))]
    sizes = [2] * len(nodes)
    setup = model_setup(
        evidence,
        sizes,
        candidates_of(sizes, families, [prior.log_prior(n, f) for n, f in enumerate(families)]),
        PriorChoice(
            SHAPE, RATE, [~np.eye(2, dtype=bool)] * len(nodes), True, empty.compiled.initial
        ),
        nodes,
    )
    from asterism.learning.search.sampled import judge_edges

    def never(models: SampledModels) -> tuple[Diagnosis, bool, str]:
        found, _, words = judge_edges(models)
        return found, False, words

    start = setup.candidates.start
    rng = np.random.default_rng(seed)
    other = start[:-1] + rng.integers(np.diff(start))
    models = sample_models(
        setup,
        [start[:-1].copy(), other],
        RunPlan(judge=never, n_jobs=2, seed=seed, burn_in=n_sweeps // 4, max_sweeps=n_sweeps),
    )
    edges = np.zeros((len(nodes), len(nodes)))
    edges[setup.edges[:, 0], setup.edges[:, 1]] = models.series("edges").mean(axis=(0, 1))
    return edges, judge_edges(models)[0]


def star_edges(network: am.Network, obs: am.Observations, tempering: Any) -> np.ndarray:
    learner = am.StructureLearner(
        emission=EMISSION,
        max_parents=2,
        prior=am.GammaPrior(SHAPE, RATE),
        edge_log_odds=None,
        states={n: ["0", "1"] for n in network.nodes},
        tempering=tempering,
    ).fit(obs)
    names = list(network.nodes)
    return learner.edge_probabilities_.loc[names, names].to_numpy()


def figures(probability: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    clipped = np.clip(probability, 1e-6, 1 - 1e-6)
    bins = np.minimum((probability * 10).astype(int), 9)
    gaps = [
        (bins == b).sum() * abs(probability[bins == b].mean() - truth[bins == b].mean())
        for b in range(10)
        if (bins == b).any()
    ]
    return {
        "expected_calibration_error": float(sum(gaps) / len(truth)),
        "log_loss": float(-np.mean(np.where(truth, np.log(clipped), np.log1p(-clipped)))),
        "auroc": float(roc_auc_score(truth, probability)),
        "aupr": float(average_precision_score(truth, probability)),
    }


def main() -> None:
    parser = option_parser(__doc__, "docs/results")
    parser.add_argument("--networks", type=int, default=200)
    parser.add_argument("--star", type=int, default=40, help="networks that the star gets too")
    parser.add_argument("--sweeps", type=int, default=600)
    parser.add_argument("--seconds", type=float, default=780.0, help="stop after so long")
    options = parser.parse_args()
    found: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    worst = []
    begin = time.monotonic()
    done = 0
    for seed in range(options.networks):
        if time.monotonic() - begin > options.seconds:
            break
        n_nodes = 6 + seed % 3
        network = draw_network(seed, n_nodes)
        paths = am.simulate(network, N_TRAJECTORIES, duration=DURATION, seed=1000 + seed)
        obs = am.observe(paths, EMISSION, N_POINTS, seed=2000 + seed)
        number = {n: i for i, n in enumerate(network.nodes)}
        truth = np.zeros((n_nodes, n_nodes), dtype=bool)
        for child, above in network.parents.items():
            for parent in above:
                truth[number[parent], number[child]] = True
        off = ~np.eye(n_nodes, dtype=bool)
        edges, judged = sampled_edges(network, obs, options.sweeps, seed)
        worst.append(judged)
        found.setdefault("sample", []).append((edges[off], truth[off]))
        if seed < options.star:
            found.setdefault("sample, same as star", []).append((edges[off], truth[off]))
            for name, factor in (("star, untempered", 1.0), ("star", "auto")):
                own = star_edges(network, obs, factor)
                found.setdefault(name, []).append((own[off], truth[off]))
        done = seed + 1
        print(f"{done} networks, {time.monotonic() - begin:.0f} s", flush=True)
    rows, bins = [], []
    for method, pairs in found.items():
        probability = np.concatenate([p for p, _ in pairs])
        truth = np.concatenate([t for _, t in pairs])
        share = truth.mean()
        base = float(-share * np.log(share) - (1 - share) * np.log(1 - share))
        rows.append(
            {
                "method": method,
                "networks": len(pairs),
                **figures(probability, truth),
                "log_loss_of_base_rate": base,
            }
        )
        place = np.minimum((probability * 10).astype(int), 9)
        for b in range(10):
            own = place == b
            if own.any():
                bins.append(
                    {
                        "method": method,
                        "from": b / 10,
                        "to": (b + 1) / 10,
                        "edges": int(own.sum()),
                        "mean_probability": float(probability[own].mean()),
                        "share_true": float(truth[own].mean()),
                    }
                )
    table = pd.DataFrame(rows).round(4)
    table["median_largest_error"] = ""
    table.loc[table["method"] == "sample", "median_largest_error"] = (
        f"{np.median([w.error for w in worst]):.3f}"
    )
    options.output.mkdir(parents=True, exist_ok=True)
    table.to_csv(options.output / "calibration.csv", index=False)
    pd.DataFrame(bins).round(4).to_csv(options.output / "calibration_bins.csv", index=False)
    print(table.to_string(index=False))


if __name__ == "__main__":
    main()
