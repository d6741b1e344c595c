"""What the report page needs to know, as plain lists and numbers ready for JSON.

Large results are cut down here, never silently: each cut leaves a sentence in ``notices``. Nodes
are numbers in the order of ``Network.nodes``; the page looks their names up once.
"""

from __future__ import annotations

from typing import Any

import networkx
import numpy as np
import pandas as pd

from asterism.model.network import Network
from asterism.report.graph_layout import positions
from asterism.results import courses as course_data
from asterism.results.effects import configurations, effect, rates_by_parent_state
from asterism.results.measured import Levels, Measured, levels, measurements
from asterism.results.metrics import pr_curve, roc_curve
from asterism.results.run import Run

#: edges that the page can list and search; the rest is in edges.csv
LISTED_EDGES = 3_000
#: edges that can be drawn at once
DRAWN_EDGES = 100
#: nodes without an edge are drawn only in networks up to this size
DRAW_ALL_NODES = 60
#: an edge at least this probable takes part in the layout
LAYOUT_PROBABILITY = 0.3
#: sides of the heat map
HEATMAP_NODES = 60
#: state probabilities embedded in the page
COURSE_VALUES = 400_000
#: parent configurations listed per node, and in the whole page
FAMILY_CONFIGURATIONS = 64
ALL_CONFIGURATIONS = 20_000
#: points of a ROC or precision-recall curve
CURVE_POINTS = 400


def page_data(run: Run) -> dict[str, Any]:
    """Everything that the page's scripts read."""
    network = run.network
    number = {name: i for i, name in enumerate(network.nodes)}
    notices: list[str] = []
    edges = _edges(run, number, notices)
    return {
        "learned": run.learned,
        "nodes": [
            {"name": name, "states": [str(s) for s in network.states[name]]}
            for name in network.nodes
        ],
        "edges": edges,
        "drawn_limit": DRAWN_EDGES,
        "layout": _layout(run, number, edges, notices),
        "rates": _rates(network, number, notices),
        "heatmap": _heatmap(run, notices),
        "courses": _courses(run, notices),
        "history": _history(run),
        "truth": _truth(run),
        "notices": notices,
    }


def _edges(run: Run, number: dict[str, int], notices: list[str]) -> list[dict[str, Any]]:
    """The most probable edges, and all that are in the graph; surest first."""
    table = run.edge_table
    kept = table[table["in_graph"] | (np.arange(len(table)) < LISTED_EDGES)]
    if len(kept) < len(table):
        notices.append(
            f"The page lists the {len(kept):,} most probable of {len(table):,} edges; "
            "edges.csv holds all."
        )
    truth = set(run.truth) if run.truth is not None else None
    rows = []
    for parent, child, probability, in_graph in kept.itertuples(index=False):
        row: dict[str, Any] = {
            "from": number[parent],
            "to": number[child],
            "p": _rounded(float(probability)),
            "in_graph": bool(in_graph),
        }
        if parent in run.network.parents[child]:
            by_state = rates_by_parent_state(run.network, child, parent)
            row["effect"] = effect(run.network, child, parent)
            row["rates"] = [_significant(block) for block in by_state]
        if truth is not None:
            row["true"] = (parent, child) in truth
        rows.append(row)
    return rows


def _layout(
    run: Run, number: dict[str, int], edges: list[dict[str, Any]], notices: list[str]
) -> dict[str, Any]:
    """Positions of the nodes that can appear in the drawing, by number."""
    drawable = edges[:DRAWN_EDGES]
    names = run.network.nodes
    small = len(names) <= DRAW_ALL_NODES
    shown = (
        set(range(len(names))) if small else {e[end] for e in drawable for end in ("from", "to")}
    )
    graph = networkx.DiGraph()
    graph.add_nodes_from(sorted(shown))
    graph.add_edges_from(
        (e["from"], e["to"]) for e in drawable if e["in_graph"] or e["p"] >= LAYOUT_PROBABILITY
    )
    if not small:
        notices.append(
            f"The drawing shows at most {DRAWN_EDGES} edges, the surest above the threshold, "
            "and only nodes that have one of them."
        )
    found = positions(graph)
    return {str(node): [round(x, 3), round(y, 3)] for node, (x, y) in found.items()}


def _rates(network: Network, number: dict[str, int], notices: list[str]) -> dict[str, Any]:
    """Per node its parents and, for each configuration of them, the rates."""
    families: dict[str, Any] = {}
    n_listed = 0
    for name in network.nodes:
        rows = configurations(network, name, FAMILY_CONFIGURATIONS)
        family: dict[str, Any] = {"parents": [number[p] for p in network.parents[name]]}
        if network.rates[name] is None:
            family["exogenous"] = True
        elif rows is not None and n_listed + len(rows) <= ALL_CONFIGURATIONS:
            n_listed += len(rows)
            family["rows"] = [
                {"u": [str(label) for label in labels], "r": _significant(block)}
                for labels, block in rows
            ]
        families[str(number[name])] = family
    if any("rows" not in f and not f.get("exogenous") for f in families.values()):
        notices.append(
            "Some tables of rates are too long for this page; network.json holds all of them."
        )
    return families


