"""The figure and the page of the IRMA reproduction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from asterism.paper import irma_data
from asterism.paper.common import records
from asterism.paper.paper_page import Page, Section
from asterism.report.figure_style import BLUE, ORANGE, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

UNSPECIFIED = (
    ("unit of time of β = 10", "none: the prior takes its time scale from the data; β = 10 for all "
     "units in the table of settings"),
    ("μ and σ of the basal level", "mean and standard deviation of each gene over the experiment"),
    ("the likelihood, printed with erf of an unscaled argument", "Φ((y−μ)/σ) for the upper state, "
     "1−Φ for the lower"),
    ("averages or replicates", "replicates, each a trajectory; log expression −ΔCt"),
    ("the sample before the change of medium", "left out: it has no time"),
    ("which graph is scored", "the best one found from the empty graph"),
    ("the times of switch-on", "every 20 minutes, derived from the text of a later paper"),
)  # fmt: skip


def draw(table: pd.DataFrame, edges: pd.DataFrame) -> Figure:
    """Probabilities, and how scores follow the unit of time."""
    figure = new_figure(10.0, 6.6)
    axes = figure.subplots(2, 3, width_ratios=(1.0, 1.2, 1.2))
    for row, experiment in enumerate(("on", "off")):
        _draw_edges(axes[row, 0], edges[edges["experiment"] == experiment], experiment)
        for ax, which in zip(axes[row, 1:], ("full8_ppv", "full8_se")):
            _draw_units(ax, table, experiment, which)
    axes[0, 1].legend(frameon=False, fontsize=8)
    return figure


def _draw_edges(ax: Any, own: pd.DataFrame, experiment: str) -> None:
    from matplotlib.patches import Rectangle

    genes = list(irma_data.GENES)
    matrix = own.pivot(index="parent", columns="child", values="probability").loc[genes, genes]
    ax.imshow(matrix.fillna(0.0).to_numpy(), cmap="Blues", vmin=0, vmax=1)
    for edge in records(own[own["in_graph"]]):
        at = (genes.index(edge["child"]) - 0.5, genes.index(edge["parent"]) - 0.5)
        ax.add_patch(Rectangle(at, 1, 1, fill=False, edgecolor="black", linewidth=2))
    ax.set_xticks(range(5), genes, rotation=45, ha="right", fontsize=8)
    ax.set_yticks(range(5), genes, fontsize=8)
    ax.set(xlabel="child", ylabel="parent")
    ax.set_title(f"switch-{experiment}: probabilities, best graph framed", fontsize=9)


def _draw_units(ax: Any, table: pd.DataFrame, experiment: str, which: str) -> None:
    own = table[(table["experiment"] == experiment) & (table["emission"] == "threshold")]
    own = own[own["k"] == 2]
    for prior, colour, style, words in (
        ("paper", ORANGE, "o--", "prior (5, 10) per unit"),
        ("auto", BLUE, "D-", "automatic prior"),
    ):
        some = own[own["prior"] == prior].sort_values("unit_minutes")
        ax.plot(some["unit_minutes"], some[which], style, color=colour, label=words)
    ax.set(xscale="log", ylim=(-0.03, 1.03), xlabel="minutes per unit of time")
    ax.set_ylabel("PPV" if which.endswith("ppv") else "sensitivity")
    ax.set_title(f"switch-{experiment}, against full8", fontsize=9)
    tidy(ax)


def page(headline: pd.DataFrame, table: pd.DataFrame, units: pd.DataFrame, quick: bool) -> Page:
    """What the page says."""
    return Page(
        title="IRMA: five genes in yeast",
        lead=_lead(headline),
        sections=[
            Section(
                "Beside published scores",
                [
                    "PPV: share of the edges found that are true; SE: share of the true edges "
                    "that were found. The figures of TSNI, which the paper compares with, are in "
                    "none of the sources at hand, so they are not shown. The paper prints its own "
                    "in a picture; its text says that every inferred edge was correct. A random "
                    "guess has a PPV of 8/20 = 0.40, not 0.5."
                ],
                headline,
            ),
            Section("Probabilities, and the unit of time", figure="irma.png"),
            Section(
                "Before and after the automatic prior",
                [
                    "The prior (α, β) = (5, 10) says that a gene changes about every two units of "
                    "time. In minutes that is far faster than the sampling: genes forget their "
                    "state between samples. In hours it lies near what single genes show. So "
                    "β = 10 means a different prior in every unit (columns of waits below), and "
                    "five imagined transitions per rate weigh much beside so few. The automatic "
                    "prior sets β = α · (time spent)/(transitions) as single genes show them, "
                    "and then the unit drops out: lowest and highest agree.",
                ],
                units,
            ),
            Section(
                "Every setting",
                ["All cells, good and bad. None was chosen for its score."],
                table,
            ),
        ],
        unspecified=UNSPECIFIED,
        quick=quick,
    )


def _lead(headline: pd.DataFrame) -> str:
    own = headline[headline["method"].str.startswith("asterism, protocol")]
    parts = []
    for row in records(own[own["truth"] == "full8"]):
        rivals = headline[
            (headline["method"] == "BANJO (Cantone 2009)")
            & (headline["experiment"] == row["experiment"])
            & (headline["truth"] == "full8")
        ]
        rival = rivals.iloc[0]
        better = [
            f"{'above' if ours > theirs else 'not above'} BANJO's {theirs:.2f}"
            for ours, theirs in ((row["ppv"], rival["ppv"]), (row["se"], rival["se"]))
        ]
        parts.append(
            f"Switch-{row['experiment']}: {row['edges']} edges, PPV {row['ppv']:.2f} "
            f"({better[0]}), SE {row['se']:.2f} ({better[1]})."
        )
    return (
        "With the protocol fixed before the truth was read, against the eight edges: "
        + " ".join(parts)
    )
