"""Owns the update of rates from expected statistics, and the prior's part in it.

Every learned rate is a baseline times an exponential of effects (one baseline each and no effects
unless the user asks for more):

    R_i = exp(o_i) B_g(i) exp(X_i β) u_i(s)

(u is the factor by which trajectories differ, if any: see ``frailty.py``; s stands behind β in the
vector of effects).

The M-step maximises  Σ M_i ln R_i − T_i R_i + Σ_g a ln B_g − b B_g,  where M and T are expected
transitions and times. Given β the best baselines are known,

    B_g = (Σ M_i + a) / (Σ T_i exp(o_i + X_i β) + b)            (sums over the rates of g)

with (a, b) = (0, 0) for maximum likelihood, (α, β) for the posterior mean and (α − 1, β) for the
mode (map); what remains is a weighted Poisson regression in β, solved by Newton's method. The same
a and b enter the objective ln P(Y) + Σ a ln B − b B that watches over all of them. Sums run over
allowed transitions only, so a state that cannot be left gets no imagined exits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from asterism.errors import ModelError
from asterism.learning.em.frailty import LARGEST_SPREAD, Spreads
from asterism.model.priors import GammaPrior
from asterism.numerics.arrays import BoolArray, FloatArray, IntArray, with_exits
from asterism.numerics.compiled import CompiledGraph
from asterism.timeline.evidence import Evidence

FASTEST = 100.0
"""No rate is followed beyond this many jumps in the shortest gap of the data."""
LARGEST_EFFECT = 15.0
"""No effect of a standardised covariate is followed beyond this."""
_LARGEST_LOG = 50.0
"""Of a factor on a rate: a guard against overflow, not tuned, like the number of steps below."""
_NEWTON_STEPS = 30


@dataclass(frozen=True)
class RateFormula:
    """How the learned rates follow from baselines and effects."""

    base: IntArray
    """Per learned rate: the number of its baseline, −1 where that is fixed."""
    offset: FloatArray
    """Per learned rate: what is fixed, as a logarithm."""
    design: FloatArray
    """(rates, effects)"""
    n_base: int
    start_effects: FloatArray
    start_base: FloatArray
    """Per baseline: where learning starts; nan leaves it to the data."""
    spreads: Spreads | None = None
    """Factors by which trajectories differ."""

    @property
    def n_covariate_effects(self) -> int:
        """Effects of covariates; the spreads of factors come after them."""
        return int(self.design.shape[1])

    @property
    def is_plain(self) -> bool:
        """Whether every rate is its own baseline."""
        return self.design.shape[1] == 0 and self.n_base == len(self.base)

    def factors(self, effects: FloatArray) -> FloatArray:
        """What each rate is, in baselines: exp(o + Xβ) u(s)."""
        return np.exp(self.log_factors(effects))

    def log_factors(self, effects: FloatArray) -> FloatArray:
        """The logarithm of it."""
        n = self.n_covariate_effects
        log = self.offset + self.design @ effects[:n]
        if self.spreads is not None:
            log = log + self.spreads.log_factors(effects[n:])
        result: FloatArray = np.clip(log, -_LARGEST_LOG, _LARGEST_LOG)
        return result

    def slopes(self, effects: FloatArray) -> FloatArray:
        """(rates, effects) derivatives of the logarithm."""
        if self.spreads is None:
            return self.design
        n = self.n_covariate_effects
        return np.hstack([self.design, self.spreads.slopes(effects[n:])])

    def rates(self, baselines: FloatArray, effects: FloatArray) -> FloatArray:
        """All rates; one whose baseline is fixed has it in its offset."""
        padded = np.append(baselines, 1.0)  # number −1 reads the last one
        result: FloatArray = padded[self.base] * self.factors(effects)
        return result


def plain_formula(n_rates: int) -> RateFormula:
    """Every rate for itself."""
    design = np.zeros((n_rates, 0))
    open_ = np.full(n_rates, np.nan)
    return RateFormula(np.arange(n_rates), np.zeros(n_rates), design, n_rates, np.zeros(0), open_)


@dataclass(frozen=True)
class RateUpdate:
    """Which rates are learned, and what is added to their statistics."""

    graph: CompiledGraph
    index: IntArray
    """Places of the learned rates in the flat table."""
    dwell_index: IntArray
    """Place of each one's dwell time in the flat dwell times."""
    added_transitions: float
    added_time: float
    ceiling: float
    formula: RateFormula

    @property
    def n_base(self) -> int:
        """Number of baselines."""
        return self.formula.n_base

    @property
    def n_effects(self) -> int:
        """Number of effects of covariates and of spreads."""
        return len(self.formula.start_effects)

    def per_base(self, values: FloatArray) -> FloatArray:
        """Sums over the rates of each baseline."""
        free = self.formula.base >= 0
        sums = np.bincount(self.formula.base[free], values[free], self.n_base)
        return sums.astype(np.float64)  # with nothing to count they would be integers

    def baselines(self, rates: FloatArray, effects: FloatArray) -> FloatArray:
        """The baselines of flat rates."""
        result = np.zeros(self.n_base)
        own = rates[self.index] / self.formula.factors(effects)
        free = self.formula.base >= 0
        result[self.formula.base[free]] = own[free]
        return result

    def totals(
        self, transitions: FloatArray, dwell: FloatArray, effects: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Σ M + a and Σ T exp(o + Xβ) + b of the baselines."""
        time = dwell[self.dwell_index] * self.formula.factors(effects)
        return (
            self.per_base(transitions[self.index]) + self.added_transitions,
            self.per_base(time) + self.added_time,
        )

    def improved(
        self, transitions: FloatArray, dwell: FloatArray, current: FloatArray, effects: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """The best flat rates and effects; where no time was spent the current ones stay."""
        if self.formula.n_covariate_effects:
            effects = self._regression(transitions, dwell, effects)
        if self.formula.spreads is not None:
            effects = self._best_spreads(transitions, dwell, effects, self.formula.spreads)
        m, t = self.totals(transitions, dwell, effects)
        known = t > 0.0
        old = self.baselines(current, effects)
        free = np.where(known, m / np.where(known, t, 1.0), old)
        return self.with_rates(current, np.minimum(free, self.ceiling), effects), effects

    def _best_spreads(
        self, transitions: FloatArray, dwell: FloatArray, effects: FloatArray, spreads: Spreads
    ) -> FloatArray:
        """Every spread at its best, baselines always at theirs; within twice and half of it."""
        moves, time = transitions[self.index], dwell[self.dwell_index]
        n = self.formula.n_covariate_effects
        effects = effects.copy()
        for k in (k for k in range(len(spreads.x)) if k not in spreads.held):

            def loss(spread: float, at: int = n + k) -> float:
                effects[at] = spread
                return -self._value(moves, time, effects)[0]

            now = float(effects[n + k])
            before = loss(now)
            ends = (0.5 * now, min(2.0 * now, LARGEST_SPREAD))
            found = minimize_scalar(loss, bounds=ends, method="bounded", options={"xatol": 1e-7})
            effects[n + k] = found.x if found.fun < before else now
        return effects

    def _value(
        self, moves: FloatArray, time: FloatArray, effects: FloatArray
    ) -> tuple[float, FloatArray, FloatArray, FloatArray]:
        """Q, the best baselines, the times they are divided by, and each rate's share of them."""
        logs = self.formula.log_factors(effects)
        weighted = time * np.exp(logs)
        m = self.per_base(moves) + self.added_transitions
        t = self.per_base(weighted) + self.added_time
        base = np.where(t > 0.0, m / np.where(t > 0.0, t, 1.0), 0.0)
        value = float(m @ np.log(np.maximum(base, 1e-300)) - t @ base + moves @ logs)
        value -= float(weighted[self.formula.base < 0].sum())
        return value, base, t, weighted

    def _regression(
        self, transitions: FloatArray, dwell: FloatArray, effects: FloatArray
    ) -> FloatArray:
        """Newton's method for the effects, baselines always at their best."""
        moves, time = transitions[self.index], dwell[self.dwell_index]
        value, gradient, hessian = self._profile(moves, time, effects)
        for _ in range(_NEWTON_STEPS):
            ridge = 1e-10 * np.maximum(np.diag(hessian), 1e-10)
            step = np.linalg.solve(hessian + np.diag(ridge), gradient)
            step *= min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
            if float(gradient @ step) < 1e-14 * max(1.0, abs(value)):
                break
            step = np.append(step, np.zeros(len(effects) - len(step)))
            for _ in range(20):
                trial = np.clip(effects + step, -LARGEST_EFFECT, LARGEST_EFFECT)
                found = self._profile(moves, time, trial)
                if found[0] >= value - 1e-12 * abs(value):
                    break
                step = 0.5 * step
            else:
                break
            effects, (value, gradient, hessian) = trial, found
        return effects

    def _profile(
        self, moves: FloatArray, time: FloatArray, effects: FloatArray
    ) -> tuple[float, FloatArray, FloatArray]:
        """Q, its gradient and its information in the effects."""
        design = self.formula.design
        value, base, t, weighted = self._value(moves, time, effects)
        each = np.where(self.formula.base >= 0, base[self.formula.base], 1.0) if len(base) else 1.0
        expected = weighted * each
        gradient = design.T @ (moves - expected)
        hessian = design.T @ (design * expected[:, None])
        free = self.formula.base >= 0
        mixed = np.zeros((self.n_base, design.shape[1]))
        np.add.at(mixed, self.formula.base[free], (design * expected[:, None])[free])
        total = t * base
        some = total > 0.0
        hessian -= mixed[some].T @ (mixed[some] / total[some][:, None])
        return value, gradient, hessian

    def with_rates(self, flat: FloatArray, free: FloatArray, effects: FloatArray) -> FloatArray:
        """Flat tables with these baselines and effects, their diagonals completed."""
        result = flat.copy()
        result[self.index] = self.formula.rates(free, effects)
        complete_diagonals(result, self.graph)
        return result

    def penalty(self, rates: FloatArray, effects: FloatArray) -> float:
        """Σ a ln B − b B: the prior's part of the objective."""
        if self.added_transitions == 0.0 and self.added_time == 0.0:
            return 0.0
        free = self.baselines(rates, effects)
        logs = np.log(np.maximum(free, 1e-300))
        return float(np.sum(self.added_transitions * logs - self.added_time * free))

    def pooled_where_unseen(
        self, transitions: FloatArray, dwell: FloatArray, current: FloatArray
    ) -> FloatArray:
        """Maximum likelihood leaves rates without any time open: take those of all configurations.

        A state that is never visited under any configuration gets no exits.
        """
        if not self.formula.is_plain:
            return current
        result = current.copy()
        unseen = dwell[self.dwell_index] + self.added_time <= 0.0
        for n in np.unique(self._node(self.index[unseen])):
            size = int(self.graph.n_states[n])
            moves = self.graph.blocks(transitions, n).sum(axis=0)
            own = slice(*self.graph.dwell_start[n : n + 2])
            time = dwell[own].reshape(-1, size).sum(axis=0)
            pooled = np.where(
                time[:, None] > 0.0, moves / np.where(time > 0, time, 1.0)[:, None], 0
            )
            mine = self.index[unseen & (self._node(self.index) == n)]
            result[mine] = pooled.ravel()[(mine - self.graph.table_start[n]) % (size * size)]
        complete_diagonals(result, self.graph)
        return result

    def _node(self, index: IntArray) -> IntArray:
        return np.searchsorted(self.graph.table_start, index, side="right") - 1


def rate_update(
    graph: CompiledGraph,
    allowed: BoolArray,
    prior: GammaPrior | None,
    use_mode: bool,
    ceiling: float,
    formula: RateFormula | None = None,
) -> RateUpdate:
    """The update for a (resolved) prior; None is maximum likelihood."""
    index = np.flatnonzero(allowed)
    node = np.searchsorted(graph.table_start, index, side="right") - 1
    size = graph.n_states[node]
    row = (index - graph.table_start[node]) // size
    a, b = 0.0, 0.0
    if prior is not None:
        a, b = prior.shape, prior.rate_value
        if use_mode:
            if prior.shape < 1.0:
                raise ModelError(
                    f"A Gamma prior of shape {prior.shape:g} < 1 has its mode at rate zero, where "
                    "its density is infinite; use a shape of at least 1, or map=False."
                )
            a -= 1.0
    return RateUpdate(
        graph,
        index,
        graph.dwell_start[node] + row,
        a,
        b,
        ceiling,
        plain_formula(len(index)) if formula is None else formula,
    )


def fastest_rate(evidence: Evidence) -> float:
    """A rate that the data cannot tell from a larger one: many jumps in the shortest gap."""
    points, jumps, spans = evidence.points, evidence.jumps, evidence.spans
    trajectory = np.concatenate(
        [np.arange(evidence.n_trajectories)] * 2
        + [points.trajectory, jumps.trajectory, spans.trajectory, spans.trajectory]
    )
    time = np.concatenate(
        [evidence.start, evidence.end, points.time, jumps.time, spans.start, spans.end]
    )
    order = np.lexsort((time, trajectory))
    gap = np.diff(time[order])[np.diff(trajectory[order]) == 0]
    gap = gap[gap > 0.0]
    return FASTEST / float(gap.min()) if len(gap) else np.inf


def complete_diagonals(rates: FloatArray, graph: CompiledGraph) -> None:
    """Make every row of every block sum to zero, in place."""
    for n in range(graph.n_nodes):
        block = graph.blocks(rates, n)
        block[...] = with_exits(block)
