"""Whether a table can be learned from, and what a scientist wants to know about it before.

``learn`` and ``check`` both come through here, so that ``check`` refuses whatever ``learn`` would.
The summary gives sizes, gaps and missing shares; how often states seem to change between two
measurements; and whether that is enough for the number of parents asked for.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from asterism.commands.emissions import choose_emissions, stands_still
from asterism.commands.exits import Refused
from asterism.commands.input_table import Table, only_nodes
from asterism.commands.options import PanelOptions
from asterism.commands.panel import panel_emissions, read_values, restrict
from asterism.data.clock import amount_of
from asterism.data.labels import label_codes
from asterism.data.measurements import NodeMeasurements, wide_keys
from asterism.data.observations import Observations
from asterism.data.trajectories import Trajectories
from asterism.errors import DataError, counted, quoted, require_known
from asterism.learning.kinds import are_numbered_states
from asterism.learning.offsets import without_offsets
from asterism.model.emission_continuous import Continuous
from asterism.model.emissions import Exact

#: measurements of a node that one rate of its largest family should have
POINTS_PER_RATE = 5


@dataclass(frozen=True)
class Changes:
    """How often one node seems to change between two successive measurements."""

    n_gaps: int
    n_changes: int
    n_states: int

    @property
    def per_gap(self) -> float:
        """Expected transitions in one gap, hidden ones included; infinite if it looks random.

        Of a chain that leaves every state at rate r for one of the others alike, the share of gaps
        g with different ends is (S−1)/S · (1 − exp(−S/(S−1) · r g)).
        """
        most = (self.n_states - 1) / self.n_states
        share = self.n_changes / self.n_gaps
        return math.inf if share >= most else -most * math.log(1.0 - share / most)


def summarise(
    data: Observations | Trajectories,
    max_parents: int,
    exogenous: Collection[str] = (),
    n_states: Mapping[str, int] | None = None,
    moving: Collection[str] = (),
) -> dict[str, Any]:
    """Plain numbers and sentences, ready for JSON; nothing is learned about ``exogenous`` nodes.

    ``n_states`` says how many hidden states nodes have, where that is known by now; nodes that
    are ``moving`` continuously have none.
    """
    if isinstance(data, Trajectories):
        return _of_paths(data)
    table = data.describe()
    gaps = _gaps(data)
    nodes = []
    for node, row in table.iterrows():
        nodes.append(
            {
                "node": str(node),
                "points": int(row["points"]),
                "missing": float(row["missing"]),
                "values": str(row["values"]),
            }
        )
    return {
        "nodes": nodes,
        "n_nodes": len(nodes),
        "n_trajectories": data.n_trajectories,
        "n_measurements": data.n_measurements,
        "n_events": len(data.events),
        "n_times": len(wide_keys(data)),
        "first_time": float(data.start.min()) if data.n_trajectories else None,
        "last_time": float(data.end.max()) if data.n_trajectories else None,
        "typical_gap": float(np.median(gaps)) if len(gaps) else None,
        "time_unit": data.time_unit,
        "warnings": _warnings(data, max_parents, {*exogenous, *moving}, n_states or {}),
    }


def in_words(summary: dict[str, Any]) -> list[str]:
    """How much there is, and over what time."""
    amount = (
        counted(summary["n_jumps"], "jump")
        if "n_jumps" in summary
        else f"{counted(summary['n_measurements'], 'measurement')} at "
        f"{counted(summary['n_times'], 'time')}"
    )
    lines = [
        f"{counted(summary['n_nodes'], 'node')}, "
        f"{counted(summary['n_trajectories'], 'trajectory')}, {amount}."
    ]
    if summary["first_time"] is not None:
        unit = f" {summary['time_unit']}" if summary.get("time_unit") else ""
        first, last = (f"{summary[name] + 0.0:g}" for name in ("first_time", "last_time"))
        gap = summary.get("typical_gap")
        typical = (
            "" if gap is None else f"; typical gap {amount_of(gap, summary.get('time_unit') or '')}"
        )
        lines.append(f"Time {first} to {last}{unit} (--start, --end){typical}.")
    return lines


def _of_paths(paths: Trajectories) -> dict[str, Any]:
    jumps = np.bincount(paths.jump_node, minlength=len(paths.nodes))
    return {
        "nodes": [
            {"node": node, "jumps": int(jumps[i]), "states": len(paths.states[node])}
            for i, node in enumerate(paths.nodes)
        ],
        "n_nodes": len(paths.nodes),
        "n_trajectories": paths.n_trajectories,
        "n_jumps": paths.n_jumps,
        "first_time": float(paths.start.min()) if paths.n_trajectories else None,
        "last_time": float(paths.end.max()) if paths.n_trajectories else None,
        "time_unit": paths.time_unit,
        "warnings": [
            f"Node {node!r} never changes its state."
            for i, node in enumerate(paths.nodes)
            if jumps[i] == 0
        ],
    }


def _gaps(data: Observations) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Times between successive measurements of one trajectory, of any node."""
    keys = sorted(wide_keys(data))
    if len(keys) < 2:
        return np.empty(0)
    number, time = (np.array(column, dtype=np.float64) for column in zip(*keys))
    gap = np.diff(time)
    return np.asarray(gap[(np.diff(number) == 0) & (gap > 0)])


