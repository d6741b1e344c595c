"""Do nodes without an edge move together, in a way that nothing in the model explains?

Given paths, rates and factors, a node's jumps less those that its rates expect have the mean zero,
and these residuals of nodes that do not act on each other are uncorrelated. Where graphs are drawn,
they are averaged over the draws (``sampling/_factors.py``), in every trajectory and part of the
time. Two nodes may be fast together (jumps up and jumps down added), or high together (jumps down
subtracted). What all trajectories have in common at a time is left out: that is a trend.

For every pair without an edge the products of the residuals are summed, and divided by the square
root of the sum of squares of what each trajectory adds. What chance gives is found by changing the
signs of whole trajectories, for all pairs at once, so that many pairs raise no more alarms than
few. tests/unit/test_residuals.py has examples; ``benchmarks/rate_factors.py`` counts false alarms.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from asterism.learning.search.unmeasured import CAVEAT
from asterism.timeline.evidence import FloatArray, IntArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from asterism.learning.search.found import SearchResult

TOGETHER = "nodes move together"
#: an alarm is what chance gives in less than this share of data sets
LEVEL = 0.02
#: fewer trajectories cannot tell what is chance
FEWEST_TRAJECTORIES = 8
#: more nodes are not compared: there are half a million pairs of a thousand
MOST_NODES = 200
#: pairs whose edges have this probability together, in both directions, share an edge
_SHARE_AN_EDGE = 0.5
#: parts of the time that are looked at. Of 1, 2, 4, 6 and 12, six found the most causes of four
#: nodes of six (24 trajectories of 16 measurements)
_PARTS = 6
_N_FLIPS, _AT_ONCE = 2_000, 50
_NAMED = 3


class BeyondChance:
    """What checks of residuals share: which nodes are meant, and whether chance explains it."""

    nodes: tuple[str, ...]
    chance: float

    @property
    def is_likely(self) -> bool:
        """Whether it is more than chance."""
        return self.chance < LEVEL

    @property
    def node(self) -> str:
        """All nodes meant."""
        return " and ".join(self.nodes)

    @property
    def children(self) -> tuple[str, ...]:
        """Nodes whose edges carry the caveat."""
        return self.nodes


@dataclass(frozen=True)
class MoveTogether(BeyondChance):
    """Two nodes without an edge that move together beyond what the model explains."""

    nodes: tuple[str, str]
    way: str
    """"fast": when one jumps often, so does the other; "high": when one jumps up, so does the
    other."""
    correlation: float
    """Of what the model leaves of them; negative: when one does, the other does not."""
    chance: float
    """In what share of data sets without such pairs some pair goes together as well as this one."""
    what: str = TOGETHER

    @property
    def caveat(self) -> str:
        """For edges into the nodes."""
        return CAVEAT


def pair_sentences(found: Sequence[MoveTogether]) -> list[str]:
    """What was found in words: one sentence, if anything."""
    own = [one for one in found if one.is_likely]
    if not own:
        return []
    names = ", ".join(one.node for one in own[:_NAMED])
    if len(own) > _NAMED:
        names += f" and {len(own) - _NAMED} more pairs"
    first = own[0]
    return [
        f"Could it be something else? Nodes move together that share no edge: {names} "
        f"(correlation {first.correlation:+.2f} of what the model leaves; by chance in less than "
        f"{max(first.chance, 0.001):.1%} of data sets). An edge may be missing, or something that "
        "was not measured acts on them: measure it, say when it acted (--stimuli), or add it "
        "(--hidden 1)."
    ]


def moving_together(found: SearchResult) -> list[MoveTogether]:
    """Pairs that share no edge, the most remarkable first; none where nothing was computed."""
    if found.sampled is None or not can_compare(found):
        return []
    models = found.sampled.models
    residual = models.mean_averages().residual
    n_nodes, n_trajectories, n_parts, _ = residual.shape
    residual = residual.reshape(n_nodes, n_trajectories, _PARTS, n_parts // _PARTS, 2).sum(axis=3)
    chance = np.stack([found.edge_probabilities(n) for n in range(n_nodes)], axis=1)
    apart = np.nan_to_num(chance + chance.T) < _SHARE_AN_EDGE
    jump = [n for n in range(n_nodes) if np.ptp(residual[n]) > 0.0]
    pairs = np.array([(a, b) for a, b in combinations(jump, 2) if apart[a, b]], dtype=np.int64)
    if not len(pairs):
        return []
    up, down = residual[..., 0], residual[..., 1]
    ways = {"fast": up + down, "high": up - down}
    named = [(way, a, b) for way in ways for a, b in pairs.tolist()]
    each = [_products(own, pairs) for own in ways.values()]
    products = np.concatenate([one[0] for one in each])
    correlation = np.concatenate([one[1] for one in each])
    share = chance_of(products)
    order = np.argsort(share, kind="stable")
    return [
        MoveTogether(
            (found.nodes[named[i][1]], found.nodes[named[i][2]]),
            named[i][0],
            float(correlation[i]),
            float(share[i]),
        )
        for i in order
    ]


def can_compare(found: SearchResult) -> bool:
    """Whether there are residuals, and trajectories enough to tell what is chance."""
    if found.sampled is None or found.sampled.models.setup.factors is None:
        return False
    n_nodes, n_trajectories = found.sampled.models.averages[0].residual.shape[:2]
    return bool(n_nodes <= MOST_NODES and n_trajectories >= FEWEST_TRAJECTORIES)


def _products(own: FloatArray, pairs: IntArray) -> tuple[FloatArray, FloatArray]:
    """[pair, trajectory] sums of products, and [pair] correlations."""
    own = own - own.mean(axis=1, keepdims=True)
    first, second = own[pairs[:, 0]], own[pairs[:, 1]]
    products = (first * second).sum(axis=2)
    size = np.sqrt((own**2).sum(axis=(1, 2)))
    return products, products.sum(axis=1) / (size[pairs[:, 0]] * size[pairs[:, 1]])


def chance_of(products: FloatArray) -> FloatArray:
    """[pair] how often any pair does as well when trajectories change their signs.

    ``products`` [pair, trajectory] are what each trajectory says about a pair; 0 is expected.
    """
    scaled = products / np.sqrt((products**2).sum(axis=1, keepdims=True) + 1e-300)
    own = np.abs(scaled.sum(axis=1))
    rng = np.random.default_rng(0)
    largest = []
    for _ in range(_N_FLIPS // _AT_ONCE):
        signs = rng.choice([-1.0, 1.0], size=(_AT_ONCE, products.shape[1]))
        largest.append(np.abs(signs @ scaled.T).max(axis=1))
    by_chance = np.sort(np.concatenate(largest))
    above = len(by_chance) - np.searchsorted(by_chance, own - 1e-12)
    result: FloatArray = (1.0 + above) / (1.0 + len(by_chance))
    return result
