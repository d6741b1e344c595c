"""The evidence of a set of parents of a continuous node, in closed form.

Between two measurements of the child, Δ apart, with a = e^(−λΔ),

    y_b − a y_a = c (1 − a)/λ + Σ w ∫ e^(−λ(t_b − s)) φ(x_parent(s)) ds + noise,

a linear regression whose noise has covariance σ² × (a tridiagonal matrix that depends on λ and on
κ, the measurement noise in units of σ²). Weights have Zellner's prior, the intercept is flat, σ²
has density 1/σ²; a stimulus adds one number per trajectory, normal with variance ρσ². All of these
are summed out exactly. λ, κ, ρ and g take a few values with equal weights, and φ is linear or
linear and quadratic, half each. Scores of one child differ by log Bayes factors between its sets of
parents; scores of different children, or of other data, must not be compared.

A parent's course is its own causal filter where it was measured (what is known without looking
ahead) and its smoother where it was not; it is held from one time of the grid to the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import product
from threading import Lock
from typing import Any

import numpy as np
from threadpoolctl import ThreadpoolController

from asterism.continuous import _family as compiled
from asterism.continuous.series import BoolArray, FloatArray, IntArray, Series
from asterism.errors import DataError

#: most stimuli at once: every combination of those that hit a child is weighed
MOST_STIMULI = 4


#: columns, where each parent's begin, how many of them are linear: of nobody
_NO_PARENTS = (np.empty((0, 0)), np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64))
_NOBODY = np.full((1, 1), -1, dtype=np.int64)


@dataclass(frozen=True)
class Grids:
    """Values of what is averaged with equal weights; time in median gaps, values in SDs.

    Chosen on DREAM4 and on simulated networks.
    """

    decay: tuple[float, ...] = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)
    noise: tuple[float, ...] = (0.0, 0.1, 0.3, 1.0, 3.0)
    stimulus: tuple[float, ...] = (0.0, 0.3, 1.0, 3.0)
    """0: the child is not hit."""
    g: tuple[float, ...] = (3.0, 10.0, 30.0, 100.0)
    """Zellner's g: prior variance of a weight in units of what one row could say about it.

    With 30 alone the calibration error was half as large again (benchmarks/continuous.py, seeds
    1000 to 1019).
    """


@dataclass(frozen=True)
class Gaps:
    """The gaps of one child; children measured at the same times share them."""

    gap: FloatArray
    is_first: BoolArray
    """Whether a trajectory begins with this gap."""
    start: FloatArray
    stop: FloatArray
    trajectory: IntArray
    begin: IntArray
    end: IntArray
    """Where start and stop lie on the grid."""
    block: IntArray
    """Where the gaps of each trajectory begin, and the number of gaps."""

    @property
    def arrays(self) -> tuple[FloatArray | BoolArray | IntArray, ...]:
        """As the compiled functions take them."""
        return (
            *(self.gap, self.is_first, self.start, self.stop),
            *(self.trajectory, self.begin, self.end, self.block),
        )


@dataclass
class FamilyScorer:
    """Scores sets of parents of the continuous nodes of a data set."""

    series: Series
    grids: Grids = field(default_factory=Grids)
    quadratic: bool = True

    def __post_init__(self) -> None:
        if len(self.series.stimuli) > MOST_STIMULI:
            raise DataError(
                f"{len(self.series.stimuli)} stimuli are more than can be weighed together "
                f"({MOST_STIMULI}): leave some out, or give those that act alike one name."
            )
        k = len(self.series.stimuli)
        strengths = list(product(self.grids.stimulus, repeat=k))
        self.rhos: FloatArray = np.array(strengths, dtype=np.float64).reshape(len(strengths), k)
        self.spans = _spans(self.series)
        self.gaps: dict[int, Gaps] = {}
        self.values: dict[int, FloatArray] = {}
        for n in self.series.continuous:
            self.gaps[n], self.values[n] = _gaps_of(self.series, n)

    @property
    def children(self) -> list[int]:
        """Continuous nodes that moved in at least three gaps: others say nothing of parents."""
        return [n for n in self.series.continuous if self._can_be_child(n)]

    def _can_be_child(self, n: int) -> bool:
        return len(self.gaps[n].gap) >= 3 and float(np.ptp(self.values[n])) > 0.0

    def log_allowed(self, child: int) -> FloatArray:
        """(C,) 0, or −inf where strengths do not suit the nodes that a stimulus is known to hit."""
        name, allowed = self.series.names[child], np.ones(len(self.rhos), dtype=np.bool_)
        for k, stimulus in enumerate(self.series.stimuli):
            if stimulus.targets is not None:
                allowed &= (self.rhos[:, k] > 0.0) == (name in stimulus.targets)
        return np.where(allowed, 0.0, -np.inf)

    def _grid_arguments(self) -> tuple[FloatArray, ...]:
        return (
            np.array(self.grids.decay),
            np.array(self.grids.noise),
            np.array(self.grids.g),
            self.rhos,
        )

    @cached_property
    def parents(self) -> tuple[FloatArray, IntArray, IntArray]:
        """Columns of all parents on the grid, where each parent's begin, how many are linear."""
        columns: list[FloatArray] = []
        first, linear = [0], []
        for n, node in enumerate(self.series.nodes):
            if node.is_continuous:
                path = self.course(n)
                columns.append(path)
                if self.quadratic:
                    columns.append(path * path)
                linear.append(1)
            else:
                states = held_labels(self.series, n)
                dummies = [
                    (states == s).astype(np.float64) for s in range(1, len(node.states or ()))
                ]
                columns += dummies
                linear.append(len(dummies))
            first.append(len(columns))
        held = np.array(columns).reshape(len(columns), len(self.series.grid_time))
        return np.ascontiguousarray(held), np.array(first), np.array(linear, dtype=np.int64)

    def course(self, n: int) -> FloatArray:
        """The course of a continuous node on the grid: filtered where measured, else smoothed.

        Averaged over λ and κ by how well they describe the node alone.
        """
        series, node = self.series, self.series.nodes[n]
        total = np.zeros(len(series.grid_time))
        measured = np.zeros(len(total), dtype=np.bool_)
        value = np.zeros(len(total))
        measured[node.grid], value[node.grid] = True, node.value
        is_first = _is_first(series.grid_trajectory)
        level = float(node.value.mean()) if len(node.value) else 0.0
        weights = self._weights_alone(n)
        path = np.empty(len(total))
        for (i, lam), (j, kappa) in product(
            enumerate(self.grids.decay), enumerate(self.grids.noise)
        ):
            if weights[i, j] > 1e-3:
                arguments = (lam, kappa, level, series.grid_time, is_first, value, measured)
                compiled.filtered_path(*arguments, path)
                total += weights[i, j] * path
        result: FloatArray = total / weights[weights > 1e-3].sum()
        return result

    def _weights_alone(self, n: int) -> FloatArray:
        """[λ, κ] posterior of the node without parents."""
        shape = (len(self.grids.decay), len(self.grids.noise))
        if not self._can_be_child(n):
            return np.full(shape, 1.0 / np.prod(shape))
        _, by_grid = self._scored([n], _NO_PARENTS, _NOBODY)
        weights = np.exp(by_grid[0] - by_grid[0].max())
        result: FloatArray = weights / weights.sum()
        return result

    def _scored(
        self,
        members: list[int],
        parents: tuple[FloatArray, IntArray, IntArray],
        families: IntArray,
        n_core: int = 0,
        own: Sequence[int] = (),
    ) -> tuple[FloatArray, FloatArray]:
        """Scores of children that share their gaps, as the compiled function gives them.

        ``own`` are the members' numbers among the parents, where they are among them.
        """
        with _one_thread_each():
            result: tuple[FloatArray, FloatArray] = compiled.family_scores(
                *self._grid_arguments(),
                *(self.gaps[members[0]].arrays, self.spans, self.series.grid_time),
                *parents,
                np.stack([self.values[c] for c in members]),
                np.array(own or [-1] * len(members), dtype=np.int64),
                *(families, n_core),
            )
        return result

    def _groups(self) -> list[list[int]]:
        """Children that were measured at the same times."""
        groups: dict[bytes, list[int]] = {}
        for child in self.children:
            key = self.gaps[child].begin.tobytes() + self.gaps[child].end.tobytes()
            groups.setdefault(key, []).append(child)
        return list(groups.values())

    def without_parents(self) -> FloatArray:
        """(N, C) scores without parents; −inf for nodes that are no children."""
        none = np.full((len(self.series.nodes), len(self.rhos)), -np.inf)
        for members in self._groups():
            none[members] = self._scored(members, _NO_PARENTS, _NOBODY)[0][:, 0]
        return none + self._all_allowed()

    def single_parents(self) -> tuple[FloatArray, FloatArray]:
        """(N, C) scores without parents and (N, N, C) [child, parent] scores of single parents.

        One entry per combination of strengths of the stimuli (``rhos``); −inf for nodes that are no
        children. Children that were measured at the same times are screened together.
        """
        n = len(self.series.nodes)
        none = np.full((n, len(self.rhos)), -np.inf)
        single = np.full((n, n, len(self.rhos)), -np.inf)
        families = np.arange(-1, n)[:, None]
        for members in self._groups():
            scores, _ = self._scored(members, self.parents, families, own=members)
            none[members], single[members] = scores[:, 0], scores[:, 1:]
        allowed = self._all_allowed()
        return none + allowed, single + allowed[:, None]

    def families(self, child: int, families: IntArray) -> FloatArray:
        """(F, C) scores of sets of parents, rows of node numbers padded with −1."""
        used, n_core = _core_first(families)
        place = np.full(len(self.series.nodes) + 1, -1, dtype=np.int64)
        place[used] = np.arange(len(used))
        scores, _ = self._scored([child], self.columns_of(used), place[families], n_core)
        result: FloatArray = scores[0] + self.log_allowed(child)
        return result

    def _all_allowed(self) -> FloatArray:
        """(N, C) of all nodes."""
        return np.stack([self.log_allowed(n) for n in range(len(self.series.nodes))])

    def columns_of(self, nodes: IntArray) -> tuple[FloatArray, IntArray, IntArray]:
        """The columns of some parents, as ``parents`` has those of all."""
        held, first, linear = self.parents
        chosen = [np.arange(first[m], first[m + 1]) for m in nodes]
        if not chosen:
            return _NO_PARENTS
        widths = [len(c) for c in chosen]
        begins = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
        return np.ascontiguousarray(held[np.concatenate(chosen)]), begins, linear[nodes]

    def combined(self, scores: FloatArray) -> FloatArray:
        """Scores averaged over the strengths of the stimuli, their last axis."""
        result: FloatArray = np.logaddexp.reduce(scores, axis=-1) - np.log(scores.shape[-1])
        return result


