"""Owns what a structure search finds, and everything that follows from it.

A search gives every node a :class:`FamilyTable`: sets of parents with their scores,
ln P(family) + ln P(data | family). The family posterior is the softmax of the scores; the
probability of an edge is the sum over the families that contain it.

Above some thousand families a search scores only those of the best candidates. Screening has
looked at every other parent alone (:class:`Unscored`): added to a scored family F, parent m
multiplies its weight by about odds(m) · e^gain(m). These terms enter the sum by which all are
normalised, so that no pair is impossible only because nobody looked. Two such parents at once are
left out: their terms are of second order.

A search numbers the nodes by name, and so do its tables here. :func:`result_of` makes the result:
the tables, tempered, the graph to be shown as a network, and why the search stopped. What the user
sees is in the order of the data's columns.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from asterism.data.observations import Observations
from asterism.errors import ModelError, Sentence, Setting, TooLargeError, counted
from asterism.learning.search.edge_families import (
    EdgeFamily,
    asked_edges,
    likeliest_families,
    solved_statistics,
)
from asterism.learning.search.score import (
    GraphSolution,
    Parents,
    RanAway,
    Statistics,
    no_statistics,
    posterior_mean_rates,
)
from asterism.learning.search.structure_prior import (
    NO_PARENT,
    NumberedPrior,
    family_rows,
    family_sizes,
    family_tuple,
)
from asterism.model.network import Network
from asterism.numerics.arrays import BoolArray, FloatArray, IntArray
from asterism.numerics.resources import time_to_finish
from asterism.results.edge_sets import require_few
from asterism.results.run import NOT_SCORED, with_missing

if TYPE_CHECKING:
    from asterism.continuous.learn import ContinuousFit
    from asterism.learning.kinds import KindChoice
    from asterism.learning.levels import LevelChoice
    from asterism.learning.search.sampled import SampledGraphs
    from asterism.learning.search.settings import StructureSettings
    from asterism.learning.search.task import SearchRun


#: configurations of the parents up to which the graph shown has rates
LARGEST_TABLE = 4_096
#: scores closer than this, relatively, are a tie that rounding must not decide
TIE = 1e-12


#: parents of a node without a scored family that are remembered one by one
MOST_REMEMBERED = 2_000
#: an allowed pair has at least this probability: rounding makes nothing impossible
LEAST_PROBABILITY = 1e-12


@dataclass(frozen=True)
class Unscored:
    """Parents of one node in none of its scored families, and what screening says of them."""

    parents: IntArray
    """(K,) ascending."""
    gains: FloatArray
    """(K,) by how many nats each explains the data better than no parent, all else frozen."""
    log_odds: FloatArray
    """(K,) of the prior."""
    growth: FloatArray
    """[number of parents] what one parent more adds to ln P(family); −inf where it is too many."""
    rest: IntArray
    """The remaining ones, of which only the mean of e^gain is known."""
    rest_gain: float = 0.0
    """ln of that mean."""
    rest_log_odds: float = 0.0

    @classmethod
    def of(cls, prior: NumberedPrior, child: int, parents: IntArray, gains: FloatArray) -> Unscored:
        """From the screened gains of all parents that may be; the best are remembered."""
        most = int(prior.max_parents[child])
        by_number = prior.log_prior_by_number(child, most)
        growth = np.full(most + 1, -np.inf)
        growth[:-1] = np.diff(np.maximum(by_number, -1e6))  # too few parents: any more is welcome
        log_odds = prior.log_odds(child)[parents]
        if prior.function is not None:
            fewest = family_rows([prior.required.get(child, ())])
            singles = np.column_stack([np.repeat(fewest, len(parents), axis=0), parents])
            singles = np.sort(singles, axis=1) if fewest.min() >= 0 else parents[:, None]
            log_odds = prior.log_prior(child, singles) - prior.log_prior(child, fewest)
        order = np.argsort(-(gains + log_odds), kind="stable")
        kept, rest = np.sort(order[:MOST_REMEMBERED]), np.sort(order[MOST_REMEMBERED:])
        mean_gain = mean_odds = 0.0
        if len(rest):
            mean_gain = float(np.logaddexp.reduce(gains[rest]) - np.log(len(rest)))
            mean_odds = float(log_odds[rest].mean())
        return cls(
            parents[kept],
            gains[kept].astype(np.float32).astype(np.float64),
            log_odds[kept],
            growth,
            parents[rest],
            mean_gain,
            mean_odds,
        )

    def without(self, listed: IntArray) -> Unscored:
        """Only parents that are not listed."""
        keep, keep_rest = (~np.isin(own, listed) for own in (self.parents, self.rest))
        return replace(
            self,
            parents=self.parents[keep],
            gains=self.gains[keep],
            log_odds=self.log_odds[keep],
            rest=self.rest[keep_rest],
        )

    def odds(self, factor: float) -> tuple[FloatArray, float]:
        """(K,) by what each multiplies a family's weight; and each of the rest."""
        own: FloatArray = np.exp(self.log_odds + factor * self.gains)
        return own, math.exp(self.rest_log_odds + factor * self.rest_gain)

    def total(self, factor: float) -> float:
        """The sum over all parents."""
        own, each = self.odds(factor)
        return float(own.sum()) + len(self.rest) * each


