"""Owns what a chain over graphs, rates, starts and emissions is about: candidates and priors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from asterism.errors import AsterismError
from asterism.model.emissions import Categorical, Gaussian, Poisson
from asterism.numerics.arrays import offsets
from asterism.numerics.compiled import CompiledGraph
from asterism.sampling import _emission_draws as kinds
from asterism.sampling._along import ALL_RATES, UP_AND_DOWN
from asterism.sampling._factors import FactorPrior
from asterism.sampling._graphs import Shapes
from asterism.sampling.locked import links_by_measurements
from asterism.sampling.sampler_arrays import (
    AllParents,
    Candidates,
    Emitted,
    FloatArray,
    IntArray,
    RatePrior,
    SamplerLayout,
    Seen,
)
from asterism.sampling.sampler_setup import add_terms, families_of, layout_of, seen_of
from asterism.timeline.evidence import Evidence

#: prior of learned emissions. Gaussian: the mean of a state counts as a tenth of a measurement at
#: the column's mean; the variance has the weight of two measurements at a tenth of the column's
#: variance. Poisson: Gamma of shape ½ with the column's mean. Categorical: Dirichlet of 1.
MEAN_STRENGTH = 0.1
VARIANCE_SHAPE = 1.0
VARIANCE_SHARE = 0.1
POISSON_SHAPE = 0.5


@dataclass(frozen=True)
class LearnedEmission:
    """One node's learned emission: how it starts, and its measurements."""

    node: int
    emission: Any
    """Gaussian, Poisson or Categorical, with all parameters."""
    values: FloatArray
    """Measured numbers; for a Categorical the numbers of the reported labels."""
    offset: IntArray
    """Where each measurement's likelihoods begin in the flat evidence."""


class Drawn(NamedTuple):
    """One field of the draws, and what its entries are."""

    field: str
    labels: list[str]
    """A name of each entry of the dimension."""
    coordinates: Mapping[str, Any]
    """Further coordinates along the dimension, such as node and transition."""
    entries: Any = slice(None)
    """Which entries of the field are meant."""


@dataclass(frozen=True)
class ModelSetup:
    """Everything that all chains share."""

    layout: SamplerLayout
    seen: Seen
    candidates: Candidates
    others: AllParents
    prior: RatePrior
    emitted: Emitted
    initial: FloatArray
    """Flat start probabilities: fixed, or where a chain begins."""
    edges: IntArray
    """(edges, 2) parent and child."""
    names: tuple[str, ...]
    labels: tuple[object, ...]
    shapes: Shapes
    factors: FactorPrior | None
    """None: rates have none."""
    emissions: tuple[LearnedEmission, ...] = field(default=())

    @property
    def width(self) -> int:
        """The largest number of parents of a family."""
        return max(int(self.candidates.parents.shape[1]), int(self.others.most.max(initial=0)))

    @property
    def lists_all(self) -> bool:
        """Whether the candidates are all families."""
        return len(self.others.most) == 0

    @property
    def kept(self) -> dict[str, int]:
        """How many numbers of each kind are kept of a draw, beside parents and rates."""
        parameters = len(self.emitted.parameter)
        return {"edges": len(self.edges), "initial": len(self.initial), "emission": parameters}

    @property
    def drawn(self) -> dict[str, Drawn]:
        """Starts and the parameters of emissions."""
        sizes = self.layout.n_states.tolist()
        nodes = [name for name, size in zip(self.names, sizes) for _ in range(size)]
        numbers = [x for size in sizes for x in range(size)]
        emitted = [
            (self.names[e.node], i)
            for e in sorted(self.emissions, key=lambda e: e.node)
            for i in range(int(np.diff(self.emitted.start)[e.node]))
        ]
        return {
            "state": Drawn(
                "initial",
                [f"{name}[{x}]" for name, x in zip(nodes, numbers)],
                {"state_node": nodes, "state_number": numbers},
            ),
            "parameter": Drawn(
                "emission",
                [f"{name}[{i}]" for name, i in emitted],
                {"parameter_node": [name for name, _ in emitted]},
            ),
        }


