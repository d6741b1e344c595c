"""Owns the kept draws of paths: everything a sampled posterior says is an average over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asterism.data.trajectories import Trajectories
from asterism.sampling._draws import forecast_draws, states_in_draws
from asterism.sampling._gibbs import Record, draw_statistics, new_work
from asterism.sampling.diagnose import monte_carlo_error
from asterism.sampling.sampler_arrays import FloatArray, IntArray, PathModel

#: at most so many states are compared at once when marginals are counted
_AT_ONCE = 20_000_000


@dataclass
class KeptDraws:
    """Draws of all chains; ``blocks[c]`` are those of chain c, in the order in which they came."""

    model: PathModel
    blocks: list[list[Record]]
    seed: Any = 0
    slowness: float = 1.0
    """How many draws are worth one independent draw, for a typical marginal."""

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return len(self.blocks)

    @property
    def n_draws(self) -> int:
        """Per chain."""
        return sum(len(r.initial) for r in self.blocks[0])

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.model.layout.n_states)

    def states(self, trajectory: int, times: FloatArray) -> NDArray[np.int16]:
        """(chains, draws, times, nodes); before the start the state then, after the end a forecast.

        The forecast of a draw follows the network's own rates, with random numbers of its own.
        """
        layout = self.model.layout
        begin, end = float(layout.start[trajectory]), float(layout.end[trajectory])
        clock = np.maximum(np.asarray(times, dtype=np.float64), begin)
        order = np.argsort(clock, kind="stable")
        inside = clock[order]
        n_later = int((inside > end).sum())
        first = trajectory * self.n_nodes
        found = np.stack(
            [
                np.concatenate(
                    [
                        states_in_draws(r, first, self.n_nodes, np.minimum(inside, end))
                        for r in blocks
                    ]
                )
                for blocks in self.blocks
            ]
        )
        if n_later:
            later = np.ascontiguousarray(found[:, :, -n_later:].reshape(-1, n_later, self.n_nodes))
            words = np.random.SeedSequence(
                np.random.SeedSequence(self.seed).entropy, spawn_key=(trajectory, 7)
            )
            forecast_draws(
                layout, self.model.families, self.model.rates, end, inside[-n_later:],
                words.generate_state(2, np.uint64), later,
            )  # fmt: skip
            found[:, :, -n_later:] = later.reshape(found[:, :, -n_later:].shape)
        result = np.empty_like(found)
        result[:, :, order] = found
        return result

    def shares(
        self,
        trajectory: int,
        wanted: Sequence[Sequence[int]],
        times: FloatArray,
        errors: bool = False,
    ) -> list[FloatArray]:
        """Per set of nodes (times, S of its first node, S of its second, …) the share of draws.

        ``errors``: the Monte Carlo standard errors of these shares instead; none where all nodes of
        a set are given.
        """
        layout = self.model.layout
        result = [np.zeros((len(times), *layout.n_states[list(nodes)])) for nodes in wanted]
        per_time = max(1, self.n_chains * self.n_draws * self.n_nodes)
        step = max(1, _AT_ONCE // per_time)
        for first in range(0, len(times), step):
            piece = slice(first, first + step)
            states = self.states(trajectory, times[piece])
            for found, nodes in zip(result, wanted):
                if errors and layout.is_given[list(nodes)].all():
                    continue
                for cell in np.ndindex(found.shape[1:]):
                    if errors and found.shape[1:] == (2,) and cell == (1,):
                        found[piece, 1] = found[piece, 0]  # of two states, both have the same error
                        continue
                    there = np.ones(states.shape[:3], dtype=np.bool_)
                    for n, x in zip(nodes, cell):
                        there &= states[..., n] == x
                    share = self._share_error(there) if errors else there.mean(axis=(0, 1))
                    found[(piece, *cell)] = share
        return result

    def statistics(self) -> FloatArray:
        """(chains, draws, table) jumps and, on the diagonals, times of every family."""
        work = new_work(2, 2, self.model.families.parents.shape[1] + 1, 0)
        return np.stack(
            [
                np.concatenate([draw_statistics(self.model, r, work) for r in blocks])
                for blocks in self.blocks
            ]
        )

    def trajectories(self, n: int, states: Any, labels: Any, seed: Any) -> Trajectories:
        """``n`` draws of every trajectory, spread over the chains; labelled (trajectory, draw)."""
        layout = self.model.layout
        rng = np.random.default_rng(seed)
        total = self.n_chains * self.n_draws
        chosen = rng.choice(total, size=n, replace=n > total)
        n_trajectories = len(layout.start)
        initial = np.zeros((n_trajectories * n, self.n_nodes), dtype=np.int64)
        paths: list[IntArray] = []
        times, who, entered = [], [], []
        for k, number in enumerate(chosen):
            record, i = self._draw(int(number))
            first = record.start[i]
            initial[np.arange(n_trajectories) * n + k] = record.initial[i].reshape(
                n_trajectories, self.n_nodes
            )
            counts = np.diff(first)
            pair = np.repeat(np.arange(len(counts)), counts)
            own = slice(int(first[0]), int(first[-1]))
            paths.append((pair // self.n_nodes) * n + k)
            who.append(pair % self.n_nodes)
            times.append(record.time[own])
            entered.append(record.state[own].astype(np.int64))
        return Trajectories.of_jumps(
            states,
            tuple((label, k) for label in labels for k in range(n)),
            *(np.repeat(layout.start, n), np.repeat(layout.end, n), initial),
            *(np.concatenate(paths), np.concatenate(times)),
            *(np.concatenate(who), np.concatenate(entered)),
        )

    def _draw(self, number: int) -> tuple[Record, int]:
        chain, i = divmod(number, self.n_draws)
        for record in self.blocks[chain]:
            if i < len(record.initial):
                return record, i
            i -= len(record.initial)
        raise IndexError(number)

    def _share_error(self, there: NDArray[np.bool_]) -> FloatArray:
        """Error of a share.

        A rare state tells little about its own autocorrelation: then that of a typical marginal is
        used, with one more visit than there was, so no error is ever zero.
        """
        total = self.n_chains * self.n_draws
        visits = there.sum(axis=(0, 1))
        share = (np.minimum(visits, total - visits) + self.slowness) / (total + self.slowness)
        rare = np.sqrt(share * (1.0 - share) * self.slowness / total)
        seldom = share * total < 50.0 * self.slowness
        return np.where(
            seldom, np.maximum(monte_carlo_error(there), rare), monte_carlo_error(there)
        )
