"""Who influences whom among nodes that jump beside nodes that move continuously.

Each kind of child is scored by its own means, and sees parents of the other kind simplified:

- A jumping child has continuous parents as exogenous ones of known path, "low" or "high": below or
  above the median of their own causal filter. Its families are scored by the star.
- A continuous child has jumping parents by the state that is likeliest given what was measured
  of them so far; its families are scored in closed form (``continuous_search.py``).

Both lose a part of what the parent says. ``benchmarks/mixed.py`` counts what is found and what is
made up. The network that is shown has slopes instead of "low" and "high".
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from scipy.linalg import expm

from asterism.continuous.family_score import FamilyScorer
from asterism.continuous.series import series_from_observations
from asterism.data.labels import encode
from asterism.data.measurements import NodeMeasurements
from asterism.data.observations import Observations
from asterism.errors import DataError, ModelError, first_few
from asterism.learning.search.found import SearchResult
from asterism.learning.search.influences import with_stimuli
from asterism.learning.search.settings import StructureSettings
from asterism.learning.tasks import ProgressListener
from asterism.model.emissions import Emission, Exact
from asterism.model.network import Network
from asterism.model.rates import SummaryRates
from asterism.numerics.arrays import FloatArray, IntArray
from asterism.results.edge_sets import edge_list


@dataclass(frozen=True)
class JumpingPart:
    """What was learned about the jumping nodes."""

    found: SearchResult
    """Continuous nodes are exogenous here."""
    middles: Mapping[str, tuple[float, float]]
    """Of every continuous node its mean while low and while high."""

    def decoded(self, data: Observations) -> Observations:
        """The data with the numbers of the likeliest states in place of jumping nodes' values."""
        records = dict(data.measurements)
        network = self.found.network
        for node in set(records) - set(self.middles):
            emission, record = self.found.emission.get(node, Exact()), records[node]
            if isinstance(emission, Exact):
                chosen = encode(record.value, network.states[node])
            else:
                chosen = _likeliest_states(record, network, node, emission)
            records[node] = replace(record, value=chosen)
        return replace(data, measurements=records)

    def joined(self, other: SearchResult) -> SearchResult:
        """Both kinds of children in one result; ``other`` has the continuous ones."""
        own = self.found
        if own.nodes != other.nodes:
            raise ModelError("Both kinds of nodes must be learned from the same nodes.")
        jumps = [name not in self.middles for name in own.nodes]
        return replace(
            other,
            states={n: own.states[n] if j else () for n, j in zip(own.nodes, jumps)},
            tables=[a if j else b for a, b, j in zip(own.tables, other.tables, jumps)],
            graph=[a if j else b for a, b, j in zip(own.graph, other.graph, jumps)],
            network=_joined_network(other.network, own.network, self.middles),
            emission={n: (own if j else other).emission[n] for n, j in zip(own.nodes, jumps)},
            converged=own.converged and other.converged,
            stop_reason=f"{own.stop_reason} Continuous nodes were scored in closed form.",
            counts=own.counts,
            beyond=own.beyond,
            levels=own.levels,
            stage=f"{other.stage} Families of jumping nodes were scored by the star, with "
            f"{first_few(self.middles)} as low or high.",
        )


def learn_jumping(
    settings: StructureSettings,
    data: Observations,
    continuous: Sequence[str],
    progress: ProgressListener,
) -> JumpingPart:
    """Learn the families of the jumping nodes."""
    if data.stimuli is not None and len(data.stimuli):
        raise DataError("stimuli are not learned yet where nodes jump beside continuous ones")
    spans, middles = _low_and_high(data.select(nodes=continuous))
    jumping = [node for node in data.nodes if node not in middles]
    assert isinstance(settings.emission, Mapping)
    emission = {n: one for n, one in settings.emission.items() if str(n) not in middles}
    own = replace(data.select(nodes=jumping), stimuli=spans)
    prior = settings.structure_prior
    required = [edge for edge in edge_list(prior.required, "required") if edge[1] in jumping]
    settings, own = with_stimuli(
        replace(
            settings,
            emission=emission,
            method="star",
            structure_prior=replace(prior, required=required),
        ),
        own,
    )
    learn = importlib.import_module(settings.home)
    found = learn.learn_from_observations(replace(settings, influences=()), own, progress)
    return JumpingPart(found, middles)


