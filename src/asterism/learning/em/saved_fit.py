"""Owns what a fit of rates leaves in a results folder: its tables, courses and record."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from asterism.errors import AsterismError
from asterism.learning.em.quantities import common_times
from asterism.results.courses import first_only, gather, measured_table
from asterism.results.folder import save_run
from asterism.results.run import RATE_COLUMNS, Run

if TYPE_CHECKING:
    from asterism.learning.em.parameter_learner import ParameterLearner

#: times at which P(t) and the prevalence are kept
N_TIMES = 41

#: how well it fits, and with how many parameters
MEASURES = tuple(
    f"{name}{given}"
    for given in ("", "_given_first")
    for name in ("log_evidence", "n_parameters", "aic", "bic")
)

#: trajectories whose courses a fit keeps
N_COURSES = 200


def save_fit(learner: ParameterLearner, folder: Path, force: bool) -> Path:
    """Write a results folder; ``asterism report`` adds the page."""
    return save_run(fit_run(learner), folder, force)


def fit_run(learner: ParameterLearner, record: Mapping[str, Any] | None = None) -> Run:
    """The fit as a run: network, rates and all that follows from them."""
    observations = learner._observations
    shown = observations[: min(N_COURSES, len(observations))]
    notices = []
    if len(shown) < len(observations):
        notices.append(first_only(len(shown), len(observations)))
    tables = fit_tables(learner)
    return Run.from_learner(
        learner,
        posterior=gather(learner._infer(shown)),
        observations=measured_table(shown),
        run={
            "kind": "fit",
            **{name: getattr(learner, f"{name}_") for name in MEASURES},
            "n_trajectories": len(observations),
            "n_measurements": observations.n_measurements + len(observations.events),
            "level": learner.level,
            "covariates": learner.baseline_,
            "differences": learner.differences_,
            "notices": notices,
            **(record or {}),
        },
        rates=tables.pop("rates"),
        tables=tables,
    )


def fit_tables(learner: ParameterLearner) -> dict[str, pd.DataFrame]:
    """Every table of the fit; those that make no sense for its network are left out."""
    rates = learner.rate_intervals_
    others = [name for name in rates.columns if name not in RATE_COLUMNS]
    covariance = learner.covariance_
    tables = {
        "rates": rates[[*RATE_COLUMNS, *others]],
        "parameters": learner.parameters_,
        "covariance": covariance.reset_index(names="parameter"),
        "contributions": learner.log_evidence_by_trajectory_.reset_index(),
        "sojourn_times": learner.sojourn_times(),
    }
    if len(learner.frailty_):
        tables["frailty"] = learner.frailty_
    if len(learner.effects_):
        tables["effects"] = learner.effects_
    if learner._fit.task.coordinates.update.graph.parents.size:
        ratios = learner.edge_ratios_
        if len(ratios):
            tables["edge_ratios"] = ratios
    data = learner._observations
    longest = float(np.max(data.end - data.start))
    clock = np.linspace(0.0, longest, N_TIMES)
    # not of hidden states, several nodes or too many joint states
    with suppress(AsterismError):
        tables["transition_probabilities"] = learner.transition_probabilities(clock)
    with suppress(AsterismError):
        tables["survival"] = learner.survival(clock)
    with suppress(AsterismError):
        tables["prevalence"] = learner.prevalence(common_times(data))
    return tables
