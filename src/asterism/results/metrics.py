"""How well learned edges match a known network.

Every ordered pair of different nodes is one case: an edge or not. Ranking measures (area under
the ROC curve, average precision) use the probabilities; the measures of one graph (ppv, se, f1)
use its edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from asterism.errors import DataError
from asterism.numerics.arrays import BoolArray
from asterism.results.edge_sets import ScoredPairs, edge_list, scored_pairs


def edge_scores(
    edge_probabilities: pd.DataFrame,
    truth: Any,
    graph: Any = None,
    *,
    nodes: Sequence[str] | None = None,
) -> dict[str, float]:
    """Compare edge probabilities, and optionally one graph, with the true edges.

    ``edge_probabilities`` has rows = parents and columns = children, or is the long table
    (parent, child, probability) in which absent pairs count as 0; the long form needs ``nodes``
    unless the truth lists them. ``truth`` and ``graph`` may each be a networkx.DiGraph, a Network,
    a list of (parent, child), a dict child -> parents, or a table with columns parent and child
    (or source and target).

    Returns ``auroc`` and ``aupr`` (scikit-learn's average precision); with ``graph`` also ``ppv``
    (share of its edges that are true; 0 for a graph without edges), ``se`` (share of true edges
    it holds) and ``f1``.
    """
    from sklearn.metrics import average_precision_score, roc_auc_score

    pairs, is_edge = _cases(edge_probabilities, truth, nodes)
    scores = {
        "auroc": float(roc_auc_score(is_edge, pairs.flat)),
        "aupr": float(average_precision_score(is_edge, pairs.flat)),
    }
    if graph is not None:
        chosen = pairs.flags(edge_list(graph, "the graph"), "the graph")
        hits = float(np.sum(chosen & is_edge))
        n_chosen, n_true = float(chosen.sum()), float(is_edge.sum())
        scores["ppv"] = hits / n_chosen if n_chosen else 0.0
        scores["se"] = hits / n_true
        scores["f1"] = 2.0 * hits / (n_chosen + n_true)
    return scores


def roc_curve(
    edge_probabilities: pd.DataFrame, truth: Any, *, nodes: Sequence[str] | None = None
) -> pd.DataFrame:
    """Points of the ROC curve: threshold, false_positive_rate, true_positive_rate.

    An edge is called when its probability is at least the threshold; the first row calls none.
    """
    from sklearn.metrics import roc_curve as sklearn_roc_curve

    pairs, is_edge = _cases(edge_probabilities, truth, nodes)
    false_positive, true_positive, threshold = sklearn_roc_curve(is_edge, pairs.flat)
    # scikit-learn marks the empty call with an infinite threshold, which no file format likes
    threshold = np.where(np.isfinite(threshold), threshold, np.max(pairs.flat) + 1.0)
    return pd.DataFrame(
        {
            "threshold": threshold,
            "false_positive_rate": false_positive,
            "true_positive_rate": true_positive,
        }
    )


def pr_curve(
    edge_probabilities: pd.DataFrame, truth: Any, *, nodes: Sequence[str] | None = None
) -> pd.DataFrame:
    """Points of the precision-recall curve: threshold, recall, precision, by rising recall."""
    from sklearn.metrics import precision_recall_curve

    pairs, is_edge = _cases(edge_probabilities, truth, nodes)
    precision, recall, threshold = precision_recall_curve(is_edge, pairs.flat)
    # the last point, recall 0, belongs to no threshold: nothing is called
    threshold = np.append(threshold, np.max(pairs.flat) + 1.0)
    return pd.DataFrame(
        {"threshold": threshold[::-1], "recall": recall[::-1], "precision": precision[::-1]}
    )


def _cases(
    edge_probabilities: pd.DataFrame, truth: Any, nodes: Sequence[str] | None
) -> tuple[ScoredPairs, BoolArray]:
    pairs = scored_pairs(edge_probabilities, nodes, truth)
    is_edge = pairs.flags(edge_list(truth), "the truth")
    if not is_edge.any():
        raise DataError("The truth holds no edge, so ranking edges against it is undefined.")
    if is_edge.all():
        raise DataError(
            "The truth holds every possible edge, so ranking edges against it is undefined."
        )
    return pairs, is_edge
