"""Two or more runs side by side: which edges the others gained, lost or changed against the first.

Each run's edge probabilities are taken as independent. With p in the first run and q in another,
the edge is new with probability (1 − p) q and gone with probability p (1 − q). Edges that both
graphs hold are compared by what the parent does: the direction of its effect, and its fold changes,
or its shifts of a continuous child, where both runs have intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from asterism.errors import DataError
from asterism.results.edge_effects import effect, rate_ratios
from asterism.results.run import Run, inner_settings, rate_intervals
from asterism.results.summary import BESIDES, as_text

#: a number with the ends of its interval; NaN where unknown
Estimate = tuple[float, float, float]
NOTHING: Estimate = (np.nan, np.nan, np.nan)

GAINED, LOST, CHANGED, KEPT, OUTSIDE, UNKNOWN = (
    *("gained", "lost", "changed", "kept"),
    *("in neither graph", "not comparable"),
)

#: edges in neither graph are listed when their probabilities differ by this much
WORTH_LISTING = 0.2

#: fields of the record that say nothing about why runs differ
BESIDE_THE_POINT = BESIDES - {"data"} | {"jobs", "n_jobs", "journal"}


@dataclass(frozen=True)
class Comparison:
    """What differs between the first run and each of the others."""

    names: tuple[str, ...]
    runs: tuple[Run, ...]
    edges: pd.DataFrame
    """One row per edge and other run: see :func:`compare`."""
    settings: list[tuple[str, tuple[str, ...]]]
    """Settings that are not the same in all runs: name, and the value in each."""
    same_data: bool | None
    """Whether all runs read the same file; None if that was not recorded."""
    only_in_some: list[str]
    """Nodes that not every run has."""

    def counts(self, name: str) -> dict[str, int]:
        """How many edges each kind of change has in one of the other runs."""
        own = self.edges[self.edges["run"] == name]["change"]
        return {kind: int((own == kind).sum()) for kind in (GAINED, LOST, CHANGED, KEPT)}

    def expected_changes(self, name: str) -> tuple[float, float]:
        """Numbers of edges gained and lost that the probabilities of both runs lead to expect."""
        own = self.edges[self.edges["run"] == name]
        return float(own["probability_gained"].sum()), float(own["probability_lost"].sum())


def compare(runs: Sequence[Run], names: Sequence[str]) -> Comparison:
    """Compare every run with the first.

    The table has the columns parent, child, run, change, probability_first, probability,
    in_first_graph, in_graph, probability_gained, probability_lost, effect_first, effect,
    fold_ratio, lower, upper: the fold change in this run over that in the first; shift_change,
    shift_lower, shift_upper: of a continuous child its shift less that in the first, each in
    standard deviations of its own data. Largest changes come first.
    """
    if len(runs) < 2:
        raise DataError("A comparison needs at least two runs.")
    if len(set(names)) != len(names) or len(names) != len(runs):
        raise DataError("Every run needs a name of its own.")
    first, *others = runs
    rows = [row for run, name in zip(others, names[1:]) for row in _rows(first, run, name)]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    order = {kind: i for i, kind in enumerate((GAINED, LOST, CHANGED, KEPT, OUTSIDE, UNKNOWN))}
    certainty = np.maximum(table["probability_gained"], table["probability_lost"])
    table = table.assign(order=table["change"].map(order), certainty=certainty).sort_values(
        ["order", "certainty", "parent", "child"], ascending=[True, False, True, True]
    )
    everywhere = set(first.network.nodes).intersection(*(run.network.nodes for run in others))
    anywhere = set(first.network.nodes).union(*(run.network.nodes for run in others))
    hashes = {run.run.get("data_hash") for run in runs}
    return Comparison(
        names=tuple(names),
        runs=tuple(runs),
        edges=table.drop(columns=["order", "certainty"]).reset_index(drop=True),
        settings=_differing_settings(runs),
        same_data=None if None in hashes else len(hashes) == 1,
        only_in_some=sorted(anywhere - everywhere),
    )


#: columns of the table of changes, as described in :func:`compare`
COLUMNS = (
    *("parent", "child", "run", "change", "probability_first", "probability"),
    *("in_first_graph", "in_graph", "probability_gained", "probability_lost"),
    *("effect_first", "effect", "fold_ratio", "lower", "upper"),
    *("shift_change", "shift_lower", "shift_upper"),
)

Edge = dict[str, Any]
"""A row of a run's table of edges, by column."""


def _rows(first: Run, other: Run, name: str) -> list[Edge]:
    before, after = _by_edge(first), _by_edge(other)
    shared = set(first.network.nodes) & set(other.network.nodes)
    found = []
    for parent, child in sorted(before.keys() | after.keys()):
        # where both runs know its nodes, a pair that is not listed was improbable
        unlisted = {
            "probability": 0.0 if {parent, child} <= shared else np.nan,
            "in_graph": False,
            "effect": "",
        }
        one, two = (table.get((parent, child), unlisted) for table in (before, after))
        p, q = one["probability"], two["probability"]
        inside = one["in_graph"], two["in_graph"]
        row = dict(zip(COLUMNS, (parent, child, name, OUTSIDE, p, q, *inside)))
        row |= {"probability_gained": (1 - p) * q, "probability_lost": p * (1 - q)}
        row |= dict(zip(COLUMNS[-8:], ("", "", *NOTHING, *NOTHING)))
        if np.isnan(p) or np.isnan(q):  # a node that one of them lacks, or has not scored
            row["change"] = UNKNOWN
        else:
            row |= {"effect_first": one["effect"], "effect": two["effect"]}
            if all(inside):
                row |= _compared(first, other, one, two)
            elif any(inside):
                row["change"] = GAINED if inside[1] else LOST
            else:  # what the surer of the two says of it
                most, column = (one, "effect_first") if p >= q else (two, "effect")
                row[column] = most.get("said", "")
        found.append(row)
    return found


