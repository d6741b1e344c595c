"""Does the network predict? ln P of trajectories that were not learned from.

A network that describes how the nodes act on each other gives new trajectories a higher
probability than a network without edges that was learned in the same way. The difference is the
gain. It cannot expose a hidden cause: edges that stand for one predict well too.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from asterism.continuous.network import is_linear
from asterism.data.observations import Observations
from asterism.data.trajectories import Trajectories
from asterism.errors import DataError, ModelError, TooLargeError
from asterism.learning.learner_settings import as_object
from asterism.numerics.progress import LongPart, ProgressListener, listener_for
from asterism.results.edge_sets import edge_list

if TYPE_CHECKING:
    from asterism.learning.search.structure_learner import StructureLearner


def log_probabilities(
    learner: StructureLearner,
    data: Observations | Trajectories,
    progress: ProgressListener | bool | None = False,
) -> pd.Series:
    """ln P of every trajectory under the network learned, by clusters where that is possible."""
    from asterism.inference.posterior import quiet_infer

    network, emission = learner.network_, learner.emission_
    if network.drifts and not is_linear(network):
        raise ModelError(
            "ln P of a trajectory is not known where nodes of both kinds meet, or where influences "
            "are quadratic."
        )
    if isinstance(data, Trajectories):
        data, emission = Observations.from_trajectories(data), None
    infer = partial(quiet_infer, network, data, emission, progress=progress, n_jobs=learner.n_jobs)
    try:
        found = infer(method="clusters")
    except TooLargeError:
        found = infer(method="star")
    return found.log_evidence_by_trajectory


def anew(learner: StructureLearner, **changes: Any) -> StructureLearner:
    """The same learner for other data: its emissions as they were fitted, and no journal."""
    settings = learner.get_params(deep=False)
    settings["search"] = replace(as_object("search", learner.search), journal=None, resume=False)
    settings["emission"] = learner.emission_ or settings["emission"]
    return type(learner)(**{**settings, **changes})


def held_out_gain(
    learner: StructureLearner,
    data: Observations | Trajectories,
    n_folds: int,
    seed: int = 0,
    progress: ProgressListener | bool | None = False,
) -> pd.Series:
    """ln P of every trajectory, learned from the other folds, less that without edges.

    The emissions stay those of ``learner``: the levels of the nodes are not learned again.
    """
    if isinstance(data, Trajectories):
        raise DataError("Complete paths cannot be held out in folds yet: give measurements.")
    n = data.n_trajectories
    if not 2 <= n_folds <= n:
        raise DataError(
            f"{n_folds} folds cannot be made of {n} trajectories; give a number from 2 to {n}."
        )
    alone = _without_edges(learner, data)
    order = np.random.default_rng(seed).permutation(n)
    gains = []
    listener = listener_for(progress)
    listener.start(n_folds, what := "learning from all parts but one")
    for fold in range(n_folds):
        part = LongPart(listener, f"part {fold + 1} of {n_folds}")
        out = np.sort(order[fold::n_folds])
        known = data[np.setdiff1d(np.arange(n), out)]
        with_edges = anew(learner).fit(known, progress=part)
        without = anew(learner, method="star", **alone).fit(known, progress=part)
        new = data[out]
        gains.append(
            log_probabilities(with_edges, new, part) - log_probabilities(without, new, part)
        )
        if part.was_shown:
            listener.start(n_folds, what)
            listener.advance(fold)
        listener.advance()
    listener.finish()
    return pd.concat(gains)


def _without_edges(learner: StructureLearner, data: Observations) -> dict[str, Any]:
    """Settings of a learner that finds no edges; stimuli still act on nodes that jump."""
    prior = as_object("structure_prior", learner.structure_prior)
    prior = replace(prior, required=(), min_parents=0)
    stimuli = [] if data.stimuli is None else list(dict.fromkeys(data.stimuli["name"]))
    if not stimuli or learner.network_.drifts:
        return {"max_parents": 0, "structure_prior": prior}
    pairs = [(a, b) for a in data.nodes for b in data.nodes if a != b]
    prior = replace(prior, forbidden=[*edge_list(prior.forbidden, "forbidden"), *pairs])
    return {"max_parents": len(stimuli), "structure_prior": prior}
