"""Two or more runs side by side: which edges the others gained, lost or changed against the first.

Each run's edge probabilities are taken as independent. With p in the first run and q in another,
the edge is new with probability (1 − p) q and gone with probability p (1 − q). Edges that both
graphs hold are compared by what the parent does: the direction of its effect, and its fold changes
where both runs have intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from asterism.errors import DataError
from asterism.results.edge_effects import effect, rate_ratios
from asterism.results.run import Run, rate_intervals
from asterism.results.summary import as_text

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
BESIDE_THE_POINT = frozenset(
    {"output", "force", "quiet", "as_json", "title", "resume", "jobs", "n_jobs", "journal", "name"}
)


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
    fold_ratio, lower, upper: the fold change in this run over that in the first. Largest changes
    come first.
    """
    if len(runs) < 2:
        raise DataError("A comparison needs at least two runs.")
    if len(set(names)) != len(names) or len(names) != len(runs):
        raise DataError("Every run needs a name of its own.")
    first, *others = runs
    rows = [row for run, name in zip(others, names[1:]) for row in _rows(first, run, name)]
    table = pd.DataFrame(rows, columns=list(_Row.__dataclass_fields__))
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


@dataclass(frozen=True)
class _Row:
    parent: str
    child: str
    run: str
    change: str
    probability_first: float
    probability: float
    in_first_graph: bool
    in_graph: bool
    probability_gained: float
    probability_lost: float
    effect_first: str = ""
    effect: str = ""
    fold_ratio: float = np.nan
    lower: float = np.nan
    upper: float = np.nan


def _rows(first: Run, other: Run, name: str) -> list[_Row]:
    before, after = _by_edge(first), _by_edge(other)
    shared = set(first.network.nodes) & set(other.network.nodes)
    found = []
    for parent, child in sorted(before.keys() | after.keys()):
        known = {parent, child} <= shared
        unlisted = (0.0 if known else np.nan, False)
        p, was_inside = before.get((parent, child), unlisted)
        q, is_inside = after.get((parent, child), unlisted)
        row = _Row(
            parent,
            child,
            name,
            {(False, True): GAINED, (True, False): LOST}.get((was_inside, is_inside), OUTSIDE),
            p,
            q,
            was_inside,
            is_inside,
            probability_gained=(1 - p) * q,
            probability_lost=p * (1 - q),
        )
        if np.isnan(p) or np.isnan(q):  # a node that one of them lacks, or has not scored
            found.append(replace(row, change=UNKNOWN))
            continue
        row = replace(
            row,
            effect_first=_effect(first, parent, child),
            effect=_effect(other, parent, child),
        )
        found.append(_compared(row, first, other) if was_inside and is_inside else row)
    return found


def _compared(row: _Row, first: Run, other: Run) -> _Row:
    """An edge of both graphs: does its parent act differently?"""
    if any(row.child in run.network.drifts for run in (first, other)):
        ends = [_shift_interval(run, row.parent, row.child) for run in (first, other)]
        apart = ends[0][0] > ends[1][1] or ends[1][0] > ends[0][1]
        return replace(row, change=CHANGED if apart or row.effect_first != row.effect else KEPT)
    ratio, lower, upper = _fold_ratio(first, other, row.parent, row.child)
    apart = np.isfinite(lower) and not lower <= 1.0 <= upper
    change = CHANGED if apart or row.effect_first != row.effect else KEPT
    return replace(row, change=change, fold_ratio=ratio, lower=lower, upper=upper)


def _by_edge(run: Run) -> dict[tuple[str, str], tuple[float, bool]]:
    """Probability, NaN where it was not scored, and whether it is in the graph, by edge."""
    table = run.edge_table
    probability = table["probability"].to_numpy(dtype=np.float64, na_value=np.nan).tolist()
    rows = zip(table["parent"], table["child"], probability, table["in_graph"].tolist())
    return {(p, c): (q, g) for p, c, q, g in rows}


def _effect(run: Run, parent: str, child: str) -> str:
    known = parent in run.network.parents[child]
    if known and child in run.network.drifts and "effect" in run.edge_table.columns:
        table = run.edge_table
        own = table.loc[(table["parent"] == parent) & (table["child"] == child), "effect"]
        return str(own.iloc[0])
    return effect(run.network, child, parent) if known else ""


def _fold_ratio(first: Run, other: Run, parent: str, child: str) -> Estimate:
    """Ratio of the two fold changes with its interval.

    Runs without fold changes are compared by their rates, at the transition that differs most.
    """
    ends = (parent, child)
    if any(first.network.states[node] != other.network.states[node] for node in ends):
        return NOTHING
    folds = [_fold_change(run, parent, child) for run in (first, other)]
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


def _shift_interval(run: Run, parent: str, child: str) -> tuple[float, float]:
    """How far an edge moves its continuous child; without limits where that is not known."""
    table = run.edge_table
    own = table[(table["parent"] == parent) & (table["child"] == child)]
    if "shift_lower" not in table.columns or own[["shift_lower", "shift_upper"]].isna().any(
        axis=None
    ):
        return -np.inf, np.inf
    return float(own["shift_lower"].iloc[0]), float(own["shift_upper"].iloc[0])


def _fold_change(run: Run, parent: str, child: str) -> Estimate | None:
    """What the run's table of edges says, if it does."""
    table = run.edge_table
    names = ("fold_change", "fold_change_lower", "fold_change_upper")
    if not set(names) <= set(table.columns):
        return None
    own = table[(table["parent"] == parent) & (table["child"] == child)]
    value, lower, upper = (float(own[name].iloc[0]) for name in names)
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
    return {
        f"--{name.replace('_', '-')}" if flagged else name.replace("_", " "): as_text(value)
        for name, value in record.items()
        if name not in BESIDE_THE_POINT
    }
