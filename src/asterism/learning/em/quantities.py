"""Owns what people read off fitted rates: P(t), survival, times in states, prevalence.

All are functions of the generator of the network's joint states, at given covariates, and get
their intervals from :class:`Uncertainty`. With one node the joint states are its states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.linalg import expm
from scipy.stats import CensoredData, ecdf

from asterism.data.covariates import PERIOD, period_names
from asterism.data.labels import combinations, encode
from asterism.data.measurements import last_before
from asterism.data.observations import Observations
from asterism.data.panel_records import states_in_order
from asterism.errors import DataError, ModelError, TooLargeError
from asterism.learning.em.covariate_network import situations
from asterism.learning.em.estimate import Estimate
from asterism.learning.em.fitting import Fit
from asterism.learning.em.uncertainty import Interval, Uncertainty, configurations, rate_table
from asterism.model.network import Network
from asterism.model.rates import SummaryRates
from asterism.numerics.arrays import BoolArray, FloatArray, IntArray, with_exits

LARGEST_CHAIN = 256
"""Joint states up to which P(t) and the like are computed."""

Given = Mapping[str, Any] | None


def chain_labels(network: Network) -> list[Any]:
    """Names of the joint states: the states of a single node, else "A=on, B=off"."""
    sizes = [len(network.states[n]) for n in network.nodes]
    if network.exogenous:
        raise ModelError(
            "P(t) and the like need a network without exogenous nodes, whose future is not known: "
            f"{', '.join(sorted(network.exogenous))}. Give them as covariates instead."
        )
    if float(np.prod(sizes, dtype=float)) > LARGEST_CHAIN:
        raise TooLargeError(
            f"The network has {np.prod(sizes, dtype=float):.3g} joint states; P(t) is computed for "
            f"at most {LARGEST_CHAIN}."
        )
    if len(network.nodes) == 1:
        return list(network.states[network.nodes[0]])
    return list(combinations(network.states, network.nodes))


def generator(fit: Fit, estimate: Estimate, covariates: Given) -> FloatArray:
    """The joint generator at given covariates, dense."""
    matrix = fit.network_for(estimate, covariates).joint_generator()
    dense = matrix.toarray() if hasattr(matrix, "toarray") else matrix
    result: FloatArray = np.asarray(dense, dtype=np.float64)
    return result


def chances(fit: Fit, estimate: Estimate, covariates: Given, clock: FloatArray) -> FloatArray:
    """(times, S, S) P from time 0 on; rates that change at known times do so."""
    changes = fit.model.change_times
    if not len(changes) or PERIOD in (covariates or {}):
        q = generator(fit, estimate, covariates)
        constant: FloatArray = np.clip(expm(q * clock[:, None, None]), 0.0, 1.0)
        return constant
    names = period_names(changes.tolist())
    cuts = np.concatenate([[0.0], changes[changes > 0.0]])
    first = len(changes) - (len(cuts) - 1)
    result = np.zeros((len(clock), *2 * (len(chain_labels(fit.network)),)))
    so_far = np.eye(result.shape[1])
    for k, cut in enumerate(cuts):
        q = generator(fit, estimate, {**(covariates or {}), PERIOD: names[first + k]})
        last = np.inf if k == len(cuts) - 1 else cuts[k + 1]
        here = np.flatnonzero((clock >= cut) & (clock < last))
        result[here] = so_far @ expm(q * (clock[here] - cut)[:, None, None])
        if np.isfinite(last):
            so_far = so_far @ expm(q * (last - cut))
    return np.clip(result, 0.0, 1.0)


def transition_probabilities(
    uncertainty: Uncertainty, times: Any, covariates: Given, level: float, method: str
) -> pd.DataFrame:
    """time, from, to, probability, lower, upper."""
    clock = _times(times)
    fit = uncertainty.fit
    labels = chain_labels(fit.network)
    found = uncertainty.interval(
        lambda estimate: chances(fit, estimate, covariates, clock), "logit", level, method
    )
    rows = [(t, a, b) for t in clock for a in labels for b in labels]
    return _table(rows, ["time", "from", "to"], "probability", found)


def survival(
    uncertainty: Uncertainty,
    observations: Observations,
    times: Any,
    covariates: Given,
    level: float,
) -> pd.DataFrame:
    """from, time, survival, se, lower, upper, and where states were seen empirical and at_risk."""
    fit, clock = uncertainty.fit, _times(times)
    node = _one_node(fit.network)
    labels = fit.network.states[node]
    final = final_numbers(fit)
    start = np.flatnonzero(~np.isin(np.arange(len(labels)), final))
    if not len(final):
        raise ModelError(f"No state of {node!r} is final, so there is no survival from it.")

    def quantity(estimate: Estimate) -> FloatArray:
        dead = chances(fit, estimate, covariates, clock)[:, :, final].sum(axis=2)
        alive: FloatArray = np.clip(1.0 - dead[:, start], 0.0, 1.0).T
        return alive

    found = uncertainty.interval(quantity, "logit", level)
    rows = [(labels[x], t) for x in start for t in clock]
    table = _table(rows, ["from", "time"], "survival", found)
    try:
        d, t, x = _seen_states(observations, node, labels)
    except DataError:
        return table  # hidden states: nobody knows who began where
    begins = np.concatenate([[True], np.diff(d) != 0])
    ends = np.concatenate([begins[1:], [True]])
    dead = np.isin(x, final)
    # a death counts from its first row on
    death = np.full(observations.n_trajectories, np.inf)
    np.minimum.at(death, d[dead], t[dead])
    first, state, last = t[begins], x[begins], t[ends]
    known = death[d[begins]]
    lasted, died = np.minimum(last, known) - first, np.isfinite(known)
    curves = [kaplan_meier(lasted[state == s], died[state == s], clock) for s in start]
    at_risk = np.concatenate([n for _, n in curves])
    empirical = np.concatenate([c for c, _ in curves])
    # where nobody is followed any more, nothing is known
    return table.assign(empirical=np.where(at_risk > 0, empirical, np.nan), at_risk=at_risk)


def kaplan_meier(
    lasted: FloatArray, died: BoolArray, clock: FloatArray
) -> tuple[FloatArray, IntArray]:
    """Kaplan and Meier's share that survives, and how many are followed, at some times."""
    followed = len(lasted) - np.searchsorted(np.sort(lasted), clock, side="left")
    if not len(lasted):
        return np.ones(len(clock)), followed
    curve = ecdf(CensoredData.right_censored(lasted, ~died)).sf
    return np.asarray(curve.evaluate(clock)), followed


