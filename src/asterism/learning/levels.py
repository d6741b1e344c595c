"""Owns the choice how many levels each node has, where the emission leaves that open.

For every number of levels from 2 to 5 two small hidden Markov models are fitted to the node alone.
In one, a level stays for a while and is then drawn anew; in the other it is climbed step by step
(``level_moves.py``). Each is scored by its likelihood less a penalty, as in the Bayesian
information criterion, but every number fitted counts the points that speak for it: a level that was
seen ten times has a mean from ten points. Scores approximate log marginal likelihoods; those of the
two models are added up, and the weights of all numbers, normalised, say how clearly one won. No
graph is looked at, so the choice costs little beside a search.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from asterism.data.interventions import inside
from asterism.data.measurements import NodeMeasurements
from asterism.data.observations import Observations
from asterism.errors import Advice, AsterismError, DataError
from asterism.learning.level_moves import STEP_BOUNDS, Pushed, Redrawn, Stepwise
from asterism.model.emission_numeric import SMALLEST_SCALE
from asterism.model.emissions import (
    Gaussian,
    Joint,
    Poisson,
    StudentT,
    emission_for,
    leaves_levels_open,
)
from asterism.numerics.arrays import BoolArray, FloatArray, IntArray
from asterism.numerics.resources import current_limit

#: numbers of levels that are compared
FEWEST, MOST = 2, 5
#: measurements per level below which more levels are not tried
_LEAST_PER_LEVEL = 5
#: EM steps of a fit at most; few need them all. Not tuned
_MAX_STEPS = 60
#: A level may lie anywhere in the range of the values: what that costs, in nats. From 0.5 to 1.5
#: most nodes were counted right (seeds 0 to 3 of benchmarks/levels.py, which now counts on others).
_PRICE_OF_A_LEVEL = 1.0
#: stop adding levels when the score is this many nats below the best
_HOPELESS = 8.0
#: steps that show which level to add
_FEW_STEPS = 6
#: degrees of freedom of noise with outliers, and by how many nats it must be better than normal
#: noise: without outliers the two differ by less (see tests/unit/test_levels.py)
_DFS = (4.0, 2.0)
CLEARLY_BETTER = 3.0
_TOLERANCE = 2e-3  # of the log likelihood, in nats per step
#: measurements of a node that are looked at; of more, stretches of this length spread over all
_MOST_VALUES = 3_000
_STRETCH = 500
#: where the fit starts: whether levels are spread evenly, and the stay time in median gaps
_STARTS = ((False, 2.0), (True, 1.0))
#: A level's scale never falls below this share of the range of the levels. It does not depend on
#: their number: otherwise a far outlier, which holds the scale there, would speak for more of them.
_LEAST_SHARE = 0.004


@dataclass(frozen=True)
class Offset:
    """All values of a trajectory are shifted by one number, normal with mean 0 (``offsets.py``)."""

    sd: float
    """The standard deviation of the shifts."""
    gain: float
    """By how many nats the measurements are better explained than without."""
    moves: Redrawn | Stepwise
    """How the levels move beneath."""
    unit: float
    """The time unit of the moves."""

    def to_dict(self) -> dict[str, float]:
        """For files and the report."""
        return {"sd": self.sd, "gain": self.gain}


@dataclass(frozen=True)
class LevelChoice:
    """How many levels a node got, and why."""

    node: str
    n_levels: int
    emission: Any
    """Fitted to the node alone."""
    scores: dict[int, float]
    """Number of levels -> an approximation to the log marginal likelihood."""
    chosen: bool = True
    """False where the user gave the number."""
    complete: bool = True
    """False where a time limit left some numbers untried, or fits short."""
    offset: Offset | None = None
    """Whether the values of each trajectory are shifted, and by how much."""

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
            "complete": self.complete,
            "probability": self.probability,
            "scores": {str(k): v for k, v in self.scores.items()},
            "means": list(self.emission.means or ()),
            "scale": getattr(self.emission, "scale", None),
            **({} if self.offset is None else {"offset": self.offset.to_dict()}),
        }


def level_frame(choices: Sequence[LevelChoice]) -> pd.DataFrame:
    """node, levels, probability, means, offset_sd: one row per node whose levels were counted."""
    return pd.DataFrame(
        {
            "node": pd.Series([c.node for c in choices], dtype=object),
            "levels": np.array([c.n_levels for c in choices], dtype=np.int64),
            "probability": np.array([c.probability for c in choices], dtype=np.float64),
            "means": pd.Series([tuple(c.emission.means) for c in choices], dtype=object),
            "offset_sd": np.array([c.offset.sd if c.offset else 0.0 for c in choices], dtype=float),
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
        record = measured_while_free(observations, node)
        asked = named.get(node, one.levels)
        try:
            choice = choose_levels(node, record, replace(one, levels=asked))
        except AsterismError as error:
            raise type(error)(f"Node {node!r}: {error}") from None
        resolved[node] = choice.emission
        choices.append(choice)
    return resolved, choices


def measured_while_free(observations: Observations, node: str) -> NodeMeasurements:
    """The measurements of a node outside interventions: only those show its own levels."""
    record = observations.measurements[node]
    held = inside(observations.interventions, node, record.trajectory, record.time)
    return record.take(np.flatnonzero(~held)) if held.any() else record


def choose_levels(node: str, record: NodeMeasurements, emission: Any) -> LevelChoice:
    """The number of levels of one node; ``emission.levels`` is "auto" or a number."""
    rows = LevelRows.of(record)
    auto = emission.levels == "auto"
    if auto:
        most = min(MOST, len(np.unique(rows.values)), len(rows.values) // _LEAST_PER_LEVEL)
        tried = range(FEWEST, max(FEWEST, most) + 1)
    else:
        asked = int(emission.levels)
        # fewer levels are where a fit starts from
        tried = range(FEWEST if asked <= MOST else asked, asked + 1)
    open_levels = replace(emission, levels=None)
    scores, fits = scored(rows, open_levels, tried, _HOPELESS if auto else math.inf)
    best = max(scores, key=lambda size: (scores[size], -size)) if auto else asked
    complete = not current_limit().was_felt
    return LevelChoice(node, best, fits[best], scores if auto else {}, auto, complete)


def with_outliers(record: NodeMeasurements, plain: LevelChoice) -> LevelChoice:
    """The choice with Student's t noise, where that explains the measurements clearly better.

    Far outliers make normal noise wide, or become levels of their own. So no more levels are tried
    than normal noise needed.
    """
    if not plain.chosen or type(plain.emission) is not Gaussian or current_limit().stops():
        return plain
    rows, best = LevelRows.of(record), plain
    needed = plain.scores[plain.n_levels] + CLEARLY_BETTER
    for df in _DFS:
        scores, fits = scored(
            rows, StudentT(df=df, learn=True), range(FEWEST, plain.n_levels + 1), 0.0
        )
        # a level more for the sake of one far value is none
        size = min(k for k in scores if scores[k] > max(scores.values()) - CLEARLY_BETTER)
        if scores[size] > needed:
            needed = scores[size]
            best = replace(plain, n_levels=size, emission=fits[size], scores=scores)
        elif plain.n_levels == FEWEST:
            break  # no outlier is a level, and heavier tails do not help
    return best


def scored(
    rows: LevelRows, emission: Any, sizes: Sequence[int], hopeless: float
) -> tuple[dict[int, float], dict[int, Any]]:
    """Scores and fitted emissions by number of levels.

    More levels are tried until one is worse than the best by ``hopeless`` nats. Where that is
    infinite all are tried, whatever the time.
    """
    least = FEWEST if hopeless == 0.0 else FEWEST + 1
    scores: dict[int, float] = {}
    fits: dict[int, Any] = {}
    smaller: LevelFit | None = None
    for size in sizes:
        if scores and hopeless < math.inf and current_limit().stops():
            break
        both = fits_of(rows, emission, size, smaller)
        smaller = both[0]
        # either kind of moves is as probable beforehand
        scores[size] = float(np.logaddexp(both[0].score, both[1].score)) - float(np.log(2.0))
        fits[size] = max(both, key=lambda fit: fit.score).emission
        if size > least and scores[size] < max(scores.values()) - hopeless:
            break
    return scores, fits


class LevelRows(NamedTuple):
    """One node's noisy measurements in order of trajectory and time."""

    values: FloatArray
    gap: FloatArray
    """Time since the row before, in median gaps; 0 for replicates."""
    is_first: BoolArray
    trajectory: IntArray
    unit: float
    """The median gap."""

    @classmethod
    def of(
        cls, record: NodeMeasurements, most: float = _MOST_VALUES, unit: float | None = None
    ) -> LevelRows:
        """Those of one node, sorted; of more than ``most``, stretches spread over all."""
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
        if len(order) > most:
            kept, is_first = _spread_stretches(is_first)
            order, time, trajectory = order[kept], time[kept], trajectory[kept]
        gap = np.concatenate([[0.0], np.diff(time)])
        gap[is_first] = 0.0
        inside = gap[gap > 0.0]
        if unit is None:
            unit = float(np.median(inside)) if len(inside) else 1.0
        try:
            values = record.value[noisy][order].astype(np.float64)
        except (TypeError, ValueError):
            raise DataError("its values are not numbers, so they have no levels.") from None
        return cls(values, gap / unit, is_first, trajectory, unit)


