"""``--null``: how large a probability arises by chance, from data permuted between nodes.

Each node's measurements keep their own times and order, but trajectory d of one node is put
together with trajectory π(d) of another, a permutation of its own for every node: what each node
does alone stays, and what one does because of another goes. With a single trajectory, each node's
times are shifted around instead. The same search then says what it finds where nothing is.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from asterism.commands.console import Console
from asterism.data.measurements import NodeMeasurements
from asterism.data.observations import Observations
from asterism.data.trajectories import Trajectories
from asterism.errors import DataError
from asterism.learning.learner_settings import as_object

if TYPE_CHECKING:
    from asterism.learning.search.structure_learner import StructureLearner


#: of all permutations together, the highest probabilities that the record keeps
_KEPT = 2_000


def chance_of(
    learner: StructureLearner,
    data: Observations | Trajectories,
    n_permutations: int,
    seed: int,
    console: Console,
) -> dict[str, Any]:
    """The largest probabilities found in permuted data, and a sentence about them."""
    if isinstance(data, Trajectories) or len(data.events) or len(data.intervals):
        raise DataError("--null permutes measurements; complete or partly known paths have none.")
    largest, claimed, everything = [], [], []
    settings = learner.get_params(deep=False)
    search = as_object("search", learner.search)
    settings["search"] = replace(search, journal=None, resume=False)
    settings["emission"] = learner.emission_ or settings["emission"]
    for number in range(n_permutations):
        permuted = permuted_between_nodes(data, np.random.default_rng([seed, number]))
        with console.busy(f"Permuted data, {number + 1} of {n_permutations}"):
            found = (
                type(learner)(**settings).fit(permuted).edges_["probability"].dropna().to_numpy()
            )
        largest.append(float(found.max(initial=0.0)))
        everything += found.tolist()
        claimed.append(int((found >= learner.threshold).sum()))
    reached = learner.edges_
    above = reached[reached["in_graph"] & (reached["probability"] > max(largest))]
    sentence = (
        f"In {n_permutations} permutation{'' if n_permutations == 1 else 's'} of the data between "
        f"nodes (--null) the largest probability of an edge was {max(largest):.2f} and "
        f"{np.mean(claimed):.2g} edges reached {learner.threshold:g} on average; "
        f"{len(above)} of the edges found exceed that. Permuting cannot exclude a cause that was "
        "not measured, nor differences between trajectories that all nodes share."
    )
    highest = [round(p, 6) for p in sorted(everything, reverse=True)[:_KEPT]]
    return {
        "largest": largest,
        "claimed": claimed,
        "probabilities": highest,
        "sentence": sentence,
    }


def permuted_between_nodes(data: Observations, rng: np.random.Generator) -> Observations:
    """Trajectories, or with a single one times, permuted for every node on its own."""
    measurements = {}
    for node, record in data.measurements.items():
        if data.n_trajectories > 1:
            measurements[node] = _moved(record, rng.permutation(data.n_trajectories), data)
        else:
            measurements[node] = _shifted(record, rng)
    return replace(data, measurements=measurements)


def _moved(record: NodeMeasurements, target: Any, data: Observations) -> NodeMeasurements:
    """Every trajectory's rows in another trajectory, its times stretched to fit."""
    trajectory = target[record.trajectory].astype(np.int64)
    start, length = data.start, np.maximum(data.end - data.start, 1e-300)
    share = (record.time - start[record.trajectory]) / length[record.trajectory]
    time = start[trajectory] + share * length[trajectory]
    order = np.lexsort((time, trajectory))
    return replace(record.take(order, trajectory[order]), time=time[order])


def _shifted(record: NodeMeasurements, rng: np.random.Generator) -> NodeMeasurements:
    """The values of a single trajectory, moved round by some rows."""
    by = int(rng.integers(1, max(2, len(record))))
    values = np.roll(record.value, by)
    likelihood = None if record.likelihood is None else np.roll(record.likelihood, by, axis=0)
    return replace(record, value=values, exact=np.roll(record.exact, by), likelihood=likelihood)


def held_out_words(gain: pd.Series, n_folds: int) -> str:
    """The gain with its error, and what it means."""
    mean, error = float(gain.mean()), float(gain.std(ddof=1) / np.sqrt(len(gain)))
    if mean > 2.0 * error:
        verdict = "the edges predict"
    elif mean < -2.0 * error:
        verdict = "the edges predict worse than none"
    else:
        verdict = "that the edges predict cannot be said"
    return (
        f"In {n_folds} folds of held-out trajectories (--cross-validate), ln P of a trajectory is "
        f"{mean:+.2f} ± {error:.2f} beside a network without edges: {verdict}. Prediction cannot "
        "show whether edges stand for a cause that was not measured."
    )
