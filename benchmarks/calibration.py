"""Are edge probabilities right? Networks drawn from the learner's own priors, sampled and star.

Graphs (every family of up to two parents equally probable), rates (Gamma) and starts come from the
priors that the learner is given; 15 trajectories of 15 noisy points each. If a method's
probabilities are right, then of the edges it gives .3, three in ten are there. Written:
``calibration.csv`` (expected calibration error, log loss, AUROC, AUPR per method),
``calibration_bins.csv`` and ``docs/images/calibration.svg`` (the reliability diagram).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from common import option_parser
from sklearn.metrics import average_precision_score, roc_auc_score

import asterism as am
from asterism.learning.search.settings import StructureSettings, numbered_prior
from asterism.sampling.diagnose import Diagnosis
from asterism.sampling.model_posterior import RunPlan, SampledModels, sample_models
from asterism.sampling.model_setup import PriorChoice, candidates_of, model_setup
from asterism.timeline.build import build_evidence

SHAPE, RATE = 2.0, 4.0
DURATION, N_TRAJECTORIES, N_POINTS, NOISE = 12.0, 15, 15, 0.5
EMISSION = am.Gaussian((-1.0, 1.0), NOISE)


def draw_network(seed: int, n_nodes: int) -> am.Network:
    rng = np.random.default_rng(seed)
    nodes = [f"n{i}" for i in range(n_nodes)]
    prior = numbered_prior(nodes)
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
    prior = numbered_prior(nodes)
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
        RunPlan(judge=never, n_jobs=-1, seed=seed, burn_in=n_sweeps // 4, max_sweeps=n_sweeps),
    )
    edges = np.zeros((len(nodes), len(nodes)))
    edges[setup.edges[:, 0], setup.edges[:, 1]] = models.series("edges").mean(axis=(0, 1))
    return edges, judge_edges(models)[0]


def star_edges(network: am.Network, obs: am.Observations) -> tuple[np.ndarray, np.ndarray]:
    """Plain and tempered as by default."""
    learner = am.StructureLearner(
        emission=EMISSION,
        max_parents=2,
        prior=am.GammaPrior(SHAPE, RATE),
        states={n: ["0", "1"] for n in network.nodes},
        structure_prior="uniform",
        accuracy=am.Accuracy(tempering=1.0),
        method="star",
    ).fit(obs)
    found = learner._found
    number = [list(network.nodes).index(n) for n in found.nodes]
    result = []
    for factor in (1.0, StructureSettings().tempering_factor(learner.known_share_)):
        edges = np.zeros((len(number), len(number)))
        for child, table in enumerate(found.families):
            own = table.tempered_by(factor, np.zeros(len(table.parents)))
            edges[number, number[child]] = own.edge_probabilities(len(number))
        result.append(edges)
    return result[0], result[1]


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


def one_network(seed: int, n_sweeps: int, with_star: bool) -> pd.DataFrame:
    """Every ordered pair of one network: whether it is an edge, and what each method says."""
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
    edges, judged = sampled_edges(network, obs, n_sweeps, seed)
    columns = {"truth": truth[off], "sample": edges[off]}
    if with_star:
        plain, tempered = star_edges(network, obs)
        columns |= {"star, untempered": plain[off], "star": tempered[off]}
    return pd.DataFrame({"network": seed, **columns, "error": judged.error, "r_hat": judged.r_hat})


def summary(pairs: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Figures per method, and the reliability diagram; the sample also on the star's networks."""
    rows, bins = [], []
    seen_by_star = pairs["star"].notna() if "star" in pairs else pairs["truth"].isna()
    for method, column, own in (
        ("sample", "sample", pairs),
        ("sample, same as star", "sample", pairs[seen_by_star]),
        ("star, untempered", "star, untempered", pairs[seen_by_star]),
        ("star", "star", pairs[seen_by_star]),
    ):
        if own.empty:
            continue
        probability, truth = own[column].to_numpy(float), own["truth"].to_numpy(bool)
        share = truth.mean()
        rows.append(
            {
                "method": method,
                "networks": own["network"].nunique(),
                **figures(probability, truth),
                "log_loss_of_base_rate": -share * np.log(share) - (1 - share) * np.log(1 - share),
                "median_largest_error": (
                    own.groupby("network")["error"].first().median()
                    if column == "sample"
                    else np.nan
                ),
            }
        )
        place = np.minimum((probability * 10).astype(int), 9)
        for b in range(10):
            here = place == b
            if here.any():
                bins.append(
                    {
                        "method": method,
                        "from": b / 10,
                        "to": (b + 1) / 10,
                        "edges": int(here.sum()),
                        "mean_probability": float(probability[here].mean()),
                        "share_true": float(truth[here].mean()),
                    }
                )
    return pd.DataFrame(rows).round(4), pd.DataFrame(bins).round(4)


def main() -> None:
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument("--networks", type=int, default=200)
    parser.add_argument("--star", type=int, default=200, help="networks that the star gets too")
    parser.add_argument("--sweeps", type=int, default=800)
    parser.add_argument("--seconds", type=float, default=780.0, help="stop after so long")
    parser.add_argument("--pairs", type=Path, help="keeps every pair, and goes on from there")
    options = parser.parse_args()
    begin = time.monotonic()
    tables = []
    if options.pairs is not None and options.pairs.exists():
        tables.append(pd.read_csv(options.pairs))
    done = tables[0]["network"].nunique() if tables else 0
    for seed in range(done, options.networks):
        if time.monotonic() - begin > options.seconds:
            break
        tables.append(one_network(seed, options.sweeps, seed < options.star))
        if options.pairs is not None:
            pd.concat(tables).to_csv(options.pairs, index=False)
        print(f"{seed + 1} networks, {time.monotonic() - begin:.0f} s", flush=True)
    table, bins = summary(pd.concat(tables, ignore_index=True))
    options.output.mkdir(parents=True, exist_ok=True)
    table.to_csv(options.output / "calibration.csv", index=False)
    bins.to_csv(options.output / "calibration_bins.csv", index=False)
    draw_reliability(bins, Path("docs/images/calibration.svg"))
    print(table.to_string(index=False))


def draw_reliability(bins: pd.DataFrame, path: Path) -> None:
    """The reliability diagram: on the diagonal a probability means what it says."""
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(4.2, 4.0))
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for method, mark in (("sample", "o-"), ("star, untempered", "s--"), ("star", "^:")):
        own = bins[bins["method"] == method]
        if len(own):
            axes.plot(own["mean_probability"], own["share_true"], mark, label=method, markersize=4)
    axes.set_xlabel("probability said")
    axes.set_ylabel("share of true edges")
    axes.legend()
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
