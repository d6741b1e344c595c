"""The page that sets runs side by side: one HTML file.

What differs is decided in :mod:`asterism.results.comparison`; here it is put into sentences, a
drawing and a table.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import networkx

from asterism.data.files import write_text
from asterism.errors import counted, first_few
from asterism.report.graph_layout import positions
from asterism.report.page_frame import render_page
from asterism.results.comparison import (
    CHANGED,
    GAINED,
    KEPT,
    LOST,
    OUTSIDE,
    UNKNOWN,
    WORTH_LISTING,
    Comparison,
)
from asterism.results.ranking import TOP
from asterism.results.summary import probability_text

#: rows of a table, and edges of a drawing
MOST_ROWS = 500
MOST_DRAWN = 120

MEANING = {
    GAINED: "in this graph, not in the first",
    LOST: "in the first graph, not in this one",
    CHANGED: "in both graphs, but the parent acts differently",
    KEPT: "in both graphs, nothing clearly different",
    OUTSIDE: f"in neither graph, but the probabilities differ by {WORTH_LISTING} or more",
    UNKNOWN: "a node is missing in one of the runs",
}

CAUTION = (
    "The probabilities of the runs are taken as independent, and each is conditional on the rest "
    "of its graph, so they tend to be too sure. An edge that is gained or lost with a probability "
    "near one half tells little."
)


def write_comparison(comparison: Comparison, path: str | Path, title: str) -> Path:
    """Write the page, atomically."""
    path = Path(path)
    write_text(path, render_comparison(comparison, title))
    return path


def render_comparison(comparison: Comparison, title: str) -> str:
    """The page as text."""
    first, *others = comparison.names
    drawings = [_drawing(comparison, name) for name in others]
    return render_page(
        "compare.html.j2",
        ("graph.js", "compare.js"),
        {"compared": drawings},
        title=title,
        first=first,
        names=comparison.names,
        runs=[(name, _run_facts(comparison, i)) for i, name in enumerate(comparison.names)],
        sentences=comparison_sentences(comparison),
        caution=CAUTION,
        parts=[
            {
                "name": name,
                "has_drawing": bool(drawing["edges"]),
                "groups": _groups(comparison, name),
                "likely": _likely(comparison, name),
            }
            for name, drawing in zip(others, drawings)
        ],
        settings=comparison.settings,
    )


def comparison_sentences(comparison: Comparison) -> list[str]:
    """What differs, in words."""
    first, *others = comparison.names
    said = []
    for name in others:
        counts = comparison.counts(name)
        gained, lost = comparison.expected_changes(name)
        both = counts[KEPT] + counts[CHANGED]
        if not (both or counts[GAINED] or counts[LOST]):
            neither = f"Neither {first} nor {name} has an edge"
            if gained + lost >= 0.05:
                neither += " above its threshold. Counting every pair by its probabilities, about "
                neither += f"{gained:.1f} edges were gained and {lost:.1f} lost"
            said.append(f"{neither}.")
            continue
        shared = "shares none"
        if both:
            shared = f"shares {counted(both, 'edge')}, {counts[CHANGED] or 'none'} of them changed"
        said.append(
            f"Compared with {first}, {name} gained {counted(counts[GAINED], 'edge')}, lost "
            f"{counted(counts[LOST], 'edge')} and {shared}. Counting every edge by its "
            f"probabilities, about {gained:.1f} were gained and {lost:.1f} lost."
        )
    said += _about_fits(comparison)
    if comparison.same_data is not None:
        said.append(
            "All runs read the same data, so differences come from the settings."
            if comparison.same_data
            else "The runs read different data."
        )
    if comparison.only_in_some:
        names = first_few(comparison.only_in_some, 10)
        said.append(f"Not every run has the nodes {names}; their edges cannot be compared.")
    return said


def _about_fits(comparison: Comparison) -> list[str]:
    """Fits of rates are compared by how well they fit."""
    records = [run.run for run in comparison.runs]
    if not all(isinstance(record.get("aic"), int | float) for record in records):
        return []
    parts = [
        f"{name} has ln L {float(record['log_evidence']):.2f} with "
        f"{counted(int(record['n_parameters']), 'parameter')}, AIC {float(record['aic']):.2f}"
        for name, record in zip(comparison.names, records)
    ]
    return ["; ".join(parts) + ": on the same data, a smaller AIC fits better."]


def _run_facts(comparison: Comparison, number: int) -> str:
    run = comparison.runs[number]
    n_edges = sum(map(len, run.network.parents.values()))
    facts = [counted(len(run.network.nodes), "node"), counted(n_edges, "edge")]
    if sizes := run.sizes:
        facts.append(counted(sizes["trajectories"], "trajectory"))
        facts.append(counted(sizes["measurements"], "measurement"))
    if run.run.get("converged") is False:
        facts.append("not converged")
    return ", ".join(facts)


def _likely(comparison: Comparison, name: str) -> list[dict[str, Any]]:
    """The edges that most probably stand in one of the two and not in the other."""
    own = comparison.edges[comparison.edges["run"] == name]
    most = own[["probability_gained", "probability_lost"]].max(axis=1)
    own = own.assign(most=most)[most.notna() & (most > 0.0)]
    top = own.sort_values("most", ascending=False, kind="stable").head(TOP)
    return [
        {
            **_row(row),
            "only": name if row["probability_gained"] >= row["probability_lost"] else "",
            "sure": probability_text(row["most"]),
        }
        for row in top.to_dict("records")
    ]


def _groups(comparison: Comparison, name: str) -> list[dict[str, Any]]:
    """The edges of one run by kind of change, those in neither graph only if they differ much."""
    own = comparison.edges[comparison.edges["run"] == name]
    far = (own["probability"] - own["probability_first"]).abs() >= WORTH_LISTING
    groups = []
    for kind, meaning in MEANING.items():
        rows = own[(own["change"] == kind) & (far | (kind != OUTSIDE))]
        if len(rows):
            shown = [_row(row) for row in rows.head(MOST_ROWS).to_dict("records")]
            left = len(rows) - len(shown)
            groups.append(
                {"kind": kind, "meaning": meaning, "rows": shown, "n": len(rows), "left": left}
            )
    return groups


def _row(row: dict[Any, Any]) -> dict[str, Any]:
    before, after = row["probability_first"], row["probability"]
    effects = [row["effect_first"], row["effect"]]
    said = " → ".join(dict.fromkeys(filter(None, effects)))
    ratio = ""
    if math.isfinite(row["fold_ratio"]):
        ratio = f"{row['fold_ratio']:.2g}"
        if math.isfinite(row["lower"]):
            ratio += f" ({row['lower']:.2g} to {row['upper']:.2g})"
    if math.isfinite(row["shift_change"]):
        ratio = f"shift {row['shift_change']:+.2g}"
        ratio += f" ({row['shift_lower']:+.2g} to {row['shift_upper']:+.2g})"
    sure = {GAINED: row["probability_gained"], LOST: row["probability_lost"]}.get(row["change"])
    return {
        "parent": row["parent"],
        "child": row["child"],
        "before": _probability(before),
        "after": _probability(after),
        "bars": [0 if math.isnan(p) else round(100 * p) for p in (before, after)],
        "sure": "" if sure is None else probability_text(sure),
        "effect": said,
        "ratio": ratio,
    }


def _probability(value: float) -> str:
    return "–" if math.isnan(value) else probability_text(value)


def _drawing(comparison: Comparison, name: str) -> dict[str, Any]:
    """Both graphs as one: where the nodes lie, and what became of every edge."""
    own = comparison.edges[(comparison.edges["run"] == name)]
    rows = own[own["change"].isin([GAINED, LOST, CHANGED, KEPT])].head(MOST_DRAWN)
    graph = networkx.DiGraph()
    graph.add_edges_from(zip(rows["parent"], rows["child"]))
    return {
        "label": f"Edges gained, lost, changed and kept in {name}; the tables list them",
        "layout": {node: list(place) for node, place in positions(graph).items()},
        "edges": [
            {"from": row["parent"], "to": row["child"], "kind": row["change"]}
            for row in rows.to_dict("records")
        ],
    }