def edge_ratios(uncertainty: Uncertainty, level: float) -> pd.DataFrame:
    """One row per edge, state of the parent, others' states and transition: the hazard ratio.

    It compares the rate with that under the parent's first state. A rate estimated as zero makes it
    0 or inf, with an open interval.
    """
    fit = uncertainty.fit
    network, graph = fit.network, fit.network.compiled.graph
    notes = rate_table(fit, uncertainty.information, level)["note"].tolist()
    model = fit.model
    place = np.flatnonzero(model.possible)
    zero = {int(p) for p, note in zip(place, notes) if note not in ("", "fixed")}
    rows: list[tuple[Any, ...]] = []
    above, below = [], []
    known = set(place.tolist())
    for n, node in enumerate(network.nodes):
        parents, table = network.parents[node], network.rates[node]
        if not parents or table is None or isinstance(table, SummaryRates):
            continue
        number = int(graph.table_start[n]) + np.arange(table.size).reshape(table.shape)
        for *given, x, y in np.ndindex(*table.shape):
            for k, parent in enumerate(parents):
                first = [*given[:k], 0, *given[k + 1 :], x, y]
                a, b = int(number[(*given, x, y)]), int(number[tuple(first)])
                if given[k] == 0 or a not in known or b not in known or {a, b} <= zero:
                    continue
                others = ", ".join(
                    f"{p}={network.states[p][s]}"
                    for i, (p, s) in enumerate(zip(parents, given))
                    if i != k
                )
                states, move = network.states[parent], network.states[node]
                note = "too few transitions to tell" if {a, b} & zero else ""
                rows.append((parent, node, f"{move[x]}>{move[y]}", states[given[k]], states[0],
                             others, note))  # fmt: skip
                above.append(a)
                below.append(b)
    names = ["parent", "child", "transition", "state", "against", "others", "note"]
    result = pd.DataFrame(rows, columns=names)
    if not rows:
        return result

    unclear = (result["note"] != "").to_numpy()

    def quantity(estimate: Estimate) -> FloatArray:
        rates = fit.base_rates(estimate)
        ratio: FloatArray = np.where(unclear, 1.0, rates[above])
        return ratio / np.where(unclear, 1.0, rates[below])

    found = uncertainty.interval(quantity, "log", level)
    at_zero = np.isin(above, list(zero))
    ratio = np.where(unclear, np.where(at_zero, 0.0, np.inf), found.value)
    notes_of = result.pop("note")
    return result.assign(
        hazard_ratio=ratio,
        lower=np.where(unclear, 0.0, found.lower),
        upper=np.where(unclear, np.inf, found.upper),
        note=notes_of,
    )


def final_numbers(fit: Fit) -> IntArray:
    """Numbers of the states of a single node that are never left."""
    model = fit.model
    size = len(fit.network.states[_one_node(fit.network)])
    return np.flatnonzero(~model.possible.reshape(size, size).any(axis=1))


