"""Structure learning in stages: the star's search, then draws where they pay.

The star is quick and too sure of itself. Sampling (``sampled.py``) begins where the star ended and
is exact in the limit; on small networks its probabilities are calibrated within seconds
(``benchmarks/pipeline.py``). The number of sweeps comes from the size of the data, not from the
clock, so that the same seed gives the same result on every machine. Only a limit that the
user sets (``minutes``, ``max_seconds``) goes by the clock. Where a sweep takes too long, or the
data cannot be drawn, the star's probabilities stay, tempered, and the result says why.
"""

from __future__ import annotations

import math
from dataclasses import replace

from asterism.data.observations import Observations
from asterism.errors import AsterismError
from asterism.learning.search.found import SearchResult, result_of
from asterism.learning.search.sampled import DrawLimits, judge_edges, sample_from
from asterism.learning.search.settings import StructureSettings
from asterism.learning.search.task import UNSCREENED_LIMIT, SearchRun, search_observations
from asterism.learning.tasks import ProgressListener
from asterism.numerics.resources import current_limit

#: seconds of one ordinary core that sampling may take by itself
SECONDS = 45.0
#: sweeps per chain: more have hardly lowered the log loss, and fewer are not worth a start
MOST_SWEEPS = 1_500
FEWEST_SWEEPS = 500
#: sweeps before the draws count
_BURN_IN = 400
#: seconds per sweep and chain: for a jump or measurement, and for a jump within one family
#: (measured by ``benchmarks/pipeline.py`` on networks of 5 to 10 nodes)
_PER_EVENT, _PER_FAMILY = 2.5e-7, 2e-8
#: seconds by the clock below which sampling is not worth its start
_LEAST_SECONDS = 5.0
#: draws that are known less well than this have not converged
LOOSE_ERROR, LOOSE_R_HAT = 0.1, 1.2


def learn_from_observations(
    settings: StructureSettings, observations: Observations, progress: ProgressListener
) -> SearchResult:
    """Learn the graph; called by ``StructureLearner.fit``."""
    search = search_observations(replace(settings, method="star"), observations, progress)
    star = result_of(search, observations)
    limits, reason = plan(search, settings)
    if limits is None:
        return replace(star, stage=f"The probabilities are the star's: {reason}.")
    try:
        found = sample_from(search, settings, observations, limits)
    except AsterismError as problem:
        trouble = str(problem).rstrip(".")
        return replace(star, stage=f"The probabilities are the star's: {trouble}.")
    assert found.sampled is not None
    models = found.sampled.models
    worst, good, _ = judge_edges(models)
    shown = max(0.01, worst.error)
    enough = good or (worst.error <= LOOSE_ERROR and worst.r_hat <= LOOSE_R_HAT)
    return replace(
        found,
        converged=enough and not models.interrupted,
        stage=(
            f"The star's search was followed by sampling, {found.n_sweeps:,} sweeps in each of "
            f"{models.n_chains} chains: an edge's probability is known to within {shown:.2f} "
            "or better (one standard error)."
        ),
    )


def plan(search: SearchRun, settings: StructureSettings) -> tuple[DrawLimits | None, str]:
    """How long to draw; None with the reason if not at all."""
    if sum(map(search.prior.n_families, search.prior.children)) <= len(search.nodes):
        return None, "there is nothing to choose between"
    left = min(
        current_limit().left, math.inf if settings.minutes is None else 60 * settings.minutes
    )
    if left < math.inf:
        if left < _LEAST_SECONDS:
            return None, "there was no time left for sampling"
        return DrawLimits(settings.max_draws, left), ""
    affordable = int(SECONDS / (settings.n_chains * seconds_per_sweep(search))) - _BURN_IN
    if affordable < FEWEST_SWEEPS:
        return None, "sampling a network of this size takes longer than about a minute"
    return DrawLimits(min(settings.max_draws, MOST_SWEEPS, affordable)), ""


def seconds_per_sweep(search: SearchRun) -> float:
    """About how long one sweep of one chain takes on one core."""
    n_families = sum(map(search.prior.n_families, search.prior.children))
    if n_families > UNSCREENED_LIMIT:  # then only those that the search kept are drawn
        n_families = sum(len(table.parents) for table in search.tables.values())
    jumps = float(search.solution.transitions.sum())
    events = jumps + len(search.single_nodes.evidence.points.time)
    return _PER_EVENT * events + _PER_FAMILY * n_families * jumps / len(search.nodes)
