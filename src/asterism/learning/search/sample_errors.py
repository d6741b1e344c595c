"""Do the errors of measurements go together between nodes, or drift in the course of a trajectory?

Noise is independent in the model. In data, a sample may be stronger than another as a whole
(loading, illumination), and values may fade (bleaching). Nodes then seem to move together.

What the nearest level leaves of every measurement is taken in units of the noise, less its mean in
the level and in the trajectory. For every pair of nodes the products at the same times are added
up in each trajectory, for every node the products with the time. What chance gives is found by
changing the signs of whole trajectories, as in ``residuals.py``. Where levels overlap, the nearest
one is often not the true one, and what it leaves depends on how states move: such nodes are left
out. tests/unit/test_residuals.py has examples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from asterism.data.observations import Observations
from asterism.errors import first_few
from asterism.learning.levels import measured_while_free
from asterism.learning.search.measured_oddly import MOST_NODES
from asterism.learning.search.residuals import FEWEST_TRAJECTORIES, BeyondChance, chance_of
from asterism.model.emissions import Gaussian, emission_for
from asterism.timeline.evidence import FloatArray, IntArray

TOGETHER = "errors go together"
DRIFT = "values drift"
#: share of measurements nearer to another level than their own from which a node is left out
_MISREAD = 0.05
#: larger errors, in units of the noise, count as much as this: one outlier decides nothing
_LARGEST = 3.0


@dataclass(frozen=True)
class OddErrors(BeyondChance):
    """Errors of measurements that are not independent."""

    what: str
    """``TOGETHER`` or ``DRIFT``."""
    nodes: tuple[str, ...]
    size: float
    """The correlation of two nodes' errors; how far values drift from the start of a trajectory to
    its end, in standard deviations of the noise."""
    chance: float
    """In what share of data sets with independent errors some pair, or node, is as remarkable."""

    @property
    def caveat(self) -> str:
        """For edges into the nodes."""
        return "could be errors of samples" if self.what == TOGETHER else "could be a drift"


def _found(
    what: str, named: Sequence[tuple[str, ...]], size: FloatArray, products: FloatArray
) -> list[OddErrors]:
    """``products`` [pair or node, trajectory]."""
    rows = zip(named, size.tolist(), chance_of(products).tolist())
    return [OddErrors(what, nodes, own, chance) for nodes, own, chance in rows]


def _left_of_levels(emission: Any, observations: Observations) -> pd.DataFrame:
    """[(trajectory, time), node] errors in units of the noise, less means of level, trajectory."""
    pieces = []
    for node in observations.measurements:
        if isinstance(emission, Mapping) and node not in emission:
            continue
        one = emission_for(emission, node)
        record = measured_while_free(observations, node)
        record = record.take(np.flatnonzero(record.noisy))
        if not isinstance(one, Gaussian) or one.means is None or not len(record):
            continue
        means = np.asarray(one.means, dtype=np.float64)
        scale = np.broadcast_to(np.asarray(one.scale, dtype=np.float64), means.shape)
        value = record.value.astype(np.float64)
        log = one.log_likelihood(value, range(len(means)))
        share = np.exp(log - log.max(axis=1, keepdims=True))
        if (1.0 - 1.0 / share.sum(axis=1)).mean() > _MISREAD:
            continue
        level = log.argmax(axis=1)
        error = np.clip((value - means[level]) / scale[level], -_LARGEST, _LARGEST)
        error = _centred(_centred(error, level), record.trajectory)
        columns = {"trajectory": record.trajectory, "time": record.time, "error": error}
        pieces.append(pd.DataFrame(columns).assign(node=node))
    if not pieces:
        return pd.DataFrame()
    whole = pd.concat(pieces).groupby(["trajectory", "time", "node"], sort=True)["error"]
    return whole.mean().unstack("node")


def _centred(values: FloatArray, group: IntArray) -> FloatArray:
    """Less the mean of the group."""
    count = np.maximum(np.bincount(group), 1)
    result: FloatArray = values - (np.bincount(group, values) / count)[group]
    return result


def error_sentences(found: Sequence[OddErrors]) -> list[str]:
    """What was found in words: at most one sentence of each kind."""
    said = []
    if pairs := [one for one in found if one.is_likely and one.what == TOGETHER]:
        said.append(
            "Could it be something else? Errors of measurements go together in "
            f"{first_few([one.node for one in pairs])} (correlation {pairs[0].size:+.2f}; by "
            f"chance in less than {max(pairs[0].chance, 0.001):.1%} of data sets): samples differ "
            "as a whole, which looks like edges. Normalise the samples, or correct them for the "
            "batch in which they were measured."
        )
    if drifts := [one for one in found if one.is_likely and one.what == DRIFT]:
        names = first_few([one.node for one in drifts])
        said.append(
            f"Could it be something else? Values drift in {names} (by {drifts[0].size:+.1f} "
            "standard deviations of the noise in the course of a trajectory; by chance in less "
            f"than {max(drifts[0].chance, 0.001):.1%} of data sets). A drift that nodes share "
            "looks like an edge: subtract it."
        )
    return said


def odd_errors(emission: Any, observations: Observations) -> list[OddErrors]:
    """Pairs of nodes and single nodes that are more than chance, the most remarkable first."""
    left = _left_of_levels(emission, observations)
    if observations.n_trajectories < FEWEST_TRAJECTORIES or not 0 < left.shape[1] <= MOST_NODES:
        return []
    names = list(left.columns)
    seen, error = left.notna().to_numpy(dtype=np.float64), left.fillna(0.0).to_numpy()
    time = left.index.get_level_values("time").to_numpy(dtype=np.float64)
    own = left.index.get_level_values("trajectory").to_numpy()
    first = np.flatnonzero(np.diff(own, prepend=-1))
    found = []
    a, b = np.triu_indices(len(names), 1)
    if len(a):
        pieces = np.split(error, first[1:])
        products = np.stack([(e.T @ e)[a, b] for e in pieces], axis=1)
        power = (error**2).T @ seen
        size = products.sum(axis=1) / np.sqrt(np.maximum(power[a, b] * power[b, a], 1e-300))
        found += _found(TOGETHER, [(names[i], names[j]) for i, j in zip(a, b)], size, products)
    count = np.maximum(np.add.reduceat(seen, first), 1.0)
    middle = np.add.reduceat(seen * time[:, None], first) / count
    later = seen * (time[:, None] - np.repeat(middle, np.diff(first, append=len(own)), axis=0))
    products = np.add.reduceat(error * later, first).T
    lasting = np.median(np.maximum.reduceat(time, first) - np.minimum.reduceat(time, first))
    slope = products.sum(axis=1) / np.maximum((later**2).sum(axis=0), 1e-300)
    found += _found(DRIFT, [(name,) for name in names], lasting * slope, products)
    return sorted((one for one in found if one.is_likely), key=lambda one: one.chance)
