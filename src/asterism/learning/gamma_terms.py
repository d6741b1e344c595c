"""Owns the part of a score that comes from integrating the rates out.

With independent Gamma(shape α, rate β) priors, a rate q that explains M transitions in time T
contributes ∫ Gamma(q; α, β) q^M e^(−qT) dq = β^α Γ(M+α) / (Γ(α) (T+β)^(M+α)). M and T may be
counts, or expectations under a posterior, which need not be whole numbers.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from asterism.errors import ModelError

FloatArray = NDArray[np.float64]


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
    from scipy.special import gammaln

    moves = np.asarray(transitions, dtype=np.float64)
    time = np.asarray(dwell, dtype=np.float64)
    if moves.ndim < 2 or moves.shape[-1] != moves.shape[-2] or moves.shape[:-1] != time.shape:
        raise ModelError(
            f"transitions of shape {moves.shape} do not belong to dwell times of shape "
            f"{time.shape}; expected (..., S, S) and (..., S)."
        )
    off = allowed_off_diagonal(moves.shape[-1], allowed)
    m = moves[..., off]
    t = np.broadcast_to(time[..., :, None], moves.shape)[..., off]
    constant = shape * math.log(rate) - math.lgamma(shape)
    return float(np.sum(constant + gammaln(m + shape) - (m + shape) * np.log(t + rate)))


def posterior_mean_rates(
    transitions: ArrayLike,
    dwell: ArrayLike,
    shape: float,
    rate: float,
    allowed: ArrayLike | None = None,
) -> FloatArray:
    """(..., S, S) rates (M+α)/(T+β), zero where a transition is not allowed and on the diagonal."""
    moves = np.asarray(transitions, dtype=np.float64)
    time = np.asarray(dwell, dtype=np.float64)
    off = allowed_off_diagonal(moves.shape[-1], allowed)
    rates: FloatArray = np.where(off, (moves + shape) / (time[..., :, None] + rate), 0.0)
    return rates


def allowed_off_diagonal(n_states: int, allowed: ArrayLike | None = None) -> NDArray[np.bool_]:
    """(S, S) which transitions may happen; never the diagonal."""
    off = ~np.eye(n_states, dtype=np.bool_)
    if allowed is not None:
        given = np.asarray(allowed, dtype=np.bool_)
        if given.shape != off.shape:
            raise ModelError(
                f"allowed transitions have shape {given.shape}, expected {off.shape} (from, to)."
            )
        off &= given
    return off