def _heatmap(run: Run, notices: list[str]) -> dict[str, Any]:
    """Square matrix [parent][child]; of a large network the nodes with the surest edges."""
    names = list(run.network.nodes)
    if len(names) > HEATMAP_NODES:
        ends = run.edge_table[["parent", "child"]].to_numpy(dtype=object).ravel()
        surest = list(dict.fromkeys([*ends, *names]))[:HEATMAP_NODES]
        chosen = set(surest)
        names = [name for name in names if name in chosen]
        notices.append(
            f"The heat map shows the {HEATMAP_NODES} nodes with the surest edges, "
            f"of {len(run.network.nodes):,}."
        )
    place = {name: i for i, name in enumerate(names)}
    matrix: list[list[float | None]] = [
        [None if i == j else 0.0 for j in range(len(names))] for i in range(len(names))
    ]
    columns = run.edge_table[["parent", "child", "probability"]]
    inside = columns[columns["parent"].isin(place) & columns["child"].isin(place)]
    for parent, child, probability in inside.itertuples(index=False):
        matrix[place[parent]][place[child]] = round(float(probability), 4)
    return {"nodes": names, "z": matrix}


def _courses(run: Run, notices: list[str]) -> dict[str, Any] | None:
    """Probabilities in thousandths, [trajectory][node][state][time], and the measurements."""
    if run.posterior is None:
        return None
    states = run.network.states
    found = course_data.from_dataset(run.posterior)
    n_before = len(found.trajectories)
    found, cuts = course_data.thinned(found, COURSE_VALUES)
    if cuts:
        notices.append(
            f"Courses are shown for {len(found.trajectories):,} of {n_before:,} trajectories, "
            f"at up to {max(map(len, found.times))} times each; posterior.nc holds more."
        )
    column = {name: i for i, name in enumerate(found.nodes) if name in states}
    seen = measurements(run.observations, run.network, found.trajectories)
    places = range(len(found.trajectories))
    return {
        "trajectories": [str(label) for label in found.trajectories],
        "nodes": [run.network.node_index(name) for name in column],
        "times": [_digits(own, 6) for own in found.times],
        "p": [
            [_thousandths(found.of(t, i, len(states[name]))[1]) for name, i in column.items()]
            for t in places
        ],
        "measured": [
            [_measured(seen.of(found.trajectories[t], name)) for name in column] for t in places
        ],
        "levels": [_levels(levels(seen, found, name, len(states[name]))) for name in column],
    }


def _measured(own: Measured) -> list[list[float]]:
    return [_digits(own.times, 6), _digits(own.values, 5)]


def _levels(found: Levels | None) -> dict[str, list[float]] | None:
    if found is None:
        return None
    return {"mean": _digits(found.mean, 5), "sd": _digits(found.spread, 5)}


def _history(run: Run) -> dict[str, Any] | None:
    if run.history is None:
        return None
    return {
        str(name): [float(f"{v:.10g}") if np.isfinite(v) else None for v in run.history[name]]
        for name in run.history.columns
    }


def _truth(run: Run) -> dict[str, Any] | None:
    scores = run.scores() if run.learned else None
    if scores is None or run.truth is None:
        return None
    nodes = list(run.network.nodes)
    roc = roc_curve(run.edge_table, run.truth, nodes=nodes)
    pr = pr_curve(run.edge_table, run.truth, nodes=nodes)
    return {
        "scores": {name: round(value, 4) for name, value in scores.items()},
        "n_true": len(set(run.truth)),
        "base_rate": round(len(set(run.truth)) / (len(nodes) * (len(nodes) - 1)), 6),
        "roc": _curve(roc, "false_positive_rate", "true_positive_rate"),
        "pr": _curve(pr, "recall", "precision"),
    }


def _curve(table: pd.DataFrame, x: str, y: str) -> dict[str, list[float]]:
    rows = np.unique(np.linspace(0, len(table) - 1, min(len(table), CURVE_POINTS)).astype(int))
    return {
        name: [round(float(v), 5) for v in table[c].iloc[rows]] for name, c in (("x", x), ("y", y))
    }


def _thousandths(block: np.ndarray[Any, Any]) -> list[list[int]]:
    """(K, S) probabilities as whole thousandths, one list per state."""
    whole = np.rint(1000 * np.nan_to_num(block)).astype(int)
    return [column.tolist() for column in whole.T]


def _significant(block: np.ndarray[Any, Any]) -> list[list[float]]:
    return [_digits(row, 4) for row in block]


def _rounded(probability: float) -> float:
    """Six decimals, but what is not certain stays so."""
    return min(round(probability, 6), 0.999999) if probability < 1.0 else 1.0


def _digits(values: np.ndarray[Any, Any], n: int) -> list[float]:
    """Rounded to n significant digits, which keeps the page small."""
    return [float(f"{value:.{n}g}") for value in values.tolist()]
