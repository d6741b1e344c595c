"""Geweke's joint test ("getting it right") of the sampler over graphs, rates, starts and paths.

Two ways to draw parameters and data jointly must agree: from the prior forwards, and by turns "data
given parameters and paths" and "one sweep given data". Whatever is wrong in a sweep pulls the
second away from the prior. Data of every kind: noisy points, joint measurements, windows of
continuous observation with their jumps, an exogenous node, interventions.

The counter-tests tell the sweeps something else than what the data are; the same moments must
notice.
"""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import digamma, gammaln, polygamma

import asterism as am
from asterism.sampling._along import (
    ALL_RATES,
    MOST_SPANS,
    N_KINDS,
    NO_FACTORS,
    OVER_TIME,
    UP_AND_DOWN,
    n_spans,
)
from asterism.sampling._factors import N_CELLS, FactorPrior
from asterism.sampling.diagnose import monte_carlo_error
from asterism.sampling.model_chains import ModelChain, run_model_chain, start_model_chain
from asterism.sampling.model_setup import (
    LearnedEmission,
    ModelSetup,
    PriorChoice,
    all_parents,
    candidates_of,
    model_setup,
)
from asterism.sampling.sampler_arrays import AllParents, Candidates
from asterism.sampling.sampler_setup import seen_of
from asterism.timeline.evidence import JointMeasurement, Jumps, Spans, no_spans
from tests.reference.random_evidence import make_evidence

pytestmark = pytest.mark.slow
REDUCED = bool(os.environ.get("ASTERISM_REDUCED"))
SIZES = [2, 3, 2]
INPUT = 2
TIMES = [0.3, 1.6, 2.9]
SWITCH, END = 1.7, 4.0
N_TRAJECTORIES = 2
#: per trajectory: (node, begin, end, state) of the interventions
HELD = [[(1, 1.0, 1.9, 2)], [(0, 0.0, 0.9, 1), (0, 0.9, 1.4, 0)]]
SHAPE, RATE = 2.0, 1.5
NOISE = 1.0
JOINT = np.log(np.array([[0.6, 0.3, 0.1], [0.1, 0.3, 0.6]]))
"""P(value 0 | states of nodes 0 and 1) up to a factor; value 1 is the complement."""
FAMILIES = [
    np.array([[-1, -1], [1, -1], [2, -1], [1, 2]]),
    np.array([[-1, -1], [0, -1], [2, -1], [0, 2]]),
    np.array([[-1, -1]]),
]
#: values that are drawn from where the shape is unknown; one of them is SHAPE
SHAPES = (0.8, 2.0)
LOG_PRIOR = [np.log([0.2, 0.5, 0.1, 0.2]), np.log([0.1, 0.5, 0.1, 0.3]), np.zeros(1)]
# the middle state of node 1 is left only upwards
ALLOWED = [
    ~np.eye(2, dtype=bool),
    np.array([[0, 1, 1], [0, 0, 1], [1, 1, 0]], dtype=bool),
    ~np.eye(2, dtype=bool),
]


def path_of(chain: ModelChain, d: int, n: int) -> tuple[int, np.ndarray, np.ndarray]:
    pair = n * N_TRAJECTORIES + d
    first, count = int(chain.paths.slot[pair]), int(chain.paths.n_jumps[pair])
    own = slice(first, first + count)
    return int(chain.paths.initial[pair]), chain.paths.time[own], chain.paths.state[own]


def state_at(path: tuple[int, np.ndarray, np.ndarray], time: float) -> int:
    i = int(np.searchsorted(path[1], time, side="right"))
    return path[0] if i == 0 else int(path[2][i - 1])