def _core_first(families: IntArray) -> tuple[IntArray, int]:
    """Nodes that occur, and how many of them occur with others that stand behind them.

    Nodes behind this core never meet each other in a family, which saves most products where one
    strong parent is tried together with everybody.
    """
    nodes, counts = np.unique(families[families >= 0], return_counts=True)
    order = nodes[np.argsort(-counts, kind="stable")]
    rank = np.full(nodes.max(initial=0) + 2, -1, dtype=np.int64)
    rank[order] = np.arange(len(order))
    ranks = np.sort(np.where(families >= 0, rank[families], -1), axis=1)
    if ranks.shape[1] < 2:
        return order, 0
    # the last but one of each family must be in the core
    return order, int(ranks[:, -2].max(initial=-1)) + 1


def held_labels(series: Series, n: int) -> IntArray:
    """The state of a jumping node on the grid: the last one seen, before the first that one."""
    node = series.nodes[n]
    state = np.zeros(len(series.grid_time), dtype=np.int64)
    for d in range(series.n_trajectories):
        inside = np.flatnonzero(series.grid_trajectory == d)
        own = node.trajectory == d
        if own.any() and len(inside):
            seen = np.searchsorted(node.time[own], series.grid_time[inside], side="right") - 1
            state[inside] = node.value[own][np.maximum(seen, 0)].astype(np.int64)
    return state