@dataclass(frozen=True)
class FamilyTable:
    """Scored families of one node."""

    parents: IntArray
    """(F, k) node numbers, ascending, padded with −1."""
    scores: FloatArray
    """(F,) log scores, structure prior included."""
    tempered: FloatArray | None = None
    """(F,) log weights of the family posterior where they are not the scores themselves."""
    share: float = 1.0
    """What all listed families have together; the rest belongs to families that are not listed."""
    pairs: FloatArray | None = None
    """(N,) probability that each node is a parent, where families that are not listed count too."""
    unscored: Unscored | None = None
    """What screening says of parents in no listed family."""
    factor: float = 1.0
    """How often the data count in the log weights."""

    def __post_init__(self) -> None:
        if len(self.scores) == 0:
            raise ModelError("A node has no family at all, not even that without parents.")
        if np.isnan(self.scores).any() or not np.isfinite(self.scores.max()):
            raise ModelError("The scores of a node's families are not finite.")

    @classmethod
    def from_pairs(cls, pairs: Sequence[tuple[Sequence[int], float]]) -> FamilyTable:
        """From (parents, score) pairs."""
        scores = np.array([score for _, score in pairs], dtype=np.float64)
        return cls(family_rows([parents for parents, _ in pairs]), scores)

    @property
    def log_weights(self) -> FloatArray:
        """(F,) unnormalised logs of the family posterior."""
        return self.scores if self.tempered is None else self.tempered

    def tempered_by(self, factor: float, log_prior: FloatArray) -> FamilyTable:
        """What the data say about each family counts only ``factor`` times."""
        if factor == 1.0:
            return replace(self, tempered=None, factor=1.0)
        weights = log_prior + factor * (self.scores - log_prior)
        return replace(self, tempered=weights, factor=factor)

    def with_unscored(self, unscored: Unscored | None) -> FamilyTable:
        """Together with what screening says of parents in none of these families."""
        if unscored is None:
            return self
        left = unscored.without(np.unique(self.parents))
        if not len(left.parents) and not len(left.rest):
            return self
        return replace(self, unscored=left)

    @cached_property
    def _extended(self) -> tuple[FloatArray, float]:
        """(F,) how much families with one unscored parent more have, over the listed; the share."""
        assert self.unscored is not None
        growth = np.exp(self.unscored.growth[family_sizes(self.parents)])
        extended = self._among_listed * growth * self.unscored.total(self.factor)
        return extended, float(1.0 / (1.0 + extended.sum()))

    @property
    def outside(self) -> float:
        """Probability of the families that are not listed."""
        return 1.0 - (self.share if self.unscored is None else self._extended[1])

    def draw(self, n_graphs: int, rng: np.random.Generator) -> list[tuple[int, ...]]:
        """Families drawn from the posterior."""
        chosen = self.parents[rng.choice(len(self.scores), size=n_graphs, p=self._among_listed)]
        drawn = [family_tuple(row) for row in chosen]
        if self.unscored is None:
            return drawn
        extended, _ = self._extended
        own, each = self.unscored.odds(self.factor)
        weight = np.concatenate([own, np.full(len(self.unscored.rest), each)])
        others = np.concatenate([self.unscored.parents, self.unscored.rest])
        for i in np.flatnonzero(rng.random(n_graphs) < self.outside):
            base = self.parents[rng.choice(len(extended), p=extended / extended.sum())]
            more = int(others[rng.choice(len(others), p=weight / weight.sum())])
            drawn[i] = tuple(sorted((*family_tuple(base), more)))
        return drawn

    def log_odds(self, parent: int) -> float:
        """Posterior log-odds of one edge; ±inf where every or no family has it."""
        holds = (self.parents == parent).any(axis=1)
        logs = self.log_weights
        with_it = np.logaddexp.reduce(logs[holds]) if holds.any() else -np.inf
        without = np.logaddexp.reduce(logs[~holds]) if not holds.all() else -np.inf
        return float(with_it - without)

    def probable(self, n_nodes: int, threshold: float) -> tuple[int, ...]:
        """The parents whose probability reaches the threshold."""
        chance = self.edge_probabilities(n_nodes)
        return tuple(int(p) for p in np.flatnonzero(chance >= threshold - 1e-12))

    @cached_property
    def _among_listed(self) -> FloatArray:
        """(F,) softmax of the log weights."""
        logs = self.log_weights
        weights = np.exp(logs - logs.max())
        result: FloatArray = weights / weights.sum()
        return result

    @cached_property
    def probabilities(self) -> FloatArray:
        """(F,) the family posterior: softmax of the scores, tempered where that was asked for."""
        return self._among_listed * (1.0 - self.outside)

    def edge_probabilities(self, n_nodes: int) -> FloatArray:
        """(n_nodes,) probability that each node is a parent."""
        if self.pairs is not None:
            return self.pairs.copy()
        weight, extended = self.probabilities, None
        if self.unscored is not None:
            extended, share = self._extended
            weight = weight + extended * share
        total = np.zeros(n_nodes + 1)  # the padding −1 lands in the last entry
        for column in self.parents.T:
            total += np.bincount(column % (n_nodes + 1), weight, n_nodes + 1)
        if self.unscored is not None and extended is not None:
            own, each = self.unscored.odds(self.factor)
            per_odds = self.outside / self.unscored.total(self.factor)
            total[self.unscored.parents] = own * per_odds
            total[self.unscored.rest] = each * per_odds
        return np.minimum(total[:n_nodes], 1.0)

    def ranking(self, names: Sequence[str]) -> IntArray:
        """Rows from best to worst; ties: fewer parents, then names, never the node order."""
        order = np.argsort(-self.scores, kind="stable")
        ordered = self.scores[order]
        near = TIE * (1.0 + np.abs(ordered[:-1]))
        group = np.concatenate([[0], np.cumsum(ordered[:-1] - ordered[1:] > near)])
        sizes = family_sizes(self.parents)
        counts = np.bincount(group)
        starts = np.cumsum(counts) - counts
        for g in np.flatnonzero(counts > 1):
            tied = slice(starts[g], starts[g] + counts[g])
            order[tied] = sorted(
                order[tied], key=lambda f: (sizes[f], _names(self.parents[f], names))
            )
        return order

    def best(self, names: Sequence[str]) -> tuple[int, ...]:
        """The parents with the highest score."""
        top = self.scores.max()
        tied = np.flatnonzero(self.scores >= top - TIE * (1.0 + abs(top)))
        among = FamilyTable(self.parents[tied], self.scores[tied])
        return family_tuple(among.parents[among.ranking(names)[0]])

    def likely(self, within: float) -> FamilyTable:
        """Only the families whose score is within so many nats of the best."""
        keep = np.flatnonzero(self.scores >= self.scores.max() - within)
        return FamilyTable(self.parents[keep], self.scores[keep])


