"""The page that sets runs side by side: one HTML file, without scripts.

What differs is decided in :mod:`asterism.results.comparison`; here it is put into sentences, a
drawing and a table.
"""

from __future__ import annotations

import math
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

import networkx

from asterism.data.files import write_text
from asterism.errors import counted
from asterism.report.graph_layout import positions
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
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    folder = resources.files("asterism.report") / "templates"
    template = environment.from_string((folder / "compare.html.j2").read_text(encoding="utf-8"))
    first, *others = comparison.names
    return template.render(
        title=title,
        style=Markup((folder / "report.css").read_text(encoding="utf-8")),
        first=first,
        names=comparison.names,
        runs=[(name, _run_facts(comparison, i)) for i, name in enumerate(comparison.names)],
        sentences=comparison_sentences(comparison),
        caution=CAUTION,
        parts=[
            {
                "name": name,
                "drawing": Markup(_drawing(comparison, name)),
                "groups": _groups(comparison, name),
            }
            for name in others
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
            said.append(f"Neither {first} nor {name} has an edge.")
            continue
        shared = "shares none"
        if both:
            shared = f"shares {_edges(both)}, {counts[CHANGED] or 'none'} of them changed"
        said.append(
            f"Compared with {first}, {name} gained {_edges(counts[GAINED])}, lost "
            f"{_edges(counts[LOST])} and {shared}. Counting every edge by its probabilities, about "
            f"{gained:.1f} were gained and {lost:.1f} lost."
        )
    said += _about_fits(comparison)
    if comparison.same_data is not None:
        said.append(
            "All runs read the same data, so differences come from the settings."
            if comparison.same_data
            else "The runs read different data."
        )
    if comparison.only_in_some:
        names = ", ".join(comparison.only_in_some[:10])
        more = " and more" if len(comparison.only_in_some) > 10 else ""
        said.append(f"Not every run has the nodes {names}{more}; their edges cannot be compared.")
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
    facts = [counted(len(run.network.nodes), "node"), _edges(n_edges)]
    if run.observations is not None:
        facts.append(counted(run.observations["trajectory"].nunique(), "trajectory"))
        facts.append(counted(len(run.observations), "measurement"))
    if run.run.get("converged") is False:
        facts.append("not converged")
    return ", ".join(facts)


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


def _edges(number: int) -> str:
    return f"{number:,} edge{'s' * (number != 1)}"


# ---- drawing --------------------------------------------------------------------------------

#: colour and dashes, and what they say
LINES = {
    GAINED: ("#0072b2", "none"),
    LOST: ("#d55e00", "7 5"),
    CHANGED: ("#8a6d00", "2 3"),
    KEPT: ("#8a94a0", "none"),
}


def _drawing(comparison: Comparison, name: str) -> str:
    """Both graphs as one SVG: edges are coloured by what became of them."""
    own = comparison.edges[(comparison.edges["run"] == name)]
    rows = own[own["change"].isin(list(LINES))].head(MOST_DRAWN)
    graph = networkx.DiGraph()
    graph.add_edges_from(zip(rows["parent"], rows["child"]))
    if not len(graph):
        return ""
    half = {node: 4.1 * min(len(node), 16) + 10 for node in graph}
    unit_x, unit_y = 2 * max(half.values()) + 52, max(90.0, max(half.values()) + 50)
    place = {node: (x * unit_x, y * unit_y) for node, (x, y) in positions(graph).items()}
    both = {(p, c) for p, c in graph.edges if graph.has_edge(c, p)}
    lines = [
        _line(place, half, row["parent"], row["child"], row["change"], both)
        for row in rows.to_dict("records")
    ]
    boxes = [_box(node, *place[node], half[node]) for node in graph]
    left = min(x - half[node] for node, (x, _) in place.items())
    right = max(x + half[node] for node, (x, _) in place.items())
    top, bottom = (f(y for _, y in place.values()) for f in (min, max))
    width, height = max(right - left + 40, 420), max(bottom - top + 70, 160)
    x0 = (left + right - width) / 2
    view = f"{x0:.0f} {top - 35:.0f} {width:.0f} {height:.0f}"
    label = f"Edges gained, lost, changed and kept in {escape(name)}; the tables list them"
    return f'<svg viewBox="{view}" role="img" aria-label="{label}">{"".join(lines + boxes)}</svg>'


def _line(
    place: dict[str, tuple[float, float]],
    half: dict[str, float],
    parent: str,
    child: str,
    kind: str,
    both: set[tuple[str, str]],
) -> str:
    (x0, y0), (x1, y1) = place[parent], place[child]
    length = math.hypot(x1 - x0, y1 - y0) or 1.0
    bend = (0.18 if (parent, child) in both else 0.03) * length
    mx = (x0 + x1) / 2 - (y1 - y0) / length * bend
    my = (y0 + y1) / 2 + (x1 - x0) / length * bend
    sx, sy = _rim(x0, y0, half[parent], mx, my, 1.0)
    tx, ty = _rim(x1, y1, half[child], mx, my, 3.0)
    angle = math.atan2(ty - my, tx - mx)
    nx, ny = tx - 10 * math.cos(angle), ty - 10 * math.sin(angle)
    ax, ay = -5 * math.sin(angle), 5 * math.cos(angle)
    colour, dashes = LINES[kind]
    head = f"M{tx:.1f} {ty:.1f}L{nx + ax:.1f} {ny + ay:.1f}L{nx - ax:.1f} {ny - ay:.1f}Z"
    return (
        f"<g><title>{escape(parent)} → {escape(child)}: {kind}</title>"
        f'<path d="M{sx:.1f} {sy:.1f}Q{mx:.1f} {my:.1f} {nx:.1f} {ny:.1f}" fill="none" '
        f'stroke="{colour}" stroke-width="3" stroke-dasharray="{dashes}"/>'
        f'<path d="{head}" fill="{colour}"/></g>'
    )


def _rim(
    x: float, y: float, half: float, to_x: float, to_y: float, gap: float
) -> tuple[float, float]:
    """The point at a box's rim, in the direction of another point."""
    dx, dy = to_x - x, to_y - y
    length = math.hypot(dx, dy) or 1.0
    reach = min(half * length / (abs(dx) or 1e-9), 13 * length / (abs(dy) or 1e-9)) + gap
    return x + dx / length * reach, y + dy / length * reach


def _box(node: str, x: float, y: float, half: float) -> str:
    shown = node if len(node) <= 16 else f"{node[:8]}…{node[-7:]}"
    return (
        f'<g class="node"><title>{escape(node)}</title><rect x="{x - half:.1f}" y="{y - 13:.1f}" '
        f'width="{2 * half:.1f}" height="26" rx="13"/>'
        f'<text x="{x:.1f}" y="{y:.1f}">{escape(shown)}</text></g>'
    )
