"""Owns :class:`ParameterLearner`: rates, emissions and starts of a network whose graph is given.

The algorithm is EM (``iterate.py``: the iteration; ``e_step.py``: E-steps; ``rates_update.py`` and
``emission_fit.py``: M-steps; ``fitting.py``: a whole fit; ``uncertainty.py``: intervals). This file
is what a user touches.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from asterism.data.observations import Observations
from asterism.data.trajectories import Trajectories
from asterism.errors import ModelError, Setting
from asterism.exact.groups import JOINT_LIMIT
from asterism.inference.methods import METHODS
from asterism.inference.posterior import Posterior, infer_evidence
from asterism.learning.em import quantities
from asterism.learning.em.cluster_step import NoClusters
from asterism.learning.em.fit_measures import n_parameters, starts_are_seen
from asterism.learning.em.fitting import (
    Fit,
    Settings,
    about_rates,
    about_zeros,
    as_observations,
    check_settings,
    fit_parameters,
)
from asterism.learning.em.forecasts import forecast_table, most_likely_when_measured
from asterism.learning.em.frailty import AUTO, factors
from asterism.learning.em.outcome_effects import OUTCOME, START, outcome_effects
from asterism.learning.em.parameter_table import covariance_table, effect_table, parameter_table
from asterism.learning.em.rate_model import rate_model, said_about_covariates
from asterism.learning.em.situations import OwnPosterior, statistics_of
from asterism.learning.em.spread_table import spread_table, with_chosen_factors
from asterism.learning.em.uncertainty import (
    Information,
    Uncertainty,
    has_trusted_intervals,
    observed_information,
    rate_table,
)
from asterism.learning.em.viterbi import most_probable_paths
from asterism.learning.learner_settings import MOVED, Accuracy, as_object, picked
from asterism.learning.levels import level_frame, with_levels
from asterism.learning.tasks import Estimator, estimator
from asterism.model.emissions import Exact, with_joint_by_column
from asterism.model.network import Network
from asterism.model.priors import GammaPrior
from asterism.model.template import Template, build_template
from asterism.numerics.progress import ProgressListener, listening, stage
from asterism.numerics.resources import minutes_limit
from asterism.timeline.build import build_evidence

if TYPE_CHECKING:
    import xarray

    from asterism.learning.em.sampled_fit import SampledFit

#: draws per chain of paths under a sampled network
_DRAWS = 1_000


@estimator
@dataclass(eq=False, repr=False)
class ParameterLearner(Estimator):
    """Learns every conditional rate of a network from incomplete, noisy data.

    ``graph``: {node: parents}, a networkx.DiGraph, a Network (its states and summary weights are
    kept, its rates are not) or a short name. ``emission``: as for ``infer``; those with
    ``learn=True`` are fitted, one per node. ``prior``: None for maximum likelihood, or a
    :class:`GammaPrior`: posterior mean of the rates, with ``map=True`` their mode. ``initial``:
    "learn", "uniform", {node: probabilities}, or "fixed" (that of the Network given).
    ``allowed_transitions``: {node: (S, S) booleans}; rates elsewhere stay zero. ``states``:
    {node: labels} where data and emission do not say. ``exogenous``: nodes whose path is given.
    ``method``: "auto" (default) is exact inference where that is quick, clusters elsewhere, and
    sampling where a family is too large for them; "exact", "clusters", "sample" (posterior draws,
    no evidence), and with a warning and without intervals "star" and "mean_field".
    ``stop_gain``: the remaining gain in −2 ln P at which to stop. ``accuracy``: how exact inference
    is, an :class:`Accuracy`; ``level`` is that of all intervals. After ``minutes`` the fit ends
    with the best so far.

    ``covariates``: names, or :class:`Effect` for some transitions only or one common effect; their
    values come with the observations. ``reference``: {covariate: value} at which baseline rates are
    given and with which levels of a category are compared; by default the mean of a number, the
    smaller of two numbers and the first level of a category. ``change_times``: when all rates
    change, constant in between; the covariate "period" says how.
    ``equal_rates``: {node: "1>2=2>3"}, ``fixed_rates`` and ``start_rates``: {node: {"1>2": rate}};
    the node may be left out where there is one.
    ``frailty``: a node whose rates differ between trajectories by a factor of each, several nodes,
    or {node: "all" or "up-down"} (one factor for all rates, or one up and one down); "auto" takes
    those nodes for which the evidence asks for it. Factors are Gamma-distributed with mean 1;
    ``network_`` is the network of a trajectory whose factor is 1, and so are curves and times that
    follow from it.

    After ``fit``: ``method_`` (the one used), ``network_`` (at the covariates' reference),
    ``emission_``, ``log_evidence_``, ``log_evidence_by_trajectory_``,
    ``log_evidence_given_first_``, ``n_parameters_``, ``aic_``, ``bic_`` and the same three given
    the first visits (``aic_given_first_``, as msm counts), ``statistics_``,
    ``posterior_``, ``prior_``, ``converged_``, ``stop_reason_``, ``n_iter_`` (E-steps),
    ``history_``, ``effects_`` (hazard ratios), ``parameters_``, ``covariance_``, and
    ``rate_intervals_`` with one row per rate: node, configuration of its parents, from, to, rate,
    expected_transitions and expected_time; conditional_mean, _lower, _upper (Gamma, given the
    approximate posterior: too narrow); se, lower, upper (observed information: the honest ones;
    computed at first use); note.
    """

    graph: Any
    emission: Any = None
    prior: GammaPrior | None = None
    method: str = "auto"
    initial: Any = "learn"
    allowed_transitions: Mapping[Any, Any] | None = None
    n_init: int = 1
    states: Mapping[Any, Sequence[Any]] | None = None
    exogenous: Sequence[Any] = ()
    map: bool = False
    stop_gain: float = 1e-6
    max_iterations: int = 1000
    accuracy: Accuracy = Accuracy()
    level: float = 0.95
    n_jobs: int = -1
    random_state: Any = 0
    covariates: Any = None
    equal_rates: Any = None
    fixed_rates: Any = None
    start_rates: Any = None
    minutes: float | None = None
    reference: Mapping[str, Any] | None = None
    change_times: Sequence[float] | None = None
    frailty: Any = None

    _moved: ClassVar = {**MOVED, "tolerance": ("stop_gain", "")}
    _fitted = frozenset(["_fit", "_sampled", "_observations", "_observed"])

    # ---- learning ---------------------------------------------------------------------------

    def fit(
        self,
        obs: Observations | Trajectories,
        y: Any = None,
        *,
        progress: ProgressListener | bool | None = None,
    ) -> ParameterLearner:
        """Learn from observations; trajectories count as seen throughout. ``y`` is ignored.

        ``progress``: a bar is shown in notebooks; True shows one everywhere, False none.
        """
        with listening(progress, "Fitting the rates"):
            return self._fit_data(obs)

    def _fit_data(self, obs: Observations | Trajectories) -> ParameterLearner:
        settings = self._settings()
        self._forget()
        observations = as_observations(obs)
        emission = Exact() if self.emission is None else self.emission
        emission = with_joint_by_column(emission, observations)
        states = dict(self.states or {})
        if isinstance(obs, Trajectories):
            states = {**obs.states, **states}
        named = {**(self.graph.states if isinstance(self.graph, Network) else {}), **states}
        emission, choices = with_levels(emission, observations, named)
        self.levels_ = level_frame(choices)
        template = build_template(
            self.graph,
            observations,
            emission,
            states,
            self.exogenous,
            self.allowed_transitions,
            self.initial,
        )
        model = rate_model(
            template.network,
            template.allowed,
            observations,
            self.covariates,
            self.equal_rates,
            self.fixed_rates,
            self.start_rates,
            self.reference,
            self.change_times,
        )
        asked = (template.network.nodes, observations, self.covariates, self.reference)
        model = replace(
            model, outcome=outcome_effects(*asked, OUTCOME), starts=outcome_effects(*asked, START)
        )
        self._sampled: SampledFit | None = None
        chosen = isinstance(self.frailty, str) and self.frailty == AUTO
        if not chosen:
            model = replace(
                model, factors=factors(template.network, template.allowed, self.frailty)
            )
        if self.method in METHODS and not METHODS[self.method].has_evidence:
            return self._fit_by_sampling(template, observations, emission, settings)
        try:
            with minutes_limit(self.minutes), stage():
                given = (template, observations, emission, settings, model)
                fit = fit_parameters(*given)
                if chosen:
                    fit = with_chosen_factors(fit, *given)
        except NoClusters:
            return self._fit_by_sampling(template, observations, emission, settings)
        self._fit: Fit = fit
        if not has_trusted_intervals(fit):
            warnings.warn(about_rates(fit.method), stacklevel=3)
        self._observations = observations
        self.network_ = fit.network
        self.emission_ = fit.emission
        self.prior_ = fit.prior
        self.method_ = fit.method
        best = fit.outcome.best
        self.log_evidence_: float | None = best.log_evidence
        self.log_evidence_by_trajectory_ = pd.Series(
            best.expected.log_evidence,
            index=pd.Index(list(observations.trajectories), name="trajectory", tupleize_cols=False),
            name="log_evidence",
        )
        self.log_evidence_by_start_ = fit.starts
        self.n_parameters_ = n_parameters(fit)
        # the trajectories are the units of the BIC: they do not depend on each other
        self.aic_ = 2.0 * (self.n_parameters_ - best.log_evidence)
        log_size = float(np.log(observations.n_trajectories))
        self.bic_ = self.n_parameters_ * log_size - 2.0 * best.log_evidence
        self.statistics_ = statistics_of(fit)
        self.converged_ = fit.outcome.converged
        self.stop_reason_ = fit.outcome.stop_reason + about_zeros(fit, template.allowed)
        self.n_iter_ = fit.outcome.n_iterations
        self.history_ = pd.DataFrame(fit.outcome.history)
        if not self.converged_:
            from sklearn.exceptions import ConvergenceWarning

            warnings.warn(self.stop_reason_, ConvergenceWarning, stacklevel=3)
        return self

    def _fit_by_sampling(
        self, template: Template, observations: Observations, emission: Any, settings: Settings
    ) -> ParameterLearner:
        """Posterior means and draws instead of a maximum; there is no evidence value."""
        from asterism.learning.em.sampled_fit import sample_parameters

        for name in ("covariates", "equal_rates", "fixed_rates", "frailty"):
            if getattr(self, name) is not None:
                raise ModelError(
                    *(Setting(name), " cannot be used with ", Setting("method", "sample")),
                    *("; use ", Setting("method", "auto"), "."),
                )
        found = sample_parameters(template, observations, emission, settings)
        self._sampled, self._observations = found, observations
        self.method_ = "sample"
        self.network_, self.emission_, self.prior_ = found.network, found.emission, found.prior
        self.log_evidence_ = None
        self.converged_ = found.models.converged
        self.stop_reason_ = found.models.stop_reason
        if self.prior is None:
            self.stop_reason_ += (
                f" No prior was given: a weak one was used, Gamma of shape {found.prior.shape:g} "
                f"and rate {found.prior.rate_value:.4g}."
            )
        self.n_iter_ = found.models.n_draws * found.models.keep_every
        self.history_ = pd.DataFrame(found.models.history)
        if not self.converged_:
            from sklearn.exceptions import ConvergenceWarning

            warnings.warn(self.stop_reason_, ConvergenceWarning, stacklevel=4)
        self.statistics_ = self.posterior_.statistics
        return self

    def to_arviz(self) -> xarray.DataTree:
        """For method "sample": all draws as a tree, as arviz reads.

        The groups are posterior, with (chain, draw, …) arrays, sample_stats and observed_data.
        """
        self._require_fitted("network_")
        if self._sampled is None:
            raise ModelError('There are no draws: only method="sample" makes some.')
        return self._sampled.to_arviz(self._observations)

    def _settings(self) -> Settings:
        if not 0.0 < self.level < 1.0:
            raise ModelError(f"level is {self.level}; it must lie between 0 and 1, e.g. 0.95.")
        settings = picked(
            Settings,
            self,
            learn_initial=isinstance(self.initial, str) and self.initial == "learn",
            accuracy=as_object("accuracy", self.accuracy),
        )
        check_settings(settings)
        return settings

    # ---- what was learned -------------------------------------------------------------------

    @cached_property
    def posterior_(self) -> Posterior:
        """The posterior of the data that were fitted, under the network learned."""
        return self._infer()

    @property
    def log_evidence_given_first_(self) -> float:
        """ln P of the data given each trajectory's measurements at its first time."""
        return self.posterior_.log_evidence_given_first

    @property
    def n_parameters_given_first_(self) -> int:
        """Parameters without the start probabilities: what is learned given the first visits."""
        coordinates = self._maximum().task.coordinates
        starts = sum(len(group) - 1 for group in coordinates.initial_groups)
        for node in coordinates.nodes:
            if node.is_start and node.design is not None:
                starts += len(node.states) - 1 + len(node.design.column)
        return self.n_parameters_ - starts

    @property
    def aic_given_first_(self) -> float | None:
        """AIC given the first visits, as msm has it; None if they do not show the states."""
        return self._measure_given_first(2.0)

    @property
    def bic_given_first_(self) -> float | None:
        """BIC given the first visits, with the trajectories as units, as in ``bic_``."""
        return self._measure_given_first(float(np.log(self._observations.n_trajectories)))

    def _measure_given_first(self, per_parameter: float) -> float | None:
        posterior = self.posterior_
        if not starts_are_seen(posterior.evidence, self.network_.compiled.graph.n_states):
            return None
        return per_parameter * self.n_parameters_given_first_ - 2.0 * self.log_evidence_given_first_

    @property
    def baseline_(self) -> list[str]:
        """One sentence per covariate: at which value the baseline rates are, and why."""
        return said_about_covariates(self._maximum().model.columns)

    @property
    def rate_intervals_(self) -> pd.DataFrame:
        """One row per rate: estimate and intervals. Takes two E-steps per parameter at first."""
        self._require_fitted("network_")
        if self._sampled is not None:
            return self._sampled.rate_table(self.posterior_.statistics, self.level)
        return rate_table(self._maximum(), self._observed, self.level)

    @property
    def effects_(self) -> pd.DataFrame:
        """One row per effect of a covariate: its β, hazard ratio and their intervals."""
        return effect_table(self._uncertainty(), self.level)

    @property
    def edge_ratios_(self) -> pd.DataFrame:
        """Hazard ratios of each edge: parent, child, transition, state, against, others, …

        How many times faster the child's transition is with the parent in ``state`` than in its
        first state (``against``), the other parents being as ``others`` says; lower, upper, note.
        """
        return quantities.edge_ratios(self._uncertainty(), self.level)

    @property
    def parameters_(self) -> pd.DataFrame:
        """All parameters: kind, parameter, estimate, se, lower, upper, note."""
        return parameter_table(self._uncertainty(), self.level, self.frailty_)

    @cached_property
    def frailty_(self) -> pd.DataFrame:
        """How trajectories differ, one row per factor: node, rates ("all", "up" or "down"), sd of
        the factors with lower and upper, the same as a fold: factor (exp of the standard deviation
        of ln factor), factor_lower, factor_upper; statistic and p_value of the likelihood-ratio
        test against no factor, and a sentence. Computed at first use.
        """
        with listening(None):
            return spread_table(self._maximum(), self._observed, self.level)

    @property
    def differences_(self) -> list[str]:
        """What was found about how trajectories differ, in sentences."""
        found = list(self.frailty_["sentence"])
        if not found and isinstance(self.frailty, str) and self.frailty == AUTO:
            return ["The data do not show that trajectories differ in how fast any node moves."]
        return found

    @property
    def covariance_(self) -> pd.DataFrame:
        """Covariance of all parameters, named as in ``parameters_``."""
        return covariance_table(self._uncertainty(), self.level)

    def network_at(self, covariates: Mapping[str, Any] | None = None) -> Network:
        """The network at these values of the covariates; those not named at their reference."""
        fit = self._maximum()
        return fit.network_for(fit.outcome.best.estimate, covariates)

    def _uncertainty(self) -> Uncertainty:
        return Uncertainty(self._maximum(), self._observed)

    def _maximum(self) -> Fit:
        self._require_fitted("network_")
        if self._sampled is not None:
            raise ModelError(
                'With method="sample" there is no maximum to describe; rate_intervals_ and '
                "to_arviz() hold the posterior."
            )
        return self._fit

    @cached_property
    def _observed(self) -> Information:
        fit = self._maximum()
        with listening(None):
            return observed_information(fit.task, fit.outcome.best)

    # ---- other data -------------------------------------------------------------------------

    def predict_proba(
        self,
        obs: Observations | Trajectories,
        times: Any,
        *,
        progress: ProgressListener | bool | None = None,
    ) -> xarray.DataArray:
        """State probabilities (trajectory, time, node, state); later times are forecasts."""
        return self._infer(obs, progress).marginals(times)

    def score(
        self,
        obs: Observations | Trajectories,
        y: Any = None,
        *,
        progress: ProgressListener | bool | None = None,
    ) -> float:
        """Average ln evidence of a trajectory: larger is better. ``y`` is ignored."""
        return float(self.score_samples(obs, progress=progress).mean())

    def score_samples(
        self,
        obs: Observations | Trajectories,
        *,
        progress: ProgressListener | bool | None = None,
    ) -> pd.Series:
        """ln evidence of every trajectory, by name."""
        return self._infer(obs, progress).log_evidence_by_trajectory

    def impute(
        self,
        obs: Observations | Trajectories,
        times: Any = None,
        *,
        progress: ProgressListener | bool | None = None,
    ) -> pd.DataFrame:
        """The most probable state of every node: columns trajectory, time, and the nodes.

        ``times``: the same for all trajectories; by default all times at which anything was
        measured in a trajectory.
        """
        observations = as_observations(obs)
        posterior = self._infer(observations, progress)
        if times is not None:
            return posterior.most_likely_states(times)
        return most_likely_when_measured(self.network_, posterior, observations)

    def most_probable_paths(self, obs: Observations | Trajectories) -> pd.DataFrame:
        """The likeliest states at the times of the data, together (Viterbi).

        Columns trajectory, time, and the nodes. For few joint states only.
        """
        return most_probable_paths(self._maximum(), as_observations(obs))

    def forecast(self, obs: Observations | Trajectories, horizons: Any) -> pd.DataFrame:
        """State probabilities some time after the end of each trajectory.

        Columns trajectory, horizon, time, node, state, probability. Covariates keep the values
        they had last.
        """
        observations = as_observations(obs)
        return forecast_table(self.network_, self._infer(observations), observations, horizons)

    # ---- what follows from the rates ----------------------------------------------------------

    def transition_probabilities(
        self, times: Any, covariates: Mapping[str, Any] | None = None, interval: str = "delta"
    ) -> pd.DataFrame:
        """P(t): time, from, to, probability, se, lower, upper. ``interval``: delta or simulate."""
        return quantities.transition_probabilities(
            self._uncertainty(), times, covariates, self.level, interval
        )

    def survival(self, times: Any, covariates: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """The chance not to be in a final state yet, from each other state: from, time, survival,
        se, lower, upper; and where the states were seen, Kaplan and Meier's ``empirical`` curve of
        those first seen in the state, with how many are ``at_risk``.
        """
        return quantities.survival(
            self._uncertainty(), self._observations, times, covariates, self.level
        )

    def sojourn_times(self, covariates: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """Mean time until a state is left: node, configuration, state, mean, se, lower, upper."""
        return quantities.sojourn_times(self._uncertainty(), covariates, self.level)

    def length_of_stay(
        self, duration: float = np.inf, covariates: Mapping[str, Any] | None = None
    ) -> pd.DataFrame:
        """Expected total time in each state: from, state, time, se, lower, upper."""
        return quantities.length_of_stay(self._uncertainty(), duration, covariates, self.level)

    def prevalence(self, times: Any, obs: Observations | None = None) -> pd.DataFrame:
        """Observed and expected share of each state: time, state, observed, expected, n."""
        fit = self._maximum()
        data = self._observations if obs is None else as_observations(obs)
        return quantities.prevalence(fit, data, times)

    def save(self, folder: str | Path, force: bool = False) -> Path:
        """Write a results folder with a page about the rates; ``am.load`` reads it back."""
        from asterism.learning.em.saved_fit import save_fit

        return save_fit(self, Path(folder), force)

    def _infer(
        self,
        obs: Observations | Trajectories | None = None,
        progress: ProgressListener | bool | None = None,
    ) -> Posterior:
        """Of the data that were fitted, or of others."""
        self._require_fitted("network_")
        accuracy = as_object("accuracy", self.accuracy)
        data = self._observations if obs is None else as_observations(obs)
        if self._sampled is not None:
            network = self.network_
            evidence = build_evidence(network, data, self.emission_)
        else:
            network, evidence = self._maximum().evidence_of(data)
        posterior = infer_evidence(
            network,
            evidence,
            self.method_,
            progress=progress,
            n_jobs=self.n_jobs,
            tolerance=accuracy.tolerance,
            time_step=accuracy.time_step,
            joint_limit=accuracy.joint_limit or JOINT_LIMIT,
            n_draws=_DRAWS,
            seed=self.random_state,
        )
        is_own = network.n_nodes == self.network_.n_nodes
        return posterior if is_own else OwnPosterior(posterior, self.network_)
