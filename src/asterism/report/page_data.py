"""What the report page needs to know, as plain lists and numbers ready for JSON.

Large results are cut down here, never silently: each cut leaves a sentence in ``notices``. Nodes
are numbers in the order of ``Network.nodes``; the page looks their names up once.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import networkx
import numpy as np
import pandas as pd

from asterism.data.clock import per_unit, time_label
from asterism.errors import DataError, quoted
from asterism.report.graph_layout import positions
from asterism.results import courses as course_data
from asterism.results.courses import Levels, Measured, Measurements, levels, measurements
from asterism.results.edge_effects import effect, rate_ratios, rates_by_parent_state
from asterism.results.edge_sets import square
from asterism.results.metrics import pr_curve, roc_curve
from asterism.results.ranking import DRAWN, TOP, by_chance
from asterism.results.run import RateIntervals, Run, rate_intervals
from asterism.results.summary import probability_text

#: edges that the page can list and search; the rest is in edges.csv
LISTED_EDGES = 3_000
#: nodes without an edge are drawn only in networks up to this size
DRAW_ALL_NODES = 60
#: an edge at least this probable takes part in the layout
LAYOUT_PROBABILITY = 0.3
#: sides of the heat map
HEATMAP_NODES = 60
#: parent configurations listed per node, and in the whole page
FAMILY_CONFIGURATIONS = 64
ALL_CONFIGURATIONS = 8_000
#: nodes whose measurements are drawn with the levels counted in them
LEVEL_NODES = 12
#: measurements of the piece of a continuous node's course
PIECE = 60
#: points of a ROC or precision-recall curve
CURVE_POINTS = 400

#: what else the page says of an edge, and the columns that may hold it
MORE_OF_AN_EDGE = {
    "prior": ("prior",),
    "bf": ("bayes_factor",),
    "error": ("error",),
    "fold": ("fold_change",),
    "fold_low": ("fold_change_lower", "fold_lower"),
    "fold_high": ("fold_change_upper", "fold_upper"),
    "shift": ("shift",),
    "shift_low": ("shift_lower",),
    "shift_high": ("shift_upper",),
    "chance": ("by_chance",),
}


def page_data(run: Run, threshold: float = 0.5, node: str | None = None) -> dict[str, Any]:
    """Everything that the page's scripts read.

    ``threshold`` is where the slider starts, ``node`` the node that is shown first.
    """
    network = run.network
    number = {name: i for i, name in enumerate(network.nodes)}
    notices: list[str] = []
    intervals = rate_intervals(run.rates, run.run)
    edges = _edges(run, number, intervals, notices)
    return {
        **course_part(run, notices),
        "learned": run.learned,
        "sampled": bool(run.run.get("chains")),
        "chains": _chains(run),
        "levels": _level_panels(run),
        "threshold": threshold if run.learned else 0.0,
        "first_node": _first_node(run, number, node),
        "rate_label": f"rate {per_unit(run.run.get('time_unit'))}",
        "edges": edges,
        "not_scored": [number[name] for name in run.not_scored],
        "drawn_limit": DRAWN,
        "layout": _layout(run, edges, notices),
        "rates": _rates(run, number, intervals, notices),
        "interval_text": intervals.described if intervals else None,
        "heatmap": _heatmap(run, notices),
        "history": _history(run),
        "truth": _truth(run),
    }


def course_part(run: Run, notices: list[str]) -> dict[str, Any]:
    """What every page of a run needs for its courses."""
    courses, fit = courses_and_fit(run, notices)
    return {
        "first_node": 0,
        "time_label": time_label(run.run.get("time_unit")),
        "nodes": [
            {"name": name, "states": [str(s) for s in run.network.states[name]]}
            for name in run.network.nodes
        ],
        "courses": courses,
        "fit": fit,
        "notices": notices,
    }


def json_for_script(data: Any) -> str:
    """JSON that cannot end the script element it stands in, whatever the nodes are called."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _first_node(run: Run, number: dict[str, int], wanted: str | None) -> int:
    """The node asked for, or the child of the surest edge: there is something to see."""
    if wanted is not None:
        if wanted not in number:
            raise DataError(f"The network has no node {wanted!r}; it has {quoted(number, 20)}.")
        return number[wanted]
    surest = run.edge_table[run.edge_table["probability"].notna()]
    return number[str(surest["child"].iloc[0])] if len(surest) else 0


