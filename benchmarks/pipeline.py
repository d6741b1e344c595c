"""Which stages pay? Log loss of edge probabilities against processor time, stage by stage.

Networks that defaults may be chosen on (``edge_sets.tuning_set``, seeds that nothing else has used)
and, with ``--which test``, networks of another make (``edge_sets.unseen_set``) that no default was
chosen on; with ``--which more`` such networks with four times the data. Every network is learned by
the star (as it is, and tempered by the learner's rule), by clusters where asked, and by sampling.
One run of chains answers for every limit of time: the probabilities after 10 seconds are the
averages of the draws that were made by then. Sampling stops by its own rule, so a later limit may
add nothing. ``--shapes`` compares shapes of the rate prior instead, by sampling, with a time scale
of all nodes and with one of each (``pipeline_shapes.csv``).

The base rate knows how many edges there are in all networks together. The log loss of the prior is
that of the learner before it has seen data; that of complete paths is what could be known if
nothing were hidden.

Written: ``pipeline.csv``, ``pipeline_test.csv`` or ``pipeline_more.csv``; for the last two also
``edge_calibration.csv`` (expected calibration error among pairs of at least .05), its bins and the
diagram ``docs/images/reliability.svg``.

    python benchmarks/pipeline.py [--which test] [--sets 16] [--clusters] [--rows FOLDER]
"""

from __future__ import annotations

import json
import time
from functools import partial
from itertools import pairwise, product
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from common import option_parser
from edge_sets import (
    COUNTED,
    RESULTS,
    Rows,
    base_rate_loss,
    log_loss,
    pairs,
    probabilities,
    scored,
    tuning_set,
    unseen_set,
)

import asterism as am
from asterism.learning.search.found import result_of
from asterism.learning.search.sampled import DrawLimits, sample_from
from asterism.learning.search.settings import StructureSettings
from asterism.learning.search.task import search_observations
from asterism.learning.tasks import Silent
from asterism.model.priors import LEARNERS_PRIOR
from asterism.sampling import model_posterior

#: "more" has four times the trajectories of "test", and is otherwise alike
SETS = {"tuning": tuning_set, "test": unseen_set, "more": partial(unseen_set, more=4)}
#: seeds below these were in view when priors and tempering were chosen; tests with seeds from 300
#: on were looked at while one time scale served all nodes
FIRST_SEED = {"tuning": 300, "test": 500, "more": 400}
#: seconds of sampling, of processor time so that a busy machine does not matter
LIMITS = (5.0, 10.0, 25.0)
LEAST = 0.05
BINS = (0.0, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0)


def by_clusters(which: str, seed: int) -> dict[str, Any]:
    case = SETS[which](seed)
    begin = time.process_time()
    learner = am.StructureLearner(COUNTED, n_jobs=1, method="clusters").fit(case.observations)
    seconds = time.process_time() - begin
    return {"seconds": seconds, "probability": of_pairs(learner.edge_probabilities_, case)}


def learned(which: str, seed: int, prior: am.GammaPrior = LEARNERS_PRIOR) -> dict[str, Any]:
    """By the star, all scores, from which every tempering follows; then by sampling from there."""
    case = SETS[which](seed)
    settings = StructureSettings(
        emission=COUNTED, n_jobs=1, prior=prior, accuracy=am.Accuracy(tempering=1.0)
    )
    begin = time.process_time()
    search = search_observations(settings, case.observations, Silent())
    found = result_of(search, case.observations)
    star_seconds = time.process_time() - begin
    star = scored(SimpleNamespace(_found=found))  # before draws take the place of its tables
    begin = time.process_time()
    with patch.object(model_posterior, "time", SimpleNamespace(monotonic=time.process_time)):
        drawn = sample_from(search, settings, case.observations, DrawLimits(20_000, LIMITS[-1]))
    used = time.process_time() - begin
    assert drawn.sampled is not None
    return {
        "kind": case.kind,
        "seconds": star_seconds,
        "known_share": found.known_share,
        "truth": pairs(case.network)[1].tolist(),
        "limits": at_limits(drawn.sampled.models, case, used, star_seconds),
        "converged": bool(drawn.converged),
        "stop_reason": drawn.stop_reason,
        "sampling_seconds": used,
        **star,
    }


def at_limits(models: Any, case: Any, used: float, star_seconds: float) -> dict[str, Any]:
    """Probabilities after each limit of time."""
    draws = models.series("edges").mean(axis=0)
    nodes = [str(n) for n in models.setup.names]
    # a quarter of a limit at most is burn-in, and 400 sweeps are enough
    per_sweep = used / (models.n_burned + models.n_draws * models.keep_every)
    result: dict[str, Any] = {}
    for limit in LIMITS:
        sweeps = limit / per_sweep
        kept = int(sweeps - min(400.0, 0.25 * sweeps)) // models.keep_every
        kept = min(max(1, kept), len(draws))
        matrix = pd.DataFrame(np.zeros((len(nodes), len(nodes))), index=nodes, columns=nodes)
        for (parent, child), value in zip(models.setup.edges, draws[:kept].mean(axis=0)):
            matrix.iloc[parent, child] = value
        result[f"{limit:g}"] = {
            "probability": of_pairs(matrix, case),
            "seconds": star_seconds + min(limit, used),
        }
    return result


