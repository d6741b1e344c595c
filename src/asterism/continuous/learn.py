"""Who influences each continuous node: sets of parents, their probabilities and what follows.

Every set of up to three parents is scored in tables of up to 20 nodes. In larger ones all single
parents are, then all pairs among the best of them, and the best one together with everybody else,
so that no allowed edge is left without a probability.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import pandas as pd

from asterism.continuous.effects import (
    EdgeEffect,
    FamilyDraws,
    NodeSummary,
    draw_family,
    edge_effect,
    likeliest_with,
    node_summary,
)
from asterism.continuous.family_score import FamilyScorer, Grids
from asterism.continuous.series import BoolArray, FloatArray, IntArray, Series, Stimulus
from asterism.continuous.switching import SwitchingTime, ends_at, find_switching_time

#: nodes up to which every set of three parents is scored
_ALL_TRIPLES = 20
#: best single parents among which all pairs are scored in larger tables
N_CANDIDATES = 20
#: The power of the likelihood in the probabilities of families. Chosen among 1, .7, .5, .35 and .25
#: on Hill-type networks (seeds 1000 to 1009 of benchmarks/continuous.py): with 1 the calibration
#: error was .07 to .09, and where cells were missing the log loss above the base rate's. Edges of
#: the model itself are claimed too rarely with .5.
LEARNING_RATE = 0.5
#: edges whose effect is always said
_ALWAYS_SAID = 10


@dataclass(frozen=True)
class Families:
    """Scored sets of parents of one child."""

    parents: IntArray
    """(F, k) node numbers, padded with −1."""
    by_strength: FloatArray
    """(F, C) ln evidence for each strength of the stimuli (``FamilyScorer.rhos``)."""
    log_prior: FloatArray
    """(F,)"""
    learning_rate: float = 1.0
    """The power of the likelihood in ``probabilities``."""

    @property
    def evidence(self) -> FloatArray:
        """(F,) ln evidence, the stimuli summed out."""
        scores = self.by_strength
        result: FloatArray = np.logaddexp.reduce(scores, axis=1) - np.log(scores.shape[1])
        return result

    @property
    def probabilities(self) -> FloatArray:
        """(F,) the posterior."""
        logs = self.learning_rate * self.evidence + self.log_prior
        weights = np.exp(logs - logs.max())
        result: FloatArray = weights / weights.sum()
        return result

    def edge_probabilities(self, n_nodes: int) -> FloatArray:
        """(N,) probability that each node is a parent."""
        total = np.zeros(n_nodes + 1)
        weights = self.probabilities
        for column in self.parents.T:
            total += np.bincount(column % (n_nodes + 1), weights, n_nodes + 1)
        return np.minimum(total[:n_nodes], 1.0)

    def hit_probabilities(self, rhos: FloatArray) -> FloatArray:
        """(K,) probability that each stimulus acts on this child, one half beforehand.

        Nodes below a target are easily named too: parents count as constant between measurements,
        so that what a stimulus moves in between looks as if it acted on their children.
        """
        logs = self.learning_rate * self.by_strength
        given = np.exp(logs - logs.max(axis=1, keepdims=True))
        # the grid of strengths has several values for "hit" and one for "not hit"
        several = [max(1, len(np.unique(column)) - 1) for column in rhos.T]
        given *= np.prod(np.where(rhos > 0.0, 1.0 / np.array(several), 1.0), axis=1)
        given /= given.sum(axis=1, keepdims=True)
        result: FloatArray = self.probabilities @ given @ (rhos > 0.0)
        return result


@dataclass(frozen=True)
class ContinuousFit:
    """What was learned about the continuous nodes of a data set."""

    scorer: FamilyScorer
    families: dict[int, Families]
    """By number of the child."""
    switching: SwitchingTime | None
    """The end of an unknown stimulus that was looked for; used if ``switching.is_taken``."""
    learning_rate: float
    threshold: float = 0.5
    seed: int = 0
    """Of the draws that effects are read from."""
    _draws: dict[tuple[int, tuple[int, ...]], FamilyDraws] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all nodes."""
        return self.scorer.series.names

    def edge_matrix(self) -> FloatArray:
        """[parent, child] probabilities; zero into nodes whose parents were not learned."""
        n = len(self.names)
        matrix = np.zeros((n, n))
        for child, table in self.families.items():
            matrix[:, child] = table.edge_probabilities(n)
        return matrix

    def edge_probabilities(self) -> pd.DataFrame:
        """Rows are parents, columns children."""
        return pd.DataFrame(self.edge_matrix(), index=self.names, columns=self.names)

    def graph(self) -> dict[str, list[str]]:
        """The median-probability graph: {child: parents}."""
        matrix = self.edge_matrix() >= self.threshold
        names = self.names
        return {c: [names[m] for m in np.flatnonzero(matrix[:, i])] for i, c in enumerate(names)}

    def draws(self, child: int, family: tuple[int, ...]) -> FamilyDraws:
        """Posterior draws of the numbers of one family, made once."""
        if (child, family) not in self._draws:
            self._draws[child, family] = draw_family(self.scorer, child, family, seed=self.seed)
        return self._draws[child, family]

    def effect(self, parent: int, child: int) -> EdgeEffect:
        """The effect of one edge, in the most probable family that holds it."""
        table = self.families[child]
        family = likeliest_with(table.parents, table.probabilities, parent)
        return edge_effect(self.scorer, self.draws(child, family), family, parent)

    def edges(self) -> pd.DataFrame:
        """parent, child, probability, in_graph, effect, shift, shift_lower, shift_upper.

        Effects are given for edges of the graph and for the ten most probable.
        """
        matrix = self.edge_matrix()
        pairs = [
            (m, c)
            for c in self.families
            for m in range(len(self.names))
            if m != c and np.any(self.families[c].parents == m)
        ]
        pairs.sort(key=lambda pair: (-matrix[pair], pair))
        lines = []
        for rank, (m, c) in enumerate(pairs):
            said = rank < _ALWAYS_SAID or matrix[m, c] >= self.threshold
            found = self.effect(m, c) if said else None
            lines.append(
                {
                    "parent": self.names[m],
                    "child": self.names[c],
                    "probability": matrix[m, c],
                    "in_graph": bool(matrix[m, c] >= self.threshold),
                    "effect": found.effect if found else "",
                    "shift": found.shift if found else np.nan,
                    "shift_lower": found.lower if found else np.nan,
                    "shift_upper": found.upper if found else np.nan,
                }
            )
        return pd.DataFrame(lines)

    def chosen_family(self, child: int) -> tuple[int, ...]:
        """The parents of one child in the graph."""
        chance = self.families[child].edge_probabilities(len(self.names))
        return tuple(int(m) for m in np.flatnonzero(chance >= self.threshold))

    def summary(self, child: int) -> NodeSummary:
        """Decay time, resting level and noise of one child with its parents in the graph."""
        family = self.chosen_family(child)
        return node_summary(self.scorer, self.draws(child, family), child, family)

    def nodes(self) -> pd.DataFrame:
        """node, decay_time, resting_level (each with _lower and _upper) and noise_sd."""
        lines = []
        for child in self.families:
            found = self.summary(child)
            line: dict[str, object] = {"node": self.names[child]}
            for what in ("decay_time", "resting_level"):
                middle, lower, upper = getattr(found, what)
                line |= {what: middle, f"{what}_lower": lower, f"{what}_upper": upper}
            lines.append({**line, "noise_sd": found.noise_sd})
        return pd.DataFrame(lines)

    def targets(self) -> pd.DataFrame:
        """stimulus, node, probability: whom each stimulus hits."""
        stimuli = self.scorer.series.stimuli
        lines = [
            {"stimulus": stimulus.name, "node": self.names[child], "probability": chance}
            for child, table in self.families.items()
            for stimulus, chance in zip(stimuli, table.hit_probabilities(self.scorer.rhos))
        ]
        return pd.DataFrame(lines, columns=["stimulus", "node", "probability"])

    def switching_sentence(self) -> str:
        """Says that something acts and on whom; "" where nothing was found."""
        if self.switching is None or not self.switching.is_taken:
            return ""
        table = self.targets()
        hit = table.loc[table["probability"] >= self.threshold, "node"].tolist()
        names = ", ".join(hit[:10]) + (", …" if len(hit) > 10 else "") or "some nodes"
        return f"Something acts on {names} until {self.switching.time:g}."


