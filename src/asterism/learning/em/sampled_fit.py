"""Owns ``ParameterLearner(method="sample")``: the posterior of rates, starts and emissions.

Paths and parameters are drawn by turns (``sampling/sweep.py``) under the prior. Without a prior on
the rates a weak proper one takes its place: a Gamma of shape ½ at the data's own time scale, since
maximum likelihood has no posterior to draw from. Estimates are posterior means, intervals are
quantiles of the draws.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import gamma

from asterism.data.observations import Observations
from asterism.data.statistics import Statistics
from asterism.errors import ModelError
from asterism.learning.em.fitting import Settings, laid_out, network_of, single_node_rate
from asterism.learning.em.sampled_emissions import learned_emission, mean_emissions
from asterism.learning.em.uncertainty import labels_of_rates
from asterism.model.network import Network
from asterism.model.priors import GammaPrior
from asterism.model.template import Template
from asterism.numerics.arrays import FloatArray, IntArray
from asterism.numerics.progress import in_percent, stage
from asterism.sampling.diagnose import (
    Diagnosis,
    effective_size,
    monte_carlo_error,
    potential_scale_reduction,
)
from asterism.sampling.draw_tree import draw_tree
from asterism.sampling.model_posterior import RunPlan, SampledModels, sample_models
from asterism.sampling.model_setup import (
    Drawn,
    PriorChoice,
    can_sample,
    candidates_of_graph,
    model_setup,
)
from asterism.timeline.evidence import require_time

if TYPE_CHECKING:
    import xarray

#: stop when every parameter has so many effective draws, and this R̂
EFFECTIVE_GOAL = 400.0
R_HAT_GOAL = 1.01
_N_CHAINS = 4
#: shape of the prior that takes the place of none
_WEAK_SHAPE = 0.5


@dataclass(frozen=True)
class SampledFit:
    """What was found."""

    network: Network
    """Posterior means of rates and starts."""
    emission: Any
    prior: GammaPrior
    models: SampledModels
    places: IntArray
    """Where the learned rates stand in the flat table."""

    def rate_table(self, statistics: Statistics, level: float) -> pd.DataFrame:
        """One row per learned rate; the columns are those of every method."""
        draws = self.models.series("rates")[:, :, self.places]
        flat = draws.reshape(-1, draws.shape[-1])
        tail = 0.5 * (1.0 - level)
        moves, time = _at(self.network, statistics, self.places)
        shape, per_time = moves + self.prior.shape, time + self.prior.rate_value
        error = monte_carlo_error(draws)
        return labels_of_rates(self.network, self.places).assign(
            rate=flat.mean(axis=0),
            expected_transitions=moves,
            expected_time=time,
            conditional_mean=shape / per_time,
            conditional_lower=gamma.ppf(tail, shape, scale=1.0 / per_time),
            conditional_upper=gamma.isf(tail, shape, scale=1.0 / per_time),
            se=flat.std(axis=0),
            lower=np.quantile(flat, tail, axis=0),
            upper=np.quantile(flat, 1.0 - tail, axis=0),
            note="",
            error=error,
            r_hat=potential_scale_reduction(draws),
        )

    def to_arviz(self, observations: Observations | None = None) -> xarray.DataTree:
        """All draws as (chain, draw, …) arrays; ``observations`` become a group of their own."""
        table = labels_of_rates(self.network, self.places)
        names = [
            f"{node}[{configuration}]:{a}->{b}"
            for node, configuration, a, b in table.itertuples(index=False)
        ]
        along = {
            "node": list(table["node"]),
            "configuration": list(table["configuration"]),
            "transition": [f"{a}->{b}" for a, b in zip(table["from"], table["to"])],
        }
        rates = Drawn("rates", names, along, self.places)
        return draw_tree(self.models, {"rate": rates}, observations)


def sample_parameters(
    template: Template, observations: Observations, emission: Any, settings: Settings
) -> SampledFit:
    """Draw rates, starts and emissions of the template's network."""
    if settings.map:
        raise ModelError('map=True cannot be used with method="sample", which gives means.')
    network = template.network
    evidence, emissions, nodes = laid_out(network, observations, emission)
    require_time(evidence)
    prior = settings.prior or GammaPrior(_WEAK_SHAPE, "auto")
    if prior.is_auto:
        prior = prior.resolved(single_node_rate(prior.shape, template, evidence, nodes, settings))
    graph = network.compiled.graph
    setup = model_setup(
        evidence,
        graph.n_states.tolist(),
        candidates_of_graph(graph),
        PriorChoice(
            prior.shape,
            prior.rate_value,
            [graph.blocks(template.allowed, n)[0] for n in range(graph.n_nodes)],
            settings.learn_initial,
            network.compiled.initial,
        ),
        network.nodes,
        [learned_emission(network, node) for node in nodes if can_sample(node.start)],
    )
    places = np.flatnonzero(template.allowed)
    place = np.arange(graph.n_nodes, dtype=np.int64)
    with stage(100, "Drawing rates and paths (percent of the limit)") as advance:
        models = sample_models(
            setup,
            [place] * _N_CHAINS,
            RunPlan(
                judge=partial(_judged, places=places),
                n_jobs=settings.n_jobs,
                seed=settings.random_state,
                max_sweeps=max(1000, 20 * settings.max_iterations),
                keep_rates=True,
                tell=in_percent(advance),
            ),
        )
    drawn = mean_emissions(models, network.nodes)
    flat = np.zeros(int(graph.table_start[-1]))
    flat[places] = models.series("rates")[:, :, places].mean(axis=(0, 1))
    return SampledFit(
        network=network_of(network, flat, models.series("initial").mean(axis=(0, 1))),
        emission={**emissions, **drawn} if nodes else emission,
        prior=prior,
        models=models,
        places=places,
    )


def _judged(models: SampledModels, places: IntArray) -> tuple[Diagnosis, bool, str]:
    rates = models.series("rates")[:, :, places]
    if rates.shape[1] < 4:
        return Diagnosis(np.inf, np.inf, 0.0), False, "too few draws"
    every = np.concatenate(
        [np.log(np.maximum(rates, 1e-300)), models.series("initial"), models.series("emission")],
        axis=2,
    )
    found = Diagnosis(
        float(monte_carlo_error(every).max(initial=0.0)),
        float(potential_scale_reduction(every).max(initial=1.0)),
        float(effective_size(every).min(initial=np.inf)),
    )
    good = found.effective >= EFFECTIVE_GOAL and found.r_hat <= R_HAT_GOAL
    return (
        found,
        good,
        f"every parameter has at least {found.effective:.0f} effective draws (goal "
        f"{EFFECTIVE_GOAL:.0f}), the largest R̂ is {found.r_hat_words} (goal {R_HAT_GOAL})",
    )


def _at(
    network: Network, statistics: Statistics, places: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Expected transitions of these rates, and the time in the states they leave."""
    moves = np.concatenate([statistics.transitions[n].ravel() for n in network.nodes])
    time = np.concatenate(
        [
            np.repeat(statistics.dwell_times[n].ravel(), len(network.states[n]))
            for n in network.nodes
        ]
    )
    return moves[places], time[places]