def by_paths(which: str, seed: int) -> dict[str, Any]:
    """From the complete paths behind the measurements: more than anybody can know from these."""
    case = SETS[which](seed)
    begin = time.process_time()
    learner = am.StructureLearner(n_jobs=1, method="star").fit(case.paths)
    seconds = time.process_time() - begin
    return {"seconds": seconds, "probability": of_pairs(learner.edge_probabilities_, case)}


def compile_first() -> None:
    """Both methods once, on next to nothing, so that no compilation is timed."""
    for n_states in (2, 3):
        network = am.random_network(3, n_states, max_parents=1, seed=1)
        noise = am.Gaussian(tuple(2.0 * i for i in range(n_states)), 0.3)
        paths = am.simulate(network, 2, duration=3.0, seed=1)
        seen = am.observe(paths, noise, 8, seed=1)
        am.StructureLearner(
            COUNTED, n_jobs=1, method="sample", sampling=am.Sampling(max_draws=10)
        ).fit(seen)


def of_pairs(matrix: pd.DataFrame, case: Any) -> list[float]:
    """Probabilities in the order of ``pairs``; columns that were left out have no edges."""
    matrix = matrix.rename(index=str, columns=str)
    every, _ = pairs(case.network)
    known = set(matrix.index)
    return [float(matrix.loc[p, c]) if {p, c} <= known else 0.0 for p, c in every]


def stages(which: str, seed: int, rows: Rows, clusters: bool) -> list[dict[str, Any]]:
    """One line per stage: seconds, and probabilities of all pairs."""
    own = rows.get((which, "star and sampling", seed), lambda: learned(which, seed))
    case = SETS[which](seed)
    rule = StructureSettings().tempering_factor(own["known_share"])
    lines: list[dict[str, Any]] = []
    for name, factor in (("prior", 1e-9), ("star, as it is", 1.0), ("star, tempered", rule)):
        seconds = 0.0 if name == "prior" else own["seconds"]
        probability = of_pairs(probabilities(own, factor), case)
        lines.append({"stage": name, "seconds": seconds, "probability": probability})
    if clusters:
        by = rows.get((which, "clusters", seed), lambda: by_clusters(which, seed))
        lines.append({"stage": "clusters, tempered", **by})
    lines += [{"stage": f"sampling, {limit} s", **at} for limit, at in own["limits"].items()]
    known = rows.get((which, "paths", seed), lambda: by_paths(which, seed))
    lines.append({"stage": "complete paths", **known})
    truth = np.array(own["truth"], dtype=bool)
    return [
        {"seed": seed, "kind": own["kind"], "nodes": len(own["nodes"]), "truth": truth, **line}
        for line in lines
    ]


def pooled(own: pd.DataFrame) -> dict[str, Any]:
    """The figures of one stage over all pairs of its networks."""
    probability = np.concatenate([np.array(p) for p in own["probability"]])
    truth = np.concatenate(list(own["truth"]))
    by_network = [log_loss(np.array(p), t) for p, t in zip(own["probability"], own["truth"])]
    return {
        "networks": own["seed"].nunique(),
        "log_loss": log_loss(probability, truth),
        "log_loss_base_rate": base_rate_loss(truth),
        "log_loss_worst_network": max(by_network),
        "edges": int(truth.sum()),
        "true_at_half": int(((probability >= 0.5) & truth).sum()),
        "false_at_half": int(((probability >= 0.5) & ~truth).sum()),
        "auroc": _auroc(probability, truth),
        "seconds": own["seconds"].median(),
        "most_seconds": own["seconds"].max(),
    }


def _auroc(probability: np.ndarray, truth: np.ndarray) -> float:
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(truth, probability)) if 0 < truth.sum() < len(truth) else np.nan


def write(found: list[dict[str, Any]], which: str) -> None:
    table = pd.DataFrame(found)
    table["networks"] = np.where(table["nodes"] <= 6, "up to 6 nodes", "7 nodes and more")
    lines = []
    for size, group in (("all", table), *table.groupby("networks")):
        for stage, own in group.groupby("stage", sort=False):
            lines.append({"set": which, "size": size, "stage": stage, **pooled(own)})
    result = pd.DataFrame(lines).round(4)
    name = "pipeline" if which == "tuning" else f"pipeline_{which}"
    result.to_csv(RESULTS / f"{name}.csv", index=False)
    print(result.to_string(), flush=True)
    if which != "tuning":
        write_calibration(table, "" if which == "test" else f"_{which}")