def _edges(
    run: Run, number: dict[str, int], intervals: RateIntervals | None, notices: list[str]
) -> list[dict[str, Any]]:
    """The most probable edges, and all that are in the graph if these are not too many."""
    table = run.edge_table[run.edge_table["probability"].notna()]
    listed = np.arange(len(table)) < LISTED_EDGES
    if table["in_graph"].sum() <= LISTED_EDGES:
        listed |= table["in_graph"].to_numpy()
    kept = table[listed]
    if len(kept) < len(table):
        notices.append(
            f"The page lists the {len(kept):,} most probable of {len(table):,} edges; "
            "edges.csv holds all."
        )
    truth = set(run.truth) if run.truth is not None else None
    rows = []
    for record in kept.to_dict("records"):
        parent, child = str(record["parent"]), str(record["child"])
        row: dict[str, Any] = {
            "from": number[parent],
            "to": number[child],
            "p": _rounded(float(record["probability"])),
            "in_graph": bool(record["in_graph"]),
        }
        for key, columns in MORE_OF_AN_EDGE.items():
            value = next((record[name] for name in columns if name in record), None)
            if isinstance(value, int | float) and np.isfinite(value):
                row[key] = float(f"{value:.4g}")
        known = record.get("effect")
        if isinstance(known, str) and known:
            row["effect"] = known
        if (chance := by_chance(run.run, float(record["probability"]))) is not None:
            row.setdefault("chance", float(f"{chance:.3g}"))
        if child not in run.network.drifts and parent in run.network.parents[child]:
            by_state = rates_by_parent_state(run.network, child, parent)
            row["effect"] = effect(run.network, child, parent)
            row["rates"] = [_significant(block) for block in by_state]
            row["ratios"] = [
                [
                    found.source,
                    found.target,
                    *map(json_number, (found.ratio, found.lower, found.upper)),
                ]
                for found in rate_ratios(run.network, child, parent, intervals)
            ]
        if truth is not None:
            row["true"] = (parent, child) in truth
        rows.append(row)
    return rows


def ranking_rows(edges: list[dict[str, Any]], nodes: Sequence[str]) -> list[dict[str, Any]]:
    """The most probable edges in words, for the table at the head of the page."""
    rows = []
    for edge in edges[:TOP]:
        if not edge["p"] > 0.0:
            break
        rows.append(
            {
                "id": f"{edge['from']}-{edge['to']}",
                "parent": nodes[edge["from"]],
                "child": nodes[edge["to"]],
                "p": probability_text(edge["p"]),
                "share": round(100 * edge["p"]),
                "effect": edge.get("effect", ""),
                "fold": _with_interval(edge, "fold"),
                "shift": _with_interval(edge, "shift"),
                "bf": _short(edge["bf"]) if "bf" in edge else "",
                "prior": f"{edge['prior']:.2g}" if "prior" in edge else "",
                "chance": _short(edge["chance"]) if "chance" in edge else "",
                "true": edge.get("true"),
                "in_graph": edge["in_graph"],
            }
        )
    return rows


def _with_interval(edge: dict[str, Any], name: str) -> tuple[str, str]:
    """A number, and its interval in words where one is known."""
    if name not in edge:
        return "", ""
    low, high = edge.get(f"{name}_low"), edge.get(f"{name}_high")
    between = "" if low is None or high is None else f"{_short(low)} to {_short(high)}"
    return _short(edge[name]), between


def _short(value: float) -> str:
    """Two digits that a person can read; beyond a million only how many."""
    if abs(value) >= 1e6:
        return "> 10⁶"
    if 0.0 < abs(value) < 1e-3:
        return "< 0.001"
    return f"{float(f'{value:.2g}'):,g}"


def _layout(run: Run, edges: list[dict[str, Any]], notices: list[str]) -> dict[str, Any]:
    """Positions of the nodes that can appear in the drawing, by number."""
    drawable = edges[:DRAWN]
    names = run.network.nodes
    small = len(names) <= DRAW_ALL_NODES
    shown = (
        set(range(len(names))) if small else {e[end] for e in drawable for end in ("from", "to")}
    )
    graph = networkx.DiGraph()
    graph.add_nodes_from(sorted(shown))
    graph.add_edges_from(
        (e["from"], e["to"])
        for i, e in enumerate(drawable)
        if e["in_graph"] or e["p"] >= LAYOUT_PROBABILITY or i < TOP
    )
    if not small:
        notices.append(
            f"The drawing shows at most {DRAWN} edges, the surest above the threshold, "
            "and only nodes that have one of them."
        )
    found = positions(graph)
    return {str(node): [round(x, 3), round(y, 3)] for node, (x, y) in found.items()}


