"""Structure learning in stages: the star's search, then draws where they pay.

The star is quick and too sure of itself. Sampling (``sampled.py``) begins where the star ended and
is exact in the limit; on small networks its probabilities are calibrated within seconds
(``benchmarks/pipeline.py``, ``benchmarks/pairs.py``). The number of sweeps comes from the size of
the data, not from the clock, so that the same seed gives the same result on every machine, however
busy it is. A limit that the user sets (``minutes``) only ends the draws earlier, and the result
says so. Where a sweep takes too long, or the data cannot be drawn, the star's probabilities stay,
tempered, pairs that lead each other are scored again (``reciprocal.py``), and the result says why.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from asterism.data.observations import Observations
from asterism.errors import AsterismError
from asterism.learning.search.found import SearchResult, result_of
from asterism.learning.search.reciprocal import settle_pairs
from asterism.learning.search.sampled import DrawLimits, check_edges, families_compared, sample_from
from asterism.learning.search.settings import StructureSettings
from asterism.learning.search.task import SearchRun, search_observations
from asterism.learning.tasks import ProgressListener
from asterism.numerics.resources import current_limit

#: Seconds of one ordinary core that sampling is meant to take: two minutes on two cores. Only the
#: number of sweeps follows from it.
SECONDS = 240.0
#: sweeps per chain, burn-in included: more have hardly lowered the log loss
MOST_SWEEPS = 1_900
#: Fewer do not tell how far they are off. Where even these take longer than so many seconds of one
#: core (five minutes on two: some hundred nodes), the star answers alone.
FEWEST_SWEEPS = 300
MOST_SECONDS = 600.0
#: the part of the sweeps that does not count, and its limit
_BURN_IN_SHARE, _MOST_BURN_IN = 0.25, 400
#: seconds per sweep and chain: for a jump or measurement, and for a jump within one family
#: (measured with ``benchmarks/pairs.py`` on networks of 20 and 40 nodes)
_PER_EVENT, _PER_FAMILY = 1.5e-7, 4e-8
#: seconds by the clock below which sampling is not worth its start
_LEAST_SECONDS = 5.0


def learn_from_observations(
    settings: StructureSettings, observations: Observations, progress: ProgressListener
) -> SearchResult:
    """Learn the graph; called by ``StructureLearner.fit``."""
    search = search_observations(replace(settings, method="star"), observations, progress)
    limits, reason = plan(search, settings)
    if limits is None:
        return _star_alone(search, observations, reason)
    try:
        found = sample_from(search, settings, observations, limits)
    except AsterismError as problem:
        return _star_alone(search, observations, str(problem).rstrip("."))
    assert found.sampled is not None
    models = found.sampled.models
    shown = max(0.01, check_edges(models).worst.error)
    return replace(
        found,
        stage=(
            f"The star's search was followed by sampling, {found.n_sweeps:,} sweeps in each of "
            f"{models.n_chains} chains: an edge's probability is known to within {shown:.2f} "
            "or better (one standard error)."
        ),
    )


def _star_alone(search: SearchRun, observations: Observations, reason: str) -> SearchResult:
    """The star's answer, its reciprocal pairs scored again; the stage says why nothing was drawn.

    It also says what the star says of sets of parents that it did not score.
    """
    settled = settle_pairs(search, observations)
    star = result_of(search, observations)
    told = f"The probabilities are the star's: {reason}. {settled}".rstrip()
    return replace(star, stage=f"{told} {star.stage}".rstrip())


def plan(search: SearchRun, settings: StructureSettings) -> tuple[DrawLimits | None, str]:
    """How many sweeps to draw; None with the reason if none at all."""
    if sum(map(search.prior.n_families, search.prior.children)) <= len(search.nodes):
        return None, "there is nothing to choose between"
    left = min(current_limit().left, settings.sampling.seconds)
    if left < _LEAST_SECONDS:
        return None, "there was no time left for sampling"
    each = settings.sampling.chains * seconds_per_sweep(search)
    if FEWEST_SWEEPS * each > MOST_SECONDS:
        return None, "sampling a network of this size takes longer than some minutes"
    n_sweeps = min(MOST_SWEEPS, max(FEWEST_SWEEPS, int(SECONDS / each)))
    burn_in = min(_MOST_BURN_IN, int(_BURN_IN_SHARE * n_sweeps))
    most, seconds = settings.sampling.max_draws, None if left == math.inf else left
    return DrawLimits(min(most, n_sweeps - burn_in), seconds, burn_in), ""


def seconds_per_sweep(search: SearchRun) -> float:
    """About how long one sweep of one chain takes on one core.

    Where the star's iteration ran away, its transitions are far too many: no more count than twice
    those of the nodes by themselves.
    """
    alone = search.single_nodes
    time = float((alone.evidence.end - alone.evidence.start).sum())
    usual = time * sum(float((r * ~np.eye(len(r), dtype=bool)).sum()) / len(r) for r in alone.rates)
    jumps = min(float(search.solution.transitions.sum()), 2.0 * usual)
    events = jumps + len(search.single_nodes.evidence.points.time)
    per_node = jumps / len(search.nodes)
    return _PER_EVENT * events + _PER_FAMILY * families_compared(search) * per_node
