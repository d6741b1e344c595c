"""How strongly a parent moves a continuous child: posterior draws of one family's numbers.

Given λ, κ, the stimuli's strength, g and the shape of φ, weights and intercept have Student's t
distribution. A draw takes these five by their posterior on the grids and then the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from asterism.continuous import _family as compiled
from asterism.continuous.family_score import FamilyScorer
from asterism.continuous.series import FloatArray, IntArray

#: share of rising movement above which an effect raises, and below one minus which it lowers
_CLEAR = 0.8
#: values of λ with less of the posterior are not looked at closely
_WORTH_REFINING = 0.01
#: points of the parent, between its 10 % and 90 % quantiles, at which its effect is looked at
_POINTS = 9


@dataclass(frozen=True)
class FamilyDraws:
    """Posterior draws of a child's numbers, all in standardised units."""

    decay: FloatArray
    """(S,) λ."""
    noise: FloatArray
    """(S,) κ."""
    variance: FloatArray
    """(S,) σ²."""
    intercept: FloatArray
    """(S,) c."""
    weights: FloatArray
    """(S, P) of all columns of all parents; zero where φ was linear."""
    strength: FloatArray
    """(S, K) ρ of each stimulus."""


class _Point(NamedTuple):
    """The regression at one value of λ, κ, ρ, φ and g."""

    decay: float
    noise: float
    strength: FloatArray
    g: float
    use: list[int]
    """Columns of the parents that take part."""
    products: FloatArray
    """Between all parents' columns, the response and the intercept's, in this order."""
    log_evidence: float


def draw_family(
    scorer: FamilyScorer, child: int, family: Sequence[int], n_draws: int = 400, seed: int = 0
) -> FamilyDraws:
    """Draws of decay, noise, intercept and weights of one child with these parents."""
    rng = np.random.default_rng([seed, child, *family])
    parents = np.array(family, dtype=np.int64)
    points = _points(scorer, child, parents, scorer.grids.decay)
    points = _points(scorer, child, parents, _finer(points))
    counts = rng.multinomial(n_draws, _shares(points))
    nu = len(scorer.gaps[child].gap) - 1
    parts = [_drawn(rng, p, int(n), nu) for p, n in zip(points, counts) if n]
    return FamilyDraws(*(np.concatenate(part) for part in zip(*parts)))


def _drawn(rng: np.random.Generator, point: _Point, n: int, nu: int) -> tuple[FloatArray, ...]:
    """Draws at one point, in the order of :class:`FamilyDraws`."""
    response, one, use = len(point.products) - 2, len(point.products) - 1, point.use
    ones = point.products[one, one]
    centred = point.products - np.outer(point.products[one], point.products[one]) / ones
    shrink = point.g / (1.0 + point.g)
    inverse = np.linalg.pinv(centred[np.ix_(use, use)], hermitian=True)
    best = inverse @ centred[use, response]
    square = centred[response, response] - shrink * float(centred[use, response] @ best)
    variance = max(square, 1e-300) / rng.chisquare(nu, n)
    noise = rng.normal(size=(n, len(use))) @ _root(shrink * inverse).T
    own = shrink * best + np.sqrt(variance)[:, None] * noise
    centre = (point.products[response, one] - own @ point.products[use, one]) / ones
    intercept = centre + np.sqrt(variance / ones) * rng.normal(size=n)
    weights = np.zeros((n, response))
    weights[:, use] = own
    strength = np.tile(point.strength, (n, 1))
    same = np.ones(n)
    return point.decay * same, point.noise * same, variance, intercept, weights, strength


def _shares(points: Sequence[_Point]) -> FloatArray:
    logs = np.array([p.log_evidence for p in points])
    share = np.exp(logs - logs.max())
    result: FloatArray = share / share.sum()
    return result


def _finer(points: Sequence[_Point]) -> list[float]:
    """Four values of λ for each that counts: the grid of scores doubles, too coarse to report."""
    total: dict[float, float] = {}
    for point, share in zip(points, _shares(points)):
        total[point.decay] = total.get(point.decay, 0.0) + float(share)
    return [
        lam * 2.0**step
        for lam, share in sorted(total.items())
        if share > _WORTH_REFINING
        for step in (-0.375, -0.125, 0.125, 0.375)
    ]


def _points(
    scorer: FamilyScorer, child: int, parents: IntArray, decays: Sequence[float]
) -> list[_Point]:
    held, first, linear = scorer.columns_of(parents)
    grids, n = scorer.grids, len(held)
    rows = len(scorer.gaps[child].gap)
    kinds = [
        [int(p) for m in range(len(parents)) for p in range(first[m], first[m] + linear[m])],
        list(range(n)),
    ]
    if kinds[0] == kinds[1]:
        kinds.pop()
    factor, solved = np.empty((n, n)), np.empty(n)
    points = []
    rhos = scorer.rhos[np.isfinite(scorer.log_allowed(child))]
    for lam, kappa, rho in product(decays, grids.noise, rhos):
        table, log_det = _whitened(scorer, child, held, lam, kappa, rho)
        products = table[: n + 2] @ table[: n + 2].T
        ones = float(products[n + 1, n + 1])
        centred = products - np.outer(products[n + 1], products[n + 1]) / ones
        shared = -0.5 * (rows - 1) * np.log(centred[n, n]) - log_det - 0.5 * np.log(ones)
        for use in kinds:
            which = np.array(use, dtype=np.int64)
            arguments = (centred, centred[n], which, len(use), factor, solved, 0.0)
            part, rank = compiled.explained(*arguments)
            for g in grids.g:
                log = shared + compiled.log_family(rows, centred[n, n], part, rank, g, np.log1p(g))
                points.append(_Point(lam, kappa, rho, g, use, products, log))
    return points