def _rates(
    run: Run,
    number: dict[str, int],
    intervals: RateIntervals | None,
    notices: list[str],
) -> dict[str, Any]:
    """Per node its parents and, for each configuration of them, the rates."""
    network = run.network
    families: dict[str, Any] = {}
    n_listed = 0
    for name in network.nodes:
        rows = network.configurations(name, FAMILY_CONFIGURATIONS)
        family: dict[str, Any] = {"parents": [number[p] for p in network.parents[name]]}
        if name in network.drifts:
            family["continuous"] = movement_sentence(run, name)
        elif network.rates[name] is None:
            family["exogenous"] = True
        elif rows is not None and n_listed + len(rows) <= ALL_CONFIGURATIONS:
            n_listed += len(rows)
            family["rows"] = [
                {"u": [str(label) for label in labels], "r": _significant(block)}
                for labels, block in rows
            ]
            found = None if intervals is None else intervals.of(network, name)
            if found is not None:
                low, high = (table.reshape(len(rows), *table.shape[-2:]) for table in found)
                for row, lower, upper in zip(family["rows"], low, high):
                    row["low"] = [[json_number(v) for v in line] for line in lower]
                    row["high"] = [[json_number(v) for v in line] for line in upper]
        families[str(number[name])] = family
    if any(not {"rows", "exogenous", "continuous"} & set(f) for f in families.values()):
        notices.append(
            "Some tables of rates are too long for this page; network.json holds all of them."
        )
    return families


def movement_sentence(run: Run, name: str) -> str:
    """How a continuous node moves, in the user's units, with intervals where they are known."""
    drift, table = run.network.drifts[name], run.tables.get("nodes")
    own: dict[Any, Any] = {}
    if table is not None and (table["node"] == name).any():
        own = table[table["node"] == name].iloc[0].to_dict()

    def number(what: str, value: float) -> str:
        ends = [own.get(f"{what}_{end}") for end in ("lower", "upper")]
        known = all(isinstance(end, float) and np.isfinite(end) for end in ends)
        value = own[what] if known else value
        return f"{value:.3g}" + (f" ({ends[0]:.3g} to {ends[1]:.3g})" if known else "")

    unit = run.run.get("time_unit")
    time = number("decay_time", 1.0 / drift.decay) + (f" {unit}" if unit else "")
    said = f"{name} moves continuously: a deviation falls to a third within {time}"
    if own:
        return f"{said}; its resting level, with its parents at their mean, is " + (
            f"{number('resting_level', np.nan)}; a measurement has a noise of {drift.noise_sd:.3g}."
        )
    return f"{said}; a measurement has a noise of {drift.noise_sd:.3g}."


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
    table = run.edge_table
    inside = table[table["parent"].isin(names) & table["child"].isin(names)]
    matrix = square(inside, names).to_numpy(copy=True)
    np.fill_diagonal(matrix, np.nan)
    z = [[None if np.isnan(p) else round(p, 4) for p in row] for row in matrix.tolist()]
    numbers = [run.network.node_index(name) for name in names]
    return {"nodes": numbers, "z": z, "prior": common_prior(run)}


def common_prior(run: Run) -> float | None:
    """The probability that every edge had before the data; None if unknown or not the same."""
    if "prior" not in run.edge_table.columns or not len(run.edge_table):
        return None
    prior = run.edge_table["prior"].to_numpy(dtype=np.float64)
    same = bool(np.all(np.isfinite(prior)) and np.ptp(prior) < 1e-6)
    return float(f"{prior[0]:.4g}") if same else None


def _history(run: Run) -> dict[str, Any] | None:
    if run.history is None:
        return None
    return {
        str(name): [float(f"{v:.10g}") if np.isfinite(v) else None for v in run.history[name]]
        for name in run.history.columns
    }


def _chains(run: Run) -> dict[str, Any] | None:
    """Traces of the edges known least well; figures that short chains do not have are None."""
    record = run.run.get("chains")
    if not isinstance(record, dict) or not record.get("edges"):
        return None
    edges = []
    for edge in record["edges"]:
        figures = {name: edge.get(name) for name in ("error", "r_hat")}
        known = {
            name: json_number(value) if isinstance(value, int | float) else None
            for name, value in figures.items()
        }
        edges.append({**edge, **known})
    return {"draws": int(record["draws"]), "edges": edges}