def path_moments(
    paths: list[tuple[int, np.ndarray, np.ndarray]], effect: list[float]
) -> list[float]:
    """Jumps of both nodes, how they go together, and how they follow the rates.

    ``effect[n]``: by how much the log rate 0 → 1 of node n rises with the other node's state, or 0
    if that is not its only parent.
    """
    a, b = paths
    cuts = np.concatenate([[0.0], np.sort(np.concatenate([a[1], b[1]])), [END]])
    length = np.diff(cuts)
    at_a = np.array([state_at(a, t) for t in cuts[:-1]])
    at_b = np.array([state_at(b, t) for t in cuts[:-1]])
    rises = [state_at(a, t) for t, y in zip(b[1], b[2]) if y == 2]
    turns = [state_at(b, t) for t, y in zip(a[1], a[2]) if y == 1]
    return [
        len(a[1]),
        len(b[1]),
        len(a[1]) ** 2,
        len(b[1]) ** 2,
        float(length[at_a == 1].sum()),
        float(length[at_b == 2].sum()),
        float(length[(at_a == 1) & (at_b == 2)].sum()),
        sum(rises),
        sum(x == 2 for x in turns),
        effect[0] * float(length[(at_b == 2) & (at_a == 0)].sum()),
        effect[0] * float(length[(at_b == 0) & (at_a == 0)].sum()),
        effect[0] * (sum(x == 2 for x in turns) - sum(x == 0 for x in turns)),
        effect[1] * float(length[(at_a == 1) & (at_b == 0)].sum()),
        effect[1] * float(length[(at_a == 0) & (at_b == 0)].sum()),
        effect[1] * sum(2 * state_at(a, t) - 1 for t in _climbs(b)),
    ]


def _climbs(path: tuple[int, np.ndarray, np.ndarray]) -> list[float]:
    """When a path goes from 0 to 1."""
    before = [path[0], *path[2][:-1]]
    return [t for t, x, y in zip(path[1], before, path[2]) if x == 0 and y == 1]


#: weights and shapes of factors on rates, where nodes have any
FACTORS = FactorPrior(
    np.array([1.5, 6.0]),
    gammaln(np.array([[1.5], [6.0]]) + np.arange(9)) - gammaln(np.array([[1.5], [6.0]])),
    np.array([1.0, 0.4, 0.8, 0.2, 0.3, 0.2]),
)


