"""Owns the choice how many levels each node has, where the emission leaves that open.

For every number of levels from 2 to 5 a small hidden Markov model is fitted to the node alone: the
measurement comes from one of S levels, which stays for a while and is then drawn anew. The number
with the best Bayesian information criterion is taken; the weights e^(−BIC/2), normalised, say how
clearly. No graph is looked at, so the choice costs little beside a search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.data.interventions import inside
from asterism.data.measurements import NodeMeasurements
from asterism.data.observations import Observations
from asterism.errors import Advice, AsterismError, DataError
from asterism.model.emissions import Gaussian, Joint, Poisson, emission_for, leaves_levels_open

FloatArray = NDArray[np.float64]

FEWEST, MOST = 2, 5
#: measurements per level below which more levels are not tried
_LEAST_PER_LEVEL = 5
_MAX_STEPS = 60
_TOLERANCE = 1e-4  # of the log likelihood
#: measurements of a node that are looked at; of more, stretches of this length spread over all
_MOST_VALUES = 20_000
_STRETCH = 500
#: where the fit starts: whether levels are spread evenly, and the stay time in median gaps
_STARTS = ((False, 2.0), (True, 1.0))
#: a level's scale never falls below this share of the distance between levels …
_LEAST_SHARE = 0.02


@dataclass(frozen=True)
class LevelChoice:
    """How many levels a node got, and why."""

    node: str
    n_levels: int
    emission: Any
    """Fitted to the node alone."""
    scores: dict[int, float]
    """Number of levels -> −BIC/2, an approximation to the log marginal likelihood."""
    chosen: bool = True
    """False where the user gave the number."""

    @property
    def probability(self) -> float:
        """Share of the weight of all numbers tried that falls on the one chosen."""
        if self.n_levels not in self.scores:
            return 1.0
        logs = np.array(list(self.scores.values()))
        weights = np.exp(logs - logs.max())
        return float(np.exp(self.scores[self.n_levels] - logs.max()) / weights.sum())

    def to_dict(self) -> dict[str, Any]:
        """For files and the report."""
        return {
            "levels": self.n_levels,
            "chosen": self.chosen,
            "probability": self.probability,
            "scores": {str(k): v for k, v in self.scores.items()},
            "means": list(self.emission.means or ()),
            "scale": getattr(self.emission, "scale", None),
        }


def level_frame(choices: Sequence[LevelChoice]) -> pd.DataFrame:
    """node, levels, probability, means: one row per node whose levels were counted."""
    return pd.DataFrame(
        {
            "node": pd.Series([c.node for c in choices], dtype=object),
            "levels": np.array([c.n_levels for c in choices], dtype=np.int64),
            "probability": np.array([c.probability for c in choices], dtype=np.float64),
            "means": pd.Series([tuple(c.emission.means) for c in choices], dtype=object),
        }
    )


def with_levels(
    emission: Any, observations: Observations, states: Mapping[Any, Sequence[Any]] | None = None
) -> tuple[Any, list[LevelChoice]]:
    """Emissions with every open number of levels filled in, and what was chosen.

    States that the user named fix the number. Emissions that leave nothing open come back as they
    are, the same object.
    """
    named = {str(n): len(labels) for n, labels in (states or {}).items()}
    is_mapping = isinstance(emission, Mapping)
    if not leaves_levels_open(emission):
        return emission, []
    resolved: dict[str, Any] = {str(n): e for n, e in emission.items()} if is_mapping else {}
    choices: list[LevelChoice] = []
    for node, record in observations.measurements.items():
        if is_mapping and (node not in resolved or isinstance(resolved[node], Joint)):
            continue
        one: Any = emission_for(emission, node)
        resolved[node] = one
        if getattr(one, "levels", None) is None or record.likelihood is not None:
            continue
        held = inside(observations.interventions, node, record.trajectory, record.time)
        if held.any():
            record = record.take(np.flatnonzero(~held))
        asked = named.get(node, one.levels)
        try:
            choice = choose_levels(node, record, replace(one, levels=asked))
        except AsterismError as error:
            raise type(error)(f"Node {node!r}: {error}") from None
        resolved[node] = choice.emission
        choices.append(choice)
    return resolved, choices


def choose_levels(node: str, record: NodeMeasurements, emission: Any) -> LevelChoice:
    """The number of levels of one node; ``emission.levels`` is "auto" or a number."""
    rows = _rows(record)
    auto = emission.levels == "auto"
    if auto:
        most = min(MOST, len(np.unique(rows.values)), len(rows.values) // _LEAST_PER_LEVEL)
        tried = range(FEWEST, max(FEWEST, most) + 1)
    else:
        tried = range(int(emission.levels), int(emission.levels) + 1)
    open_levels = replace(emission, levels=None)
    scores: dict[int, float] = {}
    fits: dict[int, Any] = {}
    for size in tried:
        fitted, log_likelihood = _fit(rows, open_levels, size)
        # means, weights, the stay time, and a Gaussian's scale
        n_parameters = size + (size - 1) + 1 + isinstance(emission, Gaussian)
        scores[size] = log_likelihood - 0.5 * n_parameters * float(np.log(len(rows.values)))
        fits[size] = fitted
    best = max(scores, key=lambda size: (scores[size], -size))
    return LevelChoice(node, best, fits[best], scores if auto else {}, auto)


class _Rows(NamedTuple):
    """One node's noisy measurements in order of trajectory and time."""

    values: FloatArray
    gap: FloatArray
    """Time since the row before, in median gaps; 0 for replicates."""
    is_first: NDArray[np.bool_]