def _level_panels(run: Run) -> list[dict[str, Any]] | None:
    """Histograms of nodes whose levels were counted, or which move; the least clear first."""
    if run.observations is None:
        return None
    kinds, levels = (
        found if isinstance(found := run.run.get(name), dict) else {}
        for name in ("kinds", "levels")
    )
    gain = {node: float((kinds.get(node) or {}).get("gain", np.inf)) for node in run.network.drifts}
    sure = {node: float(record.get("probability", 1.0)) for node, record in levels.items()}
    moving = [
        _panel(run.observations, node, f"continuous{_how_clearly(gain[node])}", None)
        for node in sorted(gain, key=lambda node: (gain[node], node))[:LEVEL_NODES]
    ]
    counted = []
    for node in sorted(sure, key=lambda node: (sure[node], node))[:LEVEL_NODES]:
        record = levels[node]
        how = f"probability {sure[node]:.2f}" if record.get("chosen", True) else "given"
        title = f"{record['levels']} levels, {how}"
        if isinstance(shift := record.get("offset"), dict):
            title += f", less shifts of trajectories (sd {float(shift['sd']):.2g})"
        counted.append(_panel(run.observations, node, title, list(map(float, record["means"]))))
    return [panel for panel in (*moving, *counted) if panel is not None] or None


def _how_clearly(gain: float) -> str:
    """How much the evidence says that a node moves; a few unlike the others are taken as they."""
    if np.isinf(gain):
        return ""
    return f", by {gain:.0f} nats" if gain >= 0.0 else f" as the others, against {-gain:.0f} nats"


def _panel(
    table: pd.DataFrame, node: str, title: str, means: list[float] | None
) -> dict[str, Any] | None:
    """The histogram of a node with the means of its levels, or, without, a piece of its course."""
    own = table[table["node"].astype(str) == node]
    own = own.assign(value=pd.to_numeric(own["value"], errors="coerce").astype(np.float64))
    known = own[np.isfinite(own["value"])]
    if not len(known):
        return None
    values = known["value"].to_numpy()
    low, high = (pick([float(pick(values)), *(means or [])]) for pick in (min, max))
    high = high if high > low else low + 1.0
    n_bins = int(min(30, max(6, np.sqrt(len(values)))))
    panel: dict[str, Any] = {
        "title": f"{node}: {title}",
        "counts": np.histogram(values, n_bins, (low, high))[0].tolist(),
        "range": [low, high],
        "means": means or [],
    }
    if means is None:
        piece = known[known["trajectory"] == own["trajectory"].iloc[0]][:PIECE]
        panel["course"] = [
            significant_digits(piece[name].to_numpy(dtype=np.float64), 5)
            for name in ("time", "value")
        ]
    return panel


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


def json_number(value: float) -> Number:
    """Four digits; JSON has no infinity, so what is not finite is None."""
    return float(f"{value:.4g}") if np.isfinite(value) else None


def _significant(block: np.ndarray[Any, Any]) -> list[list[float]]:
    return [significant_digits(row, 4) for row in block]


def _rounded(probability: float) -> float:
    """Six decimals, but what is not certain stays so."""
    return min(round(probability, 6), 0.999999) if probability < 1.0 else 1.0


# ---- courses, and how well every node fits its measurements -----------------------------------


Number = float | None

#: state probabilities embedded in the page
COURSE_VALUES = 400_000
#: upper bound on the nodes with courses on a page; larger networks also have fewer time points
COURSE_NODES = 500
FEWER_VALUES = 100_000
#: small pictures in the panel that shows the fit of all nodes
FIT_NODES = 48
#: share of the measurements that the band should hold
BAND = 0.9
#: a node fits poorly when a share this low would happen by chance once in a thousand nodes
POOR = 1e-3


def courses_and_fit(
    run: Run, notices: list[str]
) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """Probabilities in thousandths, [trajectory][node][state][time], with the measurements.

    Beside them, per node of the panel of fits, how many measurements lie where they should.
    """
    if run.posterior is None:
        return None, []
    states = run.network.states
    found = course_data.from_dataset(run.posterior)
    n_before = len(found.trajectories)
    column = {name: i for i, name in enumerate(found.nodes) if name in states}
    seen = measurements(run.observations, run.network, found.trajectories)
    level = [levels(seen, found, name, len(states[name])) for name in column]
    fit = [
        {"node": place, **_fit_of(seen, found, name, len(states[name]), level[place])}
        for place, name in enumerate(column)
    ]
    worst = _worst(fit, notices)
    if len(column) > COURSE_NODES + FIT_NODES:
        names = list(column)
        column = {name: column[name] for name in _worth_a_course(run, names, worst)}
        notices.append(
            f"Courses are shown for {len(column)} of {len(names):,} nodes, the worst fits and "
            "those with the surest edges; posterior.nc holds all."
        )
        place = {name: i for i, name in enumerate(column)}
        worst = [{**entry, "node": place[names[entry["node"]]]} for entry in worst]
        level = [level[i] for i, name in enumerate(names) if name in place]
        found = course_data.of_nodes(found, list(column.values()))
        column = place
    n_values = FEWER_VALUES if len(column) < len(fit) else COURSE_VALUES
    n_given, found = found.n_values, course_data.thinned(found, n_values)
    if found.n_values < n_given:
        notices.append(
            f"Courses are shown for {len(found.trajectories):,} of {n_before:,} trajectories, "
            f"at up to {max(map(len, found.times))} times each; posterior.nc holds more."
        )
    places = range(len(found.trajectories))
    return {
        "trajectories": [str(label) for label in found.trajectories],
        "nodes": [run.network.node_index(name) for name in column],
        "times": [significant_digits(own, 6) for own in found.times],
        "p": [
            [_thousandths(found.of(t, i, len(states[name]))[1]) for name, i in column.items()]
            for t in places
        ],
        "measured": [
            [_measured(seen.of(found.trajectories[t], name)) for name in column] for t in places
        ],
        "levels": [_levels(found_level) for found_level in level],
    }, worst