class FamilyCounts(NamedTuple):
    """Expected transitions (…, S, S) and dwell times (…, S) of one node, and the Gamma prior."""

    transitions: FloatArray
    dwell: FloatArray
    shape: float
    rate: float | FloatArray
    """β of all transitions, or (S, S)."""
    allowed: BoolArray


@dataclass(frozen=True)
class SearchResult:
    """What a search over graphs hands back."""

    nodes: tuple[str, ...]
    """Names by number."""
    states: dict[str, tuple[Any, ...]]
    tables: Sequence[FamilyTable | None]
    """Per node its scored families; None where there was no time to score them all. Exogenous nodes
    have one family, without parents."""
    graph: Sequence[tuple[int, ...]]
    """Per node the chosen parents, ascending."""
    network: Network
    """The chosen graph with posterior-mean rates, or the drifts of continuous nodes."""
    emission: Any
    """The emissions used at the end, fitted where they learn; by node."""
    prior_rate: float
    """β of the Gamma prior, found from the data or as given: the median of the nodes."""
    converged: bool
    stop_reason: str
    history: list[dict[str, Any]] = field(default_factory=list)
    n_sweeps: int = 0
    prior_rates: dict[str, float] = field(default_factory=dict)
    """β of each node's usual transition; empty if all have the same."""
    structure: NumberedPrior | None = None
    """What was known beforehand, by the same numbers of nodes; None: nothing."""
    counts: dict[str, FamilyCounts] = field(default_factory=dict)
    """Per node what its rates in ``network`` were estimated from."""
    beyond: Mapping[tuple[int, int], tuple[FamilyCounts, int]] = field(default_factory=dict)
    """(parent, child) of likely edges outside the graph: what their likeliest family's rates follow
    from, and the place of the parent in it (see ``edge_families.py``)."""
    tempering: float = 1.0
    """How often the data count in the probabilities of families: 1 where scores are exact."""
    known_share: float = 1.0
    """How much the data tell of what complete paths would say about rates: 1 for complete paths."""
    levels: Sequence[LevelChoice] = ()
    """How many levels were counted, node by node."""
    sampled: SampledGraphs | None = None
    """The draws of graphs, where there are any."""
    columns: tuple[str, ...] = ()
    """The nodes in the order in which the user sees them; ``nodes`` if empty."""
    usable: bool | None = None
    """Whether the answer can be used as it is, with its errors; None: only if it converged."""
    stage: str = ""
    """Which stage gave the probabilities, in words; where the method leaves that open."""
    continuous: ContinuousFit | None = None
    """What was learned about continuous nodes, where all are."""
    kinds: Sequence[KindChoice] = ()
    """How the evidence chose the kind of each node, where it was asked."""
    influences: tuple[str, ...] = ()
    """Exogenous nodes that are stimuli: their edges are no edges between nodes."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", self.columns or self.nodes)
        if not len(self.nodes) == len(self.tables) == len(self.graph):
            raise ModelError(
                f"{len(self.nodes)} nodes, {len(self.tables)} tables of families and "
                f"{len(self.graph)} sets of parents do not belong together."
            )

    @property
    def exogenous(self) -> list[str]:
        """Nodes whose paths are given."""
        given = () if self.structure is None else self.structure.exogenous
        return [self.nodes[n] for n in given]

    @property
    def not_scored(self) -> list[str]:
        """Nodes for which there was no time: nothing is known about the edges into them."""
        return [name for name in self.columns if self.tables[self.nodes.index(name)] is None]

    def is_drawn(self, child: int) -> bool:
        """Whether draws say something of the parents of a node: not of one that jumps beside others
        that move.
        """
        fit = self.continuous
        return self.sampled is not None and (fit is None or child not in fit.jumping)

    def edge_probabilities(self, child: int) -> FloatArray:
        """(N,) probability that each node is a parent of ``child``; NaN where it was not scored.

        What was required or ruled out beforehand is certain also then.
        """
        table = self.tables[child]
        if table is not None:
            chance = table.edge_probabilities(len(self.nodes))
            if self.structure is None or not self.structure.max_parents[child]:
                return chance
            allowed = self.structure.candidates(child)
            chance[allowed] = np.maximum(chance[allowed], LEAST_PROBABILITY)
            return chance
        assert self.structure is not None
        beforehand = self.structure.edge_probabilities(child)
        return np.where((beforehand == 0.0) | (beforehand == 1.0), beforehand, np.nan)

    # ------------------------------------------------------------------ tables for the user
    def edge_matrix(self) -> pd.DataFrame:
        """Edge probabilities, rows = parents, columns = children; missing where not scored."""
        n = len(self.nodes)
        require_few(n, "edges_")
        columns = np.stack([self.edge_probabilities(child) for child in range(n)], axis=1)
        table = pd.DataFrame(columns, index=list(self.nodes), columns=list(self.nodes))
        shown = [name for name in self.columns if name not in self.influences]
        return with_missing(table.loc[shown, shown], self.not_scored)

    def asked_families(self) -> list[EdgeFamily]:
        """Likely edges outside the graph, each with the likeliest family that holds it."""
        nothing = np.zeros(len(self.nodes))
        edges = asked_edges(
            self.edge_probabilities,
            lambda c: nothing if self.structure is None else self.structure.edge_probabilities(c),
            self.graph,
        )
        tables = {
            child: (table.parents, table.log_weights)
            for child, table in enumerate(self.tables)
            if table is not None
        }
        return likeliest_families(edges, tables)

    def family_frame(self) -> pd.DataFrame:
        """node, parents (a tuple of names), score, probability: node by node, best first.

        A node that was not scored has one row without parents, score and probability.
        """
        node: list[str] = []
        parents: list[tuple[str, ...]] = []
        score: list[FloatArray] = []
        probability: list[FloatArray] = []
        number = {name: n for n, name in enumerate(self.nodes)}
        for name in self.columns:
            table = self.tables[number[name]]
            if table is None:
                node.append(name)
                parents.append(())
                score.append(np.array([np.nan]))
                probability.append(np.array([np.nan]))
                continue
            order = table.ranking(self.nodes)
            node += [name] * len(order)
            rows = table.parents[order].tolist()
            parents += [tuple(self.nodes[p] for p in r if p != NO_PARENT) for r in rows]
            score.append(table.scores[order])
            probability.append(table.probabilities[order])
        frame = pd.DataFrame(
            {
                "node": pd.Series(node, dtype=object),
                "parents": pd.Series(parents, dtype=object),
                "score": np.concatenate(score),
                "probability": np.concatenate(probability),
            }
        )
        if not self.not_scored:
            return frame
        frame["caveat"] = np.where(frame["node"].isin(self.not_scored), NOT_SCORED, "")
        return with_missing(frame, ["score", "probability"])

    def sample_parents(
        self, n_graphs: int, rng: np.random.Generator
    ) -> list[list[tuple[int, ...]]]:
        """Graphs as parents per node: those sampled, or drawn from the family posteriors."""
        if self.sampled is not None:
            graphs = self.sampled.parents(n_graphs, rng)
            for child, table in enumerate(self.tables):
                if table is not None and not self.is_drawn(child):
                    for graph, own in zip(graphs, table.draw(n_graphs, rng)):
                        graph[child] = own
            return graphs
        if self.not_scored:
            raise ModelError(
                f"Graphs cannot be drawn: {len(self.not_scored)} of {len(self.nodes)} nodes were "
                f"not scored ({self.not_scored[0]!r} is one); learn again with more time."
            )
        drawn = [table.draw(n_graphs, rng) for table in self.tables if table is not None]
        return [list(families) for families in zip(*drawn)]


def _names(row: IntArray, names: Sequence[str]) -> list[str]:
    return sorted(names[p] for p in family_tuple(row))


def result_of(
    search: SearchRun,
    observations: Observations,
    sampled: SampledGraphs | None = None,
    rates: Mapping[int, FloatArray] | None = None,
) -> SearchResult:
    """The end of a search as its result.

    ``rates`` are those of the graph shown, (…, S, S) by node, where they are not to follow from
    expected statistics. What was ``sampled`` needs no tempering.
    """
    settings, alone = search.settings, search.single_nodes
    tempering = 1.0
    if sampled is None:
        tempering = settings.tempering_factor(alone.known_share)
    tables = {
        n: table.tempered_by(tempering, search.prior.log_prior(n, table.parents))
        for n, table in search.tables.items()
    }
    if sampled is None:
        tables = {n: t.with_unscored(search.unscored.get(n)) for n, t in tables.items()}
    solution = search.solution if sampled is not None else _shown(search, tables)
    columns = [n for n in observations.nodes if n in search.nodes]
    columns += [n for n in search.nodes if n not in columns]
    network, counts = _network(search, solution, columns, rates or {})
    nothing = FamilyTable.from_pairs([((), 0.0)])
    children = set(search.prior.children)
    found = SearchResult(
        nodes=search.nodes,
        columns=tuple(columns),
        states={n: tuple(alone.template.network.states[n]) for n in columns},
        tables=[tables.get(n) if n in children else nothing for n in range(len(search.nodes))],
        graph=solution.parents,
        network=network,
        emission=alone.emission,
        prior_rate=alone.prior_rate,
        prior_rates={n: float(b) for n, b in zip(search.nodes, alone.node_rates)},
        converged=search.settled and search.unconverged == 0 and not search.complaint,
        stop_reason=_stop_reason(search),
        history=search.history,
        n_sweeps=search.n_sweeps,
        structure=search.prior,
        counts=counts,
        tempering=tempering,
        known_share=alone.known_share,
        levels=search.levels,
        sampled=sampled,
        stage=about_unscored(search.nodes, tables),
        influences=settings.influences,
    )
    if sampled is not None:
        return found
    n_jobs = settings.n_jobs if search.screened else None
    known = solved_statistics(search.scorer, solution, found.asked_families(), n_jobs)
    return replace(found, beyond=counts_beyond(search, known))


def about_unscored(nodes: Sequence[str], tables: Mapping[int, FamilyTable]) -> str:
    """How much probability lies in sets of parents that were not scored; "" if all were."""
    outside = {n: table.outside for n, table in tables.items() if table.unscored is not None}
    if not outside:
        return ""
    most = max(outside, key=lambda n: outside[n])
    mean = sum(outside.values()) / len(tables)
    return (
        f"Sets of parents that were not scored hold {mean:.1%} of the probability on average "
        f"({outside[most]:.1%} for {nodes[most]}); edges from parents in none of the scored sets "
        "have their probabilities from screening single parents."
    )


def counts_beyond(
    search: SearchRun, known: Mapping[EdgeFamily, Statistics]
) -> dict[tuple[int, int], tuple[FamilyCounts, int]]:
    """Statistics of edges outside the graph, with the prior of their rates."""
    scorer, rate = search.scorer, search.scorer.rate_by_node()
    return {
        (edge.parent, edge.child): (
            FamilyCounts(*own, scorer.shape, rate[edge.child], scorer.allowed[edge.child]),
            edge.slot,
        )
        for edge, own in known.items()
    }


def _shown(search: SearchRun, tables: Mapping[int, FamilyTable]) -> GraphSolution:
    """The solution of the graph to be shown: that of the probable edges, unless asked otherwise."""
    solution = search.solution
    sizes = search.scorer.n_states
    parents = shown_graph(search.settings, search.prior, tables, sizes, solution.parents)
    if parents == solution.parents and not solution.out_of_time:
        return solution
    try:
        with time_to_finish():
            n_jobs = search.settings.n_jobs if search.screened else None
            return search.scorer.solve(parents, solution, n_jobs)
    except RanAway:
        search.complaint = (
            "the rates of the graph shown could not be computed: they are the prior's"
        )
        return solution.with_statistics(parents, no_statistics(parents, sizes))


def shown_graph(
    settings: StructureSettings,
    prior: NumberedPrior,
    tables: Mapping[int, FamilyTable],
    n_states: Sequence[int] | None = None,
    best: Parents | None = None,
) -> Parents:
    """The graph to be shown: that of the probable edges, or the best if that was asked for.

    Nodes that were not scored have the parents that were required. ``n_states`` where rates are
    kept for every configuration of the parents; ``best`` is the graph of a search, by default that
    of the best scores.
    """
    nodes = prior.nodes

    def shown(n: int) -> tuple[int, ...]:
        if n not in tables:
            return prior.required.get(n, ())
        if settings.graph == "map":
            return tables[n].best(nodes) if best is None else best[n]
        return tables[n].probable(len(nodes), settings.threshold)

    parents = tuple(map(shown, range(len(nodes))))
    for child, above in enumerate(parents):
        n_configurations = math.prod(int(n_states[p]) for p in above) if n_states else 1
        # the best family was scored with a table of its own, however large
        if n_configurations > LARGEST_TABLE and settings.graph != "map":
            raise TooLargeError(
                f"Node {nodes[child]!r} has {len(above)} parents at this threshold, hence "
                f"{n_configurations:,} configurations, more than {LARGEST_TABLE:,}; raise ",
                *(Setting("threshold"), ", or use ", Setting("graph", "map"), "."),
            )
    return parents


def _stop_reason(search: SearchRun) -> str:
    if search.complaint.startswith("Stopped after the time limit"):
        return search.complaint
    sweeps = counted(search.n_sweeps, "sweep")
    if not search.settled:
        return Sentence(
            f"The graph still changed in the last of {sweeps}: raise ",
            *(Setting("max_sweeps"), ", or treat the probabilities with caution."),
        )
    stopped = f"The graph stopped changing after {sweeps}"
    if search.unconverged:
        return (
            f"{stopped}, but {counted(search.unconverged, 'computation')} of the last sweep did "
            "not converge: the coupling is strong; a stronger prior helps."
        )
    if search.complaint:
        return f"{stopped}, but {search.complaint}."
    return f"{stopped}."


def _network(
    search: SearchRun, solution: GraphSolution, columns: list[str], rates: Mapping[int, FloatArray]
) -> tuple[Network, dict[str, FamilyCounts]]:
    """The graph with its rates, nodes and parents in the order of the columns; their statistics."""
    alone, scorer = search.single_nodes.template.network, search.scorer
    place = {name: i for i, name in enumerate(columns)}
    prior_rate = scorer.rate_by_node()
    start = np.concatenate([[0], np.cumsum(scorer.n_states)])
    statistics = solution.statistics(scorer.n_states)
    parents: dict[str, list[str]] = {}
    tables: dict[str, Any] = {}
    counts: dict[str, FamilyCounts] = {}
    initial: dict[str, FloatArray] = {}
    for name in columns:
        n = search.nodes.index(name)
        above = [search.nodes[p] for p in solution.parents[n]]
        axes = sorted(range(len(above)), key=lambda i: place[above[i]])
        parents[name] = [above[i] for i in axes]
        last = len(axes)
        transitions, dwell = statistics[n]
        counts[name] = FamilyCounts(
            transitions.transpose(*axes, last, last + 1),
            dwell.transpose(*axes, last),
            scorer.shape,
            prior_rate[n],
            scorer.allowed[n],
        )
        tables[name] = None
        if n in rates:
            tables[name] = rates[n].transpose(*axes, last, last + 1)
        elif name not in alone.exogenous:
            tables[name] = posterior_mean_rates(*counts[name])
        initial[name] = solution.initial[start[n] : start[n + 1]]
    return Network(parents, tables, {n: alone.states[n] for n in columns}, initial), counts