def draw_groups(rng: np.random.Generator) -> list[tuple[int, np.ndarray]]:
    """Kind and factors [trajectory, part of the time, side] of both nodes, from the prior."""
    found: list[tuple[int, np.ndarray]] = []
    for n in (0, 1):
        weights = FACTORS.weight.copy()
        if n == 1 and found[0][0] == NO_FACTORS:
            weights[NO_FACTORS] += 1.0
        elif n == 1 and rng.random() < 1.0 / (1.0 + weights.sum()):
            found.append(found[0])
            continue
        kind = int(rng.choice(N_KINDS, p=weights / weights.sum()))
        a = rng.choice(FACTORS.shape)
        each = rng.gamma(a, size=(N_TRAJECTORIES, N_CELLS, 2)) / a
        if kind in (ALL_RATES, UP_AND_DOWN):
            each[:] = each[:, :1]
        if kind == ALL_RATES:
            each[:] = each[:, :, :1]
        if kind >= OVER_TIME:
            each[:] = np.repeat(each[:1, :: N_CELLS // (kind - 1)], N_CELLS // (kind - 1), axis=1)
        found.append((kind, each if kind != NO_FACTORS else np.ones_like(each)))
    return found


def factor_moments(groups: list[tuple[int, np.ndarray]]) -> list[float]:
    """Kinds, whether factors are shared, and logarithms of factors."""
    (a, first), (b, second) = groups
    shared = a != NO_FACTORS and a == b and first[0, 0, 0] == second[0, 0, 0]
    logs = [np.log(own[d, s, side]) for own in (first, second) for d, s, side in
            ((0, 0, 0), (1, 7, 1))]  # fmt: skip
    kinds = [*(a == np.arange(N_KINDS)), *(b == np.arange(N_KINDS)), shared]
    return [*kinds, *logs, *np.square(logs), logs[0] * logs[1], logs[0] * logs[2]]


def forward_moments(
    n_draws: int, seed: int, shapes: bool = False, factors: bool = False
) -> np.ndarray:
    """Path moments of prior draws, simulated jump by jump."""
    rng = np.random.default_rng(seed)
    result = []
    for _ in range(n_draws):
        shape = rng.choice(SHAPES) if shapes else SHAPE
        families = [FAMILIES[n][rng.choice(4, p=np.exp(LOG_PRIOR[n]))] for n in (0, 1)]
        rate = shape * RATE / SHAPE  # the prior mean stays
        rates = [rng.gamma(shape, size=(3, 2, 3, 3)) / rate for _ in (0, 1)]
        start = [rng.dirichlet(np.ones(SIZES[n])) for n in (0, 1)]
        effect = [
            float(np.log(rates[n][2 - n, 0, 0, 1] / rates[n][0, 0, 0, 1]))
            if list(families[n]) == [1 - n, -1]
            else 0.0
            for n in (0, 1)
        ]
        sums = np.zeros(15)
        plain = np.ones((N_TRAJECTORIES, N_CELLS, 2))
        groups = draw_groups(rng) if factors else [(NO_FACTORS, plain)] * 2
        for d in range(N_TRAJECTORIES):
            x = [int(rng.choice(SIZES[n], p=start[n])) for n in (0, 1)]
            for n, begin, _, state in HELD[d]:
                x[n] = state if begin == 0.0 else x[n]
            paths = [(x[0], [], []), (x[1], [], [])]
            time = 0.0
            breaks = [SWITCH, *(t for _, a, b, _ in HELD[d] for t in (a, b))]
            breaks += [END * part / N_CELLS for part in range(1, N_CELLS)]
            while time < END:
                given = (d + (time >= SWITCH)) % 2
                each = []
                for n in (0, 1):
                    if any(m == n and a <= time < b for m, a, b, _ in HELD[d]):
                        each.append(np.zeros(SIZES[n]))
                        continue
                    other = x[1 - n] if 1 - n in families[n] else 0
                    block = rates[n][other, given if INPUT in families[n] else 0]
                    part, side = int(time / END * N_CELLS), int(2 * x[n] >= SIZES[n])
                    factor = groups[n][1][d, part, side]
                    each.append(factor * block[x[n], : SIZES[n]] * ALLOWED[n][x[n]])
                total = sum(e.sum() for e in each)
                wait = rng.exponential(1.0 / total)
                until = min([t for t in breaks if t > time], default=np.inf)
                if until <= time + wait:
                    time = until
                    for n, begin, _, state in HELD[d]:
                        if begin == time and x[n] != state:
                            x[n] = state
                            paths[n][1].append(time)
                            paths[n][2].append(state)
                    continue
                time += wait
                if time >= END:
                    break
                p = np.concatenate(each) / total
                k = int(rng.choice(len(p), p=p))
                n, y = (0, k) if k < SIZES[0] else (1, k - SIZES[0])
                x[n] = y
                paths[n][1].append(time)
                paths[n][2].append(y)
            sums += path_moments([(p[0], np.array(p[1]), np.array(p[2])) for p in paths], effect)
        result.append([*sums, *(factor_moments(groups) if factors else ())])
    return np.array(result)


#: emissions of node 0 whose parameters are learned: how they begin, and a proper prior
LEARNED = {
    "gaussian": (am.Gaussian((-1.0, 1.0), 1.0), (0.0, 0.5, 3.0, 3.0)),
    "poisson": (am.Poisson((1.0, 3.0)), (0.0, 0.0, 3.0, 1.5)),
    "categorical": (am.Categorical([[0.7, 0.3], [0.2, 0.8]]), (0.0, 0.0, 0.0, 0.0)),
}
LEVELS = [np.array([-1.0, 1.0]), np.array([-2.0, 0.0, 2.0])]


def measured(rng, n, state, parameter, learned):
    """A value of node n in a state, and its log-likelihoods; ``parameter`` of node 0 if learned."""
    means, scale = LEVELS[n], NOISE
    if learned and n == 0:
        if learned == "poisson":
            value = float(rng.poisson(parameter[state]))
            return value, value * np.log(parameter) - parameter
        if learned == "categorical":
            table = parameter.reshape(2, 2)
            label = int(rng.random() < table[state, 1])
            return float(label), np.log(table[:, label])
        means, scale = parameter[:2], float(parameter[2])
    value = means[state] + scale * rng.normal()
    return value, -0.5 * ((value - means) / scale) ** 2


def draw_evidence(rng, chain, learned):
    """New data given the present paths; without a chain, data that say nothing."""
    points, joint, jumps, spans, values, by_hand = [], [], [], [], [], []
    for d in range(N_TRAJECTORIES):
        spans += [(d, INPUT, 0.0, SWITCH, d % 2), (d, INPUT, SWITCH, END, (d + 1) % 2)]
        watched = int(rng.integers(2))
        by_hand += [(d, *row) for row in HELD[d]]
        free_from = max([end for n, _, end, _ in HELD[d] if n == watched], default=0.0)
        a, b = np.sort(rng.uniform(free_from, END, size=2))
        for n in (0, 1):
            path = None if chain is None else path_of(chain, d, n)
            for t in TIMES:
                logs = np.zeros(SIZES[n])
                value = 0.0
                held = any(m == n and a_ <= t <= b_ for m, a_, b_, _ in HELD[d])
                if path is not None and not held:
                    parameter = chain.emitted.parameter
                    value, logs = measured(rng, n, state_at(path, t), parameter, learned)
                points.append((d, n, t, logs))
                values.append((d, n, t, value))
            if path is not None and n == watched:
                inside = [(t, int(y)) for t, y in zip(path[1], path[2]) if a < t < b]
                x, begin = state_at(path, a), a
                for t, y in inside:
                    spans.append((d, n, begin, t, x))
                    # every second jump: the state before it is not recorded
                    jumps.append((d, n, t, y, x if len(jumps) % 2 else -1))
                    x, begin = y, t
                spans.append((d, n, begin, b, x))
        if chain is not None:
            t = float(rng.uniform(0.0, END))
            x = [state_at(path_of(chain, d, n), t) for n in (0, 1)]
            p = np.exp(JOINT)
            table = p if rng.random() < p[x[0], x[1]] else 1.0 - p
            joint.append(JointMeasurement(d, t, (0, 1), np.log(table)))
    evidence = make_evidence(
        SIZES, [0.0] * N_TRAJECTORIES, [END] * N_TRAJECTORIES, points, jumps, spans, joint,
        (INPUT,),
    )  # fmt: skip
    kinds = (np.int64, np.int64, float, float, np.int64)
    columns = [np.array([r[k] for r in by_hand], dtype=kind) for k, kind in enumerate(kinds)]
    evidence = replace(evidence, interventions=Spans(*columns))
    # as the sampler sorts them: by node, trajectory, time
    order = sorted(values, key=lambda v: (v[1], v[0], v[2]))
    return evidence, np.array([v[3] for v in order])


#: the only candidates where families beyond them are drawn too, as rows of FAMILIES
FEW = [[0, 2], [0, 1], [0]]
#: how often each parent is compared, so that the correction for it matters
CHANCE = np.array([[1.0, 0.3, 0.6], [0.4, 1.0, 0.8], [1.0, 1.0, 1.0]])


def setup_of(evidence, emissions=(), beyond: bool = False, shapes: bool = False) -> ModelSetup:
    initial = np.concatenate([np.full(s, 1.0 / s) for s in SIZES])
    rows = FEW if beyond else [list(range(len(own))) for own in FAMILIES]
    candidates = candidates_of(
        SIZES,
        [own[r] for own, r in zip(FAMILIES, rows)],
        [own[r] for own, r in zip(LOG_PRIOR, rows)],
    )
    return model_setup(
        evidence,
        SIZES,
        candidates,
        PriorChoice(
            *(SHAPE, RATE, ALLOWED, True, initial),
            SHAPES if shapes else (),
        ),
        ("a", "b", "c"),
        emissions,
        _beyond(candidates) if beyond else None,
    )


def _beyond(candidates: Candidates) -> AllParents:
    """The same prior as a sum over parents and a term for their number."""
    may_be = np.array([[0, 1, 1], [1, 0, 1], [0, 0, 0]], dtype=bool)
    log_odds, by_number = np.zeros((3, 3)), np.zeros((3, 3))
    for n, first in ((0, 1), (1, 0)):
        none, one, other, both = LOG_PRIOR[n]
        log_odds[n, [first, INPUT]] = one - none, other - none
        by_number[n] = none, none, both - (one - none) - (other - none)
    most, required = np.array([2, 2, 0]), np.zeros((3, 3), dtype=bool)
    found = all_parents(candidates, most, may_be, required, log_odds, by_number)
    return found._replace(chance=CHANCE)


def family_of(chain: ModelChain, n: int) -> int:
    """The present family as a row of FAMILIES."""
    own = chain.families.parents[n, : chain.families.n_parents[n]].tolist()
    return [row[row >= 0].tolist() for row in FAMILIES[n]].index(own)


def _told_otherwise(evidence, values, broken: str | None, learned: str | None):
    """What the sweeps are told instead of the data."""
    points, spans, jumps = evidence.points, evidence.spans, evidence.jumps
    if broken == "joint":
        joint = tuple(replace(m, log_likelihood=JOINT) for m in evidence.joint)
        return replace(evidence, joint=joint), values
    if broken == "spans":
        # known for longer than was watched
        last = np.append(np.diff(spans.node + 3 * spans.trajectory) != 0, True)
        longer = np.where(last & (spans.node != INPUT), spans.end + 0.5, spans.end)
        return replace(evidence, spans=replace(spans, end=np.minimum(longer, END))), values
    if broken == "interventions":
        # seen to be there, as if by its own rates
        by_hand = evidence.interventions
        names = ("trajectory", "node", "start", "end", "state")
        both = [np.append(getattr(spans, name), getattr(by_hand, name)) for name in names]
        in_order = np.lexsort((both[2], both[1], both[0]))
        seen = Spans(*(column[in_order] for column in both))
        jump = np.lexsort((np.append(jumps.time, 0.9), np.append(jumps.node, 0),
                           np.append(jumps.trajectory, 1)))  # fmt: skip
        columns = (
            np.append(jumps.trajectory, 1), np.append(jumps.node, 0), np.append(jumps.time, 0.9),
            np.append(jumps.to_state, 0), np.append(jumps.from_state, -1),
        )  # fmt: skip
        assert len(by_hand.node) == 3
        jumps = Jumps(*(c[jump] for c in columns))
        return replace(evidence, interventions=no_spans(), spans=seen, jumps=jumps), values
    if broken == "points":
        # everything measured half a unit too high
        logs = points.log_likelihood.copy()
        for row in range(len(points.node)):
            own = slice(points.offset[row], points.offset[row] + SIZES[points.node[row]])
            logs[own] += 0.5 * np.arange(len(logs[own])) * (np.ptp(logs[own]) > 0.0)
        told = values + 0.5
        if learned == "poisson":
            told = values + 1.0
        elif learned == "categorical":
            # half of the labels 0 are taken for 1
            told = np.where(np.arange(len(values)) % 2 == 0, 1.0, values)
        return replace(evidence, points=replace(points, log_likelihood=logs)), told
    return evidence, values


def successive_draws(
    n_sweeps: int,
    learned: str | None,
    seed: int,
    broken: str | None = None,
    beyond: bool = False,
    shapes: bool = False,
    factors: bool = False,
) -> np.ndarray:
    """By turns new data and one sweep; series of everything unknown."""
    rng = np.random.default_rng(seed)
    evidence, _ = draw_evidence(rng, None, learned)
    emissions = []
    if learned:
        points = evidence.points
        held = (points.trajectory == 1) & (points.time <= HELD[1][-1][2])
        rows = np.flatnonzero((points.node == 0) & ~held)
        emission = LEARNED[learned][0]
        emissions = [LearnedEmission(0, emission, np.zeros(len(rows)), points.offset[rows])]
    setup = setup_of(evidence, emissions, beyond, shapes)
    if factors:
        setup = replace(setup, factors=FACTORS)
    if learned:
        # a proper prior that does not look at the data
        setup.emitted.prior[0] = LEARNED[learned][1]
    chain = start_model_chain(setup, seed, 0, setup.candidates.start[:-1].copy())
    kept = []
    for _ in range(n_sweeps):
        evidence, values = draw_evidence(rng, chain, learned)
        evidence, values = _told_otherwise(evidence, values, broken, learned)
        chain.seen = seen_of(evidence, np.array(SIZES))
        if learned:
            chain.emitted.value[: len(values)] = values
        drawn = run_model_chain(setup, chain, 1, 1, True)
        a, b = family_of(chain, 0), family_of(chain, 1)
        rate = drawn.rates[0]
        # the first configuration exists in every family
        first, second = setup.layout.table_start[:2]
        effect = [
            float(np.log(rate[first + 8 + 1] / rate[first + 1])) if a == 1 else 0.0,
            float(np.log(rate[second + 9 + 1] / rate[second + 1])) if b == 1 else 0.0,
        ]
        kept.append(
            [
                *(np.log(rate[first + np.array([1, 2])])),
                *(np.log(rate[second + np.array([1, 2, 5, 6, 7])])),
                *(a == np.arange(4)),
                *(b == np.arange(4)),
                *sum(
                    np.array(path_moments([path_of(chain, d, n) for n in (0, 1)], effect))
                    for d in range(N_TRAJECTORIES)
                ),
                *drawn.initial[0][:4],
                *drawn.initial[0][:4] ** 2,
                *drawn.emission[0],
                *drawn.emission[0] ** 2,
                *(drawn.edges[0] if beyond else ()),
                *(_shape_moments(chain, rate[first + 1]) if shapes else ()),
                *(factor_moments(_present_groups(chain)) if factors else ()),
            ]
        )
    return np.array(kept, dtype=float)


def _present_groups(chain: ModelChain) -> list[tuple[int, np.ndarray]]:
    factor = chain.rates.factor.reshape(3, N_TRAJECTORIES, MOST_SPANS, 2)
    found = []
    for n, kind in enumerate(chain.rates.kind[:2].tolist()):
        spans = int(n_spans.py_func(kind))
        each = np.repeat(factor[n, :, :spans], N_CELLS // spans, axis=1)
        found.append((kind, each if kind else np.ones_like(each)))
    return found


def _shape_moments(chain: ModelChain, rate: float) -> list[float]:
    """The shape, and how rates go with it."""
    is_small = float(chain.prior.shape[0] == SHAPES[0])
    return [is_small, is_small * np.log(rate), is_small * np.log(rate) ** 2]


def _shape_expectations() -> list[float]:
    mean = float(digamma(SHAPES[0]) - np.log(SHAPES[0] * RATE / SHAPE))
    return [0.5, 0.5 * mean, 0.5 * (float(polygamma(1, SHAPES[0])) + mean**2)]


def _emission_prior(learned: str, size: int = 1_000_000) -> np.ndarray:
    """(draws, parameters) of the learned emission, from its prior given the order of states."""
    rng = np.random.default_rng(0)
    if learned == "poisson":
        return np.sort(rng.gamma(3.0, size=(size, 2)) / 1.5, axis=1)
    if learned == "categorical":
        both = rng.random(size=(size, 2))
        # each state is the likeliest source of its own label
        both = both[both.sum(axis=1) >= 1.0]
        return np.stack([both[:, 0], 1 - both[:, 0], 1 - both[:, 1], both[:, 1]], axis=1)
    sigma = np.sqrt(3.0 / rng.gamma(3.0, size=size))
    means = np.sort(sigma[:, None] * rng.normal(size=(size, 2)) / np.sqrt(0.5), axis=1)
    return np.stack([means[:, 0], means[:, 1], sigma, sigma], axis=1)


def z_values(
    learned: str | None,
    n_sweeps: int,
    n_forward: int,
    seed: int,
    broken: str | None = None,
    beyond: bool = False,
    shapes: bool = False,
    factors: bool = False,
) -> np.ndarray:
    """How far the series are from the prior, in Monte Carlo errors of the difference."""
    found = successive_draws(n_sweeps, learned, seed, broken, beyond, shapes, factors)[100:]
    each = np.array(SHAPES if shapes else [SHAPE])
    log_rate = float(np.mean(digamma(each) - np.log(each * RATE / SHAPE)))
    forward = forward_moments(n_forward, seed, shapes, factors)
    forward, of_factors = forward[:, :15], forward[:, 15:]
    either = [np.exp(LOG_PRIOR[n]) for n in (0, 1)]
    expected = [log_rate] * 7 + [*either[0], *either[1]]
    error = [0.0] * 15 + [*(forward.std(axis=0) / np.sqrt(n_forward)), *([0.0] * 8)]
    expected += [*forward.mean(axis=0)]
    expected += [1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3, 1 / 3, 1 / 6, 1 / 6]
    if learned:
        prior = _emission_prior(learned)
        expected += [*prior.mean(axis=0), *(prior**2).mean(axis=0)]
        error = np.append(error, np.zeros(2 * prior.shape[1]))
    if beyond:  # P(edge | paths) has the prior probability of the edge as its mean
        expected += [p[k] + p[3] for p in either for k in (1, 2)]
        error = np.append(error, np.zeros(4))
    if shapes:
        expected += _shape_expectations()
        error = np.append(error, np.zeros(3))
    if factors:
        expected += [*of_factors.mean(axis=0)]
        error = np.append(error, of_factors.std(axis=0) / np.sqrt(n_forward))
    own = monte_carlo_error(found[None])
    total = np.hypot(own, np.array(error)[: len(own)])
    result: np.ndarray = (found.mean(axis=0) - np.array(expected)) / np.maximum(total, 1e-9)
    return result


@pytest.mark.parametrize(
    "learned",
    [
        None,
        "gaussian",
        *(pytest.param(k, marks=pytest.mark.slow) for k in ("poisson", "categorical")),
    ],
)
def test_sweeps_leave_the_prior_as_it_is(learned: str | None) -> None:
    z = z_values(learned, n_sweeps=2500, n_forward=1500, seed=5)
    assert np.abs(z).max() < 4.0, np.round(z, 1)


def test_sweeps_over_all_parents_leave_the_prior_as_it_is() -> None:
    z = z_values(None, n_sweeps=4000, n_forward=1500, seed=6, beyond=True)
    assert np.abs(z).max() < 4.0, np.round(z, 1)


@pytest.mark.parametrize("beyond", [False, True])
def test_an_unknown_shape_leaves_the_prior_as_it_is(beyond: bool) -> None:
    z = z_values(None, n_sweeps=4000, n_forward=1500, seed=7, beyond=beyond, shapes=True)
    assert np.abs(z).max() < 4.0, np.round(z, 1)


def test_factors_on_rates_leave_the_prior_as_it_is() -> None:
    z = z_values(None, n_sweeps=4000, n_forward=3000, seed=8, factors=True)
    assert np.abs(z).max() < 4.0, np.round(z, 1)


@pytest.mark.slow
@pytest.mark.parametrize("beyond", [False, True])
@pytest.mark.parametrize("seed", range(1 if REDUCED else 4))
def test_long_runs_with_factors_on_rates(seed: int, beyond: bool) -> None:
    size = 8_000 if REDUCED else 40_000
    z = z_values(
        "gaussian", n_sweeps=size, n_forward=size // 2, seed=400 + seed, beyond=beyond,
        shapes=True, factors=True,
    )  # fmt: skip
    assert np.abs(z).max() < 4.0, np.round(z, 1)


@pytest.mark.slow
@pytest.mark.parametrize("beyond", [False, True])
@pytest.mark.parametrize("seed", range(1 if REDUCED else 4))
def test_long_runs_with_an_unknown_shape(seed: int, beyond: bool) -> None:
    size = 6_000 if REDUCED else 40_000
    z = z_values(
        "gaussian", n_sweeps=size, n_forward=size // 2, seed=300 + seed, beyond=beyond,
        shapes=True,
    )  # fmt: skip
    assert np.abs(z).max() < 4.0, np.round(z, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1 if REDUCED else 4))
def test_long_runs_over_all_parents_leave_the_prior_as_it_is(seed: int) -> None:
    size = 8_000 if REDUCED else 40_000
    z = z_values("gaussian", n_sweeps=size, n_forward=size // 2, seed=200 + seed, beyond=True)
    assert np.abs(z).max() < 4.0, np.round(z, 1)


@pytest.mark.slow
@pytest.mark.parametrize("learned", [None, *LEARNED])
@pytest.mark.parametrize("seed", range(1 if REDUCED else 4))
def test_long_runs_leave_the_prior_as_it_is(learned: str | None, seed: int) -> None:
    size = 5_000 if REDUCED else 30_000
    z = z_values(learned, n_sweeps=size, n_forward=size // 2, seed=100 + seed)
    assert np.abs(z).max() < 4.0, np.round(z, 1)


BROKEN = ("points", "joint", "spans", "interventions")


@pytest.mark.parametrize(
    ("broken", "learned"),
    [
        ("interventions", None),
        *(
            pytest.param(what, learned, marks=pytest.mark.slow)
            for what in BROKEN
            for learned in (None, "gaussian")
            if (what, learned) != ("interventions", None)
        ),
        pytest.param("points", "poisson", marks=pytest.mark.slow),
        pytest.param("points", "categorical", marks=pytest.mark.slow),
    ],
)
def test_a_mistake_is_noticed(broken: str, learned: str | None) -> None:
    size = 8000 if broken == "joint" else 2500  # the smallest mistake of all
    z = z_values(learned, n_sweeps=size, n_forward=1500, seed=5, broken=broken)
    assert np.abs(z).max() > 4.0, np.round(z, 1)