def _rows(record: NodeMeasurements) -> _Rows:
    noisy = np.flatnonzero(~record.exact)
    if len(noisy) == 0:
        raise DataError(
            "nothing noisy was measured, so its levels cannot be counted; ",
            Advice("give means=.", "give them, as in --emission NODE=gaussian:-1,1:0.2."),
        )
    trajectory, time = record.trajectory[noisy], record.time[noisy]
    order = np.lexsort((time, trajectory))
    trajectory, time = trajectory[order], time[order]
    is_first = np.concatenate([[True], np.diff(trajectory) != 0])
    if len(order) > _MOST_VALUES:
        kept, is_first = _spread_stretches(is_first)
        order, time = order[kept], time[kept]
    gap = np.concatenate([[0.0], np.diff(time)])
    gap[is_first] = 0.0
    inside = gap[gap > 0.0]
    unit = float(np.median(inside)) if len(inside) else 1.0
    try:
        values = record.value[noisy][order].astype(np.float64)
    except (TypeError, ValueError):
        raise DataError("its values are not numbers, so they have no levels.") from None
    return _Rows(values, gap / unit, is_first)


def _spread_stretches(is_first: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Which rows of a long record to look at, and which of them have none before them."""
    every = np.arange(len(is_first))
    begin = np.maximum.accumulate(np.where(is_first, every, 0))
    starts = np.flatnonzero((every - begin) % _STRETCH == 0)
    length = np.diff(np.append(starts, len(is_first)))
    share = _MOST_VALUES / len(is_first)
    # a stretch is kept whenever its share takes the total past another whole number
    taken = np.floor(np.arange(1, len(starts) + 1) * share) > np.floor(
        np.arange(len(starts)) * share
    )
    chosen = np.repeat(taken, length)
    opens = np.zeros(len(is_first), dtype=np.bool_)
    opens[starts] = True
    kept = np.flatnonzero(chosen)
    return kept, opens[kept]


def _fit(rows: _Rows, emission: Any, size: int) -> tuple[Any, float]:
    """Maximum likelihood of one number of levels: the best of a few starts."""
    best: tuple[Any, float] | None = None
    for spread, stay_time in _STARTS:
        found = _climb(rows, _started(rows, emission, size, spread), size, stay_time)
        if best is None or found[1] > best[1]:
            best = found
    assert best is not None
    return best


def _started(rows: _Rows, emission: Any, size: int, spread: bool) -> Any:
    """Levels from clusters, or evenly spread over the range of the values."""
    start = emission.initialise(rows.values, size)
    if not spread or emission.means is not None:
        return start
    low, high = np.quantile(rows.values, [0.02, 0.98])
    if not high > low:
        return start
    means = np.linspace(low, high, size)
    if isinstance(start, Poisson):
        return replace(start, means=tuple(np.maximum(means, 0.05 * rows.values.mean()).tolist()))
    scale = float(high - low) / (3.0 * size)
    return replace(start, means=tuple(means.tolist()), scale=scale)


def _climb(rows: _Rows, emission: Any, size: int, stay_time: float) -> tuple[Any, float]:
    """EM from one start; the levels come back in ascending order."""
    from asterism.learning._sticky_levels import sticky_pass

    states = tuple(range(size))
    weights = np.full(size, 1.0 / size)
    posterior = np.empty((len(rows.values), size))
    rate = 1.0 / stay_time
    later = ~rows.is_first & (rows.gap > 0.0)
    exposure = rows.gap[later]
    before = -np.inf
    total = -np.inf
    for _ in range(_MAX_STEPS):
        stay = np.exp(-rate * rows.gap)
        logs = emission.log_likelihood(rows.values, states)
        total, redraws, into = sticky_pass(logs, stay, rows.is_first, weights, posterior)
        if total - before < _TOLERANCE * (1.0 + abs(total) * 1e-3):
            break
        before = total
        weights = np.maximum(into, 1e-6)
        weights /= weights.sum()
        if len(exposure):
            rate = _redraw_rate(redraws[later], exposure, rate)
        if emission.learn:
            emission = _kept_apart(emission.m_step(rows.values, posterior, states))
    order = np.argsort(emission.means, kind="stable")
    means = np.asarray(emission.means)[order]
    changes: dict[str, Any] = {"means": tuple(means.tolist())}
    if isinstance(getattr(emission, "scale", None), tuple):
        changes["scale"] = tuple(np.asarray(emission.scale)[order].tolist())
    return replace(emission, **changes), float(total)


def _redraw_rate(redraws: FloatArray, exposure: FloatArray, rate: float) -> float:
    """One EM step of the rate of redraws, which are Poisson events in each gap."""
    # a gap with a redraw had on average rate·gap / (1 − e^(−rate·gap)) of them
    mean_if_any = rate * exposure / -np.expm1(-rate * exposure)
    return float(np.clip((redraws * mean_if_any).sum() / exposure.sum(), 1e-3, 1e3))


def _kept_apart(emission: Any) -> Any:
    """A shared scale cannot collapse onto a few equal values."""
    if not isinstance(emission, Gaussian) or emission.means is None:
        return emission
    least = _LEAST_SHARE * float(np.ptp(np.asarray(emission.means))) / len(emission.means)
    if isinstance(emission.scale, tuple):
        return replace(emission, scale=tuple(max(s, least) for s in emission.scale))
    shared: Any = emission.scale or 0.0
    return replace(emission, scale=max(float(shared), least))
