"""IRMA, five genes in yeast with known wiring: what the method finds, under every setting.

The protocol is fixed by the paper and the data alone: replicates, soft threshold with mean and
spread of each gene in the experiment, up to two parents, α = 5, the best graph. The paper gives
β = 10 without its unit of time; here the prior takes its time scale from the data. The table of
all other settings shows what each choice does. The truth is read after all graphs are learned.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import asterism as am
from asterism.errors import ModelError
from asterism.learning.tasks import ProgressListener
from asterism.paper import irma_data, irma_page
from asterism.paper.common import PAPER, Case, for_each
from asterism.paper.paper_page import write_all

SHAPE, RATE = 5.0, 10.0
EMISSIONS = ("threshold", "threshold per replicate", "gaussian")
FULL_UNITS = (1.0, 5.0, 10.0, 20.0, 30.0, 60.0)
QUICK_UNITS = (1.0, 10.0, 60.0)
PARENTS = (1, 2)
PRIORS = ("auto", "paper")

#: minutes between two samples: the unit of time in the line "before"
SAMPLING = {"on": 20.0, "off": 10.0}
DEFAULT = "default"
PROTOCOL = {"emission": "threshold", "k": 2}


def run(
    output: Path,
    quick: bool = False,
    data: Path | None = None,
    jobs: int = -1,
    progress: ProgressListener | None = None,
) -> Path:
    """Write ``irma.csv`` (protocol and published scores), ``irma_settings.csv`` and the page."""
    irma_data.data_file(data, "irma_replicates_dct.csv")
    cases = settings(QUICK_UNITS if quick else FULL_UNITS) + by_default()
    found = for_each(output, cases, lambda c: learn(c, data, jobs), "settings", progress)
    # only now: no setting can have been chosen by looking
    table = scored(found, irma_data.read_truth(data))
    headline = beside_published(table, irma_data.read_published(data))
    units, edges = by_unit(table), protocol_edges(found)
    tables = {"irma_settings": table, "irma": headline, "irma_units": units, "irma_edges": edges}
    page = irma_page.page(headline, table, units, quick)
    return write_all(output, page, tables, {"irma": irma_page.draw(table, edges)})


def settings(units: tuple[float, ...]) -> list[Case]:
    """All cells: experiment × emission × parents × prior × unit of time."""
    wanted = sorted({*units, *SAMPLING.values()})
    cells = [("on", e) for e in EMISSIONS] + [("off", e) for e in (*EMISSIONS, "authors' file")]
    return [
        {
            "experiment": experiment,
            "emission": emission,
            "k": k,
            "prior": prior,
            "unit_minutes": unit,
        }
        for experiment, emission in cells
        for k in PARENTS
        for prior in PRIORS
        for unit in wanted
    ]


def by_default() -> list[Case]:
    """What a user gets who sets nothing: counted levels, sparse prior, probable edges."""
    return [
        {
            "experiment": experiment,
            "emission": DEFAULT,
            "k": 2,
            "prior": DEFAULT,
            "unit_minutes": unit,
        }
        for experiment, unit in SAMPLING.items()
    ]


def learn(case: Case, data: Path | None, jobs: int = 1) -> dict[str, Any]:
    """The best graph under one setting, and the time scales that led to it."""
    unit = case["unit_minutes"]
    if case["emission"] == "authors' file":
        seen = irma_data.read_likelihoods(data, unit)
    else:
        seen = irma_data.read_replicates(data, case["experiment"], unit)
    if case["emission"] == DEFAULT:
        emission = am.Gaussian(levels="auto", learn=True)
        learner = am.StructureLearner(emission, method="auto", n_jobs=jobs)
    else:
        learner = am.StructureLearner(
            _emission(case["emission"]),
            max_parents=case["k"],
            states=dict.fromkeys(irma_data.GENES, ("low", "high")),
            prior=am.GammaPrior(SHAPE, "auto" if case["prior"] == "auto" else RATE),
            n_jobs=jobs,
            search="exhaustive",
            **PAPER,
        )
    learner.fit(seen)
    matrix = learner.edge_probabilities_.loc[list(irma_data.GENES), list(irma_data.GENES)]
    network = learner.network_
    rates = np.concatenate([_flips(network.rates[n]) for n in network.nodes])
    return {
        "edges": sorted([str(p), str(c)] for p, c in learner.graph_.edges),
        "probabilities": matrix.to_numpy().round(9).tolist(),
        "settled": bool(learner.converged_),
        "prior_wait_minutes": float(learner.prior_.rate_value / learner.prior_.shape * unit),
        "learned_wait_minutes": float(unit / np.median(rates)),
    }


def scored(found: list[Case], truths: dict[str, list[tuple[str, str]]]) -> pd.DataFrame:
    """PPV, sensitivity and ranking scores of every cell against both gold standards."""
    lines = []
    for f in found:
        keys = ("experiment", "emission", "k", "prior", "unit_minutes")
        line: dict[str, Any] = {key: f[key] for key in keys}
        edges = [(a, b) for a, b in f["edges"]]
        table = pd.DataFrame(
            f["probabilities"], index=list(irma_data.GENES), columns=list(irma_data.GENES)
        )
        line["edges"] = len(edges)
        for name, truth in truths.items():
            scores = am.metrics.edge_scores(table, truth, edges)
            line |= {f"{name}_{w}": scores[w] for w in ("ppv", "se", "auroc", "aupr")}
        line |= {w: f[w] for w in ("prior_wait_minutes", "learned_wait_minutes", "settled")}
        lines.append(line)
    return pd.DataFrame(lines)


def protocol_rows(table: pd.DataFrame, prior: str) -> pd.DataFrame:
    """The protocol's cells, one per experiment, at the unit that equals the sampling interval."""
    at_unit = table["experiment"].map(SAMPLING) == table["unit_minutes"]
    keep = at_unit & (table["prior"] == prior)
    for name, value in PROTOCOL.items():
        keep &= table[name] == value
    return table[keep]


