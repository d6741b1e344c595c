"""Owns the table of rates of a learned network: each with an interval.

Given the graph, and the expected transitions and times as if they had been counted, every rate has
a Gamma posterior. Its interval ignores that courses were inferred and that another graph might be
true, so it is rather too narrow. Complete paths leave only the second doubt.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

if TYPE_CHECKING:
    from asterism.learning.search.found import FamilyCounts, SearchResult

#: share of the posterior inside an interval, as for fold changes
INSIDE = 0.9
#: rates that a table lists; of larger networks it is left out
MOST_RATES = 200_000
COLUMNS = ("node", "configuration", "from", "to", "rate", "lower", "upper")


def rate_frame(found: SearchResult) -> pd.DataFrame | None:
    """One row per rate that may differ from zero; None without counts, or beyond the limit."""
    from scipy.special import gammaincinv

    counted = {
        name: found.counts[name]
        for name in found.nodes
        if name in found.counts and found.network.rates[name] is not None
    }
    n_rates = sum(counts.transitions.size for counts in counted.values())
    if not counted or n_rates > MOST_RATES:
        return None
    labels: list[tuple[Any, ...]] = []
    shapes, times = [], []
    for name, counts in counted.items():
        own, shape, time = _of_node(found, name, counts)
        labels += own
        shapes.append(shape)
        times.append(time)
    shape, time = np.concatenate(shapes), np.concatenate(times)
    tail = (1.0 - INSIDE) / 2.0
    table = pd.DataFrame(labels, columns=list(COLUMNS[:4]), dtype=object)
    return table.assign(
        rate=shape / time,
        lower=gammaincinv(shape, tail) / time,
        upper=gammaincinv(shape, 1.0 - tail) / time,
    )


def _of_node(
    found: SearchResult, name: str, counts: FamilyCounts
) -> tuple[list[tuple[Any, ...]], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Labels, and the two parameters of the Gamma posterior, of every rate of one node."""
    network = found.network
    states, above = network.states[name], network.parents[name]
    moves = [
        (x, y) for x, y in product(range(len(states)), repeat=2) if x != y and counts.allowed[x, y]
    ]
    labels, shape, time = [], [], []
    for place in product(*(range(len(network.states[p])) for p in above)):
        pairs = (f"{p}={network.states[p][i]}" for p, i in zip(above, place))
        configuration = ", ".join(pairs)
        for x, y in moves:
            labels.append((name, configuration, states[x], states[y]))
            shape.append(float(counts.transitions[(*place, x, y)]) + counts.shape)
            time.append(float(counts.dwell[(*place, x)]) + counts.rate)
    return labels, np.array(shape), np.array(time)
