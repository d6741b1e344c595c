"""What compiled loops write of every trajectory; a rule adds columns of its own."""

from __future__ import annotations

CONVERGED, SWEEP_LIMIT, IMPOSSIBLE, GUARD, NOT_FINITE = 0, 1, 2, 3, 4
"""How an iteration ended; guard: above an upper limit of the evidence."""
EVIDENCE, RESIDUAL = 0, 1
"""The first columns of the totals: ln P(Y) or what the rule puts in its place; what the last sweep
changed."""
SWEEPS, STATUS = 0, 1
"""The first columns of the integers: how many sweeps were made, and a code from above."""
