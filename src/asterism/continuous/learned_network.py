"""The network that was learned: the graph shown, and the drifts of its nodes in user's units."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from asterism.continuous.effects import FamilyDraws
from asterism.continuous.learn import ContinuousFit
from asterism.continuous.series import FloatArray
from asterism.model.drift import Drift
from asterism.model.network import Network


def learned_network(
    fit: ContinuousFit, graph: Sequence[Sequence[int]], order: Sequence[str]
) -> Network:
    """Posterior medians of decay, resting level and what parents add to it.

    ``graph`` has the parents of every node by number, ``order`` the names as the user wrote them.
    Nodes of labels have no rates: their paths come with the data.
    """
    series = fit.scorer.series
    number = {name: n for n, name in enumerate(series.names)}
    parents: dict[str, list[str]] = {name: [] for name in order}
    drifts: dict[str, Drift] = {}
    rates: dict[str, None] = {}
    states: dict[str, list[object]] = {}
    for name in order:
        node = series.nodes[number[name]]
        if node.is_continuous:
            parents[name] = [series.names[m] for m in graph[number[name]]]
            drifts[name] = _drift(fit, number[name], tuple(graph[number[name]]))
        else:
            rates[name], states[name] = None, list(node.states or ())
    return Network(parents, rates, states, drifts=drifts)


def _drift(fit: ContinuousFit, child: int, family: tuple[int, ...]) -> Drift:
    scorer = fit.scorer
    series, node = scorer.series, scorer.series.nodes[child]
    unit, sd = series.time_unit, node.sd
    if child not in scorer.children:  # measured too rarely: it stays around its mean
        above = {series.names[m]: 0.0 for m in family}
        spread = float(sd / np.sqrt(unit))
        return Drift(
            *(1.0 / unit, spread, node.mean / unit, above), start_mean=node.mean, start_sd=sd
        )
    draws = _one_shape(fit.draws(child, family))
    decay = float(np.median(draws.decay))

    def middle(values: FloatArray) -> float:
        """Of what adds to the resting level, back to what adds to the drift."""
        return float(np.median(values / draws.decay)) * decay

    _, first, _ = scorer.columns_of(np.array(family, dtype=np.int64))
    level = middle(draws.intercept) + decay * node.mean / sd
    straight, curved, shifts = {}, {}, {}
    for place, m in enumerate(family):
        parent, name = series.nodes[m], series.names[m]
        weights = [middle(draws.weights[:, p]) for p in range(first[place], first[place + 1])]
        if not parent.is_continuous:
            shifts[name] = tuple(sd / unit * w for w in (0.0, *weights))
            continue
        slope, bend = (*weights, 0.0)[:2]
        level += -slope * parent.mean / parent.sd + bend * (parent.mean / parent.sd) ** 2
        straight[name] = (slope - 2.0 * bend * parent.mean / parent.sd) * sd / (parent.sd * unit)
        if bend:
            curved[name] = bend * sd / (parent.sd**2 * unit)
    return Drift(
        decay / unit,
        sd * float(np.sqrt(middle(draws.variance) / unit)),
        level * sd / unit,
        straight,
        curved,
        shifts,
        noise_sd=sd * float(np.sqrt(np.median(draws.noise * draws.variance))),
        start_mean=node.mean,
        start_sd=sd,
    )


def _one_shape(draws: FamilyDraws) -> FamilyDraws:
    """The draws of the likelier shape of φ: straight, or with a quadratic term."""
    weights = draws.weights
    if weights.shape[1] < 2:
        return draws
    bent = (weights == 0.0).sum(axis=1) == 0
    kept = bent if 2 * bent.sum() > len(bent) else ~bent
    return FamilyDraws(*(getattr(draws, name)[kept] for name in draws.__dataclass_fields__))