def _warnings(
    data: Observations, max_parents: int, exogenous: Collection[str], n_states: Mapping[str, int]
) -> list[str]:
    found = []
    fast, thin = [], []
    max_parents = min(max_parents, max(len(data.measurements) - 1, 0))
    seen = {node: changes_of(record) for node, record in data.measurements.items()}
    sizes = {
        node: n_states.get(node, 1 if changes is None else changes.n_states)
        for node, changes in seen.items()
    }
    largest = sorted(sizes.values(), reverse=True)[: max_parents + 1]
    for node, record in data.measurements.items():
        changes = seen[node]
        if changes is None or node in exogenous:
            continue
        if changes.per_gap > 1.0:
            fast.append(node)
        n_rates = _rates_of_largest_family(node, sizes, largest, max_parents)
        if len(record) < POINTS_PER_RATE * n_rates:
            thin.append((node, len(record), n_rates))
    if fast:
        them = "this node" if len(fast) == 1 else "these nodes"
        found.append(
            f"The values of {quoted(fast, 6)} look almost random from one time to the next: either "
            f"much happens between two measurements, or the noise is large. Edges into {them} "
            "will be uncertain."
        )
    if thin:
        node, points, n_rates = min(thin, key=lambda row: row[1] / row[2])
        which = (
            f"{len(thin)} of {len(data.measurements)} nodes have"
            if len(thin) > 1
            else "One node has"
        )
        smaller = ", or a smaller --max-parents" if max_parents else ""
        found.append(
            f"{which} few measurements for {counted(max_parents, 'parent')}: {node!r} has "
            f"{points}, and with that many parents {n_rates} rates to learn (at least "
            f"{POINTS_PER_RATE} measurements for each are a good rule). More replicates "
            f"help{smaller}."
        )
    if data.n_measurements and len(data.nodes) < 2:
        found.append("There is only one node, so there are no edges to learn.")
    return found


def _rates_of_largest_family(
    node: str, sizes: Mapping[str, int], largest: Sequence[int], max_parents: int
) -> int:
    """Rates of a node with as many parents as it may have, those with the most states.

    ``largest`` are the most sizes that matter, its own among them, in falling order.
    """
    others = list(largest)
    if sizes[node] in others:
        others.remove(sizes[node])
    return sizes[node] * (sizes[node] - 1) * math.prod(others[:max_parents])


def changes_of(record: NodeMeasurements) -> Changes | None:
    """Changes between successive measurements; numbers are split at the middle of their range.

    None where there are no two measurements to compare, or values without any variation.
    """
    if len(record) < 2:
        return None
    if record.likelihood is not None:
        state, n_states = record.likelihood.argmax(axis=1), record.likelihood.shape[1]
    elif record.holds_labels:
        state = label_codes(record.value)
        n_states = len(np.unique(state))
    else:
        state = (record.value > _split(record.value)).astype(np.int64)
        n_states = len(np.unique(state))
    order = np.lexsort((record.time, record.trajectory))
    same = np.diff(record.trajectory[order]) == 0
    n_gaps = int(same.sum())
    if n_gaps == 0 or n_states < 2:
        return None
    return Changes(n_gaps, int((np.diff(state[order]) != 0)[same].sum()), n_states)


