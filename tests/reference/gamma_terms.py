"""Rates integrated out under their Gamma priors: the closed form that every kernel must give."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln


def log_gamma_terms(
    transitions: ArrayLike,
    dwell: ArrayLike,
    shape: float,
    rate: float,
    allowed: ArrayLike | None = None,
) -> float:
    """Σ [α ln β − ln Γ(α) + ln Γ(M+α) − (M+α) ln(T+β)] over the allowed transitions x ≠ y.

    ``transitions`` is (..., S, S), its diagonal ignored; ``dwell`` (..., S) the time in the state
    that is left; ``allowed`` (S, S), by default every pair of different states.
    """
    moves = np.asarray(transitions, dtype=np.float64)
    time = np.asarray(dwell, dtype=np.float64)
    assert moves.shape[-1] == moves.shape[-2]
    assert moves.shape[:-1] == time.shape
    off = ~np.eye(moves.shape[-1], dtype=np.bool_)
    if allowed is not None:
        off &= np.asarray(allowed)
    m = moves[..., off]
    t = np.broadcast_to(time[..., :, None], moves.shape)[..., off]
    constant = shape * math.log(rate) - math.lgamma(shape)
    return float(np.sum(constant + gammaln(m + shape) - (m + shape) * np.log(t + rate)))
