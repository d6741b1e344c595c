"""Does something other than edges move the nodes? Checks of the draws behind a result.

``sampling/_residuals.py`` compares how often nodes jump with what their rates expect, by trajectory
and over time, and bounds the evidence for factors that the model does not have. A check is likely
where the bound passes :data:`MARGIN`: it says what the data contain beside edges, and what to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from asterism.sampling._residuals import ALL_RATES, FACTOR_SHAPES, OVER_TIME, UP_AND_DOWN

if TYPE_CHECKING:
    from asterism.learning.search.found import SearchResult

#: nats by which factors must be better than none for a caveat: in clean data the bound stayed
#: below −1, with factors in all nodes it was 2.6 to 20 (``benchmarks/influences.py``, seeds 0, 1)
MARGIN = 2.0
TRAJECTORIES = "trajectories differ"
TREND = "trend"
_WHAT = {ALL_RATES: TRAJECTORIES, UP_AND_DOWN: TRAJECTORIES, OVER_TIME: TREND}
EVERYWHERE = ""


@dataclass(frozen=True)
class ResidualCheck:
    """How much better the data are explained if the rates of a node have factors of their own."""

    what: str
    """``TRAJECTORIES`` or ``TREND``."""
    node: str
    """"" for one factor of all nodes."""
    gain: float
    """Lower bound on ln of the Bayes factor."""
    spread: float
    """By what factor rates differ: one standard deviation."""

    @property
    def is_likely(self) -> bool:
        """Whether the factors are there."""
        return self.gain > MARGIN

    @property
    def caveat(self) -> str:
        """For edges into the node."""
        return "trajectories may differ" if self.what == TRAJECTORIES else "could be a trend"

    @property
    def sentence(self) -> str:
        """The outcome in words."""
        who = f"{self.node} moves" if self.node else "nodes move"
        if self.what == TRAJECTORIES:
            said = f"Trajectories differ by a factor of about {self.spread:.1f} in how {who}"
            todo = "learn from trajectories that are alike, or fit with a frailty"
        else:
            said = f"How {who} changes over time by a factor of about {self.spread:.1f}"
            todo = "learn with --trend"
        return (
            f"Could it be something else? {said} (evidence of at least {self.gain:.1f} nats). Such "
            f"differences can look like edges: {todo}."
        )


def with_caveats(edges: pd.DataFrame, checks: list[ResidualCheck]) -> pd.DataFrame:
    """Edges shown into nodes whose residuals stand out say so, where they have no caveat yet."""
    edges = edges.copy()
    for check in checks:
        if check.is_likely:
            concerned = edges["in_graph"] & (edges["caveat"] == "")
            if check.node:
                concerned &= edges["child"] == check.node
            edges.loc[concerned, "caveat"] = check.caveat
    return edges


def residual_checks(found: SearchResult) -> list[ResidualCheck]:
    """For every node and for all together: trajectories and trend; without draws there are none."""
    if found.sampled is None:
        return []
    total = found.sampled.models.mean_averages().residual
    n_draws = total[0, 0, -1]
    if n_draws == 0.0:
        return []
    mean = total[:, :, :-1] / n_draws
    checks = []
    for name, own in zip((*found.nodes, EVERYWHERE), mean):
        if name in found.exogenous:
            continue
        for what in (TRAJECTORIES, TREND):
            rows = [kind for kind, word in _WHAT.items() if word == what]
            kind, shape = max(
                ((k, i) for k in rows for i in range(len(FACTOR_SHAPES))), key=lambda at: own[at]
            )
            gain = float(own[kind, shape]) - np.log(len(rows) * len(FACTOR_SHAPES))
            spread = float(np.exp(FACTOR_SHAPES[shape] ** -0.5))
            checks.append(ResidualCheck(what, name, gain, spread))
    return sorted(checks, key=lambda check: -check.gain)