def _split(values: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    """The middle between two clusters."""
    from asterism.model.emissions import cluster_means

    try:
        return float(cluster_means("the values", values, 2).mean())
    except DataError:
        return float(values[0])


# ---- whether a table can be learned from ---------------------------------------------------


#: said where a table is well-formed and yet holds nothing
NOTHING = "No column of the table holds anything to learn from."


@dataclass(frozen=True)
class Learnable:
    """The data as ``learn`` uses them, or what keeps it from doing so."""

    data: Observations | Trajectories | None
    emission: Any = None
    states: dict[str, list[str]] | None = None
    decisions: list[str] = field(default_factory=list)
    levels: dict[str, Any] = field(default_factory=dict)
    """Of the nodes whose levels were counted, how."""
    errors: list[str] = field(default_factory=list)
    kinds: dict[str, Any] = field(default_factory=dict)
    """Of the columns of numbers, which kind of node the evidence says."""
    outside: list[str] = field(default_factory=list)
    """Nodes set from outside: those named so, and states that no trajectory ever changes."""

    @property
    def moving(self) -> list[str]:
        """Nodes that move continuously."""
        by_node = self.emission if isinstance(self.emission, Mapping) else {}
        return [node for node, one in by_node.items() if isinstance(one, Continuous)]

    def require(self) -> Observations | Trajectories:
        """The data, or an error that says everything that is wrong."""
        if self.data is None or self.errors:
            raise DataError("\n  ".join(self.errors))
        return self.data


def make_learnable(
    table: Table,
    emission: Sequence[str] = (),
    n_states: int | str = 2,
    keep: Sequence[str] = (),
    exogenous: Sequence[str] = (),
    panel: PanelOptions | None = None,
    may_move: bool = True,
    offset: str = "auto",
    logs: Sequence[str] = (),
) -> Learnable:
    """Choose emissions, and find what would stop the search before it starts.

    ``logs`` are columns whose logarithms are taken, or "all".
    """
    data = table.require()
    if isinstance(data, Trajectories):
        if emission:
            raise Refused("Complete paths are seen without error: --emission has no meaning here.")
        if logs:
            raise Refused("Complete paths hold states, not numbers: --log has no meaning here.")
        return Learnable(data, errors=_errors(data, exogenous), outside=list(exogenous))
    data, read = read_values(panel or PanelOptions(), data)
    data, said_of_logs = _on_log_scale(data, logs)
    said_of_fixed: list[str] = []
    plain = not (read or (panel is not None and panel.restricts))
    nothing_else = not (len(data.events) or len(data.intervals) or len(data.interventions))
    if read:
        choice = panel_emissions(data, emission, n_states, keep=keep)
    else:
        may_move = may_move and plain and nothing_else
        told = {*data.events.node, *data.intervals.node, *data.interventions.node}
        still = [
            node
            for node, record in data.measurements.items()
            if node not in told and stands_still(record)
        ]
        choice = choose_emissions(
            data,
            emission,
            n_states,
            keep=keep,
            may_move=may_move,
            exogenous=[*exogenous, *still],
            offset=offset,
        )
        named = {one.partition("=")[0] for one in emission if "=" in one}
        fixed = [
            node
            for node in still
            if isinstance(choice.emission.get(node), Exact) and node not in (*exogenous, *named)
        ]
        if fixed and len(fixed) < len(choice.nodes):
            exogenous = [*exogenous, *fixed]
            said_of_fixed = [
                f"Each trajectory keeps its state of {quoted(fixed)}: taken as set from outside, "
                "so that nothing influences it (--exogenous; --emission NODE=exact undoes this)."
            ]
    read = [*said_of_logs, *said_of_fixed, *read]
    states = dict(choice.states)
    if panel is not None and panel.restricts:
        states, said = restrict(panel, data, choice.emission, states)
        read = [*read, *said]
    if not choice.nodes and not {*data.events.node, *data.intervals.node}:
        return Learnable(None, decisions=choice.decisions, errors=[NOTHING])
    used = without_offsets(only_nodes(data, choice.nodes), choice.shifted.values())
    errors = _errors(used, exogenous)
    for node, record in used.measurements.items():
        clash = _clash(node, record, isinstance(choice.emission[node], Exact))
        errors += [clash] if clash else []
    return Learnable(
        used,
        choice.emission,
        states or None,
        [*read, *choice.decisions],
        choice.levels,
        errors,
        choice.kinds,
        list(exogenous),
    )


def _on_log_scale(data: Observations, logs: Sequence[str]) -> tuple[Observations, list[str]]:
    """The data with the logarithms asked for, and a proposal where values ask for them."""
    measured = dict(data.measurements)
    numeric = [
        node
        for node, record in measured.items()
        if record.likelihood is None and not record.holds_labels and len(record)
    ]
    positive = [node for node in numeric if np.all(measured[node].value > 0.0)]
    asked = positive if list(logs) == ["all"] else list(logs)
    require_known(asked, measured, "--log names", error=Refused)
    for node in asked:
        if node not in positive:
            raise Refused(f"--log: not all values of {node!r} are positive numbers.")
        measured[node] = replace(measured[node], value=np.log(measured[node].value))
    said = [f"Logarithms are taken of {quoted(asked)} (--log)."] if asked else []
    skewed = [
        node for node in positive if node not in asked and _is_skewed(data.measurements[node])
    ]
    if skewed:
        said.append(
            f"The values of {quoted(skewed)} are positive and skewed: on a log scale (--log) they "
            "may have fewer levels and fewer outliers."
        )
    return replace(data, measurements=measured), said


#: skewness from which a log scale is proposed (that of an exponential distribution is 2), and
#: values from which it can be told
_SKEWED, _ENOUGH_VALUES = 1.5, 20


def _is_skewed(record: NodeMeasurements) -> bool:
    """A long tail to the right that logarithms remove. A few different numbers are states."""
    from scipy.stats import skew

    values = record.value.astype(np.float64)
    if len(values) < _ENOUGH_VALUES or are_numbered_states(values) or not np.ptp(values) > 0.0:
        return False
    plain, on_log_scale = (float(skew(one)) for one in (values, np.log(values)))
    return plain > _SKEWED and abs(on_log_scale) < 0.5 * plain


#: levels from which a node has many
_MANY_LEVELS = 4


def many_levels(found: Learnable) -> list[str]:
    """A warning where more than half of the nodes seem to have many levels, with the causes."""
    counted_nodes = [node for node in found.levels if node not in found.moving]
    many = [node for node in counted_nodes if found.levels[node]["levels"] >= _MANY_LEVELS]
    many = [node for node in many if found.levels[node]["chosen"]]
    if not counted_nodes or 2 * len(many) <= len(counted_nodes):
        return []
    return [
        f"{len(many)} of {counted(len(counted_nodes), 'node')} seem to have {_MANY_LEVELS} or more "
        "levels. That is rare. Outliers (--emission t), values that are shifted in whole "
        "trajectories (--offset trajectory), skewed values (--log) or continuous movement "
        "(--states continuous) look like this; --states 2 sets the number."
    ]


def _errors(data: Observations | Trajectories, exogenous: Sequence[str]) -> list[str]:
    nodes = list(data.nodes)
    errors = [
        f"--exogenous names {name!r}, which is not a node; the nodes are {quoted(nodes)}."
        for name in exogenous
        if name not in nodes
    ]
    if isinstance(data, Trajectories):
        errors += [
            f"Node {node!r} never leaves its state, so nothing can be learned about it; leave it "
            "out of --nodes."
            for node in nodes
            if len(data.states[node]) < 2
        ]
    if not np.any(data.end > data.start):
        errors.append(
            "Every trajectory has rows at a single time only, so nothing can be learned about what "
            "changes; do the rows of one trajectory share its name (--trajectory)?"
        )
    return errors


def _clash(node: str, record: NodeMeasurements, seen_exactly: bool) -> str | None:
    """Two exact states of one node at one time, which no path can explain."""
    if record.likelihood is not None or len(record) < 2:
        return None
    exact = np.flatnonzero(record.exact | seen_exactly)
    if len(exact) < 2:
        return None
    state = label_codes(record.value[exact])
    together = (np.diff(record.trajectory[exact]) == 0) & (np.diff(record.time[exact]) == 0)
    clash = np.flatnonzero(together & (np.diff(state) != 0))
    if not len(clash):
        return None
    first, second = exact[clash[0]], exact[clash[0] + 1]
    more = f", and {len(clash) - 1:,} more such pairs" if len(clash) > 1 else ""
    return (
        f"Node {node!r} has two different states at time {record.time[first]:g} of one trajectory "
        f"(rows {record.row[first]} and {record.row[second]}{more}), but states are seen without "
        "error; correct one, or allow errors with --emission categorical."
    )
