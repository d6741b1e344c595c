"""The settings of a structure search, as the learner hands them down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from asterism.errors import ModelError, Setting
from asterism.inference.methods import methods_that_score_graphs
from asterism.learning.search.searches import SEARCHES
from asterism.learning.search.structure_prior import (
    FAMILY_PRIORS,
    SPARSE,
    StructurePrior,
    structure_prior,
)
from asterism.model.priors import GammaPrior

#: the graph of the probable edges, or that of the most probable families
GRAPHS = ("probable", "map")
#: how often the data count when paths are hidden: the slope of the exact posterior's log-odds on
#: the star's, fitted on 60 simulated networks of six nodes; see also benchmarks/priors.py
STAR_TEMPERING = 0.44


@dataclass(frozen=True)
class StructureSettings:
    """What a search needs to know besides the data."""

    emission: Any = None
    max_parents: int | Mapping[str, int] = 2
    prior: GammaPrior = field(default_factory=GammaPrior)
    method: str = "star"
    search: str = "auto"
    n_candidates: int = 10
    initial: Any = "learn"
    allowed_transitions: Mapping[str, Any] | None = None
    exogenous: Any = ()
    required: Any = ()
    forbidden: Any = ()
    edge_log_odds: Any = SPARSE
    min_parents: int | Mapping[str, int] = 0
    family_prior: str = "uniform"
    refine_emissions: bool = False
    n_init: int = 1
    n_jobs: int = -1
    random_state: Any = 0
    states: Mapping[str, Any] | None = None
    ties: str = "error"
    tolerance: float = 1e-3
    time_step: float | None = None
    max_sweeps: int = 20
    digamma: bool = False
    journal: Any = None
    resume: bool = False
    max_seconds: float | None = None
    graph: str = "probable"
    threshold: float = 0.5
    edge_prior: Any = None
    tempering: float | str = "auto"
    n_chains: int = 4
    minutes: float | None = None
    max_draws: int = 20_000

    def __post_init__(self) -> None:
        if not isinstance(self.prior, GammaPrior):
            raise ModelError(
                Setting("prior"),
                f" must be a GammaPrior, got {self.prior!r}; without a prior on the rates "
                "graphs cannot be compared.",
            )
        _one_of("method", self.method, methods_that_score_graphs())
        _one_of("search", self.search, ("auto", *SEARCHES))
        _one_of("family_prior", self.family_prior, FAMILY_PRIORS)
        _one_of("ties", self.ties, ("error", "order"))
        _one_of("graph", self.graph, GRAPHS)
        if not (isinstance(self.threshold, int | float) and 0.0 < self.threshold <= 1.0):
            raise ModelError(f"threshold must lie above 0 and up to 1, got {self.threshold!r}.")
        if self.tempering != "auto" and not (
            isinstance(self.tempering, int | float) and 0.0 < self.tempering <= 1.0
        ):
            raise ModelError(
                f'tempering must be "auto" or lie above 0 and up to 1, got {self.tempering!r}.'
            )
        for name in ("n_candidates", "n_init", "max_sweeps", "n_chains", "max_draws"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
                raise ModelError(Setting(name), f" must be a whole number ≥ 1, got {value!r}.")
        if not isinstance(self.refine_emissions, bool | np.bool_):
            raise ModelError(
                Setting("refine_emissions"),
                f" is {self.refine_emissions!r}; valid are True, False.",
            )
        if self.n_chains < 2:
            raise ModelError(
                Setting("n_chains"), " is 1; at least 2 chains are needed to compare them."
            )
        if self.minutes is not None and not self.minutes > 0.0:
            raise ModelError(Setting("minutes"), f" must be positive, got {self.minutes!r}.")
        if not self.tolerance > 0.0:
            raise ModelError(Setting("tolerance"), f" must be positive, got {self.tolerance!r}.")
        if self.time_step is not None and not self.time_step > 0.0:
            raise ModelError(Setting("time_step"), f" must be positive, got {self.time_step!r}.")

    @property
    def tempering_factor(self) -> float:
        """How often hidden paths count in the probabilities of families."""
        return STAR_TEMPERING if isinstance(self.tempering, str) else float(self.tempering)

    def structure_prior(self, nodes: tuple[str, ...]) -> StructurePrior:
        """What is known about the graph, by the numbers of these nodes."""
        return structure_prior(
            nodes,
            self.max_parents,
            self.exogenous,
            self.required,
            self.forbidden,
            self.edge_log_odds,
            self.min_parents,
            self.family_prior,
            self.edge_prior,
        )


def _one_of(name: str, value: Any, valid: tuple[str, ...]) -> None:
    if value not in valid:
        listed = ", ".join(map(repr, valid))
        raise ModelError(f"{name} is {value!r}; valid are {listed}.")