@dataclass(frozen=True)
class PriorChoice:
    """What the user says about rates and starts."""

    shape: float
    rate: float | FloatArray
    """Of all transitions, or flat (S, S) blocks of each."""
    allowed: Sequence[NDArray[np.bool_]]
    """Per node (S, S)."""
    learn_initial: bool
    initial: FloatArray
    shapes: tuple[float, ...] = ()
    """Values among which the shape is drawn; none: it is known."""
    factors: bool = False
    """Whether trajectories may differ, and rates change over time, by factors of their own."""


def can_sample(emission: Any) -> bool:
    """Whether the parameters of this kind of emission can be drawn; others stay as fitted."""
    return type(emission) in (Gaussian, Poisson, Categorical)


def model_setup(
    evidence: Evidence,
    n_states: Sequence[int],
    candidates: Candidates,
    choice: PriorChoice,
    names: Sequence[str],
    emissions: Sequence[LearnedEmission] = (),
    others: AllParents | None = None,
) -> ModelSetup:
    """Lay everything out; refuses nodes that joint measurements lock to each other.

    ``others``: the families beyond the candidates, where these are not all.
    """
    if links := links_by_measurements(evidence):
        a, b = sorted(links)[0]
        raise AsterismError(
            f"The nodes {names[a]} and {names[b]} are locked to each other by a joint measurement "
            "that excludes combinations of their states; sampling cannot learn from it. Give the "
            "excluded combinations a small likelihood instead of zero."
        )
    sizes = np.asarray(n_states, dtype=np.int64)
    seen = seen_of(evidence, sizes)
    largest = np.array(
        [
            candidates.n_configs[first:last].max(initial=1)
            for first, last in zip(candidates.start[:-1], candidates.start[1:])
        ],
        dtype=np.int64,
    )
    if others is not None:
        widest = np.sort(sizes)[::-1]
        by_number = np.concatenate([[1], np.cumprod(widest)])
        largest = np.maximum(largest, by_number[others.most])
    layout = layout_of(evidence, sizes, largest)
    rate = np.full(int((sizes**2).sum()), choice.rate, dtype=np.float64)
    return ModelSetup(
        layout=layout,
        seen=seen,
        candidates=candidates,
        others=no_others() if others is None else others,
        prior=RatePrior(
            shape=np.array([choice.shape], dtype=np.float64),
            rate=rate,
            log_rate=np.log(rate),
            allowed=np.concatenate([np.asarray(a, dtype=np.bool_).ravel() for a in choice.allowed]),
            allowed_start=offsets(sizes**2),
            learn_initial=bool(choice.learn_initial),
        ),
        emitted=_emitted(seen, layout, emissions),
        initial=np.asarray(choice.initial, dtype=np.float64),
        edges=_edges(candidates) if others is None else _pairs(others),
        names=tuple(names),
        labels=evidence.labels or tuple(range(evidence.n_trajectories)),
        shapes=_shapes(choice, rate),
        factors=factor_prior(evidence.n_trajectories) if choice.factors else None,
        emissions=tuple(emissions),
    )


#: shapes of factors: their logarithms have standard deviations from 1.9 down to .16
FACTOR_SHAPES = np.geomspace(0.6, 40.0, 12)
#: beforehand nine in ten nodes have no factors, and the other kinds are equally common; one node
#: that has some makes them twice as probable in the next
_KIND_WEIGHTS = (9.0, 1 / 3, 1 / 3, 1 / 9, 1 / 9, 1 / 9)
#: fewer trajectories cannot tell what they differ in
_FEWEST_TRAJECTORIES = 3


def factor_prior(n_trajectories: int) -> FactorPrior:
    """What is known of factors before the data."""
    weight = np.array(_KIND_WEIGHTS)
    if n_trajectories < _FEWEST_TRAJECTORIES:
        weight[[ALL_RATES, UP_AND_DOWN]] = 0.0
    counts, shape = np.arange(_COUNTS), FACTOR_SHAPES
    table = gammaln(shape[:, None] + counts) - gammaln(shape)[:, None]
    return FactorPrior(shape.copy(), table, weight)


