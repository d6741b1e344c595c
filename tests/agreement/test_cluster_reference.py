"""The compiled loops of the clusters against the plain ones, sweep by sweep and step by step."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import asterism as am
from asterism.timeline.evidence import Evidence, Jumps, Spans
from tests.cluster_cases import assert_same_evidence, started
from tests.reference.random_evidence import make_evidence
from tests.reference.spin_cases import random_points

#: {A, B, C} and {B, C, D} share two nodes; {D, E} hangs on
PARENTS = {"A": [], "B": ["A"], "C": ["A", "B"], "D": ["B", "C"], "E": ["D"]}


def network(sizes: list[int]) -> am.Network:
    rng = np.random.default_rng(sum(sizes))
    of = dict(zip(PARENTS, sizes))
    rates = {}
    for n, above in PARENTS.items():
        shape = (*(of[p] for p in above), of[n], of[n])
        rates[n] = np.exp(rng.uniform(-1.2, 1.2, size=shape)) * (1 - np.eye(of[n]))
    initial = {n: rng.dirichlet(np.full(of[n], 2.0)) for n in PARENTS}
    return am.Network(PARENTS, rates, {n: list(range(of[n])) for n in PARENTS}, initial)


def table(rows: list[tuple[int, float, float, int]]) -> Spans:
    node, start, end, state = (np.array(column) for column in zip(*rows))
    zeros = np.zeros(len(rows), dtype=np.int64)
    return Spans(zeros, node.astype(np.int64), start, end, state.astype(np.int64))


def everything(sizes: list[int]) -> Evidence:
    """Measurements of all nodes, a jump of B, a span of C, D held by the experimenter."""
    rng = np.random.default_rng(3)
    evidence = make_evidence(sizes, [0.0], [2.0], random_points(rng, sizes, 2.0, 2))
    one = np.array([1], dtype=np.int64)
    jumps = Jumps(0 * one, one, np.array([1.2]), 0 * one, -one)
    by_hand = table([(3, 0.8, 1.5, 1)])
    return replace(evidence, jumps=jumps, spans=table([(2, 0.3, 0.9, 1)]), interventions=by_hand)


@pytest.mark.parametrize("sizes", [[2, 2, 2, 2, 2], [2, 2, 3, 2, 2]], ids=["twos", "a three"])
@pytest.mark.parametrize("n_sweeps", [1, 4])
def test_kernels_agree_with_the_plain_loops(sizes: list[int], n_sweeps: int) -> None:
    net, evidence = network(sizes), everything(sizes)
    batch = started(net, evidence, 0.6)
    assert len(batch.model.regions.separators) == 2
    statistics, slow = assert_same_evidence(net, batch, n_sweeps)
    for n, name in enumerate(net.nodes):
        time, moves = slow.statistics(n)
        np.testing.assert_allclose(statistics.dwell_times[name], time, atol=3e-6)
        if name != "B":  # of which a jump was recorded, and is counted
            np.testing.assert_allclose(statistics.transitions[name], moves, atol=3e-6)
        else:
            more = statistics.transitions[name] - moves
            assert more.sum() == pytest.approx(1.0, abs=3e-6)
            assert more[..., 0].sum() == pytest.approx(1.0, abs=3e-6)
