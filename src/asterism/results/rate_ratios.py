"""How much faster or slower a parent makes each transition of its child, with an interval.

The ratio compares the parent's last state with its first, the rates averaged over the other parents
with equal weights. Its interval follows from those of the rates by error propagation on the
logarithms, as if the rates were estimated independently.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.model.network import Network
from asterism.model.rates import SummaryRates
from asterism.results.effects import rates_by_parent_state
from asterism.results.run import Run

FloatArray = NDArray[np.float64]

DESCRIBED = "95 % intervals of the rates"


@dataclass(frozen=True)
class RateIntervals:
    """Lower and upper ends, by node, configuration of its parents, from and to (all as text)."""

    ends: dict[tuple[str, str, str, str], tuple[float, float]]
    described: str = DESCRIBED
    """What kind of interval this is, for readers."""

    def of(self, network: Network, node: str) -> tuple[FloatArray, FloatArray] | None:
        """Ends in the shape of the node's rates; NaN where unknown, None if all are."""
        table = network.rates[node]
        if table is None or isinstance(table, SummaryRates):
            return None
        low, high = (np.full(table.shape, np.nan) for _ in range(2))
        above, states = network.parents[node], network.states[node]
        for place in product(*(range(len(network.states[p])) for p in above)):
            labels = (f"{p}={network.states[p][i]}" for p, i in zip(above, place))
            configuration = ", ".join(labels)
            for x, y in product(range(len(states)), repeat=2):
                ends = self.ends.get((node, configuration, str(states[x]), str(states[y])))
                if x != y and ends is not None:
                    low[(*place, x, y)], high[(*place, x, y)] = ends
        return None if np.isnan(low).all() else (low, high)


@dataclass(frozen=True)
class RateRatio:
    """Rate of one transition in the parent's last state, over that in its first."""

    source: int
    """Number of the child's state that is left."""
    target: int
    """Number of the child's state that is entered."""
    ratio: float
    lower: float
    """NaN where no interval is known."""
    upper: float


def rate_intervals(run: Run) -> RateIntervals | None:
    """Those that the run has."""
    table = run.rates
    if table is None or not len(table):
        return None
    texts = [table[name].map(str) for name in ("node", "configuration", "from", "to")]
    ends = zip(*(pd.to_numeric(table[name], errors="coerce") for name in ("lower", "upper")))
    described = run.run.get("rate_intervals") or DESCRIBED
    return RateIntervals(dict(zip(zip(*texts), ends)), str(described))


def rate_ratios(
    network: Network, child: str, parent: str, intervals: RateIntervals | None = None
) -> list[RateRatio]:
    """One per transition whose rate is above zero in the parent's first and last state."""
    rates = rates_by_parent_state(network, child, parent)
    width = _log_half_widths(network, child, parent, intervals)
    found = []
    n_states = rates.shape[-1]
    for x, y in product(range(n_states), repeat=2):
        before, after = float(rates[0, x, y]), float(rates[-1, x, y])
        if x == y or not (before > 0.0 and after > 0.0):
            continue
        ratio = after / before
        spread = float(np.hypot(width[0, x, y], width[-1, x, y]))
        # beyond this the data say nothing about the ratio
        factor = float(np.exp(spread)) if spread < 50.0 else np.nan
        found.append(RateRatio(x, y, ratio, ratio / factor, ratio * factor))
    return found


def _log_half_widths(
    network: Network, child: str, parent: str, intervals: RateIntervals | None
) -> FloatArray:
    """(S_parent, S, S) half widths of the averaged rates' logarithms; NaN where unknown."""
    shape = rates_by_parent_state(network, child, parent).shape
    found = None if intervals is None else intervals.of(network, child)
    if found is None:
        return np.full(shape, np.nan)
    rates = network.rates[child]
    assert isinstance(rates, np.ndarray)
    low, high = found
    with np.errstate(divide="ignore", invalid="ignore"):
        half = 0.5 * (np.log(high) - np.log(low))
        squared = np.where(rates > 0.0, rates * half, 0.0) ** 2
    slot = network.parents[child].index(parent)
    others = tuple(axis for axis in range(rates.ndim - 2) if axis != slot)
    total = rates.sum(axis=others)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.sqrt(squared.sum(axis=others)) / total)