@cache
def _threads() -> ThreadpoolController:
    """Looks for the libraries of matrix products once: that takes milliseconds."""
    return ThreadpoolController()


_lock = Lock()
_limits: list[Any] = []


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Matrix products use one thread: they are small, so that more would only wait.

    The limit holds for the whole process. Nodes may be scored side by side, so the first one sets
    it and the last one takes it back.
    """
    with _lock:
        _limits.append(_limits[0] if _limits else _threads().limit(limits=1))
    try:
        yield
    finally:
        with _lock:
            last = _limits.pop()
            if not _limits:
                last.restore_original_limits()


def _is_first(trajectory: IntArray) -> BoolArray:
    first = np.ones(len(trajectory), dtype=np.bool_)
    first[1:] = np.diff(trajectory) != 0
    return first


def _gaps_of(series: Series, n: int) -> tuple[Gaps, FloatArray]:
    """The gaps of one node and (R, 2) the values at their ends."""
    node = series.nodes[n]
    assert node.grid is not None
    a = np.flatnonzero(np.diff(node.trajectory) == 0)
    b = a + 1
    trajectory = node.trajectory[a]
    is_first = _is_first(trajectory)
    block = np.append(np.flatnonzero(is_first), len(a)).astype(np.int64)
    gaps = Gaps(
        *(node.time[b] - node.time[a], is_first, node.time[a], node.time[b]),
        *(trajectory, node.grid[a], node.grid[b], block),
    )
    return gaps, np.stack([node.value[a], node.value[b]], axis=1)


def _spans(series: Series) -> tuple[IntArray, IntArray, FloatArray, FloatArray]:
    """Number of the stimulus, trajectory, start and end of every span."""
    stimuli = series.stimuli
    if not stimuli:
        nothing = np.empty(0, dtype=np.int64)
        return nothing, nothing, np.empty(0), np.empty(0)
    return (
        np.concatenate([np.full(len(s.start), k, dtype=np.int64) for k, s in enumerate(stimuli)]),
        np.concatenate([s.trajectory for s in stimuli]),
        np.concatenate([s.start for s in stimuli]),
        np.concatenate([s.end for s in stimuli]),
    )
