"""Owns the long table of edges: how probable each is, what the data added, and what it does.

``prior`` is the probability beforehand and ``bayes_factor`` the ratio of the odds after and before:
what the data added. ``effect`` and ``fold_change`` describe edges of the graph shown; others have
no rates of their own, so their cells stay empty. ``error`` says how far the probability may be off:
zero where it is exact, a Monte Carlo standard error where graphs were sampled, otherwise the
distance between the probability as the method gives it and as it is printed, tempered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from asterism.results.edge_effects import effect, log_fold_of_odds

if TYPE_CHECKING:
    from asterism.learning.search.found import FamilyCounts, FamilyTable, SearchResult

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

#: columns after parent, child, probability, in_graph
MORE_COLUMNS = (
    *("prior", "bayes_factor", "effect"),
    *("fold_change", "fold_change_lower", "fold_change_upper", "error"),
)
#: edges less probable than this are left out of the long table
SMALLEST_PROBABILITY = 1e-6
#: probabilities this sure are not told apart from certainty in a Bayes factor
_LARGEST_LOG = 690.0
#: standard deviations on both sides that hold 90 % of a normal distribution
_WIDTH = 1.6448536


def edge_frame(found: SearchResult) -> pd.DataFrame:
    """One row per edge that is probable or in the graph; surest first."""
    names = np.array(found.nodes, dtype=object)
    pieces = [_of_child(found, child) for child in range(len(names))]
    frame = pd.concat(pieces, ignore_index=True) if pieces else _of_child(found, 0)
    # ties keep the order of names, so that the order of columns in the data does not matter
    return frame.sort_values(
        ["probability", "parent", "child"], ascending=[False, True, True], ignore_index=True
    )


def _of_child(found: SearchResult, child: int) -> pd.DataFrame:
    n_nodes = len(found.nodes)
    table: FamilyTable = found.tables[child]
    chance = table.edge_probabilities(n_nodes)
    chosen = np.zeros(n_nodes, dtype=np.bool_)
    chosen[list(found.graph[child])] = True
    kept = np.flatnonzero((chance >= SMALLEST_PROBABILITY) | chosen)
    name = found.nodes[child]
    size = len(kept)
    prior = np.zeros(n_nodes)
    if found.structure is not None:
        prior = found.structure.edge_probabilities(child)
    untempered = type(table)(table.parents, table.scores).edge_probabilities(n_nodes)
    error = np.abs(untempered - chance)
    if found.sampled is not None:
        error = found.sampled.edge_errors[:, child]
    what = ["" for _ in kept]
    folds = np.full((size, 3), np.nan)
    for i, parent in enumerate(kept):
        if chosen[parent]:
            above = found.nodes[int(parent)]
            what[i] = effect(found.network, name, above)
            counts = found.counts.get(name)
            if counts is not None:
                slot = found.network.parents[name].index(above)
                folds[i] = _fold_change(counts, slot)
    return pd.DataFrame(
        {
            "parent": np.array(found.nodes, dtype=object)[kept],
            "child": np.full(size, name, dtype=object),
            "probability": chance[kept],
            "in_graph": chosen[kept],
            "prior": prior[kept],
            "bayes_factor": _bayes_factors(table, kept, prior),
            "effect": np.array(what, dtype=object),
            "fold_change": folds[:, 0],
            "fold_change_lower": folds[:, 1],
            "fold_change_upper": folds[:, 2],
            "error": error[kept],
        }
    )


def _bayes_factors(table: FamilyTable, parents: IntArray, prior: FloatArray) -> FloatArray:
    """Posterior odds over prior odds; 1 where the edge was certain or ruled out beforehand."""
    result = np.ones(len(parents))
    for i, parent in enumerate(parents):
        before = prior[parent]
        if 0.0 < before < 1.0 - 1e-12:
            log_odds = table.log_odds(int(parent)) - np.log(before) + np.log1p(-before)
            result[i] = np.exp(np.clip(log_odds, -_LARGEST_LOG, _LARGEST_LOG))
    return result


def _fold_change(counts: FamilyCounts, slot: int) -> FloatArray:
    """Fold change and the ends of its interval, from the Gamma posterior of the rates.

    The interval is that of a normal distribution of the logarithm, whose variance follows from
    those of the rates: no draws, so that the order of columns in the data does not matter.
    """
    shape = np.where(counts.allowed, counts.transitions + counts.shape, 0.0)
    rate = counts.dwell[..., :, None] + counts.rate
    log_fold, spread = log_fold_of_odds(shape / rate, shape / rate**2, slot)
    ends = log_fold + np.array([0.0, -_WIDTH, _WIDTH]) * spread
    return np.exp(np.clip(ends, -_LARGEST_LOG, _LARGEST_LOG))