def _worth_a_course(run: Run, names: list[str], worst: list[dict[str, Any]]) -> list[str]:
    """Some of the nodes, in their order: the worst fits, then the ends of the surest edges."""
    ends = run.edge_table[["parent", "child"]].to_numpy(dtype=object).ravel()[: 4 * COURSE_NODES]
    likely = dict.fromkeys([*(names[entry["node"]] for entry in worst), *map(str, ends), *names])
    known = set(names)
    chosen = set([name for name in likely if name in known][:COURSE_NODES])
    return [name for name in names if name in chosen]


def _fit_of(
    seen: Measurements,
    found: course_data.StoredCourses,
    node: str,
    n_states: int,
    level: Levels | None,
) -> dict[str, Any]:
    """How many measurements of a node lie inside the band, or show the likeliest state."""
    from scipy.special import bdtr

    y, w = seen.with_probabilities(found, node, n_states)
    if not len(y):
        return {"inside": 0, "total": 0, "poor": False, "states": level is None}
    if level is None:
        inside = int((w.argmax(axis=1) == y).sum())
    else:
        low, high = (level.quantile(w, 0.5 + side * BAND / 2) for side in (-1, 1))
        inside = int(((low <= y) & (y <= high)).sum())
    total = len(y)
    poor = level is not None and float(bdtr(inside, total, BAND)) < POOR
    return {"inside": inside, "total": total, "poor": bool(poor), "states": level is None}


def fit_sentence(fit: list[dict[str, Any]]) -> str:
    """How to read the shares of the panel, and which nodes stand out."""
    numbers = [entry for entry in fit if not entry["states"] and entry["total"]]
    labels = [entry for entry in fit if entry["states"] and entry["total"]]
    said = []
    if numbers:
        said.append("The band should hold about 90 % of a node's measurements.")
        poor = sum(entry["poor"] for entry in numbers)
        said.append(
            f"{poor} node{'s' * (poor != 1)} hold{'s' * (poor == 1)} clearly fewer: "
            "there the model misses something."
            if poor
            else "No node holds clearly fewer."
        )
    if labels:
        said.append("For measured states, the share that shows the likeliest state is given.")
    return " ".join(said)


def _worst(fit: list[dict[str, Any]], notices: list[str]) -> list[dict[str, Any]]:
    """All nodes in their order, or of many the worst fits, worst first."""
    if len(fit) <= FIT_NODES:
        return fit
    notices.append(f"The panel of fits shows the {FIT_NODES} worst of {len(fit):,} nodes.")
    share = [entry["inside"] / entry["total"] if entry["total"] else 1.0 for entry in fit]
    return [fit[i] for i in np.argsort(share, kind="stable")[:FIT_NODES]]


def _measured(own: Measured) -> list[list[float]]:
    return [significant_digits(own.times, 6), significant_digits(own.values, 5)]


def _levels(found: Levels | None) -> dict[str, list[float]] | None:
    if found is None:
        return None
    return {"mean": significant_digits(found.mean, 5), "sd": significant_digits(found.spread, 5)}


def _thousandths(block: np.ndarray[Any, Any]) -> list[list[int]]:
    """(K, S) probabilities as whole thousandths, one list per state."""
    whole = np.rint(1000 * np.nan_to_num(block)).astype(int)
    return [column.tolist() for column in whole.T]


def significant_digits(values: np.ndarray[Any, Any], n: int) -> list[float]:
    """Rounded to n significant digits, which keeps the page small."""
    return [float(f"{value:.{n}g}") for value in values.tolist()]
