"""Star and mean field: the mathematics, and what they add to the engine.

**The star.** Every node n keeps a forward message f_n and a backward message ρ_n; its marginal is
m_n = f_n ρ_n. Around it stand its parents, seen through their marginals. One update of node n, all
others fixed:

1. average its rates over the parents:  A(x,y) = E_n[R(x,y)],  E_n[g] = Σ_u m^u g(u),
   with m^u the product of the parents' marginals;
2. collect what its children say:  ψ(x') = Σ_children j Σ_{x,y} w_j(x,y) E_j[R_j(x,y) | x'],
   where w_j(x,y) = f_j(x) ρ_j(y) and E_j[· | x'] fixes n at x' among the parents of j; ψ joins the
   diagonal of A;
3. run ρ backward by dρ/dt = −A ρ and f forward by df/dt = Aᵀ f, multiplying both by the
   likelihoods of the measurements where there are any;
4. store W = ∫ f(x) ρ(y) dt of every time step for the neighbours' next updates.

Sweeping over the nodes until nothing changes gives a stationary point of the star's variational
energy F, which approximates ln P(Y); it is not a bound. There, F = Σ_n (ln Z_n − ∫ Σ_x m_n ψ_n dt).

**Mean field** (Cohn, El-Hay, Friedman and Kupferman 2010) makes two changes. Off the diagonal the
rates are averaged geometrically, A(x,y) = exp E_n[ln R(x,y)]: with independent nodes the energy
holds expectations of ln R. And a message from children uses expected transitions τ_j = w_j A_j,
ψ(x') = Σ_j { Σ_x m_j(x) E_j[R_j(x,x) | x'] + Σ_{x≠y} τ_j(x,y) E_j[ln R_j(x,y) | x'] }. The
neighbours' τ is stored, not w. Each update then maximises F exactly over its node, F rises from
sweep to sweep, and it never exceeds ln P(Y). A transition that one possible configuration forbids
has geometric average zero: mean field cannot use it.

**Where to read on.** The loop over sweeps is ``_solve.py``; steps 1 and 2 are ``_averages.py``,
step 3 ``_messages.py``, step 4 ``_node.py``, all in ``star/``. There ``problem.py`` lays out the
arrays and ``batch.py`` calls the compiled loop; ``engine/refine.py`` chooses time steps. The scheme
is of fourth order on smooth steps and of second order elsewhere; we count on no more than third and
second.

**Past the end** of a trajectory ρ = 1: the forecast starts from the marginals at the end, taken as
independent, and follows the averaged rates, dm/dt = m E[R]; for mean field too, whose own solution
without data would depend on how far the forecast goes.

**Paths**, for imputation and for pictures of uncertainty. ``kind="marginal"`` draws every node on
its own from its averaged chain, conditioned on all data through the backward message: means over
draws reproduce the marginals, transitions and dwell times of the approximation, but nodes are
independent of each other within a draw. ``kind="network"`` lets every node jump at the rate that
belongs to the sampled states of its parents, times ρ(y)/ρ(x), which leads it to what was measured
later: dependence between nodes is kept, marginals are only approximate. Noiseless measurements,
recorded jumps and continuous observation hold in every path of either kind; where sampled parents
forbid a jump that such data require, the averaged rates decide.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from asterism.engine._outcome import CONVERGED, EVIDENCE, GUARD, NOT_FINITE
from asterism.engine.batch import Outcome
from asterism.engine.grid import Grid
from asterism.engine.paths import ChainSets, DrawnPaths, Solved
from asterism.engine.refine import SETTLED, Solution, solve_on_grids
from asterism.engine.rule import Precision, Rule
from asterism.engine.solve import solve_by
from asterism.errors import AsterismError, Sentence, Setting
from asterism.inference.posterior import Posterior
from asterism.model.network import Network
from asterism.numerics.compiled import CompiledNetwork, diagonal_index
from asterism.star._buffers import FIRST, INITIAL, LAST, STATES
from asterism.star._solve import DATA, START_TERM
from asterism.star.batch import (
    Batch,
    ImpossibleEvidence,
    batch_on,
    expected_statistics,
    largest_change,
    prolong,
    run,
)
from asterism.star.point_values import flat_marginals, messages_of
from asterism.star.problem import Parameters
from asterism.timeline.evidence import (
    Evidence,
    FloatArray,
    IntArray,
    Spans,
    no_paths,
    no_points,
    refuse_interventions,
)

_FIRST_STEP = 0.6  # relaxation times, at tolerance 1e-3
_STEP_POWER = 0.3  # of the tolerance; between fourth and second order
_MOSTLY = 0.9  # share of smooth steps, by time, from which a trajectory counts as smooth


def solve(
    network: Network,
    evidence: Evidence,
    method: str = "star",
    tolerance: float = 1e-3,
    time_step: float | None = None,
    max_sweeps: int = 200,
    n_jobs: int = 1,
) -> Posterior:
    """Posterior by ``method`` "star" or "mean_field".

    ``tolerance``: marginals absolutely, evidence and statistics relatively, against the solution
    in continuous time. ``time_step`` fixes equal steps instead, in the unit of the data.
    """
    precision = Precision(tolerance, time_step, max_sweeps, n_jobs)
    precision.check()
    compiled = network.compiled
    rule = StarRule(compiled, Parameters.of(compiled, method), precision)
    try:
        return solve_by(rule, network, evidence)
    except ImpossibleEvidence as problem:
        raise problem.named(network.nodes, method) from None


class StarRule(Rule):
    """How the star and mean field solve trajectories on a grid."""

    finest = 256
    largest_cut = 8
    group_bytes = 16e6  # of moments; more trajectories are refined group by group
    usual_pace = 2e7  # moments updated in a second; measured anew in every solve
    residual_is = "largest change in the last one {:.1e}"
    remedies = (
        *("; if that does not help, use ", Setting("method", "exact")),
        " if the network is small: the coupling is too strong for this method.",
    )

    def __init__(
        self, network: CompiledNetwork, parameters: Parameters, precision: Precision
    ) -> None:
        self.network = network
        self.parameters = parameters
        self.precision = precision
        self.name = "mean_field" if parameters.geometric else "star"
        self.relaxation_rate = network.relaxation_rate
        self.first_step = _FIRST_STEP * (precision.tolerance / 1e-3) ** _STEP_POWER
        self.numbers_per_step = int((network.graph.n_states**2).sum())
        self.is_exact_on_any_grid = self.relaxation_rate == 0.0
        self.is_smooth = not (parameters.geometric and _forbids_sometimes(network))

    # ---- grids ------------------------------------------------------------------------------

    def make_batch(self, evidence: Evidence, grid: Grid, same: Batch | None) -> Batch:
        """Trajectories on a grid; their moments still have to be started."""
        layout = None if same is None else same.layout
        return batch_on(grid, evidence, self.network.graph, layout)

    def prolong(self, coarse: Batch, fine: Batch, of_fine: IntArray, ratios: IntArray) -> None:
        """Start on finer steps from the moments of the coarser ones."""
        prolong(coarse, fine, of_fine, ratios)

    def largest_change(
        self, coarse: Batch, fine: Batch, of_fine: IntArray, ratios: IntArray
    ) -> FloatArray:
        """Per trajectory, the largest difference between two grids in a coarse step's marginals."""
        return largest_change(coarse, fine, of_fine, ratios)

    def order(self, batch: Batch) -> IntArray:
        """Per trajectory, with which power of the step its error surely falls."""
        problem, n = batch.problem, batch.n_trajectories
        if not len(problem.stretch):
            return np.full(n, 2)
        ends = np.concatenate([[0.0], np.cumsum(problem.width)])
        of = np.repeat(np.arange(n), np.diff(problem.stretch_start))
        first = problem.step_start[of] + problem.stretch[:, FIRST]
        last = problem.step_start[of] + problem.stretch[:, LAST]
        smooth = np.bincount(of, ends[last] - ends[first], n)
        lasting = np.diff(ends[problem.step_start])
        return np.where(smooth >= _MOSTLY * lasting, 3, 2)

    # ---- the iteration ----------------------------------------------------------------------

    def run(
        self, batch: Batch, max_sweeps: int, restart: bool
    ) -> tuple[Outcome, tuple[FloatArray, ...]]:
        """Iterate to the fixed point, and count."""
        outcome, counts = run(
            batch,
            self.parameters,
            restart=restart,
            max_sweeps=max_sweeps,
            tolerance=SETTLED * self.precision.tolerance,
            n_jobs=self.precision.n_jobs,
        )
        return outcome, counts[:2]

    def select(self, batch: Batch, index: IntArray) -> tuple[Batch, tuple[FloatArray, ...]]:
        """Some trajectories of a solved batch, and their statistics."""
        chosen = batch.select(index)
        return chosen, expected_statistics(chosen, self.parameters, self.precision.n_jobs)

    def stored_bytes(self, batch: Batch) -> int:
        """Bytes of moments, that single precision would halve."""
        return batch.moments.nbytes

    def in_precision(self, batch: Batch, kind: Any) -> Batch:
        """The same with moments in single or double precision."""
        return replace(batch, moments=batch.moments.astype(kind, copy=False))

    # ---- what the outcome says --------------------------------------------------------------

    def require_answer(self, outcome: Outcome, evidence: Evidence) -> None:
        """Raise where the iteration left the range of finite numbers."""
        is_lost = outcome.status == NOT_FINITE
        if is_lost.any():
            d = int(is_lost.argmax())
            raise AsterismError(
                f"Trajectory {evidence.label(d)}: the iteration left the range of finite numbers; "
                "the rates or likelihoods are too extreme for it. Try a smaller ",
                *(Setting("time_step"), ", or ", Setting("method", "exact"), "."),
            )

    def complaint(self, outcome: Outcome) -> str | None:
        """Whether some evidence is above its own upper limit."""
        n_above = int((outcome.status == GUARD).sum())
        if not n_above:
            return None
        return Sentence(
            f"{n_above} of {len(outcome.status)} trajectories ended with an evidence above its own "
            "upper limit, which only an unfinished iteration does: lower the ",
            *(Setting("tolerance"), ", or use ", Setting("method", "mean_field"), "."),
        )

    def dwell_and_transitions(self, solution: Solution) -> tuple[FloatArray, FloatArray]:
        """Flat expected dwell times and transitions."""
        dwell, transitions = solution.statistics
        return dwell, transitions

    def evidence_parts(self, solution: Solution) -> dict[str, float]:
        """F cut into energy, entropy, data and start terms."""
        columns = [EVIDENCE, DATA, START_TERM]
        total, data, initial = (float(solution.outcome.totals[:, c].sum()) for c in columns)
        energy = _energy(self.network, *solution.statistics)
        return {
            "energy": energy,
            "entropy": total - energy - data - initial,
            "data": data,
            "initial": initial,
            "log_evidence": total,
        }

    # ---- marginals and paths ----------------------------------------------------------------

    def marginals(self, batch: Batch, index: int, times: FloatArray) -> list[FloatArray]:
        """Per node (times, S_n), at times between start and end."""
        return _by_node(batch, flat_marginals(batch, index, self.parameters, times))

    def forecast(
        self, batch: Batch, index: int, times: FloatArray, solve: Callable[[Evidence], Solution]
    ) -> list[FloatArray]:
        """The same where some times are past the end."""
        end = float(batch.evidence.end[index])
        # the end is asked for as well: forecasts begin there
        asked = np.append(np.minimum(times, end), end)
        found = flat_marginals(batch, index, self.parameters, asked)
        values, initial = found[:-1], found[-1]
        later = np.flatnonzero(times > end)
        rates, last = self.parameters.rates, float(times.max())
        rule = StarRule(
            CompiledNetwork(self.network.graph, rates, initial),
            Parameters(rates, table=rates, initial=initial, geometric=False),
            replace(self.precision, n_jobs=1),
        )
        future = _without_data(batch.evidence, index, last, self.network, initial)
        solution = solve_on_grids(rule, future)
        if solution.outcome.status[0] != CONVERGED:
            warnings.warn(
                Sentence(
                    f"The forecast of trajectory {future.labels[0]!r} to time {last:g} had "
                    f"not converged after {self.precision.max_sweeps} sweeps: ask for earlier "
                    "times, or raise ",
                    *(Setting("max_sweeps"), "."),
                ),
                stacklevel=4,
            )
        b, i = solution.place[0]
        values[later] = flat_marginals(solution.batches[b], i, rule.parameters, times[later])
        return _by_node(batch, values)

    def draw(
        self, batch: Batch, index: int, n: int, kind: str, rng: np.random.Generator
    ) -> DrawnPaths:
        """``n`` paths of one trajectory."""
        refuse_interventions(batch.evidence, "Drawing paths")
        messages, graph = messages_of(batch, index, self.parameters), self.network.graph
        free = messages.clamp < 0
        n_steps, squares = free.shape[1], graph.n_states**2
        is_diagonal = np.concatenate(
            [np.eye(size, dtype=np.bool_).ravel() for size in graph.n_states]
        )
        generator = messages.generator.reshape(len(is_diagonal), n_steps)
        generator = generator * free[np.repeat(np.arange(graph.n_nodes), squares)]
        forward, backward = (
            side.reshape(-1, n_steps + 1) for side in (messages.forward, messages.backward)
        )
        is_known = np.isin(
            np.repeat(np.arange(graph.n_nodes), graph.n_states), list(batch.evidence.exogenous)
        )
        solved = Solved(
            generator[~is_diagonal],
            generator[is_diagonal],
            np.ascontiguousarray(backward[:, 1:]),
            np.where(is_known, forward[:, 0], self.parameters.initial * backward[:, 0]),
        )
        key = rng.integers(2**64, size=2, dtype=np.uint64)
        return self._chains[kind].draw(solved, batch.evidence, batch.grid, index, n, key)

    @cached_property
    def _chains(self) -> dict[str, ChainSets]:
        """Every node as a chain; for "network" with rates that the parents' states determine."""
        graph, rates = self.network.graph, self.parameters.rates
        nodes = [(n,) for n in range(graph.n_nodes)]
        return {
            "marginal": ChainSets.of(graph, nodes, together=False),
            "network": ChainSets.of(graph, nodes, together=True, rates=rates),
        }