def _low_and_high(data: Observations) -> tuple[pd.DataFrame, dict[str, tuple[float, float]]]:
    """Spans in which each continuous node is high, as stimuli are told; its means low and high."""
    series = series_from_observations(data)
    scorer = FamilyScorer(series)
    rows, middles = [], {}
    for n, name in enumerate(series.names):
        course = scorer.course(n)
        high = course > np.median(course)
        if not high.any():
            raise DataError(f"node {name!r} never changes, so nothing can follow it; leave it out")
        node = series.nodes[n]
        low_and_high = (float(course[part].mean()) for part in (~high, high))
        low, up = (mean * node.sd + node.mean for mean in low_and_high)
        middles[name] = (low, up)
        for d, label in enumerate(data.trajectories):
            inside = np.flatnonzero(series.grid_trajectory == d)
            if len(inside) == 0:
                continue
            begins = series.grid_time[inside] * series.time_unit
            begins[0] = data.start[d]
            ends = np.append(begins[1:], data.end[d])
            changes = np.flatnonzero(np.diff(high[inside]) != 0) + 1
            for piece in np.split(np.arange(len(inside)), changes):
                first, last = begins[piece[0]], ends[piece[-1]]
                if high[inside[piece[0]]] and last > first:
                    rows.append((name, label, first, last))
    return pd.DataFrame(rows, columns=["name", "trajectory", "start", "end"]), middles


def _likeliest_states(
    record: NodeMeasurements, network: Network, node: str, emission: Emission
) -> IntArray:
    """The number of the likeliest state at each measurement, given it and those before it."""
    rates = network.rates[node]
    states, size = network.states[node], len(network.states[node])
    table = rates.table if isinstance(rates, SummaryRates) else rates
    if table is None:  # its path comes with the data
        table = np.zeros((size, size))
    moves = table.reshape(-1, size, size).mean(axis=0)
    logs = emission.log_likelihood(record.value, states)
    order = np.lexsort((record.time, record.trajectory))
    chosen = np.empty(len(order), dtype=np.int64)
    share, before = network.initial[node], (-1, 0.0)
    for i in order:
        d, t = int(record.trajectory[i]), float(record.time[i])
        share = share @ expm(moves * (t - before[1])) if d == before[0] else network.initial[node]
        own = np.exp(logs[i] - logs[i].max())
        share = share * own if (share * own).sum() > 0.0 else own
        share, before = share / share.sum(), (d, t)
        chosen[i] = share.argmax()
    return chosen


def _joined_network(
    moving: Network, jumping: Network, middles: Mapping[str, tuple[float, float]]
) -> Network:
    """Drifts of one network and rates of the other."""
    order = moving.nodes
    parents, rates, states, initial, drifts, slopes = {}, {}, {}, {}, {}, {}
    for node in order:
        if node in middles:
            parents[node], drift = moving.parents[node], moving.drifts[node]
            shifts = {}
            for parent, by_state in drift.shifts.items():
                # the states that occur, by number
                known = dict(zip((int(s) for s in moving.states[parent]), by_state))
                every = range(len(jumping.states[parent]))
                shifts[parent] = tuple(known.get(s, 0.0) for s in every)
            drifts[node] = replace(drift, shifts=shifts)
            continue
        parents[node], states[node] = jumping.parents[node], jumping.states[node]
        initial[node] = jumping.initial[node]
        table = jumping.rates[node]
        if isinstance(table, SummaryRates):
            table = table.expand()
        above = list(jumping.parents[node])
        own: dict[str, FloatArray] = {}
        for parent in [p for p in above if p in middles]:
            assert table is not None
            table, own[parent] = _with_slope(table, above.index(parent), middles[parent])
            above.remove(parent)
        rates[node] = table
        if own:
            slopes[node] = own
    return Network(parents, rates, states, initial, drifts, slopes)


def _with_slope(
    rates: FloatArray, axis: int, middle: tuple[float, float]
) -> tuple[FloatArray, FloatArray]:
    """Rates (…, S, S) at zero of a parent, and its slopes (S, S), from rates while low and high."""
    size = rates.shape[-1]
    low, high = np.moveaxis(rates, axis, 0)
    moves = (low > 0.0) & (high > 0.0) & ~np.eye(size, dtype=np.bool_)
    with np.errstate(divide="ignore", invalid="ignore"):
        change = np.where(moves, np.log(high) - np.log(low), 0.0)
    slope = change.reshape(-1, size, size).mean(axis=0) / (middle[1] - middle[0])
    centre = 0.5 * (middle[0] + middle[1])
    with np.errstate(divide="ignore", invalid="ignore"):
        log = 0.5 * (np.log(low) + np.log(high)) - slope * centre
    base = np.where(moves, np.exp(np.clip(log, -700.0, 700.0)), 0.0)
    return base, slope