def _spread_stretches(is_first: BoolArray) -> tuple[IntArray, BoolArray]:
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


class LevelFit(NamedTuple):
    """One number of levels, fitted with one kind of moves."""

    emission: Any
    moves: Redrawn | Stepwise | Pushed
    log_likelihood: float
    score: float
    """The log likelihood less half the log of the points that speak for each number fitted, and
    less the price of each level."""


def fits_of(
    rows: LevelRows, emission: Any, size: int, smaller: LevelFit | None
) -> tuple[LevelFit, LevelFit]:
    """The best fit of one number of levels with each kind of moves.

    Starts are clusters, even levels, and the fit with one level fewer (``smaller``) with a level
    added wherever that helps most. Steps are fitted from there, and from even levels again.
    """
    weights = np.full(size, 1.0 / size)
    starts = [
        (_started(rows, emission, size, spread), Redrawn(weights, 1.0 / stay_time))
        for spread, stay_time in _STARTS
    ]
    if smaller is not None and emission.means is None:
        starts.append(_one_more(rows, smaller))
    redrawn = max((climb(rows, *start) for start in starts), key=lambda fit: fit.log_likelihood)
    assert isinstance(redrawn.moves, Redrawn)
    stepwise = [climb(rows, redrawn.emission, Stepwise.like(redrawn.moves))]
    if size > FEWEST:
        even = Stepwise.like(replace(redrawn.moves, weights=weights))
        stepwise.append(climb(rows, starts[1][0], even))
    return redrawn, max(stepwise, key=lambda fit: fit.log_likelihood)


