"""``am.infer``, and what it returns: what is known about the hidden paths.

Data and an emission become evidence, and a method of the registry (``methods.py``) solves it. A
:class:`Posterior` is the same for every method. What differs between methods (how marginals at any
time and sampled paths come about) stands behind :class:`Courses`.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from asterism.data.measurements import objects
from asterism.data.observations import Observations
from asterism.data.statistics import Statistics
from asterism.data.trajectories import Trajectories
from asterism.errors import AsterismError, DataError, Setting, TooLargeError, counted
from asterism.inference.methods import COMMON_OPTIONS, METHODS
from asterism.model.network import Network
from asterism.notebook_card import card
from asterism.numerics.progress import ProgressListener, listening
from asterism.numerics.resources import current_limit, minutes_limit
from asterism.timeline.evidence import (
    Evidence,
    FloatArray,
    first_measurements,
    first_times,
    start_log_evidence,
)

if TYPE_CHECKING:
    import xarray

_MARGINAL_LIMIT = 500_000_000
KINDS = ("marginal", "network")


class Courses(Protocol):
    """Marginals over time and drawn paths, as a method finds them."""

    def marginals(self, trajectory: int, times: FloatArray) -> list[FloatArray]:
        """Per node (len(times), S_n) probabilities; before the start, those at the start."""

    def sample(self, n: int, kind: str, rng: np.random.Generator) -> Trajectories:
        """``n`` paths of every trajectory, labelled (trajectory, draw)."""


class Convergence(NamedTuple):
    """How the iteration of a method ended."""

    converged: bool = True
    stop_reason: str = "Exact: nothing to iterate."
    n_sweeps: int = 0
    history: Callable[[], Sequence[Mapping[str, float]]] = tuple
    """One row per sweep, made when it is asked for."""


NOT_ITERATED = Convergence()


def statistics_of(network: Network, dwell: FloatArray, transitions: FloatArray) -> Statistics:
    """Flat expected dwell times and transitions with the names of a network."""
    graph = network.compiled.graph
    return Statistics.from_flat(
        *(network.nodes, network.parents, graph, dwell, transitions, network.states)
    )


def clock_of(times: ArrayLike | None, start: FloatArray, end: FloatArray) -> FloatArray:
    """The times that are asked for; by default 101 from the earliest start to the latest end."""
    if times is None:
        return np.linspace(start.min(), end.max(), 101)
    clock = np.atleast_1d(np.asarray(times, dtype=np.float64))
    if clock.ndim != 1 or not np.isfinite(clock).all():
        raise DataError("times must be a list of finite numbers.")
    return clock


class Posterior:
    """Evidence, marginals, expected statistics and sampled paths, given the data."""

    observations: Observations | None = None
    """What was measured, where :func:`infer` was given it."""
    #: compares the posterior with that of a better method; None where there is none
    measure_accuracy: Callable[[Posterior], Any] | None = None

    def __init__(
        self,
        network: Network,
        evidence: Evidence,
        method: str,
        log_evidence_by_trajectory: FloatArray,
        statistics: Callable[[], Statistics],
        courses: Courses,
        log_evidence_of: Callable[[Evidence], FloatArray],
        convergence: Convergence = NOT_ITERATED,
        log_evidence_parts: Callable[[], Mapping[str, float]] = dict,
    ) -> None:
        """``log_evidence_of`` gives ln P per trajectory of other evidence by the same method.

        Tables that not everybody looks at are given as functions, called when they are asked for.
        """
        self.network = network
        self.evidence = evidence
        self.method = method
        self._log_evidence_by_trajectory = log_evidence_by_trajectory
        self.log_evidence = float(np.sum(log_evidence_by_trajectory))
        self.converged = convergence.converged
        self.stop_reason = convergence.stop_reason
        self.n_sweeps = convergence.n_sweeps
        self.courses = courses
        self._log_evidence_of = log_evidence_of
        self._make_statistics = statistics
        self._make_history = convergence.history
        self._make_parts = log_evidence_parts

    @cached_property
    def statistics(self) -> Statistics:
        """Expected dwell times and transitions of every family, summed over the trajectories."""
        return self._make_statistics()

    @cached_property
    def accuracy(self) -> Any:
        """How much the answer changes with a better method: an indication of its error.

        Solves again, by exact inference or with larger clusters, and so takes longer than the
        posterior itself. Not a guarantee.
        """
        if self.measure_accuracy is None:
            raise AsterismError(
                f"Method {self.method!r} has no approximation to compare with a better one; "
                "posterior.errors holds the Monte Carlo standard errors of its answers."
            )
        return self.measure_accuracy(self)

    @cached_property
    def history(self) -> pd.DataFrame:
        """What every sweep changed; empty where nothing is iterated."""
        return pd.DataFrame(list(self._make_history()))

    @cached_property
    def log_evidence_parts(self) -> dict[str, float]:
        """The terms that ``log_evidence`` is made of, where the method knows them."""
        return dict(self._make_parts() or {"log_evidence": self.log_evidence})

    @cached_property
    def log_evidence_by_trajectory(self) -> pd.Series:
        """ln P(Y) of every trajectory."""
        return pd.Series(
            self._log_evidence_by_trajectory,
            index=pd.Index(list(self.labels), name="trajectory", tupleize_cols=False),
            name="log_evidence",
        )

    @property
    def labels(self) -> tuple[object, ...]:
        """Names of the trajectories."""
        return self.evidence.labels or tuple(range(self.evidence.n_trajectories))

    @cached_property
    def log_evidence_given_first(self) -> float:
        """ln P(Y) given each trajectory's measurements at its first measurement time."""
        compiled = self.network.compiled
        first = first_measurements(self.evidence, compiled.graph.n_states)
        times = first_times(self.evidence)
        at_start = np.all((times == self.evidence.start) | ~np.isfinite(times))
        if at_start and not first.joint:
            seen = start_log_evidence(first, compiled.initial, compiled.graph.state_start)
        else:
            seen = self._log_evidence_of(first)
        return self.log_evidence - float(np.sum(seen))

    # ---- marginals --------------------------------------------------------------------------

    def courses_at(
        self, n_extra: int, max_values: int
    ) -> tuple[list[FloatArray], list[FloatArray]]:
        """Times and state probabilities (times, N, S) of each trajectory, for results and pages.

        The times are those of its measurements and ``n_extra`` even ones. When all trajectories
        together would exceed ``max_values`` numbers, or the time is over, only the first ones are
        computed.
        """
        evidence, states = self.evidence, self.network.states
        width = max(map(len, states.values()))
        times, blocks = [], []
        n_values = 0
        for number in range(len(self.labels)):
            even = np.linspace(evidence.start[number], evidence.end[number], n_extra)
            measured = evidence.points.time[evidence.points.trajectory == number]
            own = np.unique(np.concatenate([even, measured]))
            n_values += len(own) * len(states) * width
            if number and (n_values > max_values or current_limit().stops()):
                break
            block = np.full((len(own), len(states), width), np.nan)
            for n, probabilities in enumerate(self.courses.marginals(number, own)):
                block[:, n, : probabilities.shape[1]] = probabilities
            times.append(own)
            blocks.append(block)
        return times, blocks

    def marginals(self, times: ArrayLike | None = None) -> xarray.DataArray:
        """Probability of every state: (trajectory, time, node, state).

        ``times``: any, also past the end of a trajectory (a forecast); before its start the
        probabilities at the start are repeated. By default 101 times from the earliest start to
        the latest end. Nodes with fewer states than others are padded with zeros. The coordinate
        ``state`` holds the labels if all nodes share them and numbers otherwise; ``label`` always
        holds the labels.
        """
        import xarray

        clock = self._times(times)
        network = self.network
        width = max(len(s) for s in network.states.values())
        shape = (len(self.labels), len(clock), network.n_nodes, width)
        if np.prod(shape, dtype=float) > _MARGINAL_LIMIT:
            raise TooLargeError(
                f"Marginals of shape {shape} would hold {np.prod(shape, dtype=float):.3g} numbers, "
                f"above the limit of {_MARGINAL_LIMIT:,}: ask for fewer times."
            )
        values = np.zeros(shape)
        for d in range(shape[0]):
            for n, p in enumerate(self.courses.marginals(d, clock)):
                values[d, :, n, : p.shape[1]] = p
        labels = np.full((network.n_nodes, width), "", dtype=object)
        for n, node in enumerate(network.nodes):
            labels[n, : len(network.states[node])] = [str(s) for s in network.states[node]]
        shared = len({tuple(s) for s in network.states.values()}) == 1
        states: Sequence[Any] = network.states[network.nodes[0]] if shared else range(width)
        return xarray.DataArray(
            values,
            dims=("trajectory", "time", "node", "state"),
            coords={
                "trajectory": self._coordinate(),
                "time": clock,
                "node": list(network.nodes),
                "state": list(states),
                "label": (("node", "state"), labels.astype(str)),
            },
            name="probability",
        )

    def joint_marginals(
        self, nodes: Sequence[str], times: ArrayLike | None = None
    ) -> xarray.DataArray:
        """Joint probabilities of several nodes: (trajectory, time, first node, second node, …).

        Methods that follow nodes jointly know them: "exact" for any nodes, "clusters" for nodes
        that share a cluster. ``times`` as for :meth:`marginals`.
        """
        import xarray

        names = [str(n) for n in nodes]
        if len(set(names)) != len(names) or not names:
            raise AsterismError("Name each node once, e.g. joint_marginals(('A', 'B')).")
        numbers = [self.network.node_index(n) for n in names]
        read = getattr(self.courses, "joint_marginals", None)
        if read is None:
            raise AsterismError(
                f"method {self.method!r} does not know joint probabilities of several nodes; use ",
                *(Setting("method", "clusters"), " or ", Setting("method", "exact"), "."),
            )
        clock = self._times(times)
        values = np.stack([read(d, numbers, clock) for d in range(len(self.labels))])
        if values.size > _MARGINAL_LIMIT:
            raise TooLargeError(f"{values.size:,} probabilities are too many: ask for fewer times.")
        states = {name: list(self.network.states[name]) for name in names}
        return xarray.DataArray(
            values,
            dims=("trajectory", "time", *names),
            coords={"trajectory": self._coordinate(), "time": clock, **states},
            name="probability",
        )

    def marginals_frame(self, times: ArrayLike | None = None) -> pd.DataFrame:
        """Tidy table trajectory, time, node, state, probability; no padding."""
        clock = self._times(times)
        parts = []
        for d, label in enumerate(self.labels):
            for node, p in zip(self.network.nodes, self.courses.marginals(d, clock)):
                size = p.shape[1]
                states = objects(self.network.states[node])
                parts.append(
                    pd.DataFrame(
                        {
                            "trajectory": objects([label]).repeat(len(clock) * size),
                            "time": np.repeat(clock, size),
                            "node": node,
                            "state": np.tile(states, len(clock)),
                            "probability": p.ravel(),
                        }
                    )
                )
        return pd.concat(parts, ignore_index=True)

    def most_likely_states(self, times: ArrayLike | None = None) -> pd.DataFrame:
        """Wide table trajectory, time, and for each node the state with the largest marginal."""
        clock = self._times(times)
        parts = []
        for d, label in enumerate(self.labels):
            columns: dict[str, Any] = {
                "trajectory": objects([label]).repeat(len(clock)),
                "time": clock,
            }
            for node, p in zip(self.network.nodes, self.courses.marginals(d, clock)):
                columns[node] = objects(self.network.states[node])[p.argmax(axis=1)]
            parts.append(pd.DataFrame(columns))
        return pd.concat(parts, ignore_index=True)

    def _coordinate(self) -> list[Any]:
        """Names of the trajectories, all of one type."""
        names = list(self.labels)
        alike = any(all(isinstance(x, kind) for x in names) for kind in (str, int))
        return names if alike else [str(x) for x in names]

    def _times(self, times: ArrayLike | None) -> FloatArray:
        return clock_of(times, self.evidence.start, self.evidence.end)

    # ---- paths ------------------------------------------------------------------------------

    def sample(self, n: int = 1, kind: str = "marginal", seed: Any = None) -> Trajectories:
        """``n`` state paths of every trajectory, labelled (trajectory, draw).

        With method "exact" paths are drawn jointly, whatever ``kind``. Otherwise "marginal" draws
        nodes independently of each other (means reproduce marginals and statistics) and "network"
        keeps their dependence (marginals are only approximate).
        """
        if kind not in KINDS:
            raise AsterismError(f"kind {kind!r} is not known; valid are {', '.join(KINDS)}.")
        if n < 1:
            raise AsterismError(f"n is {n}; at least 1 path is needed.")
        return self.courses.sample(n, kind, np.random.default_rng(seed))

    def _evidence_facts(self) -> list[tuple[str, str]]:
        """What a card says of the evidence; methods without one say something else."""
        return [("log evidence", f"{self.log_evidence:.6g}")]

    def _repr_html_(self) -> str:
        facts = [
            ("trajectories", f"{len(self.labels):,}"),
            ("nodes", f"{self.network.n_nodes:,}"),
            *self._evidence_facts(),
        ]
        if self.converged:
            facts.append(("converged:", self.stop_reason))
        warning = "" if self.converged else f"Not converged. {self.stop_reason}"
        return card(f"Posterior ({self.method})", facts, warning=warning)

    def __repr__(self) -> str:
        state = "converged" if self.converged else f"NOT converged ({self.stop_reason})"
        return (
            f"<Posterior ({self.method}): {counted(len(self.labels), 'trajectory')}, "
            f"{counted(self.network.n_nodes, 'node')}, "
            f"log evidence {self.log_evidence:.6g}, {state}>"
        )


