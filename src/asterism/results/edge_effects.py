"""What each parent does to its child, read off the rates.

Everything here describes a given network: nothing is learned. Where a child has several parents,
the others are averaged over with equal weights, so an effect is a summary and not a rate. A ratio
of rates compares the parent's last state with its first. Its interval follows from those of the
rates by error propagation on the logarithms, as if the rates were estimated independently.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from asterism.model.network import Network
from asterism.model.rates import SummaryRates, with_diagonal
from asterism.numerics.arrays import FloatArray

if TYPE_CHECKING:
    from asterism.results.run import RateIntervals


RAISES, LOWERS, MIXED, NONE = "raises", "lowers", "mixed", "none"

#: with more configurations of the other parents than this, only their average is looked at
CONFIGURATION_LIMIT = 1_024

#: a smaller shift of the mean long-run state (counted in states) is called no effect
SMALLEST_SHIFT = 1e-3


def rates_by_parent_state(network: Network, child: str, parent: str) -> FloatArray:
    """(S_parent, S, S) rates of the child, averaged over the states of its other parents.

    Of a continuous parent: two standard deviations below and above where it starts.
    """
    if parent in network.drifts:
        return np.asarray(np.mean(list(_settings(network, child, parent)), axis=0))
    slot = network.jumping_parents(child).index(parent)
    rates = network.rates[child]
    assert rates is not None  # a node with parents has rates
    if isinstance(rates, SummaryRates):
        return _summary_rates_by_state(rates, slot)
    others = tuple(axis for axis in range(rates.ndim - 2) if axis != slot)
    return np.asarray(rates.mean(axis=others))


def effect(network: Network, child: str, parent: str) -> str:
    """Whether the child's long-run state rises with the parent's, in the order of their states.

    "mixed": up in one setting of the other parents and down in another, or neither up nor down
    all along the parent's states. "none": no difference worth the name. Of a continuous child, the
    resting level counts.
    """
    if child in network.drifts:
        return _effect_on_level(network, child, parent)
    return _direction(_settings(network, child, parent))


def effect_of_rates(rates: FloatArray, slot: int) -> str:
    """:func:`effect` of one parent from the rates (parents…, S, S), diagonals set."""
    return _direction(_by_setting(rates, slot))


def _direction(settings: Iterable[FloatArray]) -> str:
    """Of (S_parent, S, S) rates in each setting of the other parents.

    Where a state is final every chain ends there in the long run: then the mean state after about
    the time of one transition counts, which says how soon.
    """
    blocks = list(settings)
    exits = -np.diagonal(blocks, axis1=2, axis2=3)
    steps = _shifts(blocks, 0.0)
    if np.all(np.abs(steps) < SMALLEST_SHIFT) and not exits.all():
        steps = _shifts(blocks, float(exits[exits > 0.0].mean()) if exits.any() else 0.0)
    if np.all(np.abs(steps) < SMALLEST_SHIFT):
        return NONE
    if np.all(steps > -SMALLEST_SHIFT):
        return RAISES
    if np.all(steps < SMALLEST_SHIFT):
        return LOWERS
    return MIXED


def _effect_on_level(network: Network, child: str, parent: str) -> str:
    """From the slopes within two standard deviations of a continuous parent; or its states."""
    drift = network.drifts[child]
    if parent in drift.shifts:
        steps = np.diff(np.asarray(drift.shifts[parent], dtype=np.float64))
    else:
        steps = np.array([drift.slope(parent, float(at)) for at in _ends(network, parent)])
    if not np.any(steps):
        return NONE
    return RAISES if np.all(steps >= 0.0) else LOWERS if np.all(steps <= 0.0) else MIXED


def _ends(network: Network, parent: str) -> FloatArray:
    """Two standard deviations below and above the mean at which a continuous node starts."""
    above = network.drifts[parent]
    ends: FloatArray = above.start_mean + 2.0 * above.start_sd * np.array([-1.0, 1.0])
    return ends


def _shifts(blocks: list[FloatArray], horizon: float) -> FloatArray:
    """By how much the mean state moves from one state of the parent to the next."""
    means = [[_long_run_mean(block, horizon) for block in by_state] for by_state in blocks]
    return np.concatenate([np.diff(part) for part in means])


def log_fold_of_odds(mean: FloatArray, variance: FloatArray, slot: int) -> tuple[float, float]:
    """By what factor a parent changes the odds of its child's moving up rather than down.

    ``mean`` and ``variance`` (parents…, S, S) are those of the rates, ``slot`` is the place of the
    parent. Compares the parent's last state with its first, the other parents averaged over.
    Where the child cannot move down (or up) only the moves count that it can make. Returns the
    logarithm of the factor and its standard deviation, to first order.
    """
    size = mean.shape[-1]
    others = tuple(a for a in range(mean.ndim - 2) if a != slot)
    n_others = int(np.prod([mean.shape[a] for a in others]))
    rates = mean.mean(axis=others) if others else mean
    spread = variance.sum(axis=others) / n_others**2 if others else variance
    log_fold, squared = 0.0, 0.0
    for sign, mask in (
        (1.0, np.triu(np.ones((size, size)), 1)),
        (-1.0, np.tril(np.ones((size, size)), -1)),
    ):
        for end, place in ((1.0, -1), (-1.0, 0)):
            total = float((rates[place] * mask).sum())
            if total > 0.0:
                log_fold += sign * end * float(np.log(total))
                squared += float((spread[place] * mask).sum()) / total**2
    return log_fold, float(np.sqrt(squared))


def _settings(network: Network, child: str, parent: str) -> Iterator[FloatArray]:
    """(S_parent, S, S) rates for every setting of the other parents, or their average."""
    rates, above = network.rates[child], network.jumping_parents(child)
    if parent in network.drifts:
        table = rates.expand() if isinstance(rates, SummaryRates) else rates
        assert table is not None
        size = table.shape[-1]
        slope = network.slopes[child][parent]
        factors = [np.exp(np.clip(slope * at, -50.0, 50.0)) for at in _ends(network, parent)]
        for block in table.reshape(-1, size, size):
            yield np.stack([with_diagonal(child, block * (1 - np.eye(size)) * f) for f in factors])
        return
    slot = above.index(parent)
    sizes = [len(network.states[p]) for p in above]
    n_others = np.prod(sizes, dtype=np.float64) / sizes[slot]
    if n_others > CONFIGURATION_LIMIT:
        yield rates_by_parent_state(network, child, parent)
        return
    table = rates.expand() if isinstance(rates, SummaryRates) else rates
    assert table is not None
    yield from _by_setting(table, slot)


def _by_setting(table: FloatArray, slot: int) -> Iterator[FloatArray]:
    front = np.moveaxis(table, slot, 0)
    by_setting = front.reshape(len(front), -1, *table.shape[-2:])
    for number in range(by_setting.shape[1]):
        yield by_setting[:, number]


def _summary_rates_by_state(rates: SummaryRates, slot: int) -> FloatArray:
    """The average over the other parents by convolution: their number does not matter."""
    others = np.ones(1)
    for number, weights in enumerate(rates.shifted_weights):
        if number != slot:
            counts = np.bincount(weights).astype(np.float64) / len(weights)
            others = np.convolve(others, counts)
    blocks = np.arange(len(others))
    own = rates.shifted_weights[slot]
    return np.stack([np.tensordot(others, rates.table[blocks + w], axes=1) for w in own])


def _long_run_mean(block: FloatArray, horizon: float = 0.0) -> float:
    """Mean state number from a uniform start, in the long run or until an exponential ``horizon``.

    A trickle of restarts in a random state makes the answer unique for chains with absorbing
    states, and is too small to matter otherwise.
    """
    n_states = len(block)
    fastest = float(np.max(np.abs(block)))
    if fastest == 0.0:
        return (n_states - 1) / 2
    restart = max(1e-9, horizon / fastest)
    generator = block / fastest
    # occupation of a chain restarted at rate `restart`: restart · uniform · (restart − Q)^-1
    start = np.full(n_states, 1.0 / n_states)
    occupation = np.linalg.solve((restart * np.eye(n_states) - generator).T, restart * start)
    return float(occupation @ np.arange(n_states) / occupation.sum())


# ---- ratios of rates, with intervals ----------------------------------------------------------


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
    if found is None or parent in network.drifts:
        return np.full(shape, np.nan)
    rates = network.rates[child]
    assert isinstance(rates, np.ndarray)
    low, high = found
    with np.errstate(divide="ignore", invalid="ignore"):
        half = 0.5 * (np.log(high) - np.log(low))
        squared = np.where(rates > 0.0, rates * half, 0.0) ** 2
    slot = network.jumping_parents(child).index(parent)
    others = tuple(axis for axis in range(rates.ndim - 2) if axis != slot)
    total = rates.sum(axis=others)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.sqrt(squared.sum(axis=others)) / total)
