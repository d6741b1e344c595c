"""Draws of graphs, parameters and paths of continuous nodes, together.

The model is that of ``family_score.py`` with hidden paths in place of filtered ones. Every path has
values on one grid: all times at which something was measured or a stimulus changed, longer gaps
split in two. Within a step parents are held. A sweep draws, for every node given all paths,

1. λ; then the strength of stimuli ρ and the size of weights v; then parents and φ; each from all
   values it may have, with weights w ~ N(0, vσ²), intercept c ~ N(0, 10 σ²), what stimuli do
   u ~ N(0, ρσ²) and σ² ~ IG(1, .02) summed out;
2. σ², w, c and u, all conjugate, and the variance of the noise, IG(1, .01) beforehand;

and then every path given all other paths: a normal distribution with a tridiagonal precision, with
a correction where a child is quadratic (``_mixed.py``). In standardised values and median gaps.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from asterism.continuous import _sweep as compiled
from asterism.continuous.family_score import Grids, _core_first, held_labels
from asterism.continuous.series import FloatArray, IntArray, Series
from asterism.numerics.resources import n_threads
from asterism.sampling._graphs import DrawAverages, DrawnModels
from asterism.sampling.model_chains import AdvancedChain, ChainTask
from asterism.sampling.model_posterior import (
    ChainKind,
    RunPlan,
    SampledModels,
    draw_until,
    fingerprint,
)
from asterism.sampling.model_setup import Drawn
from asterism.sampling.path_chains import chain_streams
from asterism.sampling.sound_chains import has_form, within

#: shape and scale of σ², shape and scale of the noise's variance, variance of the intercept over σ²
PRIOR = (1.0, 0.02, 1.0, 0.01, 10.0)
#: variances of weights over σ²
SIZES = (0.3, 1.0, 3.0, 10.0)
#: variance of values at the start: those of the data have variance one
START_VARIANCE = 4.0
#: the longest step that is not split, in median gaps
_LONGEST = 0.5
#: first paths differ between chains by this standard deviation
_SPREAD = 0.3
#: seconds per product of two columns and step, other work in such products, and seconds per family
#: (10 and 30 nodes, 200 steps: 1.5 and 9 ms)
_PER_PRODUCT, _PER_COLUMN, _PER_FAMILY = 1e-9, 20, 4e-7
_NUMBERS = ("decay", "variance", "noise", "intercept")


@dataclass(frozen=True)
class ContinuousSetup:
    """Everything that all chains share."""

    names: tuple[str, ...]
    moving: IntArray
    """Numbers of the continuous nodes."""
    parents: IntArray
    """What the compiled functions call parent p is node ``parents[p]``."""
    frame: compiled.Frame
    choices: compiled.Choices
    edges: IntArray
    """(edges, 2) parent and child."""
    course: FloatArray
    """(T, C) measurements, lines between them."""
    n_states: int
    start_variance: float = START_VARIANCE
    lists_all: bool = True
    """Whether other sets of parents are not drawn."""
    factors: None = None
    """Rates of jumping nodes may have factors."""

    @property
    def width(self) -> int:
        """The largest number of parents."""
        return int(self.choices.parents.shape[1])

    @property
    def seconds_per_sweep(self) -> float:
        """About how long one sweep of one chain takes on one core."""
        n_steps = len(self.frame.left)
        columns = [
            int(self.choices.width[self.choices.used[a:b]].sum()) + 2
            for a, b in pairwise(self.choices.used_start)
        ]
        products = n_steps * sum(c * (c + _PER_COLUMN) for c in columns)
        return _PER_PRODUCT * products + _PER_FAMILY * len(self.choices.parents)

    @property
    def kept(self) -> dict[str, int]:
        """How many numbers of each kind are kept of a draw, beside parents."""
        n_numbers = len(_NUMBERS) * len(self.moving)
        return {"edges": len(self.edges), "initial": 0, "emission": n_numbers}

    @property
    def drawn(self) -> dict[str, Drawn]:
        """What is drawn beside edges."""
        nodes = [self.names[n] for n in self.moving]
        labels = [f"{name}[{node}]" for name in _NUMBERS for node in nodes]
        return {"parameter": Drawn("emission", labels, {"parameter_node": nodes * len(_NUMBERS)})}


@dataclass
class ContinuousChain:
    """One chain: where it is, its random numbers, and what it added up."""

    present: compiled.Present
    stream: Any
    averages: DrawAverages


def continuous_setup(
    series: Series,
    grids: Grids,
    families: dict[int, tuple[IntArray, FloatArray]],
    strengths: FloatArray,
    *,
    quadratic: bool = True,
) -> ContinuousSetup:
    """``families``: of every child its sets of parents and their ln prior; others have none."""
    moving = np.array(series.continuous, dtype=np.int64)
    labels = np.array([n for n in range(len(series.nodes)) if n not in set(series.continuous)])
    parents = np.concatenate([moving, labels]).astype(np.int64)
    sizes = [len(series.nodes[n].states or ()) for n in labels]
    width = np.array([1 + quadratic] * len(moving) + [max(0, s - 1) for s in sizes])
    linear = np.array([1] * len(moving) + [max(0, s - 1) for s in sizes])
    time, trajectory = _times(series)
    frame, course = _frame(series, grids, strengths, labels, time, trajectory)
    choices, edges = _choices(series, families, moving, parents, width, linear)
    return ContinuousSetup(
        *(series.names, moving, parents, frame, choices, edges, course),
        n_states=max([2, *sizes]),
    )


def sample_graphs(setup: ContinuousSetup, n_chains: int, plan: RunPlan) -> SampledModels:
    """Run chains until the plan is met."""
    chains = [_start(setup, plan.seed, c) for c in range(n_chains)]
    each = 4 * len(setup.edges) + 8 * 4 * len(setup.moving)
    each += 4 * len(setup.names) * setup.width
    key = fingerprint([*setup.frame, *setup.choices, setup.course], plan)
    return draw_until(setup, chains, plan, each, _CONTINUOUS_CHAINS, key)


def family_probabilities(setup: ContinuousSetup, models: SampledModels) -> dict[int, FloatArray]:
    """Of every child the averages of P(family | paths)."""
    total, start = models.mean_averages().family, setup.choices.start
    parts = [total[a:b] for a, b in pairwise(start)]
    return {int(n): part / part.sum() for n, part in zip(setup.moving, parts)}


def _times(series: Series) -> tuple[FloatArray, IntArray]:
    """The grid: measured times, changes of stimuli, and long gaps split in two."""
    times, numbers = [], []
    for d in range(series.n_trajectories):
        own = series.grid_time[series.grid_trajectory == d]
        if len(own) == 0:
            continue
        for s in series.stimuli:
            here = np.concatenate([s.start[s.trajectory == d], s.end[s.trajectory == d]])
            own = np.concatenate([own, here[(here > own.min()) & (here < own.max())]])
        own = np.unique(own)
        wide = np.flatnonzero(np.diff(own) > _LONGEST * (1.0 + 1e-9))
        own = np.sort(np.concatenate([own, 0.5 * (own[wide] + own[wide + 1])]))
        times.append(own)
        numbers.append(np.full(len(own), d, dtype=np.int64))
    return np.concatenate(times), np.concatenate(numbers)


def _frame(
    series: Series,
    grids: Grids,
    strengths: FloatArray,
    labels: IntArray,
    time: FloatArray,
    trajectory: IntArray,
) -> tuple[compiled.Frame, FloatArray]:
    moving = series.continuous
    same = np.diff(trajectory) == 0
    left = np.flatnonzero(same)
    step = np.diff(time)[same]
    first = np.flatnonzero(np.diff(trajectory, prepend=-1))
    n_steps = np.diff(np.append(first, len(time))) - 1
    place = {(int(d), float(t)): k for k, (d, t) in enumerate(zip(trajectory, time))}
    count = np.zeros((len(time), len(moving)))
    value, course = count.copy(), count.copy()
    for c, n in enumerate(moving):
        node = series.nodes[n]
        at = [place[int(d), float(t)] for d, t in zip(node.trajectory, node.time)]
        count[at, c], value[at, c] = 1.0, node.value
        for d in np.unique(node.trajectory):
            own, here = node.trajectory == d, trajectory == d
            course[here, c] = np.interp(time[here], node.time[own], node.value[own])
    held = np.zeros((len(time), len(labels) + len(series.stimuli)), dtype=np.int64)
    for j, n in enumerate(labels):
        on_grid = held_labels(series, int(n))
        for d in np.unique(trajectory):
            own, here = series.grid_trajectory == d, trajectory == d
            last = np.searchsorted(series.grid_time[own], time[here], side="right") - 1
            held[here, j] = on_grid[own][last]
    for j, s in enumerate(series.stimuli):
        for d, on, off in zip(s.trajectory, s.start, s.end):
            inside = (trajectory == d) & (time >= on) & (time < off)
            held[inside, len(labels) + j] = 1
    decays = np.array(grids.decay)
    stay = np.exp(-decays[:, None] * step)
    sharp = 1.0 / np.sqrt(-np.expm1(-2.0 * decays[:, None] * step) / (2.0 * decays[:, None]))
    return (
        compiled.Frame(
            *(left, np.append(0, np.cumsum(n_steps)), np.append(first, len(time)), step),
            *(held, count, value, decays, stay, (1.0 - stay) / decays[:, None] * sharp, sharp),
            *(np.log(sharp).sum(axis=1), np.ascontiguousarray(strengths)),
            *(np.array(SIZES), np.array(PRIOR)),
        ),
        course,
    )


def _choices(
    series: Series,
    families: dict[int, tuple[IntArray, FloatArray]],
    moving: IntArray,
    parents: IntArray,
    width: IntArray,
    linear: IntArray,
) -> tuple[compiled.Choices, IntArray]:
    number = np.empty(len(series.nodes), dtype=np.int64)
    number[parents] = np.arange(len(parents))
    nobody = (np.full((1, 1), -1, dtype=np.int64), np.zeros(1))
    own = [families.get(int(n), nobody) for n in moving]
    widest = max(rows.shape[1] for rows, _ in own)
    tables, used, cores = [], [], []
    for rows, _ in own:
        nodes, n_core = _core_first(rows)
        place = np.full(len(series.nodes) + 1, -1, dtype=np.int64)
        place[nodes] = np.arange(len(nodes))
        table = np.full((len(rows), widest), -1, dtype=np.int64)
        table[:, : rows.shape[1]] = np.sort(place[rows], axis=1)[:, ::-1]
        tables.append(table)
        used.append(nodes)
        cores.append(n_core)
    edges = np.array([(p, n) for n, nodes in zip(moving, used) for p in nodes], dtype=np.int64)
    flat = np.concatenate([number[nodes] for nodes in used]).astype(np.int64)
    return (
        compiled.Choices(
            np.append(0, np.cumsum([len(t) for t in tables])).astype(np.int64),
            np.ascontiguousarray(np.concatenate(tables)),
            np.concatenate([prior for _, prior in own]).astype(np.float64),
            np.append(0, np.cumsum([len(nodes) for nodes in used])).astype(np.int64),
            *(flat, np.array(cores, dtype=np.int64), width.astype(np.int64)),
            *(linear.astype(np.int64), np.arange(len(flat), dtype=np.int64)),
        ),
        edges.reshape(-1, 2),
    )


def _start(setup: ContinuousSetup, seed: Any, number: int) -> ContinuousChain:
    """No parents; paths along the measurements, in each chain others."""
    frame, n = setup.frame, len(setup.moving)
    stream = chain_streams(seed, number, 1)[0]
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(number, 1)))
    x = setup.course + _SPREAD * rng.normal(size=setup.course.shape)
    n_trajectories = len(frame.block) - 1

    def zeros() -> IntArray:
        return np.zeros(n, dtype=np.int64)

    present = compiled.Present(
        *(x, setup.choices.start[:-1].copy(), zeros(), zeros() + len(frame.decays) // 2),
        *(zeros(), zeros(), np.full(n, 0.3), np.full(n, 0.1), np.zeros(n)),
        *(np.zeros((n, n)), np.zeros((n, n))),
        np.zeros((n_trajectories, n, frame.held.shape[1], setup.n_states)),
    )
    return ContinuousChain(present, stream, _nothing(setup))


def _nothing(setup: ContinuousSetup) -> DrawAverages:
    none = np.zeros(0)
    total = np.zeros(len(setup.choices.parents))
    return DrawAverages(
        total, none, np.zeros((0, 0)), none, none, none, np.zeros((1, 1, 1)), np.zeros((0, 0, 0, 0))
    )


def _go_on(
    setup: ContinuousSetup,
    chains: list[ContinuousChain],
    n_sweeps: int,
    keep_every: int,
    keep_rates: bool,
    n_jobs: int,
) -> list[DrawnModels]:
    def run(chain: ContinuousChain) -> DrawnModels:
        return run_chain(setup, chain, n_sweeps, keep_every)

    with ThreadPoolExecutor(max(1, min(n_threads(n_jobs), len(chains)))) as pool:
        return list(pool.map(run, chains))


def run_chain(
    setup: ContinuousSetup, chain: ContinuousChain, n_sweeps: int, keep_every: int
) -> DrawnModels:
    """Go on with one chain; ``keep_every`` 0 keeps nothing."""
    kept, n = (n_sweeps // keep_every if keep_every else 0), len(setup.moving)
    drawn = compiled.Drawn(
        chain.averages.family,
        np.zeros((kept, len(setup.edges)), dtype=np.float32),
        np.full((kept, n, setup.width), -1, dtype=np.int64),
        np.zeros((kept, len(_NUMBERS) * n)),
    )
    compiled.sweeps(
        *(setup.frame, setup.choices, chain.present, n_sweeps, keep_every),
        *(setup.start_variance, drawn, chain.stream),
    )
    parents = np.full((kept, len(setup.names), setup.width), -1, dtype=np.int32)
    parents[:, setup.moving] = np.append(setup.parents, -1)[drawn.parents]
    nothing = np.zeros((kept, 0))
    return DrawnModels(drawn.edges, parents, nothing, nothing, drawn.numbers, np.zeros(kept))


def _hold(chain: ContinuousChain, hold: bool) -> None:
    """Chains begin without parents, which need not be held."""


def _forget(setup: ContinuousSetup, chain: ContinuousChain) -> None:
    chain.averages = _nothing(setup)


def advanced(setup: ContinuousSetup, task: ChainTask) -> AdvancedChain:
    """The chain after its sweeps, and what was drawn."""
    return task.chain, run_chain(setup, task.chain, task.n_sweeps, task.keep_every)


# ---------------------------------------------------------------------- checkpoints
def _arrays(chain: ContinuousChain) -> dict[str, Any]:
    own = {"stream": chain.stream, "families": chain.averages.family}
    return {**own, **chain.present._asdict()}


def _is_sound(setup: ContinuousSetup, fresh: dict[str, Any], arrays: dict[str, Any]) -> bool:
    """Whether every number that says where something is, is a possible one."""
    frame, start = setup.frame, setup.choices.start
    return (
        has_form(fresh, arrays)
        and within(arrays["family"], start[:-1], start[1:])
        and within(arrays["bent"], 0, 2)
        and within(arrays["decay"], 0, len(frame.decays))
        and within(arrays["strength"], 0, len(frame.strengths))
        and within(arrays["size"], 0, len(frame.sizes))
    )


def _restore(setup: ContinuousSetup, chain: ContinuousChain, arrays: dict[str, Any]) -> None:
    for name, own in _arrays(chain).items():
        own[...] = arrays[name]


_CONTINUOUS_CHAINS = ChainKind(_go_on, _hold, _forget, _arrays, _is_sound, _restore)