# ---- the one way in: data and an emission become evidence, a method solves it -----------------


def infer(
    net: Network,
    obs: Observations | Trajectories,
    emission: Any = None,
    method: str = "star",
    tolerance: float = 1e-3,
    time_step: float | None = None,
    max_sweeps: int = 200,
    n_jobs: int = 1,
    minutes: float | None = None,
    progress: ProgressListener | bool | None = None,
    **options: Any,
) -> Posterior:
    """Hidden paths of every trajectory, given a network and what was measured.

    ``method``: a name in ``METHODS``, e.g. "star" (default), "mean_field" (a lower bound of the
    evidence) or "exact" (small networks). ``tolerance``, ``time_step`` and ``max_sweeps`` concern
    methods that iterate on a time grid. ``n_jobs`` threads share the trajectories, −1 takes all
    cores; results do not depend on it. ``options`` go to the method; "exact" knows
    ``joint_limit``, "clusters" ``cluster_size``. Trajectories count as seen throughout. After
    ``minutes`` the iteration ends with the best so far. ``progress``: a bar is shown in notebooks;
    True shows one everywhere, False none. Warns if the iteration did not settle.

    Linear networks of continuous nodes are solved exactly, by Kalman smoothing, whatever the
    method: their ``marginals`` hold "mean" and "sd" of every node. Networks of both kinds, or with
    quadratic weights, are sampled on steps of ``time_step``; ``probabilities`` then has the states.
    """
    posterior = quiet_infer(
        net,
        obs,
        emission,
        method,
        tolerance=tolerance,
        time_step=time_step,
        max_sweeps=max_sweeps,
        n_jobs=n_jobs,
        minutes=minutes,
        progress=progress,
        **options,
    )
    if not posterior.converged:
        from sklearn.exceptions import ConvergenceWarning

        warnings.warn(posterior.stop_reason, ConvergenceWarning, stacklevel=2)
    return posterior


