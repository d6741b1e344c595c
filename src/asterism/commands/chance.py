"""What arises by chance: the same statistics in data permuted between nodes.

Each node's measurements keep their own times and order, but trajectory d of one node is put
together with trajectory π(d) of another, a permutation of its own for every node: what each node
does alone stays, and what one does because of another goes. With a single trajectory, each node's
times are shifted around instead. Only pairs of nodes that stay together in no trajectory count.

``--null N`` repeats the whole search in N permuted data sets. Without the flag a quick form runs
where it takes seconds: continuous nodes are scored in closed form as before, and for nodes that
jump every pair is scored with the parent as the only one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from asterism.commands.console import Console
from asterism.data.measurements import NodeMeasurements
from asterism.data.observations import Observations
from asterism.data.trajectories import Trajectories
from asterism.errors import AsterismError, DataError, counted
from asterism.learning.held_out import anew
from asterism.learning.search.screening import pair_gains
from asterism.model.emissions import Joint
from asterism.numerics.arrays import BoolArray, FloatArray
from asterism.numerics.resources import current_limit
from asterism.results.ranking import ranked

if TYPE_CHECKING:
    from asterism.learning.search.structure_learner import StructureLearner


#: of all permutations together, the highest probabilities that the record keeps
_KEPT = 2_000
#: permutations of the quick form at most, of nodes that jump and of continuous ones; and nodes ×
#: measurements in all of them together: about five seconds (100 continuous nodes, 21,000
#: measurements: 5 s each time; 30 that jump, 6,000: 0.3 s)
_QUICK_JUMPS, _QUICK_MOVES, _QUICK_WORK = 10, 30, 4_000_000
#: the quick form needs this many seconds until the end of a limit of time
_SECONDS = 60.0


Values = dict[tuple[str, str], float]
"""Of every pair (parent, child), a number that is large where the data speak for the edge."""


@dataclass(frozen=True)
class Chance:
    """What permuted data gave."""

    record: dict[str, Any]
    """For run.json, with a sentence."""
    by_chance: Values
    """Per pair, how many pairs of one permuted data set do as well, on average."""

    def of(self, edges: pd.DataFrame) -> list[float]:
        """The column ``by_chance`` of a table of edges."""
        pairs = zip(edges["parent"], edges["child"])
        return [self.by_chance.get(pair, np.nan) for pair in pairs]


def chance_of(
    learner: StructureLearner,
    data: Observations | Trajectories,
    n_permutations: int | None,
    seed: int,
    console: Console,
) -> Chance | None:
    """Search in permuted data, by the quick form where no number is given; None without it."""
    quick = n_permutations is None
    number = _quick_number(learner, data) if n_permutations is None else n_permutations
    if number == 0:
        return None
    if isinstance(data, Trajectories) or len(data.events) or len(data.intervals):
        raise DataError("--null permutes measurements; complete or partly known paths have none.")
    by_pair = quick and not learner.network_.drifts
    values = _gains(learner) if by_pair else _probabilities(learner, quick)
    own = values(data) if quick else _pairs(learner.edge_probabilities_)

    def searched(i: int) -> FloatArray:
        orders = orders_of(data, np.random.default_rng([seed, i]))
        every = values(reordered(data, orders))
        # of the nodes that stay together in no trajectory that lasts
        lasts = _lasts(data) if data.n_trajectories > 1 else slice(None)
        moved = {node: own[lasts] for node, own in orders.items()}
        apart = [v for pair, v in every.items() if not np.any(moved[pair[0]] == moved[pair[1]])]
        return np.array(apart or list(every.values()))

    found = []
    if quick:
        try:
            with console.busy(f"Comparing with {counted(number, 'permutation')} of the data"):
                found = [searched(i) for i in range(number)]
        except AsterismError:
            # trajectories of different lengths or restricted transitions: permuted, the states
            # that were seen may be impossible, and nothing can be said about chance
            return None
    else:
        for i in range(number):
            with console.busy(f"Permuted data, {i + 1} of {number}"):
                found.append(searched(i))
    everything = np.sort(np.concatenate(found))
    at_least = len(everything) - np.searchsorted(everything, list(own.values()))
    # what was seen itself counts once more: no chance is zero after so many permutations
    share = (at_least + 1) / (len(everything) + 1)
    by_chance = dict(zip(own, (len(own) * share).tolist()))
    largest = [float(one.max(initial=0.0)) for one in found]
    record: dict[str, Any] = {"permutations": number, "largest": largest}
    if by_pair:
        said = _about_pairs(learner, own, max(largest))
    else:
        claimed = [int((one >= learner.threshold).sum()) for one in found]
        highest = [round(p, 6) for p in everything[::-1][:_KEPT].tolist()]
        record |= {"claimed": claimed, "probabilities": highest}
        mean = len(own) * sum(claimed) / len(everything)
        said = _about_probabilities(learner, max(largest), mean)
    sentence = f"In {counted(number, 'permutation')} of the data between nodes (--null) {said}"
    return Chance({**record, "sentence": f"{sentence} {_CANNOT}"}, by_chance)


_CANNOT = (
    "Permuting cannot exclude a cause that was not measured, nor differences between trajectories "
    "that all nodes share."
)


def _about_probabilities(learner: StructureLearner, largest: float, claimed: float) -> str:
    edges = learner.edges_
    above = edges[edges["in_graph"] & (edges["probability"] > largest)]
    return (
        f"the largest probability of an edge was {largest:.3g} and {claimed:.2g} edges reached "
        f"{learner.threshold:g} on average; {len(above)} of the edges found exceed that."
    )


def _about_pairs(learner: StructureLearner, own: Values, largest: float) -> str:
    top = ranked(learner.edges_)
    above = sum(own.get(pair, -np.inf) > largest for pair in zip(top["parent"], top["child"]))
    return (
        f"no pair explained the data better than alone by more than {largest:.1f} nats; "
        f"{above} of the {len(top)} most probable edges do. This compares each parent alone, so it "
        "cannot tell a direct influence from one through other nodes."
    )


def _quick_number(learner: StructureLearner, data: Observations | Trajectories) -> int:
    """How many permutations the quick form makes; by the size of the data, not by the clock."""
    if isinstance(data, Trajectories) or len(data.nodes) < 2 or learner.max_parents == 0:
        return 0
    # known states would be torn from their place
    known = any(len(one) for one in (data.events, data.intervals, data.interventions))
    emission = learner.emission_ if isinstance(learner.emission_, dict) else {}
    joint = any(isinstance(one, Joint) for one in emission.values())
    if known or joint or learner.not_scored_:
        return 0
    if learner.interrupted_ or current_limit().left < _SECONDS:
        return 0
    work = len(data.nodes) * sum(len(record) for record in data.measurements.values())
    most = _QUICK_MOVES if learner.network_.drifts else _QUICK_JUMPS
    return int(min(most, _QUICK_WORK // max(work, 1)))


def _pairs(table: pd.DataFrame) -> Values:
    """A square table of probabilities as pairs; what was not scored is left out."""
    return {
        (str(parent), str(child)): float(value)
        for child, column in table.items()
        for parent, value in column.items()
        if parent != child and not pd.isna(value)
    }


def _probabilities(learner: StructureLearner, quick: bool) -> Callable[[Observations], Values]:
    """Searches as the learner does; the journal belongs to the data as they are."""
    changes: dict[str, Any] = {"minutes": None, "method": "star"} if quick else {}
    return lambda data: _pairs(anew(learner, **changes).fit(data).edge_probabilities_)


def _gains(learner: StructureLearner) -> Callable[[Observations], Values]:
    """Scores every pair with the parent as the only one."""
    settings = replace(learner.search_settings(), emission=learner.emission_)
    return lambda data: pair_gains(settings, data)


def orders_of(data: Observations, rng: np.random.Generator) -> dict[str, Any]:
    """Of every node the new places of its trajectories, or of a single one a shift in rows."""
    if data.n_trajectories > 1:
        # values of a moment and of a course cannot change places
        groups = [np.flatnonzero(_lasts(data) == lasts) for lasts in (True, False)]
        places = np.argsort(np.concatenate(groups))
        return {
            node: np.concatenate([rng.permutation(group) for group in groups])[places]
            for node in data.measurements
        }
    return {
        node: rng.integers(1, max(2, len(record)), 1) for node, record in data.measurements.items()
    }


def _lasts(data: Observations) -> BoolArray:
    """(D,) whether a trajectory has more than one moment."""
    return data.end > data.start


def reordered(data: Observations, orders: Mapping[str, Any]) -> Observations:
    """The data with every node in its own order of trajectories, or shifted in time."""
    move = _moved if data.n_trajectories > 1 else _shifted
    measurements = {
        node: move(record, orders[node], data) for node, record in data.measurements.items()
    }
    return replace(data, measurements=measurements)


def _moved(record: NodeMeasurements, target: Any, data: Observations) -> NodeMeasurements:
    """Every trajectory's rows in another trajectory, its times stretched to fit."""
    trajectory = target[record.trajectory].astype(np.int64)
    start, length = data.start, data.end - data.start
    own = np.where(_lasts(data), length, 1.0)[record.trajectory]
    share = (record.time - start[record.trajectory]) / own
    time = start[trajectory] + share * length[trajectory]
    order = np.lexsort((time, trajectory))
    return replace(record.take(order), trajectory=trajectory[order], time=time[order])


def _shifted(record: NodeMeasurements, by: Any, data: Observations) -> NodeMeasurements:
    """The values of a single trajectory, moved round by some rows."""
    n = int(by[0])
    likelihood = None if record.likelihood is None else np.roll(record.likelihood, n, axis=0)
    return replace(
        record,
        value=np.roll(record.value, n),
        exact=np.roll(record.exact, n),
        likelihood=likelihood,
    )


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