def sojourn_times(uncertainty: Uncertainty, covariates: Given, level: float) -> pd.DataFrame:
    """node, configuration, state, mean, lower, upper: the mean time until a state is left."""
    fit = uncertainty.fit
    network = fit.network
    rows = [
        (node, given, state)
        for node in network.nodes
        if node not in network.exogenous
        for given in configurations(network, node)
        for state in network.states[node]
    ]

    def exits(estimate: Estimate) -> FloatArray:
        at = fit.network_for(estimate, covariates)
        graph, flat = at.compiled.graph, at.compiled.rates
        parts = []
        for n, node in enumerate(at.nodes):
            if node in at.exogenous:
                continue
            parts.append(-np.diagonal(graph.blocks(flat, n), axis1=1, axis2=2).ravel())
        return np.concatenate(parts)

    total = uncertainty.interval(exits, "log", level)
    stays = total.value <= 0.0
    safe = np.where(stays, 1.0, total.value)
    with np.errstate(divide="ignore", over="ignore"):
        mean = np.where(stays, np.inf, 1.0 / safe)
        found = Interval(
            mean,
            np.where(stays, 0.0, total.se / safe**2),
            np.where(stays, np.inf, 1.0 / np.where(stays, 1.0, total.upper)),
            np.where(stays, np.inf, 1.0 / np.where(stays, 1.0, total.lower)),
        )
    return _table(rows, ["node", "configuration", "state"], "mean", found)


def length_of_stay(
    uncertainty: Uncertainty, duration: float, covariates: Given, level: float
) -> pd.DataFrame:
    """from, state, time, lower, upper: expected time in each state up to ``duration``.

    An infinite duration asks for the time in the states that are left for good in the end.
    """
    fit = uncertainty.fit
    labels = chain_labels(fit.network)
    if not duration > 0.0:
        raise ModelError(f"duration is {duration}; it must be positive, or inf.")
    if np.isfinite(duration):
        keep = np.arange(len(labels))
    else:
        keep = _passing(generator(fit, fit.outcome.best.estimate, covariates))
        if len(keep) == 0 or len(keep) == len(labels):
            raise ModelError(
                "No state is left for good, so the time in some states is without end; give a "
                "finite duration."
            )

    def quantity(estimate: Estimate) -> FloatArray:
        q = generator(fit, estimate, covariates)
        if not np.isfinite(duration):
            inside = np.linalg.solve(-q[np.ix_(keep, keep)], np.eye(len(keep)))
            for_ever: FloatArray = np.maximum(inside, 0.0)
            return for_ever
        size = len(q)
        large = np.zeros((2 * size, 2 * size))
        large[:size, :size], large[:size, size:] = q, np.eye(size)
        stays: FloatArray = np.maximum(expm(large * duration)[:size, size:], 0.0)
        return stays

    found = uncertainty.interval(quantity, "log", level)
    rows = [(labels[a], labels[b]) for a in keep for b in keep]
    return _table(rows, ["from", "state"], "time", found)


def _passing(q: FloatArray) -> Any:
    """States that are left for good in the end: not in a set of states that cannot be left."""
    size = len(q)
    reach = np.linalg.matrix_power(((q > 0.0) | np.eye(size, dtype=bool)).astype(float), size) > 0.0
    closed = np.array([all(reach[y, x] for y in np.flatnonzero(reach[x])) for x in range(size)])
    return np.flatnonzero(~closed)


def common_times(observations: Observations) -> FloatArray:
    """From the first start to the time at which a tenth of the trajectories is still followed."""
    last = float(np.quantile(observations.end, 0.9))
    return np.linspace(float(observations.start.min()), last, 21)


def prevalence(fit: Fit, observations: Observations, times: Any) -> pd.DataFrame:
    """time, state, observed, expected, n: shares of the trajectories followed at each time.

    Only for one node whose states are measured. *Observed*: the state seen last; who has entered
    a state that is never left counts from then on. *Expected*: from the state seen first, by the
    fitted rates and each trajectory's covariates as they change.
    """
    node, clock = _one_node(fit.network), _times(times)
    labels = fit.network.states[node]
    size = len(labels)
    d, t, x = _seen_states(observations, node, labels)
    begins = np.concatenate([[True], np.diff(d) != 0])
    ends = np.concatenate([begins[1:], [True]])
    who, first, last = d[begins], t[begins], t[ends]
    for_ever = np.isin(x[ends], final_numbers(fit))
    walk = _Walk.of(fit, observations, who, first, np.eye(size)[x[begins]])
    counts, expected = np.zeros((2, len(clock), size))
    for k in np.argsort(clock):
        now = clock[k]
        walk.go_to(now)
        here = (first <= now) & ((now <= last) | for_ever)
        row = last_before(d, t, who, np.full(len(who), now))
        counts[k] = np.bincount(x[row[here]], minlength=size)
        expected[k] = walk.chance[here].sum(axis=0)
    n = counts.sum(axis=1)
    share = np.where(n > 0, n, 1.0)[:, None]
    rows = [(t, s) for t in clock for s in labels]
    table = pd.DataFrame(rows, columns=["time", "state"])
    return table.assign(
        observed=(counts / share).ravel(),
        expected=(expected / share).ravel(),
        n=np.repeat(n, size).astype(int),
    )


