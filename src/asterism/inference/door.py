"""The one door to inference: data and an emission become evidence, a method solves it."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

from asterism.data.observations import Observations
from asterism.data.trajectories import Trajectories
from asterism.errors import AsterismError
from asterism.inference.methods import COMMON_OPTIONS, METHODS
from asterism.inference.posterior import Posterior
from asterism.model.network import Network
from asterism.numerics.resources import time_limit


def infer(
    net: Network,
    obs: Observations | Trajectories,
    emission: Any = None,
    method: str = "star",
    tolerance: float = 1e-3,
    time_step: float | None = None,
    max_sweeps: int = 200,
    n_jobs: int = 1,
    max_seconds: float | None = None,
    **options: Any,
) -> Posterior:
    """Hidden paths of every trajectory, given a network and what was measured.

    ``method``: a name in ``METHODS``, e.g. "star" (default), "mean_field" (a lower bound of the
    evidence) or "exact" (small networks). ``tolerance``, ``time_step`` and ``max_sweeps`` concern
    methods that iterate on a time grid. ``n_jobs`` threads share the trajectories, −1 takes all
    cores; results do not depend on it. ``options`` go to the method; "exact" knows
    ``joint_limit``, "clusters" ``cluster_size``. Trajectories count as seen throughout. After
    ``max_seconds`` the iteration ends with the best so far. Warns if the iteration did not settle.
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
        max_seconds=max_seconds,
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
    max_seconds: float | None = None,
    **options: Any,
) -> Posterior:
    """:func:`infer` for callers that themselves say whether the iteration settled."""
    entry = METHODS.get(method) if isinstance(method, str) else None
    if entry is None:
        raise AsterismError(f"method {method!r} is not known; valid are {', '.join(METHODS)}.")
    valid = (*COMMON_OPTIONS, *entry.options)
    for name in options:
        if name not in valid:
            raise AsterismError(
                f"infer has no option {name!r} for {method!r}; valid are {', '.join(valid)}."
            )
    if not isinstance(obs, Observations | Trajectories):
        raise AsterismError(
            f"obs is a {type(obs).__name__}; infer needs Trajectories or Observations, which "
            "am.Observations.from_frame(table) makes of a table."
        )
    from asterism.evidence.build import build_evidence

    if isinstance(obs, Trajectories):
        obs = Observations.from_trajectories(obs)
    evidence = build_evidence(net, obs, emission)
    taken = (*entry.uses, *entry.options)
    solve = importlib.import_module(entry.module).solve
    chosen = {k: v for k, v in options.items() if k in taken}
    with time_limit(max_seconds):
        posterior: Posterior = solve(net, evidence, **dict(entry.fixed), **chosen)
    if entry.has_evidence:
        posterior.measure_accuracy = _measured
    return posterior


def _measured(posterior: Posterior) -> Any:
    """The accuracy of a posterior, by a module that loads every method."""
    from asterism.inference.accuracy import measure

    return measure(posterior)