def beside_published(table: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """One line per method, experiment and gold standard."""
    lines = []
    for prior, words in (
        ("auto", "asterism, protocol (automatic prior)"),
        ("paper", "asterism, prior (5, 10) per sampling interval"),
        (DEFAULT, "asterism, its defaults (edges of at least one half)"),
    ):
        own = table[table["prior"] == DEFAULT]
        for row in (own if prior == DEFAULT else protocol_rows(table, prior)).to_dict("records"):
            for truth in irma_data.TRUTHS:
                lines.append(
                    {
                        "method": words,
                        "experiment": row["experiment"],
                        "truth": truth,
                        "edges": row["edges"],
                        "ppv": row[f"{truth}_ppv"],
                        "se": row[f"{truth}_se"],
                    }
                )
    for row in published.to_dict("records"):
        lines.append(
            {
                "method": row["method"],
                "experiment": str(row["data"]).removeprefix("switch_"),
                "truth": row["truth"],
                "edges": None,
                "ppv": row["PPV"],
                "se": row["Se"],
            }
        )
    n_pairs = len(irma_data.GENES) * (len(irma_data.GENES) - 1)
    for truth, n_true in (("full8", 8), ("simplified6", 6)):
        lines.append(
            {
                "method": "random guess",
                "experiment": "both",
                "truth": truth,
                "edges": None,
                "ppv": n_true / n_pairs,
                "se": None,
            }
        )
    order = {"on": 0, "off": 1, "both": 2}
    result = pd.DataFrame(lines)
    result["edges"] = result["edges"].astype("Int64")
    return result.sort_values(
        ["truth", "experiment"],
        key=lambda c: c.map(order) if c.name == "experiment" else c,
        kind="stable",
    ).reset_index(drop=True)


def by_unit(table: pd.DataFrame) -> pd.DataFrame:
    """Before and after: how far PPV and sensitivity move when only the unit of time changes."""
    keys = ["experiment", "emission", "k", "prior"]
    lines = []
    for key, own in table.groupby(keys, sort=False):
        line: dict[str, Any] = dict(zip(keys, key))
        for which in ("full8_ppv", "full8_se"):
            line |= {f"{which}_lowest": own[which].min(), f"{which}_highest": own[which].max()}
        line["auroc_range"] = own["full8_auroc"].max() - own["full8_auroc"].min()
        line["units"] = len(own)
        lines.append(line)
    return pd.DataFrame(lines)


def protocol_edges(found: list[Case]) -> pd.DataFrame:
    """Edge probabilities under the protocol, both experiments."""
    lines = []
    for f in found:
        ours = f["prior"] == "auto" and SAMPLING[f["experiment"]] == f["unit_minutes"]
        if not ours or any(f[name] != value for name, value in PROTOCOL.items()):
            continue
        chosen = {(a, b) for a, b in f["edges"]}
        for i, parent in enumerate(irma_data.GENES):
            for j, child in enumerate(irma_data.GENES):
                if i != j:
                    lines.append(
                        {
                            "experiment": f["experiment"],
                            "parent": parent,
                            "child": child,
                            "probability": f["probabilities"][i][j],
                            "in_graph": (parent, child) in chosen,
                        }
                    )
    return pd.DataFrame(lines)


def _emission(name: str) -> Any:
    if name == "authors' file":
        return am.Likelihood()
    if name == "gaussian":
        return am.Gaussian(learn=True)
    if name in ("threshold", "threshold per replicate"):
        return am.Threshold(per_trajectory=name != "threshold")
    raise ModelError(f"There is no emission {name!r} in this table.")


def _flips(rates: Any) -> Any:
    """The off-diagonal entries of a table of rates."""
    table = np.asarray(rates)
    return table[..., ~np.eye(table.shape[-1], dtype=bool)].ravel()
