"""Owns the tables of what a search found: edges, and the rates of the network.

Edges: ``prior`` is the probability beforehand and ``bayes_factor`` the ratio of the odds after and
before: what the data added. ``effect`` and ``fold_change`` describe edges of the graph shown, those
of twice their prior probability or more, and the ten most probable; the cells of others stay empty.
Continuous nodes have no fold change
but a ``shift``: how many standard deviations of the child one of the parent moves its resting
level. ``error`` says how far the probability
may be off: zero where it is exact, a Monte Carlo standard error where graphs were sampled,
otherwise the distance between the probability as the method gives it and as it is printed,
tempered. ``caveat`` says what a reader must know: "not scored" where there was no time, and then
the cells of probability, Bayes factor and error are empty. Up to 200 nodes every allowed pair has a
row, beyond that those in the graph, those with a probability of at least ``LARGE_FLOOR``, and the
likeliest of each child.

Rates: given the graph, and the expected transitions and times as if they had been counted, every
rate has a Gamma posterior. Its interval ignores that courses were inferred and that another graph
might be true, so it is rather too narrow. Complete paths leave only the second doubt.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import compress
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from asterism.data.labels import RATE_LABELS, combinations, rate_labels
from asterism.learning.search.score import posterior_mean_rates
from asterism.numerics.arrays import FloatArray, IntArray, with_exits
from asterism.results.edge_effects import effect, effect_of_rates, log_fold_of_odds
from asterism.results.ranking import LARGE_FLOOR, LIKELIEST, MOST_LISTED_NODES
from asterism.results.run import NOT_SCORED, with_missing

if TYPE_CHECKING:
    from asterism.learning.search.found import FamilyCounts, FamilyTable, SearchResult

#: columns of continuous nodes, after the others
SHIFT_COLUMNS = ("shift", "shift_lower", "shift_upper")
#: probabilities this sure are not told apart from certainty in a Bayes factor
_LARGEST_LOG = 690.0
#: standard deviations on both sides that hold 90 % of a normal distribution
_WIDTH = 1.6448536


def edge_frame(found: SearchResult) -> pd.DataFrame:
    """One row per edge that is probable or in the graph; surest first."""
    names = np.array(found.nodes, dtype=object)
    asked: set[tuple[int, int]] = set()
    if found.continuous is not None:
        asked = {(edge.parent, edge.child) for edge in found.asked_families()}
    pieces = [_of_child(found, child, asked) for child in range(len(names))]
    frame = pd.concat(pieces, ignore_index=True)
    frame = frame[~frame["parent"].isin(found.influences)]
    # ties keep the order of names, so that the order of columns in the data does not matter
    frame = frame.sort_values(
        ["probability", "parent", "child"], ascending=[False, True, True], ignore_index=True
    )
    return with_missing(frame, ["probability", "bayes_factor", "error"])


def _of_child(found: SearchResult, child: int, asked: Collection[tuple[int, int]]) -> pd.DataFrame:
    """``asked`` are edges of continuous nodes whose effects are said though not in the graph."""
    n_nodes = len(found.nodes)
    table = found.tables[child]
    chance = found.edge_probabilities(child)
    chosen = np.zeros(n_nodes, dtype=np.bool_)
    chosen[list(found.graph[child])] = True
    listed = (chance >= LARGE_FLOOR) | chosen
    if n_nodes <= MOST_LISTED_NODES:
        listed |= (chance > 0.0) | np.isnan(chance)
    else:
        likeliest = np.argsort(-np.nan_to_num(chance), kind="stable")[:LIKELIEST]
        listed[likeliest] |= chance[likeliest] > 0.0
    kept = np.flatnonzero(listed)
    name = found.nodes[child]
    size = len(kept)
    prior = np.zeros(n_nodes)
    if found.structure is not None:
        prior = found.structure.edge_probabilities(child)
    if table is None:
        factors = np.where(np.isnan(chance[kept]), np.nan, 1.0)
        error = np.zeros(n_nodes)
        error[np.isnan(chance)] = np.nan
    else:
        factors = _bayes_factors(table, kept, prior, chance)
        untempered = replace(table, tempered=None, factor=1.0).edge_probabilities(n_nodes)
        error = np.abs(untempered - chance)
    if found.sampled is not None and found.is_drawn(child) and table is not None:
        error = found.sampled.edge_errors[:, child]
    what = ["" for _ in kept]
    folds, shifts = np.full((size, 3), np.nan), np.full((size, 3), np.nan)
    fit = found.continuous
    for i, parent in enumerate(kept):
        edge = (int(parent), child)
        if fit is not None and child not in fit.jumping:
            if child not in fit.families or not (chosen[parent] or edge in asked):
                continue
            moved = fit.effect(*edge)
            what[i], shifts[i] = moved.effect, (moved.shift, moved.lower, moved.upper)
        elif chosen[parent]:
            above = found.nodes[int(parent)]
            what[i] = effect(found.network, name, above)
            counts = found.counts.get(name)
            if counts is not None:
                slot = found.network.parents[name].index(above)
                folds[i] = _fold_change(counts, slot)
        elif edge in found.beyond:
            counts, slot = found.beyond[edge]
            what[i] = effect_of_rates(with_exits(posterior_mean_rates(*counts)), slot)
            folds[i] = _fold_change(counts, slot)
    frame = pd.DataFrame(
        {
            "parent": np.array(found.nodes, dtype=object)[kept],
            "child": np.full(size, name, dtype=object),
            "probability": chance[kept],
            "in_graph": chosen[kept],
            "prior": prior[kept],
            "bayes_factor": factors,
            "effect": np.array(what, dtype=object),
            "fold_change": folds[:, 0],
            "fold_change_lower": folds[:, 1],
            "fold_change_upper": folds[:, 2],
            "error": error[kept],
            "caveat": np.where(np.isnan(chance[kept]), NOT_SCORED, "").astype(object),
        }
    )
    if fit is not None:
        for i, column in enumerate(SHIFT_COLUMNS):
            frame.insert(list(frame.columns).index("error"), column, shifts[:, i])
    return frame


def _bayes_factors(
    table: FamilyTable, parents: IntArray, prior: FloatArray, chance: FloatArray
) -> FloatArray:
    """Posterior odds over prior odds; 1 where the edge was certain or ruled out beforehand."""
    result = np.ones(len(parents))
    for i, parent in enumerate(parents):
        before = prior[parent]
        if 0.0 < before < 1.0 - 1e-12:
            after = table.log_odds(int(parent))
            if table.unscored is not None or table.pairs is not None:
                with np.errstate(divide="ignore"):
                    after = np.log(chance[parent]) - np.log1p(-chance[parent])
            log_odds = after - np.log(before) + np.log1p(-before)
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


# ---- rates ------------------------------------------------------------------------------------


#: share of the posterior inside an interval, as for fold changes
INSIDE = 0.9
#: rates that a table lists; of larger networks it is left out
MOST_RATES = 200_000


def rate_frame(found: SearchResult) -> pd.DataFrame | None:
    """One row per rate that may differ from zero; None without counts, or beyond the limit."""
    from scipy.special import gammaincinv

    counted = {
        name: found.counts[name]
        for name in found.columns
        if name in found.counts and found.network.rates[name] is not None
    }
    n_rates = sum(counts.transitions.size for counts in counted.values())
    if not counted or n_rates > MOST_RATES:
        return None
    labels: list[tuple[Any, ...]] = []
    shapes, times = [], []
    for name, counts in counted.items():
        own, shape, time = _of_node(found, name, counts)
        labels += own
        shapes.append(shape)
        times.append(time)
    shape, time = np.concatenate(shapes), np.concatenate(times)
    tail = (1.0 - INSIDE) / 2.0
    table = pd.DataFrame(labels, columns=list(RATE_LABELS), dtype=object)
    return table.assign(
        rate=shape / time,
        lower=gammaincinv(shape, tail) / time,
        upper=gammaincinv(shape, 1.0 - tail) / time,
    )


def _of_node(
    found: SearchResult, name: str, counts: FamilyCounts
) -> tuple[list[tuple[Any, ...]], np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Labels, and the two parameters of the Gamma posterior, of every rate of one node."""
    network = found.network
    states, above = network.states[name], network.parents[name]
    # a continuous parent counts as low or high (``mixed_search.py``)
    cases = {p: network.states[p] or ("low", "high") for p in above}
    labels = rate_labels(name, combinations(cases, above), states)
    kept = np.broadcast_to(counts.allowed, counts.transitions.shape)
    time = np.broadcast_to(counts.dwell[..., :, None] + counts.rate, kept.shape)
    shape = counts.transitions + counts.shape
    return list(compress(labels, kept.flat)), shape[kept], time[kept]
