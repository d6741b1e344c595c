"""When an unknown stimulus that acts on all trajectories from their start ended.

One common time u is looked for: something acts before u, with another strength in every trajectory,
and not after. Its evidence is summed over the children, each with no parent or one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asterism.continuous.family_score import FamilyScorer, Grids
from asterism.continuous.series import FloatArray, Series, Stimulus
from asterism.numerics.resources import current_limit

#: Nats by which a time must beat "no stimulus". In 120 simulated data sets without a stimulus 2
#: reached 12; 14 of the 30 worst reached 3. Real ones (DREAM4) gain 130 and more.
THRESHOLD = 12.0
#: most times that are tried
_MOST_TIMES = 40
#: times that are tried again with parents
_FINALISTS = 3
#: … unless they are so many nats behind the best without parents
_FAR_BEHIND = 30.0
NAME = "unknown stimulus"


@dataclass(frozen=True)
class SwitchingTime:
    """The best time at which a common stimulus ended, and how clearly."""

    time: float
    """In the user's units."""
    gain: float
    """Nats by which it beats no stimulus."""

    @property
    def is_taken(self) -> bool:
        """Whether the gain is beyond what data without a stimulus show."""
        return self.gain > THRESHOLD


def ends_at(series: Series, time: float) -> Series:
    """The data with one stimulus that acts everywhere from the start until ``time``."""
    n = series.n_trajectories
    on = Stimulus(NAME, np.arange(n), np.full(n, -np.inf), np.full(n, time))
    return series.with_stimuli([on])


def find_switching_time(series: Series, grids: Grids | None = None) -> SwitchingTime | None:
    """The time with the largest evidence; None where there are too few times to look at.

    None also where a limit of time ends before all times were looked at.
    """
    grids = grids or Grids()
    times, limit = _candidates(series), current_limit()
    alone = []
    for t in times:
        if limit.stops():
            return None
        scorer = FamilyScorer(ends_at(series, t), grids)
        alone.append(_finite_sum(_combined(scorer.without_parents())))
    if not alone:
        return None
    order = np.argsort(alone)[::-1][:_FINALISTS]
    best = times[[i for i in order if alone[i] > alone[order[0]] - _FAR_BEHIND]]
    without = _with_at_most_one_parent(FamilyScorer(series.with_stimuli([]), grids))
    gains = []
    for t in best:
        if limit.stops():
            return None
        gains.append(_with_at_most_one_parent(FamilyScorer(ends_at(series, t), grids)) - without)
    first = int(np.argmax(gains))
    return SwitchingTime(float(best[first]), float(gains[first]))


def _candidates(series: Series) -> FloatArray:
    """Measured times with measurements before and after them, in the user's units."""
    times = np.unique(series.grid_time)[1:-1]
    if len(times) > _MOST_TIMES:
        inner = np.quantile(series.grid_time, np.linspace(0.0, 1.0, _MOST_TIMES + 2)[1:-1])
        times = np.unique(inner)
    result: FloatArray = times * series.time_unit
    return result


def _combined(scores: FloatArray) -> FloatArray:
    result: FloatArray = np.logaddexp.reduce(scores, axis=-1) - np.log(scores.shape[-1])
    return result


def _finite_sum(scores: FloatArray) -> float:
    return float(scores[np.isfinite(scores)].sum())


def _with_at_most_one_parent(scorer: FamilyScorer) -> float:
    """The evidence of all children, each parent as probable beforehand as one in all."""
    none, single = scorer.single_parents()
    odds = 1.0 / max(1, len(scorer.series.nodes) - 1)
    one = np.logaddexp.reduce(_combined(single), axis=1) + np.log(odds)
    return _finite_sum(np.logaddexp(_combined(none), one) - np.log(2.0))