def _shapes(choice: PriorChoice, rate: FloatArray) -> Shapes:
    shape = np.array(choice.shapes or [choice.shape], dtype=np.float64)
    own = shape[:, None] / choice.shape * rate
    counts = np.arange(_COUNTS)
    return Shapes(
        shape, own, np.log(own), gammaln(shape[:, None] + counts) - gammaln(shape)[:, None]
    )


#: counts of jumps up to which Gamma functions are kept in a table
_COUNTS = 4096
#: with more nodes, draws are kept of the edges that the candidates hold; of all others the average
ALL_EDGES_KEPT = 200
#: parents of a child, beside those of its candidates, that a sweep compares on average
OTHERS_COMPARED = 20


def all_parents(
    candidates: Candidates,
    most: IntArray,
    may_be: NDArray[np.bool_],
    is_required: NDArray[np.bool_],
    log_odds: FloatArray,
    by_number: FloatArray,
) -> AllParents:
    """Every family that the prior allows; see :class:`AllParents` for the arrays.

    Parents that the candidates hold are compared in every sweep, others by chance.
    """
    n_nodes = len(most)
    child = np.repeat(np.arange(n_nodes), np.diff(candidates.start))
    promising = np.zeros((n_nodes, n_nodes), dtype=np.bool_)
    for p in range(candidates.parents.shape[1]):
        rows = np.flatnonzero(candidates.n_parents > p)
        promising[child[rows], candidates.parents[rows, p]] = True
    rest = (may_be & ~promising).sum(axis=1, keepdims=True)
    share = np.minimum(1.0, OTHERS_COMPARED / np.maximum(rest, 1))
    kept = may_be if n_nodes <= ALL_EDGES_KEPT else may_be & promising
    edge = np.full((n_nodes, n_nodes), -1, dtype=np.int64)
    edge[kept] = np.arange(int(kept.sum()))
    return AllParents(
        most=most.astype(np.int64),
        may_be=may_be & ~is_required,
        is_required=is_required,
        log_odds=log_odds,
        by_number=by_number,
        chance=np.where(promising, 1.0, share),
        edge=edge,
    )


def no_others() -> AllParents:
    """Where the candidates are all families."""
    none = np.zeros((0, 0))
    no_numbers, no_flags = none.astype(np.int64), none.astype(np.bool_)
    return AllParents(no_numbers[:, 0:0].ravel(), no_flags, no_flags, none, none, none, no_numbers)


def _pairs(others: AllParents) -> IntArray:
    """(edges, 2) parent and child of the edges whose draws are kept."""
    child, parent = np.nonzero(others.edge >= 0)
    result = np.zeros((len(child), 2), dtype=np.int64)
    result[others.edge[child, parent]] = np.column_stack([parent, child])
    return result


def candidates_of(
    n_states: Sequence[int], families: Sequence[IntArray], log_prior: Sequence[FloatArray]
) -> Candidates:
    """Candidate families with ordinary tables.

    ``families[n]`` (F, k) parents of node n, padded with −1; the first parent varies slowest.
    """
    width = max(1, max(f.shape[1] for f in families))
    rows = [row[row >= 0] for own in families for row in own]
    child = np.repeat(np.arange(len(families)), [len(own) for own in families])
    n_rows = len(rows)
    sizes = np.asarray(n_states, dtype=np.int64)
    parents = np.zeros((n_rows, width), dtype=np.int64)
    term = np.zeros((n_rows, width, int(sizes.max())), dtype=np.int64)
    n_configs = np.ones(n_rows, dtype=np.int64)
    for f, row in enumerate(rows):
        parents[f, : len(row)] = row
        n_configs[f] = add_terms(sizes, row, term[f])
    n_parents = np.array([len(row) for row in rows], dtype=np.int64)
    return _with_edges(
        child, n_parents, parents, term, n_configs, np.concatenate(log_prior), sizes[child]
    )


def candidates_of_graph(graph: CompiledGraph) -> Candidates:
    """One family per node, summaries included."""
    own = families_of(graph)
    return _with_edges(
        np.arange(graph.n_nodes),
        own.n_parents,
        own.parents,
        own.term,
        own.n_configs,
        np.zeros(graph.n_nodes),
        graph.n_states,
    )