def _one_more(rows: LevelRows, smaller: LevelFit) -> tuple[Any, Redrawn]:
    """A level is split, or added at an end: the best after a few steps."""
    assert isinstance(smaller.moves, Redrawn)
    means = np.asarray(smaller.emission.means)
    scale = getattr(smaller.emission, "scale", None)
    width = 0.1 * float(np.ptp(rows.values))
    if scale is not None:
        width = float(np.mean(scale))
    best: LevelFit | None = None
    for where in range(len(means) + 2):
        if where < len(means):
            place = where
            more = np.insert(means, where, means[where] - 0.7 * width)
            more[where + 1] += 0.7 * width
            weight = 0.5 * float(smaller.moves.weights[where])
        else:
            place = 0 if where == len(means) else len(means)
            end = np.quantile(rows.values, 0.01 if place == 0 else 0.99)
            more, weight = np.insert(means, place, end), 0.02
        if isinstance(smaller.emission, Poisson):
            more = np.maximum(more, 0.05 * rows.values.mean())
        changes: dict[str, Any] = {"means": tuple(more.tolist())}
        if isinstance(scale, tuple):
            changes["scale"] = tuple(np.insert(np.asarray(scale), place, width).tolist())
        start = replace(smaller.emission, **changes)
        fit = climb(rows, start, smaller.moves.with_level(place, weight), _FEW_STEPS)
        if best is None or fit.log_likelihood > best.log_likelihood:
            best = fit
    assert best is not None
    assert isinstance(best.moves, Redrawn)
    return best.emission, best.moves


def _started(rows: LevelRows, emission: Any, size: int, spread: bool) -> Any:
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


def climb(
    rows: LevelRows,
    emission: Any,
    moves: Redrawn | Stepwise | Pushed,
    max_steps: int = _MAX_STEPS,
) -> LevelFit:
    """EM from one start; the levels come back in ascending order."""
    emission, moves, total, weight = em(rows, emission, moves, max_steps)
    order = np.argsort(emission.means, kind="stable")
    changes: dict[str, Any] = {"means": tuple(np.asarray(emission.means)[order].tolist())}
    if isinstance(getattr(emission, "scale", None), tuple):
        changes["scale"] = tuple(np.asarray(emission.scale)[order].tolist())
    log_points = float(np.log1p(weight).sum())
    if isinstance(emission, Gaussian):
        n_scales = len(emission.scale) if isinstance(emission.scale, tuple) else 1
        log_points += n_scales * float(np.log(len(rows.values)))
    penalty = 0.5 * log_points + moves.penalty(int(rows.is_first.sum()))
    score = total - penalty - _PRICE_OF_A_LEVEL * len(moves.initial)
    return LevelFit(replace(emission, **changes), moves.ordered(order), total, score)


def em(
    rows: LevelRows, emission: Any, moves: Any, max_steps: int
) -> tuple[Any, Any, float, FloatArray]:
    """The fitted emission and moves, ln likelihood, and the expected number of rows per level."""
    from asterism.learning._level_pass import COUNTS, NORMAL, climb_levels

    own, size = moves.arrays(rows.gap), len(moves.initial)
    counts = isinstance(emission, Poisson)
    given = 1.0 if counts else emission.scale
    means, shared = np.array(emission.means), np.ndim(given) == 0
    scale = np.broadcast_to(np.asarray(given, dtype=np.float64), size).copy()
    smallest = SMALLEST_SCALE * float(rows.values.mean() if counts else rows.values.std())
    limit, found = current_limit(), np.zeros((3, size))
    total, weight = climb_levels(
        *(rows.values, own.gaps, own.which, own.group, rows.is_first, means, scale, shared),
        *(COUNTS if counts else getattr(emission, "df", NORMAL), emission.learn, own.initial),
        *(own.rates, own.redrawn, max_steps, _FEW_STEPS, _TOLERANCE, _LEAST_SHARE),
        *(np.array([*STEP_BOUNDS, smallest]), limit.flag, found, own.room()),
    )
    limit.stops()
    changes: dict[str, Any] = {"means": tuple(means.tolist())}
    if not counts:
        changes["scale"] = float(scale[0]) if shared else tuple(scale.tolist())
    return replace(emission, **changes), moves.fitted(own, found), float(total), weight
