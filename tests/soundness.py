"""What must hold for every posterior, whichever method found it."""

from __future__ import annotations

import numpy as np

from asterism.inference.posterior import Posterior
from asterism.timeline.evidence import Evidence


def assert_sound(posterior: Posterior, evidence: Evidence) -> None:
    """Probabilities, counts and times are possible ones, also past the last measurement."""
    assert np.isfinite(posterior.log_evidence)
    total = float((evidence.end - evidence.start).sum())
    for node, dwell in posterior.statistics.dwell_times.items():
        assert np.all(dwell >= 0)
        assert np.all(posterior.statistics.transitions[node] >= 0)
        np.testing.assert_allclose(dwell.sum(), total, rtol=1e-10)
    marginals = posterior.marginals(np.linspace(evidence.start.min(), evidence.end.max() + 1, 9))
    assert np.all(np.isfinite(marginals.values))
    assert np.all(marginals.values >= 0)
    np.testing.assert_allclose(marginals.sum("state").values, 1.0, atol=1e-10)


def assert_same_in_another_unit(one: Posterior, other: Posterior, unit: float, rtol: float) -> None:
    """``other`` has its times multiplied by the unit: the same jumps, dwell times × the unit."""
    assert set(one.statistics.transitions) == set(other.statistics.transitions)
    for node, moves in one.statistics.transitions.items():
        np.testing.assert_allclose(moves, other.statistics.transitions[node], rtol=rtol, atol=1e-9)
        np.testing.assert_allclose(
            one.statistics.dwell_times[node] * unit,
            other.statistics.dwell_times[node],
            rtol=rtol,
            atol=1e-9 * unit,
        )
