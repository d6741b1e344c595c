"""Do trajectories differ in how fast a node moves, or do its rates change over time?

Where graphs are drawn, factors on the rates of every node are drawn with them
(``sampling/_factors.py``), so edges need not stand for such differences. Here is what was found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.special import polygamma

from asterism.learning.search.measured_oddly import OddMeasurements, odd_sentences
from asterism.learning.search.residuals import (
    FEWEST_TRAJECTORIES,
    MOST_NODES,
    MoveTogether,
    can_compare,
    pair_sentences,
)
from asterism.learning.search.sample_errors import OddErrors, error_sentences
from asterism.sampling._along import ALL_RATES, N_KINDS, OVER_TIME, UP_AND_DOWN

if TYPE_CHECKING:
    from asterism.learning.search.found import SearchResult

#: what is told, and marked as a caveat, has at least this probability
LIKELY = 0.5
TRAJECTORIES = "trajectories differ"
TREND = "trend"
_KINDS = {TRAJECTORIES: (ALL_RATES, UP_AND_DOWN), TREND: range(OVER_TIME, N_KINDS)}
#: nodes that a sentence names
_NAMED = 6
#: mass of the interval of a spread
_INTERVAL = 0.9


@dataclass(frozen=True)
class RateFactor:
    """How far the rates of a node differ between trajectories, or over time."""

    what: str
    """``TRAJECTORIES`` or ``TREND``."""
    node: str
    probability: float
    spread: float
    """By what factor rates differ, if they do: one standard deviation of its logarithm."""
    lower: float
    upper: float
    """90 % interval of the spread."""

    @property
    def is_likely(self) -> bool:
        """Whether the factors are there."""
        return self.probability >= LIKELY

    @property
    def children(self) -> tuple[str, ...]:
        """Nodes whose edges carry the caveat."""
        return (self.node,)

    @property
    def caveat(self) -> str:
        """For edges into the node."""
        return "trajectories differ" if self.what == TRAJECTORIES else "could be a trend"


#: what a check may find
Check = RateFactor | MoveTogether | OddMeasurements | OddErrors


def sentences(checks: Sequence[Check]) -> list[str]:
    """What was found in words: at most one sentence of each kind."""
    factors = [one for one in checks if isinstance(one, RateFactor)]
    told = []
    for what in _KINDS:
        own = [one for one in factors if one.what == what and one.is_likely]
        if not own:
            continue
        names = ", ".join(one.node for one in own[:_NAMED])
        if len(own) > _NAMED:
            names += f" and {len(own) - _NAMED} more"
        first = own[0]
        by = f"by a factor of {first.spread:.1f} ({first.lower:.1f} to {first.upper:.1f})"
        if what == TRAJECTORIES:
            said = f"Trajectories differ {by} in how fast these nodes move: {names}"
            todo = "Name what they differ in, if a column says it (--exogenous)"
        else:
            said = f"How fast these nodes move changes over time {by}: {names}"
            todo = "Say when something acted on them, if you know it (--stimuli)"
        told.append(
            f"Could it be something else? {said}. The model has factors for that, so edges into "
            f"them need not stand for it. {todo}."
        )
    told += pair_sentences([one for one in checks if isinstance(one, MoveTogether)])
    told += odd_sentences([one for one in checks if isinstance(one, OddMeasurements)])
    return told + error_sentences([one for one in checks if isinstance(one, OddErrors)])


def with_caveats(edges: pd.DataFrame, checks: Sequence[Check]) -> pd.DataFrame:
    """Edges shown into nodes of a likely check say so, where they have no caveat yet."""
    edges = edges.copy()
    for one in checks:
        if one.is_likely:
            into = edges["child"].isin(one.children)
            edges.loc[edges["in_graph"] & (edges["caveat"] == "") & into, "caveat"] = one.caveat
    return edges


def not_checked(found: SearchResult) -> str:
    """What nobody looked at, why, and what to do; "" if all was."""
    if found.network is None or found.continuous is not None:
        return ""
    whole = "whether trajectories differ in their rates, rates change over time"
    if found.sampled is None:
        return (
            f"Not looked at: {whole}, or nodes without an edge move together, because no graphs "
            "were drawn (--method sample draws them)."
        )
    if found.sampled.models.setup.factors is None:
        return (
            f"Not looked at: {whole}, or nodes without an edge move together, because the prior of "
            "rates was given (leave --prior out)."
        )
    if not can_compare(found):
        return (
            "Not looked at: whether nodes without an edge, or errors of measurements, move "
            f"together, which needs at least {FEWEST_TRAJECTORIES} trajectories, and at most "
            f"{MOST_NODES} nodes."
        )
    return ""


def rate_factors(found: SearchResult) -> list[RateFactor]:
    """For every node, the most probable first; without draws there are none."""
    if found.sampled is None or (prior := found.sampled.models.setup.factors) is None:
        return []
    each = found.sampled.models.mean_averages().factor
    spreads = np.exp(np.sqrt(polygamma(1, prior.shape)))
    order = np.argsort(spreads)
    result = []
    for n, name in enumerate(found.nodes):
        whole = each[n].sum()
        if name in found.exogenous or whole <= 0.0:
            continue
        for what, kinds in _KINDS.items():
            own = each[n, list(kinds)].sum(axis=0)[order]
            if own.sum() > 0.0:
                below = np.cumsum(own) / own.sum()
                cuts = (0.5, 0.5 - _INTERVAL / 2, 0.5 + _INTERVAL / 2)
                at = [float(np.interp(cut, below, spreads[order])) for cut in cuts]
                result.append(RateFactor(what, name, float(own.sum() / whole), *at))
    return sorted(result, key=lambda one: -one.probability)