def _root(matrix: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(matrix)
    result: FloatArray = vectors * np.sqrt(np.maximum(values, 0.0))
    return result


def _whitened(
    scorer: FamilyScorer, child: int, held: FloatArray, lam: float, kappa: float, rho: FloatArray
) -> tuple[FloatArray, float]:
    """Parents' columns, response and intercept with noise of variance one; the log determinant."""
    gaps, values = scorer.gaps[child], scorer.values[child]
    n, k = len(held), len(rho)
    table = np.empty((n + 2 + k, len(gaps.gap)))
    compiled.held_integrals(lam, scorer.series.grid_time, gaps.begin, gaps.end, held, table[:n])
    a = np.exp(-lam * gaps.gap)
    table[n], table[n + 1] = values[:, 1] - a * values[:, 0], (1.0 - a) / lam
    compiled.stimulus_integrals(
        lam, gaps.start, gaps.stop, gaps.trajectory, scorer.spans, table[n + 2 :]
    )
    log_det = compiled.whiten_gaps(lam, kappa, gaps.gap, gaps.is_first, table)
    for i in range(k):
        if rho[i] > 0.0:
            mark = table[n + 2 + i].copy()
            log_det += compiled.whiten_stimulus(rho[i], gaps.block, mark, table)
    return table, float(log_det)


@dataclass(frozen=True)
class EdgeEffect:
    """What a parent does to the resting level of its child, in standard deviations of the child.

    Per standard deviation of a continuous parent; between the extreme states of a jumping one.
    """

    shift: float
    lower: float
    upper: float
    """A 95 % interval."""
    effect: str
    """"raises", "lowers", "mixed" (both, depending on where the parent is) or "none"."""


def edge_effect(
    scorer: FamilyScorer, draws: FamilyDraws, family: Sequence[int], parent: int
) -> EdgeEffect:
    """The effect of one parent of a family whose numbers were drawn."""
    _, first, _ = scorer.columns_of(np.array(family, dtype=np.int64))
    place = list(family).index(parent)
    weights = draws.weights[:, first[place] : first[place + 1]] / draws.decay[:, None]
    node = scorer.series.nodes[parent]
    if node.is_continuous:
        held, own, _ = scorer.parents
        path = held[own[parent]]
        basis = np.stack([path, path * path])[: weights.shape[1]]
        centre = path - path.mean()
        size = float(centre @ centre)
        slopes = basis @ centre / size if size > 0.0 else np.zeros(len(basis))
        shift = weights @ slopes
        low, high = np.quantile(path, [0.1, 0.9])
        x = np.linspace(float(low), float(high), _POINTS)
        curve = weights @ np.stack([x, x * x])[: weights.shape[1]]
    else:
        curve = np.concatenate([np.zeros((len(weights), 1)), weights], axis=1)
        mean = curve.mean(axis=0)
        one, other = sorted((int(mean.argmin()), int(mean.argmax())))
        shift = curve[:, other] - curve[:, one]
    lower, middle, upper = np.quantile(shift, [0.025, 0.5, 0.975])
    return EdgeEffect(float(middle), float(lower), float(upper), _direction(curve))


def _direction(curve: FloatArray) -> str:
    """From draws of the effect at ascending values of the parent."""
    steps = np.diff(curve, axis=1)
    movement = np.abs(steps).sum(axis=1)
    rising = np.where(movement > 0.0, np.maximum(steps, 0.0).sum(axis=1), 0.0)
    share = np.divide(rising, movement, out=np.full(len(rising), 0.5), where=movement > 0.0)
    mean = float(share.mean())
    if mean >= _CLEAR:
        return "raises"
    if mean <= 1.0 - _CLEAR:
        return "lowers"
    # each draw goes one way, but not all the same: nothing can be said
    return "none" if float(np.abs(2.0 * share - 1.0).mean()) > 2.0 * _CLEAR - 1.0 else "mixed"


@dataclass(frozen=True)
class NodeSummary:
    """Numbers of a continuous node in the user's units, with 95 % intervals."""

    decay_time: tuple[float, float, float]
    """1/λ: the time in which a deviation falls to a third (1/e). Median, lower, upper."""
    resting_level: tuple[float, float, float]
    """With all parents at their mean and no stimulus."""
    noise_sd: float
    """Of a measurement."""


def node_summary(
    scorer: FamilyScorer, draws: FamilyDraws, child: int, family: Sequence[int]
) -> NodeSummary:
    """Decay time, resting level and measurement noise of a child."""
    node, unit = scorer.series.nodes[child], scorer.series.time_unit
    held, _, _ = scorer.columns_of(np.array(family, dtype=np.int64))
    level = draws.intercept + (draws.weights @ held.mean(axis=1) if len(held) else 0.0)
    level = level / draws.decay * node.sd + node.mean
    noise = np.sqrt(draws.noise * draws.variance) * node.sd
    return NodeSummary(
        _with_interval(unit / draws.decay), _with_interval(level), float(np.median(noise))
    )


def _with_interval(values: FloatArray) -> tuple[float, float, float]:
    lower, middle, upper = np.quantile(values, [0.025, 0.5, 0.975])
    return float(middle), float(lower), float(upper)


def likeliest_with(parents: IntArray, weights: FloatArray, parent: int) -> tuple[int, ...]:
    """The most probable family that holds a parent."""
    holds = np.flatnonzero((parents == parent).any(axis=1))
    row = parents[holds[np.argmax(weights[holds])]]
    return tuple(int(m) for m in row if m >= 0)
