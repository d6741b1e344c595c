"""Asterism: who influences whom, learned from sparse, irregular, noisy, incomplete time series.

Names are loaded on first use, so that ``import asterism`` stays fast and compiles nothing. Editors
and type checkers read the imports under ``TYPE_CHECKING``, which name the same modules.
``docs/map.md`` says where everything is.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from asterism.model.emission_kinds import EMISSION_KINDS

if TYPE_CHECKING:
    from asterism.data.observations import Observations as Observations
    from asterism.data.trajectories import Trajectories as Trajectories
    from asterism.inference.posterior import Posterior as Posterior
    from asterism.inference.posterior import infer as infer
    from asterism.learning.em.fit_measures import likelihood_ratio_test as likelihood_ratio_test
    from asterism.learning.em.parameter_learner import ParameterLearner as ParameterLearner
    from asterism.learning.em.rate_model import Effect as Effect
    from asterism.learning.learner_settings import Accuracy as Accuracy
    from asterism.learning.learner_settings import Sampling as Sampling
    from asterism.learning.learner_settings import Search as Search
    from asterism.learning.learner_settings import StructurePrior as StructurePrior
    from asterism.learning.search.structure_learner import StructureLearner as StructureLearner
    from asterism.learning.search.task import structure_score as structure_score
    from asterism.model.drift import Drift as Drift
    from asterism.model.emission_continuous import Continuous as Continuous
    from asterism.model.emission_discrete import Categorical as Categorical
    from asterism.model.emission_discrete import Exact as Exact
    from asterism.model.emission_discrete import Likelihood as Likelihood
    from asterism.model.emission_numeric import Gaussian as Gaussian
    from asterism.model.emission_numeric import Poisson as Poisson
    from asterism.model.emission_numeric import StudentT as StudentT
    from asterism.model.emission_silent import SilentStates as SilentStates
    from asterism.model.emission_threshold import Threshold as Threshold
    from asterism.model.emissions import Emission as Emission
    from asterism.model.emissions import Joint as Joint
    from asterism.model.generators import glauber as glauber
    from asterism.model.generators import random_network as random_network
    from asterism.model.network import Network as Network
    from asterism.model.priors import GammaPrior as GammaPrior
    from asterism.model.priors import Transitions as Transitions
    from asterism.model.rates import SummaryRates as SummaryRates
    from asterism.report import plots as plots
    from asterism.report.bundled_data import demo_files as demo_files
    from asterism.results import metrics as metrics
    from asterism.results.comparison import compare as compare
    from asterism.results.folder import load as load
    from asterism.results.run import Run as Run
    from asterism.simulation.simulator import observe as observe
    from asterism.simulation.simulator import simulate as simulate

__version__ = "0.2.0"

#: public name -> module that defines it
_HOMES = {
    "Observations": "asterism.data.observations",
    "Trajectories": "asterism.data.trajectories",
    "Network": "asterism.model.network",
    "SummaryRates": "asterism.model.rates",
    "Drift": "asterism.model.drift",
    "glauber": "asterism.model.generators",
    "random_network": "asterism.model.generators",
    **{name: module for module, name in EMISSION_KINDS.values()},
    "Emission": "asterism.model.emissions",
    "Joint": "asterism.model.emissions",
    "Transitions": "asterism.model.priors",
    "GammaPrior": "asterism.model.priors",
    "simulate": "asterism.simulation.simulator",
    "observe": "asterism.simulation.simulator",
    "infer": "asterism.inference.posterior",
    "Posterior": "asterism.inference.posterior",
    "ParameterLearner": "asterism.learning.em.parameter_learner",
    "Effect": "asterism.learning.em.rate_model",
    "likelihood_ratio_test": "asterism.learning.em.fit_measures",
    "StructureLearner": "asterism.learning.search.structure_learner",
    "StructurePrior": "asterism.learning.learner_settings",
    "Search": "asterism.learning.learner_settings",
    "Sampling": "asterism.learning.learner_settings",
    "Accuracy": "asterism.learning.learner_settings",
    "structure_score": "asterism.learning.search.task",
    "load": "asterism.results.folder",
    "Run": "asterism.results.run",
    "compare": "asterism.results.comparison",
    "demo_files": "asterism.report.bundled_data",
}
_SUBMODULES = {
    "metrics": "asterism.results.metrics",
    "plots": "asterism.report.plots",
}

__all__ = ["__version__", *_HOMES, *_SUBMODULES]


def _load(name: str) -> object:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _SUBMODULES:
        value = importlib.import_module(_SUBMODULES[name])
    else:
        raise AttributeError(f"module 'asterism' has no attribute {name!r}")
    globals()[name] = value
    return value


if not TYPE_CHECKING:  # or a type checker would take every misspelt name for known
    __getattr__ = _load


def __dir__() -> list[str]:
    return sorted(__all__)
