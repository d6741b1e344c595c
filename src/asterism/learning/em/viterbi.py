"""Owns the most probable path: the states at the times of the data that are likeliest together.

Unlike the most probable state at each time, such a path is possible as a whole. With δ the largest
log-probability of any states so far, and P(h) = exp(Q h) of the joint chain,

    between times    δ'(y) = max_x δ(x) + ln P(h)(x, y)
    a measurement    δ'(x) = δ(x) + ln L(x)
    a recorded jump  δ'(y) = max_x δ(x) + ln R(x → y)

and the path is read backwards from the best last state.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from scipy.linalg import expm

from asterism.data.observations import Observations
from asterism.errors import DataError, ModelError
from asterism.learning.em.covariate_network import SITUATION, situations
from asterism.learning.em.fitting import Fit
from asterism.learning.em.quantities import chain_labels, generator
from asterism.model.joint_space import joint_states
from asterism.model.network import Network
from asterism.numerics.arrays import FloatArray, IntArray
from asterism.timeline.evidence import Evidence


def most_probable_paths(fit: Fit, observations: Observations) -> pd.DataFrame:
    """trajectory, time, and one column per node, at all times at which anything is known."""
    chain_labels(fit.network)  # refuses what is too large
    if fit.model.factors:
        raise ModelError(
            "Most probable paths are not known where trajectories have factors of their own: use "
            "impute, or fit without frailty."
        )
    network, evidence = fit.evidence_of(observations)
    chain = _BestPaths(fit, observations, network, evidence)
    parts = []
    for d, label in enumerate(observations.trajectories):
        times, path = chain.path(d)
        columns: dict[str, Any] = {"trajectory": [label] * len(times), "time": times}
        for n, node in enumerate(fit.network.nodes):
            states = fit.network.states[node]
            columns[node] = [states[x] for x in chain.states[path, n]]
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


class _BestPaths:
    """The joint chain in every situation of the covariates, and the evidence about it."""

    def __init__(
        self, fit: Fit, observations: Observations, network: Network, evidence: Evidence
    ) -> None:
        own = [n for n in range(evidence.n_nodes) if n not in evidence.exogenous]
        spans = np.isin(evidence.spans.node, own)
        if spans.any() or evidence.joint:
            raise DataError(
                "Most probable paths take measurements and events only, not intervals of a known "
                "state or joint measurements."
            )
        self._evidence = evidence
        self._size = [len(fit.network.states[n]) for n in fit.network.nodes]
        self.states: IntArray = joint_states(self._size)
        self._situation = network.node_index(SITUATION) if SITUATION in network.nodes else -1
        best = fit.outcome.best.estimate
        self._generators = [generator(fit, best, None)]
        if self._situation >= 0:
            z, _ = situations(observations, fit.model)
            self._generators = [fit.network_at(best, row).joint_generator().toarray() for row in z]
        self._known: dict[tuple[int, float], FloatArray] = {}
        initial = [np.asarray(network.initial[n]) for n in fit.network.nodes]
        with np.errstate(divide="ignore"):
            self._start = np.log(
                np.prod([p[self.states[:, n]] for n, p in enumerate(initial)], axis=0)
            )

    def path(self, d: int) -> tuple[FloatArray, IntArray]:
        """Times of the data of one trajectory and the number of the joint state at each."""
        e = self._evidence
        points = np.flatnonzero((e.points.trajectory == d) & (e.points.node < len(self._size)))
        jumps = np.flatnonzero(e.jumps.trajectory == d)
        changes = np.flatnonzero((e.spans.trajectory == d) & (e.spans.node == self._situation))
        seen = np.unique(np.concatenate([e.points.time[points], e.jumps.time[jumps]]))
        clock = np.unique(
            np.concatenate(
                [[e.start[d]], seen, np.clip(e.spans.start[changes], e.start[d], e.end[d])]
            )
        )
        score, origin = self._start.copy(), []
        for k, t in enumerate(clock):
            if k:
                step = score[:, None] + self._log_step(d, clock[k - 1], t)
                origin.append(step.argmax(axis=0))
                score = step.max(axis=0)
            for i in jumps[e.jumps.time[jumps] == t]:
                step = score[:, None] + self._log_jump(d, int(i), t)
                before = step.argmax(axis=0)
                if origin:
                    origin[-1] = origin[-1][before]
                score = step.max(axis=0)
            for i in points[e.points.time[points] == t]:
                n = int(e.points.node[i])
                logs = e.points.log_likelihood[
                    e.points.offset[i] : e.points.offset[i] + self._size[n]
                ]
                score = score + logs[self.states[:, n]]
        if not score.max() > -np.inf:
            raise DataError(
                f"The data of trajectory {e.labels[d]!r} are impossible under the fitted model."
            )
        path = np.empty(len(clock), dtype=np.int64)
        path[-1] = int(score.argmax())
        for k in range(len(clock) - 1, 0, -1):
            path[k - 1] = origin[k - 1][path[k]]
        keep = np.isin(clock, seen)
        return clock[keep], path[keep]

    def _at(self, d: int, time: float) -> int:
        spans = self._evidence.spans
        mine = (spans.trajectory == d) & (spans.node == self._situation) & (spans.start <= time)
        return int(spans.state[np.flatnonzero(mine)[-1]]) if mine.any() else 0

    def _log_step(self, d: int, begin: float, end: float) -> FloatArray:
        situation = self._at(d, begin)
        key = (situation, float(end - begin))
        if key not in self._known:
            power = expm(self._generators[situation] * key[1])
            with np.errstate(divide="ignore"):
                self._known[key] = np.log(np.maximum(power, 0.0))
        return self._known[key]

    def _log_jump(self, d: int, jump: int, time: float) -> FloatArray:
        jumps = self._evidence.jumps
        n = int(jumps.node[jump])
        q = self._generators[self._at(d, time)]
        others = np.delete(np.arange(len(self._size)), n)
        same = (self.states[:, None, others] == self.states[None, :, others]).all(axis=2)
        fits = same & (self.states[None, :, n] == jumps.to_state[jump])
        if jumps.from_state[jump] >= 0:
            fits &= self.states[:, None, n] == jumps.from_state[jump]
        fits &= self.states[:, None, n] != self.states[None, :, n]
        with np.errstate(divide="ignore"):
            result: FloatArray = np.where(fits, np.log(np.maximum(q, 0.0)), -np.inf)
        return result