def quiet_infer(
    net: Network,
    obs: Observations | Trajectories,
    emission: Any = None,
    method: str = "star",
    minutes: float | None = None,
    progress: ProgressListener | bool | None = None,
    **options: Any,
) -> Posterior:
    """:func:`infer` for callers that themselves say whether the iteration settled."""
    entry = METHODS.get(method) if isinstance(method, str) else None
    if entry is None:
        raise AsterismError(f"method {method!r} is not known; valid are {', '.join(METHODS)}.")
    valid = (*COMMON_OPTIONS, *entry.options)
    for name in options:
        if name == "max_seconds":
            raise TypeError("infer has no max_seconds any more; say minutes=.")
        if name not in valid:
            raise AsterismError(
                f"infer has no option {name!r} for {method!r}; valid are {', '.join(valid)}."
            )
    if not isinstance(obs, Observations | Trajectories):
        raise AsterismError(
            f"obs is a {type(obs).__name__}; infer needs Trajectories or Observations, which "
            "am.Observations.from_frame(table) makes of a table."
        )
    if net.drifts:
        taken = ("time_step", "n_jobs", *METHODS["sample"].options)
        chosen = {k: v for k, v in options.items() if k in taken}
        solve = importlib.import_module("asterism.continuous.posterior").solve
        with minutes_limit(minutes), listening(progress, "Inference (sample)"):
            found: Any = solve(net, obs, emission, method, **chosen)
        return found  # type: ignore[no-any-return]
    from asterism.timeline.build import build_evidence

    if isinstance(obs, Trajectories):
        obs = Observations.from_trajectories(obs)
    posterior = infer_evidence(
        net, build_evidence(net, obs, emission), method, minutes, progress, **options
    )
    posterior.observations = obs
    return posterior


def infer_evidence(
    net: Network,
    evidence: Evidence,
    method: str,
    minutes: float | None = None,
    progress: ProgressListener | bool | None = None,
    **options: Any,
) -> Posterior:
    """The posterior of evidence that is built already; options that a method lacks are left out."""
    entry = METHODS[method]
    taken = (*entry.uses, *entry.options)
    solve = importlib.import_module(entry.module).solve
    chosen = {k: v for k, v in options.items() if k in taken}
    with minutes_limit(minutes), listening(progress, f"Inference ({method})"):
        posterior: Posterior = solve(net, evidence, **dict(entry.fixed), **chosen)
    if entry.has_evidence:
        posterior.measure_accuracy = _measured
    return posterior


def _measured(posterior: Posterior) -> Any:
    """The accuracy of a posterior, by a module that loads every method."""
    return importlib.import_module("asterism.inference.accuracy").measure(posterior)
