"""What the nodes say each on its own: emissions, time scale, automatic prior, first rates.

A search begins here. Emissions that learn are fitted with every node alone; then every node's
rates are fitted by maximum likelihood, or with a weak prior where each node has a time scale of its
own, which gives the automatic prior rates: all that the data say about the unit of time.

How much the measurements tell of what complete paths would (``known_share``) follows from the same
solves; it says how far the star's scores can be believed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from asterism.data.observations import Observations
from asterism.learning.em.emission_fit import LearnedNode, learned_nodes, started_emissions
from asterism.learning.em.fitting import Settings as EmSettings
from asterism.learning.em.fitting import fit_parameters
from asterism.learning.search.score import GridPlan, SingleStart, cut, make_scorer
from asterism.learning.search.settings import StructureSettings
from asterism.model.emissions import Exact, emission_for, split_emissions
from asterism.model.priors import (
    BY_NODE,
    automatic_rate,
    rates_by_node,
    rates_by_transition,
    totals_of_nodes,
)
from asterism.model.template import Template, build_template
from asterism.numerics.arrays import BoolArray, FloatArray, with_exits
from asterism.timeline.build import build_evidence
from asterism.timeline.evidence import Evidence, require_time

# not tuned: a time scale needs to be known to some percent only
_RATE_TOLERANCE = 1e-5
_MAX_ITERATIONS = 200
_FARTHEST = 30.0  # times a first guess that a second fit begins from it
#: shape of the weak prior in the first fit; its mean is one transition between two measurements
_WEAK = 0.5
_LEAST_SHARE = 1e-3  # with a share of zero there would be no counts at all
_FASTER = 1.1  # by which rates are moved to see how much the data object


@dataclass(frozen=True)
class SingleNodes:
    """The nodes without any edge."""

    template: Template
    emission: Any
    evidence: Evidence
    allowed: tuple[BoolArray, ...]
    prior_rates: FloatArray
    """Flat (S, S) blocks: β of the Gamma prior of every transition."""
    node_rates: FloatArray
    """(N,) β of every node's usual transition."""
    rates: tuple[FloatArray, ...]
    """Per node (S, S): posterior means under the prior."""
    initial: FloatArray
    relaxation_rate: float
    """Typical rate at which a node forgets its state: the data's own unit of time."""
    known_share: float
    """How much of what complete paths would say about rates the measurements say: 0 to 1."""

    def learned(self, observations: Observations) -> tuple[dict[str, Any], list[LearnedNode]]:
        """All emissions, with what they leave open filled in, and the nodes whose own is learned.

        Joint measurements are learned by nobody.
        """
        network = self.template.network
        single, joint = split_emissions(self.emission, observations)
        emissions = started_emissions(network, observations, single)
        nodes = learned_nodes(network, observations, emissions, self.evidence)
        return {**emissions, **joint}, list(nodes)

    @property
    def prior_rate(self) -> float:
        """The median of the nodes' β."""
        return float(np.median(self.node_rates))


def fit_single_nodes(
    settings: StructureSettings, observations: Observations, nodes: tuple[str, ...]
) -> SingleNodes:
    """Fit every node alone; ``nodes`` gives the order in which they are numbered."""
    emission = Exact() if settings.emission is None else settings.emission
    template = build_template(
        dict.fromkeys(nodes, ()),
        observations,
        emission,
        settings.states,
        settings.structure_prior.exogenous,
        settings.allowed_transitions,
        settings.initial,
    )
    network = template.network
    emission = _fit_emissions(settings, template, observations, emission)
    evidence = build_evidence(network, observations, emission)
    require_time(evidence)
    sizes = [len(network.states[n]) for n in nodes]
    compiled = network.compiled
    allowed = tuple(compiled.graph.blocks(template.allowed, n)[0] for n in range(len(nodes)))
    learn_initial = isinstance(settings.initial, str) and settings.initial == "learn"
    start = _crude_rate(evidence)
    first = tuple(with_exits(start * mask) for mask in allowed)

    def solve(
        shape: float,
        rate: float | FloatArray,
        begin: tuple[FloatArray, ...],
        initial: FloatArray,
        max_iterations: int = _MAX_ITERATIONS,
    ) -> Any:
        scorer = make_scorer(
            evidence,
            SingleStart(sizes, allowed, initial, begin),
            (shape, rate),
            GridPlan(relaxation_rate=0.0, step=1.0),
            "star",
            learn_initial=learn_initial,
            tolerance=_RATE_TOLERANCE,
            max_iterations=max_iterations,
        )
        # in threads: this way small searches need not compile the kernel that iterates in one
        return scorer.solve(tuple(() for _ in nodes), n_jobs=settings.n_jobs, keep_moments=False)

    def by_node_of(fit: Any) -> tuple[FloatArray, ...]:
        return tuple(block.copy() for block in cut(fit.rates, [mask.shape for mask in allowed]))

    def share_known(shape: float, rate: FloatArray, fit: Any) -> float:
        rates = by_node_of(fit)
        starts = (rates, tuple(_FASTER * r for r in rates))
        answers = [solve(shape, rate, begin, fit.initial, 1) for begin in starts]
        return known_share(rates, *((a.transitions, a.dwell) for a in answers))

    shape = settings.prior.shape
    initial = compiled.initial
    squares = np.square(sizes)
    node_rates: FloatArray = np.zeros(len(nodes))
    rate = np.zeros(int(squares.sum()))
    if settings.prior.is_auto:
        by_node = settings.prior.rate == BY_NODE
        weak, slow = 0.0, rate
        if by_node:  # measurements that are far apart do not say how fast a node is
            ways = np.array([max(1.0, mask.sum() / len(mask)) for mask in allowed])
            weak, slow = _WEAK, np.repeat(_WEAK * ways / start, squares)
        likely = solve(weak, slow, first, initial)
        # the measurements show only a part of what the fit counts
        share = max(_LEAST_SHARE, share_known(weak, slow, likely)) if by_node else 1.0
        counts = share * likely.dwell, share * likely.transitions
        totals = totals_of_nodes(allowed, *counts, per_transition=by_node)
        if by_node:
            node_rates += rates_by_node(shape, *totals)
            rate += rates_by_transition(shape, node_rates, *counts, sizes)
        else:
            node_rates += automatic_rate(shape, *totals)
            rate += node_rates[0]
        initial = likely.initial
        first = tuple(
            _near(start, likeliest) for start, likeliest in zip(first, by_node_of(likely))
        )
    else:
        node_rates += settings.prior.rate_value
        rate += settings.prior.rate_value
    found = solve(shape, rate, first, initial)
    rates = by_node_of(found)
    return SingleNodes(
        template=template,
        emission=emission,
        evidence=evidence,
        allowed=allowed,
        prior_rates=rate,
        node_rates=node_rates,
        rates=rates,
        initial=found.initial,
        relaxation_rate=_relaxation_rate(rates),
        known_share=share_known(shape, rate, found),
    )


