"""Families of single nodes solved with all other nodes as they are, in the compiled loop."""

from __future__ import annotations

import numpy as np

from asterism.learning.search import _local as local
from asterism.learning.search._marginal import MarginalPrior
from asterism.learning.tasks import SharedInput
from asterism.numerics.arrays import IntArray
from asterism.star._buffers import make_work
from asterism.star.batch import addresses_for
from asterism.star.problem import Parameters

# change of a score, in nats, at which a local solve ends (large scores: per thousand nats); the
# iterations are a guard. Not tuned: coupled solves decide close calls
_LOCAL_TOLERANCE = 1e-4
_LOCAL_ITERATIONS = 60
_SPREAD = 0.3  # of the first rates, as logarithms: any spread breaks the tie


def solve_families(
    shared: SharedInput, nodes: IntArray, families: list[IntArray], statistics_size: int = 0
) -> local.Scored:
    """Local solves of some nodes' families, one after the other.

    ``statistics_size`` is the number of entries (configurations times S²) of the largest family
    where its expected transitions and dwell times are wanted.
    """
    widest = max(f.shape[1] for f in families)
    rows = np.full((sum(len(f) for f in families), widest), -1, dtype=np.int64)
    family_start = np.concatenate([[0], np.cumsum([len(f) for f in families])]).astype(np.int64)
    for first, f in zip(family_start, families):
        rows[first : first + len(f), : f.shape[1]] = f
    n_kept = len(rows) if statistics_size else 0
    found = local.Scored(
        np.empty(len(rows)),
        np.empty(len(rows), dtype=np.int64),
        np.empty(len(rows), dtype=np.int64),
        np.zeros((n_kept, statistics_size)),
        np.zeros((n_kept, statistics_size)),
    )
    start_rates = np.concatenate([shared.single_rates[n].ravel() for n in nodes])
    allowed = np.concatenate([shared.allowed[n].ravel() for n in nodes])
    local.score_families(
        shared.problem,
        make_work(shared.problem, addresses_for(shared.problem)),
        Parameters(shared.table, shared.table, shared.initial, shared.geometric),
        shared.moments,
        local.Asked(nodes, family_start, rows, start_rates),
        MarginalPrior(allowed, shared.shape, shared.rate, shared.digamma),
        local.LocalRule(_LOCAL_ITERATIONS, _LOCAL_TOLERANCE, _SPREAD, shared.stop),
        found,
    )
    return found