def write_calibration(table: pd.DataFrame, ending: str) -> None:
    """Calibration error per stage, the bins and the diagram."""
    lines, every = [], []
    for stage, own in table.groupby("stage", sort=False):
        if stage in ("prior", "complete paths"):
            continue
        probability = np.concatenate([np.array(p) for p in own["probability"]])
        truth = np.concatenate(list(own["truth"]))
        kept = probability >= LEAST
        gap = 0.0
        for low, high in pairwise(BINS):
            here = (probability >= low) & ((probability < high) | (high == 1.0))
            if here.any():
                mean, share = probability[here].mean(), truth[here].mean()
                every.append((stage, low, high, int(here.sum()), mean, share))
                gap += here.sum() * abs(mean - share) if low >= LEAST else 0.0
        lines.append(
            {
                "learner": stage,
                "networks": own["seed"].nunique(),
                "pairs": len(truth),
                "pairs_at_least_005": int(kept.sum()),
                "expected_calibration_error": gap / max(1, kept.sum()),
                "log_loss": log_loss(probability, truth),
                "log_loss_base_rate": base_rate_loss(truth),
                "edges": int(truth.sum()),
                "true_at_half": int(((probability >= 0.5) & truth).sum()),
                "false_at_half": int(((probability >= 0.5) & ~truth).sum()),
                "share_of_edges": truth.mean(),
            }
        )
    calibration = pd.DataFrame(lines).round(4)
    calibration.to_csv(RESULTS / f"edge_calibration{ending}.csv", index=False)
    columns = ["learner", "from", "to", "pairs", "mean_probability", "share_true"]
    bins = pd.DataFrame(every, columns=columns).round(4)
    bins.to_csv(RESULTS / f"edge_calibration_bins{ending}.csv", index=False)
    print(calibration.to_string())
    draw(bins, ending)


def draw(bins: pd.DataFrame, ending: str) -> None:
    """Share of edges that are there against what was said."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    shown = {
        f"sampling, {LIMITS[-1]:g} s": "#1f6f8b",
        "star, tempered": "#7a8f3c",
        "star, as it is": "#c8553d",
    }
    figure, ax = pyplot.subplots(figsize=(4.2, 3.8))
    ax.plot([0, 1], [0, 1], color="#8a94a0", linestyle="--", linewidth=1)
    for name, colour in shown.items():
        own = bins[bins["learner"] == name]
        error = np.sqrt(own["share_true"] * (1 - own["share_true"]) / own["pairs"])
        ax.errorbar(
            own["mean_probability"], own["share_true"], error, marker="o", color=colour, label=name
        )
    ax.set(xlabel="probability that was said", ylabel="share that are edges")
    ax.legend(frameon=False)
    figure.tight_layout()
    images = RESULTS.parents[1] / "docs" / "images"
    figure.savefig(images / f"reliability{ending}.svg", metadata={"Date": None})


def write_shapes(shapes: list[float], seeds: range, rows: Rows) -> None:
    """The log loss of sampling by the shape of the rate prior, on networks for choosing."""
    lines = []
    for seed in seeds:
        case = tuning_set(seed)
        truth = pairs(case.network)[1]
        for rate, shape in product(("auto", "by node"), shapes):
            prior = am.GammaPrior(shape, rate)
            drawn = rows.get(
                ("tuning", f"sampling, shape {shape:g}, {rate}", seed),
                lambda n=seed, p=prior: learned("tuning", n, p),  # type: ignore[misc]
            )
            last = drawn["limits"][f"{LIMITS[-1]:g}"]["probability"]
            lines.append({"rate": rate, "shape": shape, "seed": seed, "truth": truth})
            lines[-1] |= {"probability": last, "seconds": drawn["sampling_seconds"]}
            loss = round(log_loss(np.array(last), truth), 4)
            print(seed, case.kind, rate, shape, loss, flush=True)
        every = pd.DataFrame(lines).groupby(["rate", "shape"])
        table = pd.DataFrame(
            [{"rate": rate, "shape": shape, **pooled(own)} for (rate, shape), own in every]
        ).round(4)
        table.to_csv(RESULTS / "pipeline_shapes.csv", index=False)
    print(table.to_string())


def main() -> None:
    parser = option_parser(__doc__)
    parser.add_argument("--which", choices=list(SETS), default="tuning")
    parser.add_argument("--sets", type=int, default=16)
    parser.add_argument("--clusters", action="store_true", help="clusters too")
    parser.add_argument("--shapes", type=float, nargs="+", help="compare shapes of the rate prior")
    parser.add_argument("--rows", type=Path, default=Path("benchmark-rows"))
    options = parser.parse_args()
    rows = Rows(options.rows / "pipeline.jsonl")
    found: list[dict[str, Any]] = []
    compile_first()
    first = FIRST_SEED[options.which]
    if options.shapes:
        write_shapes(options.shapes, range(first, first + options.sets), rows)
        return
    for seed in range(first, first + options.sets):
        found += stages(options.which, seed, rows, options.clusters)
        last = [
            (line["stage"], round(log_loss(np.array(line["probability"]), line["truth"]), 3))
            for line in found
            if line["seed"] == seed
        ]
        print(seed, json.dumps(dict(last)), flush=True)
    write(found, options.which)


if __name__ == "__main__":
    main()