def known_share(
    rates: tuple[FloatArray, ...],
    counts: tuple[FloatArray, FloatArray],
    faster: tuple[FloatArray, FloatArray],
) -> float:
    """The share of information about rates that the measurements hold, over all nodes.

    An EM step answers rates that are all faster by some factor with M/ΣTR, the factor that the
    expected transitions and dwell times then speak for. If that falls back to 1, the measurements
    say everything; if it stays, they say nothing. The share that is missing is the slope of the one
    in the other, both as logarithms (Orchard and Woodbury's principle). ``counts`` and ``faster``
    are transitions and dwell times at the rates themselves and at those ``_FASTER`` times as fast.
    Nodes count as much as they move.
    """
    total = known = 0.0
    table = place = 0
    for own in rates:
        size = len(own)
        exits = -np.diag(own)
        answers = []
        for transitions, dwell in (counts, faster):
            moves = float(transitions[table : table + size * size].sum())
            expected = float(dwell[place : place + size] @ exits)
            answers.append((moves, expected))
        table, place = table + size * size, place + size
        (moves, expected), (faster_moves, faster_expected) = answers
        if min(moves, expected, faster_moves, faster_expected) <= 0.0:
            continue  # an input, or a node that cannot move
        slope = np.log(faster_moves / faster_expected) - np.log(moves / expected)
        share = 1.0 - float(slope) / float(np.log(_FASTER))
        total += moves
        known += moves * min(1.0, max(0.0, share))
    return known / total if total > 0.0 else 1.0


def _crude_rate(evidence: Evidence) -> float:
    """One transition between two measurements: a start with the right unit."""
    duration = float((evidence.end - evidence.start).sum())
    if not duration > 0.0:
        return 1.0
    n_nodes = max(1, evidence.n_nodes)
    per_node = len(evidence.points.time) / n_nodes + len(evidence.jumps.time) / n_nodes
    return max(1.0, per_node) / duration


def _near(start: FloatArray, likely: FloatArray) -> FloatArray:
    """The likeliest rates, where they have not run away from the start: the next fit begins there.

    Without a prior rates may fall towards zero, or grow without end.
    """
    return with_exits(np.clip(likely, start / _FARTHEST, start * _FARTHEST))


def _relaxation_rate(rates: tuple[FloatArray, ...]) -> float:
    """Median over nodes of the mean total rate (cf. ``CompiledNetwork``)."""
    totals = [-np.diag(r).mean() * len(r) / (len(r) - 1) for r in rates]
    positive = [t for t in totals if t > 0.0]
    return float(np.median(positive)) if positive else 0.0


def _fit_emissions(
    settings: StructureSettings, template: Template, observations: Observations, emission: Any
) -> Any:
    """Emissions with ``learn`` fitted on single nodes; the others as they are."""
    nodes = template.network.nodes
    measured = [n for n in nodes if n in observations.nodes and n not in template.network.exogenous]
    if isinstance(emission, Mapping):
        measured = [n for n in measured if n in emission]
    if not any(emission_for(emission, n).learn for n in measured):
        return emission
    em_settings = EmSettings("star", random_state=settings.random_state)
    return fit_parameters(template, observations, emission, em_settings).emission