@dataclass
class _Walk:
    """State probabilities of many persons, carried forward in time under their covariates."""

    generators: FloatArray
    """(situations, S, S)"""
    situation: IntArray
    """Per change: what holds from then on; the changes of a person follow each other."""
    upcoming: FloatArray
    """Per change: when the next one of the person comes; infinite after the last."""
    at: IntArray
    """Per person: the change that holds now."""
    time: FloatArray
    chance: FloatArray
    """(persons, S)"""

    @classmethod
    def of(
        cls, fit: Fit, observations: Observations, who: IntArray, first: FloatArray, chance: Any
    ) -> _Walk:
        if not fit.model.columns:
            q = generator(fit, fit.outcome.best.estimate, None)[None]
            none = np.full(len(who), np.inf)
            zero = np.zeros(len(who), dtype=np.int64)
            return cls(q, zero, none, np.arange(len(who)), first.copy(), chance)
        z, record = situations(observations, fit.model)
        at = np.maximum(last_before(record.trajectory, record.time, who, first), 0)
        at = np.maximum(at, np.searchsorted(record.trajectory, who))
        new = np.concatenate([np.diff(record.trajectory) != 0, [True]])
        upcoming = np.where(new, np.inf, np.append(record.time[1:], np.inf))
        return cls(
            _generators(fit, z),
            record.value.astype(np.int64),
            upcoming,
            at,
            first.copy(),
            chance,
        )

    def go_to(self, now: float) -> None:
        """Everybody who is before ``now``, over all their changes until then."""
        while True:
            until = np.minimum(self.upcoming[self.at], now)
            rows = np.flatnonzero(until > self.time)
            if not len(rows):
                return
            gap = until[rows] - self.time[rows]
            pairs = np.stack([self.situation[self.at[rows]].astype(np.float64), gap], axis=1)
            each, number = np.unique(pairs, axis=0, return_inverse=True)
            steps = expm(self.generators[each[:, 0].astype(int)] * each[:, 1, None, None])
            self.chance[rows] = np.einsum(
                "ns,nst->nt", self.chance[rows], steps[number.reshape(-1)]
            )
            self.time[rows] = until[rows]
            self.at[rows] += self.upcoming[self.at[rows]] <= until[rows]


def _generators(fit: Fit, z: FloatArray) -> FloatArray:
    """(situations, S, S) of a single node, at standardised covariates."""
    model, best = fit.model, fit.outcome.best.estimate
    n = len(model.base)
    baselines = fit.task.coordinates.update.baselines(best.rates, best.effects)
    place, at = np.tile(np.arange(n), len(z)), np.repeat(z, n, axis=0)
    size = int(np.sqrt(n))
    q = model.rates(baselines, best.effects, place, at).reshape(-1, size, size)
    return with_exits(q)


def _seen_states(
    observations: Observations, node: str, labels: tuple[Any, ...]
) -> tuple[IntArray, FloatArray, IntArray]:
    """Trajectory, time and number of every state that was reported, in the order of both."""
    d, t, values = states_in_order(node, observations, with_ends=True)
    x = encode(values, labels)
    if (x < 0).any() or len(x) == 0:
        raise DataError(
            f"The values of node {node!r} are not its states, so no share of states was observed."
        )
    return d, t, x


def _one_node(network: Network) -> str:
    if len(network.nodes) != 1:
        raise ModelError(
            f"This is for one node; the network has {len(network.nodes)}: "
            f"{', '.join(network.nodes)}."
        )
    return network.nodes[0]


def _times(times: Any) -> FloatArray:
    clock = np.atleast_1d(np.asarray(times, dtype=np.float64))
    if clock.ndim != 1 or not np.isfinite(clock).all() or (clock < 0.0).any():
        raise DataError("times must be a list of finite numbers that are not negative.")
    return clock


def _table(rows: list[Any], names: list[str], value: str, found: Interval) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=names)
    return table.assign(
        **{value: found.value.ravel()},
        se=found.se.ravel(),
        lower=found.lower.ravel(),
        upper=found.upper.ravel(),
    )