def _by_node(batch: Batch, values: FloatArray) -> list[FloatArray]:
    node = batch.problem.node
    return [values[:, i : i + s] for i, s in zip(node[:-1, INITIAL], node[:-1, STATES])]


def _forbids_sometimes(network: CompiledNetwork) -> bool:
    """Whether some transition is impossible under some configurations of the parents only.

    In mean field a parent's state that forbids what its child does is pulled down without bound.
    Such a message is not smooth on any grid: corrections of fourth order reach their limits, alike
    on all grids, so that a comparison of two grids would not show what they cost.
    """
    graph = network.graph
    for n in np.flatnonzero(graph.n_configurations > 1):
        size = int(graph.n_states[n])
        own = slice(int(graph.table_start[n]), int(graph.table_start[n + 1]))
        is_zero = network.rates[own].reshape(-1, size, size) == 0.0
        if (is_zero.any(axis=0) & ~is_zero.all(axis=0)).any():
            return True
    return False


def _energy(network: CompiledNetwork, dwell: FloatArray, transitions: FloatArray) -> float:
    """E = Σ (M ln R − T R_exit): expected log density of the paths at these rates."""
    rates = network.rates
    total = float(np.sum(transitions * np.log(np.where(transitions > 0.0, rates, 1.0))))
    return total + float(rates[diagonal_index(network.graph)] @ dwell)


def _without_data(
    evidence: Evidence, index: int, end: float, network: CompiledNetwork, initial: FloatArray
) -> Evidence:
    """One trajectory that goes on after its end; exogenous nodes stay in their last state."""
    start = float(evidence.end[index])
    known: IntArray = np.array(sorted(evidence.exogenous), dtype=np.int64)
    first = network.graph.state_start
    state = [int(np.argmax(initial[first[n] : first[n + 1]])) for n in known]
    n = len(known)
    return Evidence(
        n_nodes=evidence.n_nodes,
        start=np.array([start]),
        end=np.array([end]),
        points=no_points(),
        jumps=no_paths().jumps,
        spans=Spans(
            np.zeros(n, dtype=np.int64),
            known,
            np.full(n, start),
            np.full(n, end),
            np.array(state, dtype=np.int64),
        ),
        exogenous=evidence.exogenous,
        labels=(evidence.label(index),),
    )