def _with_edges(
    child: IntArray,
    n_parents: IntArray,
    parents: IntArray,
    term: IntArray,
    n_configs: IntArray,
    log_prior: FloatArray,
    size: IntArray,
) -> Candidates:
    n_nodes = int(child.max()) + 1
    edge = np.full(parents.shape, -1, dtype=np.int64)
    number: dict[tuple[int, int], int] = {}
    for f in range(len(child)):
        for p in range(int(n_parents[f])):
            pair = (int(parents[f, p]), int(child[f]))
            edge[f, p] = number.setdefault(pair, len(number))
    return Candidates(
        start=np.searchsorted(child, np.arange(n_nodes + 1)).astype(np.int64),
        n_parents=n_parents,
        parents=parents,
        term=term,
        n_configs=n_configs,
        log_prior=log_prior,
        edge=edge,
        table_start=offsets(n_configs * size**2),
    )


def _edges(candidates: Candidates) -> IntArray:
    n_edges = int(candidates.edge.max(initial=-1)) + 1
    result = np.zeros((n_edges, 2), dtype=np.int64)
    n_nodes = len(candidates.start) - 1
    child = np.repeat(np.arange(n_nodes), np.diff(candidates.start))
    for p in range(candidates.edge.shape[1]):
        rows = np.flatnonzero(candidates.edge[:, p] >= 0)
        result[candidates.edge[rows, p], 0] = candidates.parents[rows, p]
        result[candidates.edge[rows, p], 1] = child[rows]
    return result


def _emitted(seen: Seen, layout: SamplerLayout, emissions: Sequence[LearnedEmission]) -> Emitted:
    n_nodes = len(layout.n_states)
    kind = np.zeros(n_nodes, dtype=np.int64)
    prior = np.zeros((n_nodes, 4))
    order = np.full(int(layout.state_start[-1]), -1, dtype=np.int64)
    parameters: list[FloatArray] = [np.zeros(0)] * n_nodes
    value = np.zeros(len(seen.point_time))
    is_read = np.zeros(len(seen.point_time), dtype=np.bool_)
    row_of = {int(at): i for i, at in enumerate(seen.point_offset)}
    for learned in emissions:
        n, emission = learned.node, learned.emission
        rows = [row_of[int(at)] for at in learned.offset]
        value[rows] = learned.values
        is_read[rows] = True
        own = order[layout.state_start[n] : layout.state_start[n + 1]]
        centre = float(np.mean(learned.values)) if len(learned.values) else 0.0
        if isinstance(emission, Gaussian):
            means = np.asarray(emission.means, dtype=np.float64)
            shared = not isinstance(emission.scale, tuple)
            kind[n] = kinds.GAUSSIAN_SHARED if shared else kinds.GAUSSIAN
            scale = np.broadcast_to(np.asarray(emission.scale, dtype=np.float64), means.shape)
            parameters[n] = np.concatenate([means, scale])
            own[:] = np.argsort(means, kind="stable")
            spread = float(np.var(learned.values)) if len(learned.values) > 1 else 1.0
            share = VARIANCE_SHARE * (spread if spread > 0.0 else 1.0)
            prior[n] = centre, MEAN_STRENGTH, VARIANCE_SHAPE, VARIANCE_SHAPE * share
        elif isinstance(emission, Poisson):
            kind[n] = kinds.POISSON
            means = np.maximum(np.asarray(emission.means, dtype=np.float64), 1e-300)
            parameters[n] = means
            own[:] = np.argsort(means, kind="stable")
            rate = POISSON_SHAPE / centre if centre > 0.0 else POISSON_SHAPE
            prior[n] = 0.0, 0.0, POISSON_SHAPE, rate
        else:
            kind[n] = kinds.CATEGORICAL
            table = np.asarray(emission.confusion, dtype=np.float64)
            parameters[n] = table.ravel()
            size = len(table)
            in_order = table.shape[1] >= size and (table[:, :size].argmax(axis=0) == range(size))
            own[:] = 0 if np.all(in_order) else -1
    return Emitted(
        kind=kind,
        start=offsets([len(p) for p in parameters]),
        parameter=np.concatenate([np.zeros(0), *parameters]),
        prior=prior,
        order=order,
        value=value,
        is_read=is_read,
    )