def families_to_score(
    single: FloatArray,
    allowed: BoolArray,
    max_parents: int,
    required: Sequence[int] = (),
    n_candidates: int = N_CANDIDATES,
) -> IntArray:
    """(F, k) the sets of parents of one child that are scored, padded with −1.

    ``single`` (N,) are the scores of single parents; ``allowed`` (N,) marks possible parents.
    """
    fixed = tuple(sorted(required))
    others = [int(m) for m in np.flatnonzero(allowed) if m not in fixed]
    more = max(0, min(max_parents - len(fixed), len(others)))
    ranked = sorted(others, key=lambda m: (-single[m], m))
    pool = others if len(single) <= _ALL_TRIPLES else sorted(ranked[:n_candidates])
    sets: list[tuple[int, ...]] = [(), *((m,) for m in others)] if more else [()]
    for size in range(2, more + 1):
        sets.extend(combinations(pool, size))
    if more >= 2:
        sets += [(ranked[0], m) for m in others if m not in pool]
    rows = np.full((len(sets), max(1, len(fixed) + more)), -1, dtype=np.int64)
    for row, members in zip(rows, sets):
        both = sorted((*fixed, *members))
        row[: len(both)] = both
    return rows


def learn(
    series: Series,
    *,
    stimuli: Sequence[Stimulus] | None = None,
    find_switch: bool = True,
    max_parents: int | None = None,
    allowed: BoolArray | None = None,
    log_odds: FloatArray | float | None = None,
    grids: Grids | None = None,
    quadratic: bool = True,
    learning_rate: float = LEARNING_RATE,
) -> ContinuousFit:
    """Score the families of all continuous nodes.

    ``stimuli`` are the known ones, in the user's units of time; without any, the end of an unknown
    common one is looked for (``find_switch``). ``allowed`` and ``log_odds`` are [parent, child];
    beforehand an edge has probability one in the number of nodes. ``learning_rate`` is the power of
    the likelihood in the probabilities of families.
    """
    n = len(series.names)
    grids = grids or Grids()
    switching = None
    if stimuli is not None:
        series = series.with_stimuli(stimuli)
    elif find_switch and not series.stimuli:
        switching = find_switching_time(series, grids)
        if switching is not None and switching.is_taken:
            series = ends_at(series, switching.time)
    scorer = FamilyScorer(series, grids, quadratic)
    most = max_parents if max_parents is not None else (3 if n <= _ALL_TRIPLES else 2)
    may = np.ones((n, n), dtype=np.bool_) if allowed is None else allowed.copy()
    np.fill_diagonal(may, False)
    odds = -np.log(max(1, n - 1)) if log_odds is None else log_odds
    odds = np.broadcast_to(np.asarray(odds, dtype=np.float64), (n, n))
    single = scorer.combined(scorer.single_parents()[1])
    families = {}
    for child in scorer.children:
        rows = families_to_score(single[child], may[:, child], most)
        log_prior = np.where(rows >= 0, odds[rows, child], 0.0).sum(axis=1)
        scores = scorer.families(child, rows)
        families[child] = Families(rows, scores, log_prior, learning_rate)
    return ContinuousFit(scorer, families, switching, learning_rate)