def _compared(first: Run, other: Run, one: Edge, two: Edge) -> Edge:
    """An edge of both graphs: does its parent act differently?"""
    names, equal = ("fold_ratio", "lower", "upper"), 1.0
    if any(one["child"] in run.network.drifts for run in (first, other)):
        names, equal = ("shift_change", "shift_lower", "shift_upper"), 0.0
        found = _shift_change(one, two)
    else:
        found = _fold_ratio(first, other, one, two)
    apart = np.isfinite(found[1]) and not found[1] <= equal <= found[2]
    change = CHANGED if apart or one["effect"] != two["effect"] else KEPT
    return {"change": change, **dict(zip(names, found))}


def _shift_change(one: Edge, two: Edge) -> Estimate:
    """The difference of two shifts with its interval; unknown where one of the nodes jumps."""
    ends = np.array(
        [
            [edge.get(f"shift{end}", np.nan) for end in ("", "_lower", "_upper")]
            for edge in (one, two)
        ]
    )
    middle, widths = ends[:, 0], ends.T - ends[:, 0]
    change = float(middle[1] - middle[0])
    # of the difference the lower end has the lower of the second and the upper of the first
    down = float(np.hypot(widths[1][1], widths[2][0]))
    up = float(np.hypot(widths[2][1], widths[1][0]))
    return change, change - down, change + up


def _by_edge(run: Run) -> dict[tuple[str, str], Edge]:
    """The rows of the table by edge; edges of the graph with the effect of their parent."""
    table, network = run.edge_table, run.network
    probability = table["probability"].to_numpy(dtype=np.float64, na_value=np.nan)
    found: dict[tuple[str, str], Edge] = {}
    for row in table.assign(probability=probability).to_dict("records"):
        parent, child = str(row["parent"]), str(row["child"])
        said = row["effect"] if isinstance(row.get("effect"), str) else ""
        known = {**{str(k): v for k, v in row.items()}, "said": said, "effect": ""}
        if parent in network.parents[child]:
            known["effect"] = said if child in network.drifts and said else ""
            known["effect"] = known["effect"] or effect(network, child, parent)
        found[parent, child] = known
    return found


def _fold_ratio(first: Run, other: Run, one: Edge, two: Edge) -> Estimate:
    """Ratio of the two fold changes with its interval.

    Runs without fold changes are compared by their rates, at the transition that differs most.
    """
    parent, child = one["parent"], one["child"]
    if any(first.network.states[n] != other.network.states[n] for n in (parent, child)):
        return NOTHING
    folds = [_fold_change(edge) for edge in (one, two)]
    if folds[0] is not None and folds[1] is not None:
        return _ratio(folds[0], folds[1])
    before, after = (
        {
            (found.source, found.target): (found.ratio, found.lower, found.upper)
            for found in rate_ratios(run.network, child, parent, rate_intervals(run.rates, run.run))
        }
        for run in (first, other)
    )
    ratios = [_ratio(before[move], after[move]) for move in before.keys() & after.keys()]
    return max(ratios, key=_clearness, default=NOTHING)


def _fold_change(edge: Edge) -> Estimate | None:
    """What a run's table of edges says, if it does."""
    names = ("fold_change", "fold_change_lower", "fold_change_upper")
    value, lower, upper = (float(edge.get(name, np.nan)) for name in names)
    return (value, lower, upper) if 0.0 < lower <= upper < np.inf else None


def _ratio(before: Estimate, after: Estimate) -> Estimate:
    ratio = after[0] / before[0]
    spreads = [0.5 * np.log(upper / lower) for _, lower, upper in (before, after)]
    factor = float(np.exp(np.hypot(*spreads)))
    return ratio, ratio / factor, ratio * factor


def _clearness(ratio: Estimate) -> float:
    """How many half widths the ratio is from one; without intervals, how far it is."""
    distance = abs(float(np.log(ratio[0])))
    width = 0.5 * float(np.log(ratio[2] / ratio[1])) if np.isfinite(ratio[1]) else 1e3
    return distance / max(width, 1e-12)


def _differing_settings(runs: Sequence[Run]) -> list[tuple[str, tuple[str, ...]]]:
    records = [_settings(run) for run in runs]
    names = dict.fromkeys(name for record in records for name in record)
    found = [(name, tuple(record.get(name, "–") for record in records)) for name in names]
    return [(name, values) for name, values in found if len(set(values)) > 1]


def _settings(run: Run) -> dict[str, str]:
    """The command's flags if there was a command, else the learner's settings."""
    record: Any = run.run.get("command") or run.run.get("settings") or {}
    if not isinstance(record, dict):
        return {}
    flagged = "command" in run.run
    said, inner = {}, inner_settings(record)
    for name, value in record.items():
        for part, one in inner.get(name, {"": value}).items():
            words = f"{name} {part}".strip().replace("_", " ")
            if BESIDE_THE_POINT.isdisjoint((name, part)):
                said[f"--{words.replace(' ', '-')}" if flagged else words] = as_text(one)
    return said
