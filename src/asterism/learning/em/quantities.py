"""Owns what people read off fitted rates: P(t), sojourn times, lengths of stay, prevalence.

All are functions of the generator of the network's joint states, at given covariates, and get
their intervals from :class:`Uncertainty`. With one node the joint states are its states.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy.linalg import expm

from asterism.data.covariates import values_at
from asterism.data.observations import Observations
from asterism.errors import DataError, ModelError, TooLargeError
from asterism.learning.em.derived import Interval, Uncertainty
from asterism.learning.em.estimate import Estimate
from asterism.learning.em.fitting import Fit
from asterism.learning.em.situations import network_for
from asterism.learning.em.uncertainty import configurations
from asterism.model.network import Network
from asterism.timeline.evidence import FloatArray

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
    return [
        ", ".join(f"{node}={label}" for node, label in zip(network.nodes, labels))
        for labels in product(*(network.states[n] for n in network.nodes))
    ]


def generator(fit: Fit, estimate: Estimate, covariates: Given) -> FloatArray:
    """The joint generator at given covariates, dense."""
    matrix = network_for(fit, estimate, covariates).joint_generator()
    dense = matrix.toarray() if hasattr(matrix, "toarray") else matrix
    result: FloatArray = np.asarray(dense, dtype=np.float64)
    return result


def transition_probabilities(
    uncertainty: Uncertainty, times: Any, covariates: Given, level: float, method: str
) -> pd.DataFrame:
    """time, from, to, probability, lower, upper."""
    clock = _times(times)
    fit = uncertainty.fit
    labels = chain_labels(fit.network)

    def quantity(estimate: Estimate) -> FloatArray:
        q = generator(fit, estimate, covariates)
        powers: FloatArray = np.clip(np.array([expm(q * t) for t in clock]), 0.0, 1.0)
        return powers

    found = uncertainty.interval(quantity, "logit", level, method)
    rows = [(t, a, b) for t in clock for a in labels for b in labels]
    return _table(rows, ["time", "from", "to"], "probability", found)


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
        at = network_for(fit, estimate, covariates)
        graph, flat = at.compiled.graph, at.compiled.rates
        parts = []
        for n, node in enumerate(at.nodes):
            if node in at.exogenous:
                continue
            size = int(graph.n_states[n])
            block = flat[graph.table_start[n] : graph.table_start[n + 1]].reshape(-1, size, size)
            parts.append(-np.diagonal(block, axis1=1, axis2=2).ravel())
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


def prevalence(fit: Fit, observations: Observations, times: Any) -> pd.DataFrame:
    """time, state, observed, expected, n: shares of the trajectories followed at each time.

    Only for one node whose states are measured. *Observed*: the state seen last; who has entered
    a state that is never left counts from then on. *Expected*: from the state seen first, by the
    fitted rates and each trajectory's covariates as they were at the start.
    """
    node, clock = _one_node(fit.network), _times(times)
    labels = fit.network.states[node]
    q = generator(fit, fit.outcome.best.estimate, None)
    stays = np.flatnonzero(np.diag(q) == 0.0)
    seen = _seen_states(observations, node, labels)
    groups: dict[Any, list[int]] = {}
    for d in range(observations.n_trajectories):
        groups.setdefault(_covariates_at_start(fit, observations, d), []).append(d)
    counts = np.zeros((len(clock), len(labels)))
    expected = np.zeros((len(clock), len(labels)))
    for key, members in groups.items():
        matrix = generator(fit, fit.outcome.best.estimate, dict(key) or None)
        for d in members:
            when, what = seen[d]
            if len(when) == 0:
                continue
            ends = what[-1] in stays
            for k, t in enumerate(clock):
                if t < when[0] or (t > when[-1] and not ends):
                    continue
                counts[k, what[int(np.searchsorted(when, t, side="right")) - 1]] += 1.0
        first = [(seen[d][0][0], seen[d][1][0], seen[d][0][-1], seen[d][1][-1] in stays)
                 for d in members if len(seen[d][0])]  # fmt: skip
        gaps: dict[float, FloatArray] = {}
        for begin, state, last, ends in first:
            for k, t in enumerate(clock):
                if t < begin or (t > last and not ends):
                    continue
                gap = float(t - begin)
                if gap not in gaps:
                    gaps[gap] = expm(matrix * gap)
                expected[k] += gaps[gap][state]
    n = counts.sum(axis=1)
    share = np.where(n > 0, n, 1.0)[:, None]
    rows = [(t, s) for t in clock for s in labels]
    table = pd.DataFrame(rows, columns=["time", "state"])
    return table.assign(
        observed=(counts / share).ravel(),
        expected=(expected / share).ravel(),
        n=np.repeat(n, len(labels)).astype(int),
    )


def _seen_states(observations: Observations, node: str, labels: tuple[Any, ...]) -> list[Any]:
    """Per trajectory the times and numbers of the states that were reported."""
    from asterism.data.labels import encode

    record, events = observations.measurements.get(node), observations.events
    mine = events.node == node
    parts: list[Any] = [
        (events.trajectory[mine], events.time[mine], encode(events.to[mine], labels))
    ]
    if record is not None and record.likelihood is None:
        rows = np.flatnonzero(~record.in_a_set)
        parts.append(
            (record.trajectory[rows], record.time[rows], encode(record.value[rows], labels))
        )
    d, t, x = (np.concatenate([part[i] for part in parts]) for i in range(3))
    if (x < 0).any() or len(x) == 0:
        raise DataError(
            f"The values of node {node!r} are not its states, so no share of states was observed."
        )
    order = np.lexsort((t, d))
    d, t, x = d[order], t[order], x[order]
    return [(t[d == i], x[d == i]) for i in range(observations.n_trajectories)]


def _covariates_at_start(fit: Fit, observations: Observations, d: int) -> tuple[Any, ...]:
    table = observations.covariates
    names = dict.fromkeys(c.covariate for c in fit.model.columns)
    if table is None or not names:
        return ()
    at = (np.array([d]), observations.start[[d]])
    return tuple((name, values_at(table, name, *at)[0]) for name in names)


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
