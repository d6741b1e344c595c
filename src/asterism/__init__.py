"""Asterism: who influences whom, learned from sparse, irregular, noisy, incomplete time series.

Names are loaded on first use, so that ``import asterism`` stays fast and compiles nothing.
``docs/map.md`` says where everything is.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from asterism.model.emission_kinds import EMISSION_KINDS

__version__ = "0.2.0"

#: public name -> module that defines it
_HOMES = {
    "Observations": "asterism.data.observations",
    "Trajectories": "asterism.data.trajectories",
    "Network": "asterism.model.network",
    "SummaryRates": "asterism.model.rates",
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
    "structure_score": "asterism.learning.search.task",
    "load": "asterism.results.folder",
}
_SUBMODULES = {
    "metrics": "asterism.results.metrics",
    "plots": "asterism.report.plots",
}

__all__ = ["__version__", *_HOMES, *_SUBMODULES]

if TYPE_CHECKING:
    from asterism.data.observations import Observations as Observations
    from asterism.data.trajectories import Trajectories as Trajectories


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name in _SUBMODULES:
        value = importlib.import_module(_SUBMODULES[name])
    else:
        raise AttributeError(f"module 'asterism' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
