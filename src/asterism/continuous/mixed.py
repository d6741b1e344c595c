"""Inference by sampling where continuous nodes stand beside jumping ones or act by their square.

Time is cut into steps as in simulations (``simulate.py``), so the draws are exact up to these
steps: a shorter ``time_step`` is more accurate. ``_mixed.py`` says how a path is drawn. Chains go
on until means and probabilities at the measured times are known well enough.

Where the data leave open on which side of its vertex the parent of a quadratic child is, chains
rarely change sides: R̂ says so, and the posterior is then not called settled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
import xarray
from numpy.typing import ArrayLike

from asterism.continuous import _mixed as compiled
from asterism.continuous.marginals import OverTime
from asterism.continuous.network import jump_rates, jumping, slopes
from asterism.continuous.series import FloatArray, IntArray
from asterism.continuous.simulate import default_step
from asterism.data.observations import Observations
from asterism.errors import AsterismError, DataError, ModelError, Setting, TooLargeError
from asterism.model.emission_continuous import Continuous
from asterism.model.network import Network
from asterism.numerics._random_stream import new_stream
from asterism.sampling.path_chains import on_threads
from asterism.sampling.rounds import MOST_DRAWS, Drawn, DrawPlan, draw_in_rounds
from asterism.timeline.build import build_evidence

#: a measurement or start without noise counts as this exact, in stationary standard deviations
_LEAST_SD = 1e-3
#: a Monte Carlo error of a mean counts as this part of it, in standard deviations: .01 is the goal
#: of probabilities, .05 standard deviations that of means
_SHARE_OF_SD = 0.2
#: grid points of one trajectory that are watched, at most
_WATCHED = 10
#: numbers that the draws of watched points, and the grids, may hold
_MOST_NUMBERS = 100_000_000


def model_arrays(network: Network) -> compiled.Model:
    """A network as compiled loops read it."""
    drifts, names, jumps = list(network.drifts.values()), list(network.drifts), jumping(network)
    tables = [jump_rates(network, m) for m in jumps]
    widest = max([table.shape[-1] for table in tables], default=1)
    n_blocks = [int(np.prod(table.shape[:-2], dtype=np.int64)) for table in tables]
    rates = np.zeros((len(jumps), max(n_blocks, default=1), widest, widest))
    steering = np.zeros((len(jumps), len(drifts), widest, widest))
    initial = np.zeros((len(jumps), widest))
    stride = np.zeros((len(jumps), len(jumps)), dtype=np.int64)
    shifts = np.zeros((len(drifts), len(jumps), widest))
    for i, (m, table) in enumerate(zip(jumps, tables)):
        size = table.shape[-1]
        rates[i, : n_blocks[i], :size, :size] = table.reshape(-1, size, size)
        steering[i, :, :size, :size] = slopes(network, m)
        initial[i, :size] = network.initial[m]
        step = 1
        for parent in reversed(network.jumping_parents(m)):
            stride[i, jumps.index(parent)] = step
            step *= len(network.states[parent])
        for c, drift in enumerate(drifts):
            own = drift.shifts.get(m, ())
            shifts[c, i, : len(own)] = own
    usual = _usual(network)
    return compiled.Model(
        np.array([d.decay for d in drifts]),
        np.array([d.diffusion for d in drifts]),
        np.array([d.baseline for d in drifts]),
        np.array([[d.linear.get(p, 0.0) for p in names] for d in drifts]),
        np.array([[d.quadratic.get(p, 0.0) for p in names] for d in drifts]),
        shifts,
        np.array([d.start_mean for d in drifts]),
        np.maximum([d.start_sd for d in drifts], _LEAST_SD * usual) ** 2,
        np.array([table.shape[-1] for table in tables], dtype=np.int64),
        stride,
        rates,
        steering,
        initial,
    )


def _usual(network: Network) -> FloatArray:
    """Stationary standard deviations of the continuous nodes without their parents."""
    return np.array([d.diffusion / np.sqrt(2.0 * d.decay) for d in network.drifts.values()])


def noise_variance(network: Network) -> FloatArray:
    """Of a measurement of every continuous node; never zero."""
    noise = [d.noise_sd for d in network.drifts.values()]
    result: FloatArray = np.maximum(noise, _LEAST_SD * _usual(network)) ** 2
    return result


@dataclass
class _Path:
    """One trajectory of one chain."""

    seen: compiled.Seen
    watched: IntArray
    stream: Any
    x: FloatArray
    s: IntArray
    sums: FloatArray
    """(2, T, C) of values and their squares over the draws."""
    counts: FloatArray
    """(T, J, S) draws in each state."""

    def go_on(self, model: compiled.Model, n: int, keep: bool, alone: bool) -> FloatArray:
        """``n`` sweeps; values at the watched points if the draws are to be kept."""
        width = self.x.shape[1] + self.s.shape[1]
        kept = np.empty((n if keep else 0, len(self.watched), width))
        arguments = (model, self.seen, self.x, self.s, n, alone, self.watched, self.stream, kept)
        if not compiled.sweeps(*arguments, self.sums, self.counts):
            raise ModelError(
                "No path of the jumping nodes was found that the network and the data allow: a "
                "measurement, or rates of zero, exclude all of them."
            )
        return kept


def _grid(times: FloatArray, step: float) -> FloatArray:
    """Ascending times with points between them, at most a step apart."""
    pieces = [
        np.linspace(a, b, max(1, int(np.ceil((b - a) / step))) + 1)[:-1] for a, b in pairwise(times)
    ]
    return np.concatenate([*pieces, times[-1:]])


class _Data:
    """The grid of every trajectory, and what was measured on it."""

    def __init__(self, network: Network, data: Observations, step: float):
        jumps, moving = jumping(network), list(network.drifts)
        times = [[data.start[d : d + 1], data.end[d : d + 1]] for d in range(data.n_trajectories)]
        for record in data.measurements.values():
            for d in range(data.n_trajectories):
                times[d].append(record.time[record.trajectory == d])
        points = [np.unique(np.concatenate(t)) for t in times]
        size = sum((p[-1] - p[0]) / step + len(p) for p in points)
        if size * len(network.nodes) > _MOST_NUMBERS:
            raise TooLargeError(
                f"The paths would have {size:.3g} points: give less data, or a longer ",
                *(Setting("time_step"), "."),
            )
        self.grid = [_grid(p, step) for p in points]
        widest = max([len(network.states[m]) for m in jumps], default=1)
        self.seen = [
            compiled.Seen(
                np.diff(grid),
                np.zeros((len(grid), len(moving))),
                np.zeros((len(grid), len(moving))),
                np.zeros((len(grid), len(jumps), widest)),
            )
            for grid in self.grid
        ]
        self.watched = [self._some(grid, p) for grid, p in zip(self.grid, points)]
        noise = noise_variance(network)
        for c, name in enumerate(moving):
            if name in data.measurements:
                record = data.measurements[name]
                value = record.value.astype(np.float64)
                for d, t, y in zip(record.trajectory, record.time, value):
                    k = np.searchsorted(self.grid[d], t)
                    self.seen[d].weight[k, c] += 1.0 / noise[c]
                    self.seen[d].pull[k, c] += y / noise[c]

    @staticmethod
    def _some(grid: FloatArray, times: FloatArray) -> IntArray:
        chosen = np.linspace(0, len(times) - 1, min(len(times), _WATCHED)).astype(np.int64)
        return np.searchsorted(grid, times[chosen]).astype(np.int64)

    def add_states(self, network: Network, data: Observations, emission: Any) -> None:
        """What was measured of jumping nodes."""
        jumps = jumping(network)
        if not jumps:
            return
        sizes = {n: len(network.states[n]) for n in jumps}
        still = Network(
            {n: [] for n in jumps},
            {n: np.zeros((size, size)) for n, size in sizes.items()},
            {n: network.states[n] for n in jumps},
        )
        own = data.select(nodes=[n for n in data.nodes if n in sizes])
        if isinstance(emission, Mapping):  # the noise of continuous nodes is in the network
            moving = [n for n in network.drifts if isinstance(emission.get(n), Continuous)]
            emission = {n: one for n, one in emission.items() if n not in moving}
        points = build_evidence(still, own, emission).points
        for i, (d, m) in enumerate(zip(points.trajectory, points.node)):
            k = np.searchsorted(self.grid[d], points.time[i])
            size, first = sizes[jumps[m]], points.offset[i]
            logs = points.log_likelihood[first : first + size]
            self.seen[d].log_likelihood[k, m, :size] += logs


class MixedPosterior(OverTime):
    """Mean and standard deviation of continuous nodes, state probabilities of jumping ones."""

    method = "sample"

    def __init__(
        self,
        network: Network,
        data: Observations,
        grid: list[FloatArray],
        chains: list[list[_Path]],
        ended: Drawn,
    ) -> None:
        super().__init__(network, data)
        self.converged, self.stop_reason = ended.settled, ended.stop_reason
        self.largest_error = ended.diagnosis.error
        self.worst_r_hat = ended.diagnosis.r_hat
        self._grid = grid
        n_draws = len(chains) * ended.n_draws
        by_trajectory = list(zip(*chains))
        sums = [sum(path.sums for path in own) / n_draws for own in by_trajectory]
        self._mean = [total[0] for total in sums]
        self._sd = [
            np.sqrt(np.maximum(total[1] - mean**2, 0.0)) for total, mean in zip(sums, self._mean)
        ]
        self._share = [sum(path.counts for path in own) / n_draws for own in by_trajectory]

    @property
    def log_evidence(self) -> NoReturn:
        """Not known: draws give no evidence value."""
        raise AsterismError(
            "Sampling has no evidence value; linear networks whose nodes are all continuous have."
        )

    def marginals(self, times: ArrayLike | None = None) -> xarray.DataArray:
        """(trajectory, time, node, quantity): "mean" and "sd" of the continuous nodes.

        ``times``: by default 101 from the earliest start to the latest end; outside of a trajectory
        its first or last values are repeated.
        """
        clock, moving = self._clock(times), list(self.network.drifts)
        both = [
            np.stack([_between(grid, part[d], clock) for part in (self._mean, self._sd)], axis=-1)
            for d, grid in enumerate(self._grid)
        ]
        return self._table(np.array(both), clock, moving, quantity=["mean", "sd"]).rename("value")

    def probabilities(self, times: ArrayLike | None = None) -> xarray.DataArray:
        """(trajectory, time, node, state): probabilities of the states of jumping nodes.

        States are numbered; ``label`` holds their names. Times as for ``marginals``.
        """
        clock = self._clock(times)
        jumps = jumping(self.network)
        if not jumps:
            raise DataError("The network has no jumping nodes: marginals() has its nodes.")
        share = np.array([_between(g, p, clock) for g, p in zip(self._grid, self._share)])
        numbers = list(range(share.shape[-1]))
        labels = [[str(s) for s in self.network.states[n]] + [""] * len(numbers) for n in jumps]
        table = self._table(share, clock, jumps, state=numbers).rename("probability")
        named = np.array([row[: len(numbers)] for row in labels])
        return table.assign_coords(label=(("node", "state"), named))

    def __repr__(self) -> str:
        return f"MixedPosterior: {self.stop_reason}"


def _between(grid: FloatArray, values: FloatArray, clock: FloatArray) -> FloatArray:
    """Values on a grid at other times, linear in between."""
    after = np.clip(np.searchsorted(grid, clock), 1, max(1, len(grid) - 1))
    if len(grid) == 1:
        return np.repeat(values, len(clock), axis=0)
    share = np.clip((clock - grid[after - 1]) / (grid[after] - grid[after - 1]), 0.0, 1.0)
    share = share.reshape(-1, *(1,) * (values.ndim - 1))
    result: FloatArray = (1.0 - share) * values[after - 1] + share * values[after]
    return result


def solve_mixed(
    network: Network,
    data: Observations,
    emission: Any = None,
    n_chains: int = 4,
    n_draws: Any = "auto",
    seed: Any = 0,
    burn_in: int | None = None,
    max_draws: int = MOST_DRAWS,
    time_step: float | None = None,
    n_jobs: int = 1,
) -> MixedPosterior:
    """Posterior of the paths by Gibbs sampling on a grid of times."""
    plan = DrawPlan(n_chains, n_draws, burn_in, max_draws)
    if time_step is not None and not time_step > 0.0:
        raise AsterismError(Setting("time_step"), f" is {time_step!r}; it must be positive.")
    laid_out = _Data(network, data, time_step or default_step(network))
    laid_out.add_states(network, data, emission)
    model, key = model_arrays(network), np.random.SeedSequence(seed).generate_state(2, np.uint64)
    n_jump, n_moving = len(jumping(network)), len(network.drifts)
    chains = [
        [
            _Path(
                *(seen, laid_out.watched[d], new_stream(key, c * data.n_trajectories + d)),
                np.tile(model.start_mean, (len(grid), 1)),
                np.zeros((len(grid), n_jump), dtype=np.int64),
                np.zeros((2, len(grid), n_moving)),
                np.zeros(seen.log_likelihood.shape),
            )
            for d, (grid, seen) in enumerate(zip(laid_out.grid, laid_out.seen))
        ]
        for c in range(n_chains)
    ]
    kept: list[FloatArray] = []

    def go_on(n: int, keep: bool, alone: bool = False) -> None:
        def one(chain: list[_Path], _: Any) -> FloatArray:
            return np.concatenate([path.go_on(model, n, keep, alone) for path in chain], axis=1)

        found = on_threads(one, chains, n_jobs)
        if keep:
            kept.append(np.array(found))

    go_on(2, False, alone=True)
    n_watched = sum(map(len, laid_out.watched)) * (n_moving + n_jump)
    ended = draw_in_rounds(
        plan,
        go_on,
        lambda: max(4, _MOST_NUMBERS // (n_watched * n_chains)),
        lambda: _quantities(np.concatenate(kept, axis=1), n_moving, model),
    )
    return MixedPosterior(network, data, laid_out.grid, chains, ended)


def _quantities(draws: FloatArray, n_moving: int, model: compiled.Model) -> FloatArray:
    """(chains, draws, quantities): values in their posterior standard deviations, and states."""
    chains, n = draws.shape[:2]
    values = draws[..., :n_moving]
    spread = values.std(axis=(0, 1))
    values = _SHARE_OF_SD * values / np.where(spread > 0.0, spread, 1.0)
    states = [
        (draws[..., n_moving + m] == i).astype(np.float64)
        for m, size in enumerate(model.n_states)
        for i in range(1, size)
    ]
    return np.concatenate([values.reshape(chains, n, -1), *states], axis=2)
