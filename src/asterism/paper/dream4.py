"""DREAM4 in-silico networks: learned two-state emissions, beside simple rankings of edges.

Not in the paper. Continuous simulated expression, 21 points per series, with known wiring. The
settings are the library's defaults and do not look at the truth: two Gaussian states per gene
fitted to the data, automatic prior, up to two parents.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

import asterism as am
from asterism.learning.progress import Progress
from asterism.paper.common import (
    Case,
    for_each,
    new_figure,
    records,
    write_figure,
    write_table,
)
from asterism.paper.irma_data import data_file
from asterism.paper.page import Page, Section, write_page
from asterism.paper.rankings import forest, lagged_correlation, random_scores
from asterism.report.figure_style import PALETTE, tidy

NETWORKS = {"size10_1": 10, "size10_2": 10, "size100_1": 100}
METHODS = {
    "asterism": "asterism, two learned Gaussian states",
    "lagged_correlation": "time-lagged correlation",
    "forest": "random forest of x(t+1) on x(t)",
}
MAX_PARENTS, SHAPE = 2, 5.0
STANDARD_ERRORS = 2.0
WHY = (
    "DREAM4 genes move smoothly and their levels are graded: two states keep only whether a gene "
    "is high or low, and with 21 points per series most genes cross between them once or not at "
    "all. Half of every series is the answer to a perturbation of a third of the genes, which "
    "moves them without any parent. A model of jumps caused by parents has few jumps to learn "
    "from, and some of these have no parent."
)


def run(
    output: Path,
    quick: bool = False,
    data: Path | None = None,
    jobs: int = -1,
    progress: Progress | None = None,
) -> Path:
    """Write ``dream4.csv`` and the page; ``quick`` leaves out the network of 100 genes."""
    names = [n for n in NETWORKS if not (quick and NETWORKS[n] > 10)]
    for name in names:
        data_file(data, f"dream4/insilico_{name}_timeseries.csv")
    cases: list[Case] = [
        {"experiment": "dream4", "network": n, "method": m} for n in names for m in METHODS
    ]
    found = for_each(output, cases, lambda c: rank_edges(c, data, jobs), "rankings", progress)
    table = scored(found, data)
    write_table(output, "dream4", table)
    _draw(output, table)
    write_page(output, _page(table, quick))
    return output


def read_series(data: Path | None, name: str) -> pd.DataFrame:
    """series, time and one column per gene."""
    return pd.read_csv(data_file(data, f"dream4/insilico_{name}_timeseries.csv"))


def read_edges(data: Path | None, name: str) -> list[tuple[str, str]]:
    table = pd.read_csv(data_file(data, f"dream4/insilico_{name}_goldstandard_edges.csv"))
    return [(str(a), str(b)) for a, b in zip(table["source"], table["target"])]


def rank_edges(case: Case, data: Path | None, jobs: int = 1) -> dict[str, Any]:
    """Scores of all ordered pairs by one method."""
    table = read_series(data, case["network"])
    genes = [c for c in table.columns if c not in ("series", "time")]
    extra: dict[str, Any] = {}
    if case["method"] == "asterism":
        matrix, extra = _learned(table, genes, jobs)
    else:
        series = [own[genes] for _, own in table.sort_values("time").groupby("series")]
        matrix = forest(series) if case["method"] == "forest" else lagged_correlation(series)
    return {"genes": genes, "scores": matrix.loc[genes, genes].to_numpy().tolist(), **extra}


def _learned(
    table: pd.DataFrame, genes: list[str], jobs: int
) -> tuple[pd.DataFrame, dict[str, Any]]:
    seen = am.Observations.from_frame(table.rename(columns={"series": "trajectory"}))
    learner = am.StructureLearner(
        am.Gaussian(learn=True),
        max_parents=MAX_PARENTS,
        prior=am.GammaPrior(SHAPE, "auto"),
        states=dict.fromkeys(genes, ("low", "high")),
        search="exhaustive" if len(genes) <= 10 else "screened",
        n_jobs=jobs,
    ).fit(seen)
    extra = {
        "edges_in_graph": learner.graph_.number_of_edges(),
        "settled": bool(learner.converged_),
        "prior_rate": learner.prior_.rate_value,
    }
    return learner.edge_probabilities_, extra


def scored(found: list[Case], data: Path | None) -> pd.DataFrame:
    """AUROC and AUPR of every ranking, and how far above a random one in its spread."""
    lines = []
    for name in dict.fromkeys(f["network"] for f in found):
        truth = read_edges(data, name)
        genes = next(f["genes"] for f in found if f["network"] == name)
        chance = random_scores(truth, genes)
        for f in [f for f in found if f["network"] == name]:
            matrix = pd.DataFrame(f["scores"], index=genes, columns=genes)
            scores = am.metrics.edge_scores(matrix, truth)
            line: dict[str, Any] = {"network": name, "method": f["method"]}
            for which in ("auroc", "aupr"):
                above = (scores[which] - chance[which]) / chance[f"{which}_se"]
                line |= {which: scores[which], f"{which}_errors_above": above}
            both = min(line["auroc_errors_above"], line["aupr_errors_above"])
            line["beats_random"] = bool(both >= STANDARD_ERRORS)
            lines.append(line)
        lines.append(
            {
                "network": name,
                "method": "random",
                **{w: chance[w] for w in ("auroc", "auroc_se", "aupr", "aupr_se")},
            }
        )
    columns = ["network", "method", "auroc", "aupr", "auroc_se", "aupr_se"]
    columns += ["auroc_errors_above", "aupr_errors_above", "beats_random"]
    return pd.DataFrame(lines)[columns]


def _draw(output: Path, table: pd.DataFrame) -> None:
    names = list(dict.fromkeys(table["network"]))
    figure = new_figure(9.0, 3.4)
    for ax, which in zip(figure.subplots(1, 2), ("auroc", "aupr")):
        for i, method in enumerate([*METHODS, "random"]):
            own = table[table["method"] == method].set_index("network").loc[names]
            error = own[f"{which}_se"].fillna(0.0) * STANDARD_ERRORS
            places = [j + 0.2 * (i - 1.5) for j in range(len(names))]
            ax.bar(places, own[which], 0.18, color=PALETTE[i], label=METHODS.get(method, "random"))
            if method == "random":
                ax.errorbar(places, own[which], error, fmt="none", color="black", capsize=3)
        ax.set_xticks(range(len(names)), names)
        ax.set(ylabel=which.upper(), ylim=(0, 1))
        tidy(ax)
    figure.axes[0].legend(frameon=False, fontsize=7)
    write_figure(output, "dream4", figure)


def sentences(table: pd.DataFrame) -> list[str]:
    """What beats a random ranking and what does not, per network and method."""
    lines = []
    for row in records(table[table["method"] != "random"]):
        says = "beats" if row["beats_random"] else "does NOT beat"
        lines.append(
            f"{row['network']}: {METHODS[row['method']]} {says} a random ranking by two standard errors "
            f"on both measures (AUROC {row['auroc']:.3f}, {row['auroc_errors_above']:+.1f} standard "
            f"errors; AUPR {row['aupr']:.3f}, {row['aupr_errors_above']:+.1f})."
        )
    return lines


def _page(table: pd.DataFrame, quick: bool) -> Page:
    own = table[(table["method"] == "asterism") & table["network"].str.startswith("size10_")]
    won = int(own["beats_random"].fillna(False).astype(bool).sum())
    lead = (
        f"asterism beats a random ranking of edges by two standard errors, in AUROC and AUPR, on "
        f"{won} of the {len(own)} networks of ten genes."
    )
    sections = [
        Section("AUROC and AUPR", points=sentences(table), table=table, figure="dream4.png")
    ]
    if won < len(own):
        sections.append(Section("Why it does not", [WHY]))
    return Page(
        title="DREAM4: simulated gene networks (not in the paper)",
        lead=lead,
        sections=sections,
        unspecified=(
            ("not an experiment of the paper", "library defaults: two Gaussian states per gene, "
             "fitted; α = 5, automatic β; up to two parents"),
            ("random ranking", "mean of 1,000 rankings; its standard error is their spread"),
        ),
        quick=quick,
    )  # fmt: skip
