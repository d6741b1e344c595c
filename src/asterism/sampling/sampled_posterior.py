"""Owns :class:`SampledPosterior`: averages over drawn paths, each with its Monte Carlo error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from asterism.data.statistics import Statistics
from asterism.data.trajectories import Trajectories
from asterism.errors import AsterismError, Setting, counted
from asterism.inference.posterior import Posterior, statistics_of
from asterism.model.network import Network
from asterism.numerics.compiled import diagonal_index
from asterism.sampling.diagnose import monte_carlo_error
from asterism.sampling.draw_tree import tree_of
from asterism.sampling.kept_draws import KeptDraws
from asterism.timeline.evidence import Evidence, FloatArray, IntArray

if TYPE_CHECKING:
    import xarray


#: numbers in the group log_likelihood beyond which it is left out (half a gigabyte)
_MOST_LIKELIHOODS = 60_000_000


class SampledPosterior(Posterior):
    """What :func:`asterism.infer` returns for ``method="sample"``.

    ``marginals``, ``statistics`` and ``joint_marginals`` are averages over draws of paths;
    ``errors`` has the same fields with their Monte Carlo standard errors.
    """

    def __init__(
        self,
        network: Network,
        evidence: Evidence,
        draws: KeptDraws,
        converged: bool,
        stop_reason: str,
        n_sweeps: int,
        history: Sequence[Mapping[str, float]],
    ) -> None:
        # the evidence value of the general posterior does not exist here
        self.network = network
        self.evidence = evidence
        self.method = "sample"
        self.converged = converged
        self.stop_reason = stop_reason
        self.n_sweeps = n_sweeps
        self.courses = SampledCourses(network, evidence, draws)
        self.draws = draws
        self._rounds = tuple(history)

    @property
    def log_evidence(self) -> NoReturn:  # type: ignore[override]
        """Not known: draws give no evidence value."""
        self._no_evidence()

    @property
    def log_evidence_given_first(self) -> NoReturn:
        self._no_evidence()

    @property
    def log_evidence_by_trajectory(self) -> NoReturn:
        self._no_evidence()

    @property
    def log_evidence_parts(self) -> NoReturn:
        self._no_evidence()

    def _no_evidence(self) -> NoReturn:
        raise AsterismError(
            *("Sampling has no evidence value; ", Setting("method", "clusters")),
            *(" computes one, and ", Setting("method", "exact"), " for small networks."),
        )

    def to_arviz(self, times: ArrayLike | None = None) -> xarray.DataTree:
        """All draws as a tree, as arviz reads.

        ``posterior`` holds state numbers (chain, draw, trajectory, time, node) at ``times``, by
        default at 21 even ones; ``log_likelihood`` ln P(measurement | path) of every measurement
        of a single node; the other groups are sample_stats and observed_data.
        """
        begin, end = self.evidence.start.min(), self.evidence.end.max()
        clock = self._times(np.linspace(begin, end, 21) if times is None else times)
        n = range(len(self.labels))
        states = np.stack([self.draws.states(d, clock) for d in n], axis=2)
        series = self._statistics_series
        jumps = series.sum(axis=-1) - series[..., self._diagonal].sum(axis=-1)
        return tree_of(
            {"state": (("chain", "draw", "trajectory", "time", "node"), states)},
            {
                "trajectory": [str(label) for label in self.labels],
                "time": clock,
                "node": list(self.network.nodes),
            },
            {"n_jumps": (("chain", "draw"), jumps)},
            self.observations,
            self._log_likelihood(),
        )

    def _log_likelihood(self) -> dict[str, Any]:
        """ln P of every measurement given the path of each draw, and what each measurement is."""
        points = self.evidence.points
        shape = (*self._statistics_series.shape[:2], len(points.time))
        if np.prod(shape, dtype=float) > _MOST_LIKELIHOODS or not len(points.time):
            return {}
        values = np.empty(shape)
        for d in np.unique(points.trajectory):
            rows = np.flatnonzero(points.trajectory == d)
            clock, at = np.unique(points.time[rows], return_inverse=True)
            states = self.draws.states(int(d), clock)[:, :, at, points.node[rows]]
            values[:, :, rows] = points.log_likelihood[points.offset[rows] + states]
        names, labels = np.asarray(self.network.nodes), np.asarray([str(x) for x in self.labels])
        return {
            "value": (("chain", "draw", "measurement"), values),
            "trajectory": ("measurement", labels[points.trajectory]),
            "time": ("measurement", points.time),
            "node": ("measurement", names[points.node]),
        }

    @cached_property
    def history(self) -> pd.DataFrame:
        """Draws per chain, largest error and R̂ after every round."""
        return pd.DataFrame(list(self._rounds))

    @cached_property
    def _statistics_series(self) -> FloatArray:
        return self.draws.statistics()

    @cached_property
    def statistics(self) -> Statistics:
        """Expected dwell times and transitions of every family, summed over the trajectories."""
        return self._as_statistics(self._statistics_series.mean(axis=(0, 1)))

    @cached_property
    def errors(self) -> MonteCarloErrors:
        """The same fields as here, holding Monte Carlo standard errors."""
        return MonteCarloErrors(self)

    def sample(self, n: int = 1, kind: str = "marginal", seed: Any = None) -> Trajectories:
        """``n`` of the drawn paths of every trajectory, labelled (trajectory, draw).

        Nodes are drawn jointly, whatever ``kind``.
        """
        return super().sample(n, kind, seed)

    @property
    def _diagonal(self) -> IntArray:
        return diagonal_index(self.network.compiled.graph)

    def _as_statistics(self, table: FloatArray) -> Statistics:
        return statistics_of(self.network, table[self._diagonal], table)

    def _evidence_facts(self) -> list[tuple[str, str]]:
        return [("chains", str(self.draws.n_chains)), ("draws", f"{self.draws.n_draws:,}")]

    def __repr__(self) -> str:
        state = "converged" if self.converged else f"NOT converged ({self.stop_reason})"
        return (
            f"<SampledPosterior: {counted(len(self.labels), 'trajectory')}, "
            f"{counted(self.network.n_nodes, 'node')}, "
            f"{self.draws.n_chains} chains of {self.draws.n_draws} draws, {state}>"
        )


class SampledCourses:
    """Marginals and paths from the kept draws."""

    def __init__(
        self, network: Network, evidence: Evidence, draws: KeptDraws, errors: bool = False
    ) -> None:
        self._network = network
        self._labels = evidence.labels or tuple(range(evidence.n_trajectories))
        self._draws = draws
        self._errors = errors

    def marginals(self, trajectory: int, times: FloatArray) -> list[FloatArray]:
        """Shares of the draws in each state, or their Monte Carlo errors."""
        every = [[n] for n in range(self._draws.n_nodes)]
        return self._draws.shares(trajectory, every, times, self._errors)

    def joint_marginals(
        self, trajectory: int, nodes: Sequence[int], times: FloatArray
    ) -> FloatArray:
        """The same for every combination of states of several nodes."""
        return self._draws.shares(trajectory, [nodes], times, self._errors)[0]

    def sample(self, n: int, kind: str, rng: np.random.Generator) -> Trajectories:
        """Paths among those that were drawn."""
        return self._draws.trajectories(n, self._network.states, self._labels, rng)


class MonteCarloErrors:
    """Monte Carlo standard errors of everything that a sampled posterior says."""

    def __init__(self, posterior: SampledPosterior) -> None:
        self._posterior = posterior
        self._of_marginals = SampledPosterior(
            posterior.network, posterior.evidence, posterior.draws, True, "", 0, ()
        )
        self._of_marginals.courses = SampledCourses(
            posterior.network, posterior.evidence, posterior.draws, errors=True
        )

    def marginals(self, times: ArrayLike | None = None) -> xarray.DataArray:
        """Errors of ``marginals``."""
        return self._of_marginals.marginals(times).rename("error")

    def joint_marginals(
        self, nodes: Sequence[str], times: ArrayLike | None = None
    ) -> xarray.DataArray:
        """Errors of ``joint_marginals``."""
        return self._of_marginals.joint_marginals(nodes, times).rename("error")

    @cached_property
    def statistics(self) -> Statistics:
        """Errors of ``statistics``; a jump that no draw makes counts as if one did."""
        series = self._posterior._statistics_series
        error = monte_carlo_error(series)
        n_draws = series.shape[0] * series.shape[1]
        seen = self._posterior.evidence.end - self._posterior.evidence.start
        error = np.maximum(error, 1.0 / n_draws)
        diagonal = self._posterior._diagonal
        error[diagonal] = np.minimum(error[diagonal], max(float(seen.sum()), 0.0))
        return self._posterior._as_statistics(error)
