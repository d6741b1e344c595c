"""Networks to simulate from: Glauber spins on any graph, and random networks.

Everything is a function of its arguments and the seed alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from asterism.errors import ModelError, Setting
from asterism.model.names import Parents, as_parents, graph_from_spec, random_parents
from asterism.model.network import Network
from asterism.model.rates import SummaryRates, require_table_fits
from asterism.numerics.arrays import FloatArray

__all__ = ["glauber", "graph_from_spec", "random_network", "random_parents", "random_rates"]


#: more parents than this and a Glauber node stores its rates by the number of parents that are up
SUMMARY_ABOVE = 10


def glauber(
    parents: Any,
    a: float = 1.0,
    b: float = 0.6,
    align: bool = True,
    summary: bool | None = None,
) -> Network:
    """Spins −1 and +1 that flip at rate a/2 · (1 ∓ x tanh(b Σu)), with u the parents' spins.

    ``align=True`` takes the minus sign, with which a spin follows its parents for b > 0;
    ``align=False`` the plus sign, which makes it avoid them. ``parents`` is any graph, or a name
    such as "tree:14". ``summary`` says whether nodes store :class:`SummaryRates` (by default only
    those with more than ten parents).
    """
    if not (math.isfinite(a) and a > 0.0):
        raise ModelError(f"The rate a must be positive and finite, got {a}.")
    if not math.isfinite(b):
        raise ModelError(f"The coupling b must be finite, got {b}.")
    graph = as_parents(parents)
    known: dict[tuple[int, bool], Any] = {}
    rates: dict[str, Any] = {}
    for node, above in graph.items():
        by_sum = len(above) > SUMMARY_ABOVE if summary is None else summary
        by_sum = by_sum and len(above) > 0
        key = (len(above), by_sum)
        if key not in known:
            flips = _glauber_flips(len(above), a, b, align)
            known[key] = flips if by_sum else _by_configuration(node, flips)
        # counting the parents that are up leaves no gaps, as adding −1 and +1 would
        rates[node] = (
            SummaryRates(dict.fromkeys(above, (0, 1)), known[key]) if by_sum else known[key]
        )
    return Network(graph, rates, dict.fromkeys(graph, (-1, 1)))


def _glauber_flips(n_parents: int, a: float, b: float, align: bool) -> FloatArray:
    """(n_parents + 1, 2, 2) flip rates when 0, 1, … parents are up."""
    field = np.tanh(b * (2.0 * np.arange(n_parents + 1) - n_parents))
    sign = -1.0 if align else 1.0
    table = np.zeros((n_parents + 1, 2, 2))
    table[:, 0, 1] = 0.5 * a * (1.0 - sign * field)
    table[:, 1, 0] = 0.5 * a * (1.0 + sign * field)
    return table


def _by_configuration(node: str, flips: FloatArray) -> FloatArray:
    n_parents = len(flips) - 1
    require_table_fits(node, [2] * n_parents, 2)
    number_up = np.indices((2,) * n_parents, dtype=np.int64).sum(axis=0, dtype=np.int64)
    table: FloatArray = flips[number_up]
    return table


def random_rates(
    parents: Any,
    n_states: int | Sequence[int] | Mapping[str, int] = 2,
    rate_range: tuple[float, float] = (0.25, 4.0),
    seed: Any = 0,
) -> Network:
    """A network on a given graph whose rates are independent and log-uniform in ``rate_range``."""
    graph = as_parents(parents)
    low, high = rate_range
    if not (0.0 < low <= high < math.inf):
        raise ModelError(f"rate_range must satisfy 0 < low <= high, got {rate_range}.")
    sizes = _sizes(graph, n_states)
    rng = np.random.default_rng(seed)
    rates: dict[str, FloatArray] = {}
    for node, above in graph.items():
        parent_sizes = [sizes[p] for p in above]
        require_table_fits(node, parent_sizes, sizes[node])
        shape = (*parent_sizes, sizes[node], sizes[node])
        table = np.exp(rng.uniform(math.log(low), math.log(high), size=shape))
        own = np.arange(sizes[node])
        table[..., own, own] = 0.0
        rates[node] = table
    states = {node: [str(i) for i in range(sizes[node])] for node in graph}
    return Network(graph, rates, states)


def random_network(
    n_nodes: int = 5,
    n_states: int | Sequence[int] = 2,
    max_parents: int = 2,
    seed: Any = 0,
    min_parents: int = 0,
    rate_range: tuple[float, float] = (0.25, 4.0),
) -> Network:
    """A random graph (see :func:`random_parents`) with log-uniform rates.

    ``n_states`` is one number for all nodes or one per node.
    """
    rng = np.random.default_rng(seed)
    graph = random_parents(n_nodes, min_parents, max_parents, rng)
    return random_rates(graph, n_states, rate_range, rng)


def _sizes(graph: Parents, n_states: int | Sequence[int] | Mapping[str, int]) -> dict[str, int]:
    if isinstance(n_states, (int, np.integer)):
        sizes = dict.fromkeys(graph, int(n_states))
    elif isinstance(n_states, Mapping):
        sizes = {str(node): int(size) for node, size in n_states.items()}
    else:
        sizes = dict(zip(graph, map(int, n_states))) if len(n_states) == len(graph) else {}
    if set(sizes) != set(graph) or min(sizes.values()) < 2:
        raise ModelError(
            Setting("n_states"),
            f" must be a number of at least 2, or one for each of the {len(graph)} nodes, "
            f"got {n_states}.",
        )
    return sizes
