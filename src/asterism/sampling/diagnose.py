"""Owns how far draws may be off: split rank-normalised R̂, effective sizes, Monte Carlo errors.

The figures are those of arviz-stats. It takes a fraction of a millisecond for each quantity, so
with many quantities a plain estimate first finds the worst ones, and the library judges those.
Where chains have not met, :func:`of_a_further_chain` takes luck out of many probabilities at once.
"""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

#: of many quantities, so many of the worst are given to the library
N_JUDGED = 40
_N_BATCHES = 10


class Diagnosis(NamedTuple):
    """The worst of all quantities that are watched."""

    error: float
    """Largest Monte Carlo standard error of a mean."""
    r_hat: float
    """Largest R̂."""
    effective: float
    """Smallest effective number of draws."""

    @property
    def r_hat_words(self) -> str:
        """R̂ for messages: chains that stay in different places give any large number."""
        return f"{self.r_hat:.3f}" if self.r_hat <= 100.0 else "above 100"


def diagnose(draws: NDArray[Any]) -> Diagnosis:
    """``draws`` (chains, draws, quantities); those that never change have no error to judge."""
    n_quantities = draws.shape[2]
    if n_quantities == 0 or draws.shape[1] < 4:
        return Diagnosis(0.0 if n_quantities == 0 else np.inf, np.inf, 0.0)
    error, r_hat = _quick(draws)
    moving = np.flatnonzero(error > 0.0)
    if len(moving) == 0:
        return Diagnosis(0.0, 1.0, float(draws.shape[0] * draws.shape[1]))
    worst = np.union1d(
        moving[np.argsort(error[moving])[-N_JUDGED:]], moving[np.argsort(r_hat[moving])[-N_JUDGED:]]
    )
    chosen = draws[:, :, worst].astype(np.float64)
    return Diagnosis(
        float(np.max(monte_carlo_error(chosen))),
        float(np.max(potential_scale_reduction(chosen))),
        float(np.min(effective_size(chosen))),
    )


def monte_carlo_error(draws: NDArray[Any]) -> FloatArray:
    """(quantities,) standard error of the mean over (chains, draws, quantities); 0 if constant."""
    return _by_library("mcse", draws, 0.0, method="mean")


def potential_scale_reduction(draws: NDArray[Any]) -> FloatArray:
    """(quantities,) rank-normalised split R̂; 1 where nothing changes."""
    return _by_library("rhat", draws, 1.0)


def effective_size(draws: NDArray[Any]) -> FloatArray:
    """(quantities,) effective number of draws for the mean."""
    return _by_library("ess", draws, float(draws.shape[0] * draws.shape[1]), method="mean")


@cache
def _array_stats() -> Any:
    """arviz's functions of arrays; what it loads changes the filters of warnings."""
    with warnings.catch_warnings():
        from arviz_stats.base import array_stats  # type: ignore[attr-defined]
    return array_stats


def _by_library(name: str, draws: NDArray[Any], constant: float, **options: Any) -> FloatArray:
    result = np.full(draws.shape[2], constant)
    moving = np.flatnonzero(draws.max(axis=(0, 1)) > draws.min(axis=(0, 1)))
    if len(moving):
        values = np.ascontiguousarray(draws[:, :, moving], dtype=np.float64)
        with np.errstate(all="ignore"):
            found = getattr(_array_stats(), name)(values, chain_axis=0, draw_axis=1, **options)
        found = np.asarray(found, dtype=np.float64)
        # one chain stuck in each of several values: as bad as can be
        result[moving] = np.where(np.isfinite(found), found, 0.0 if name == "ess" else np.inf)
    return result


def of_a_further_chain(means: FloatArray) -> FloatArray:
    """(quantities,) probabilities that a further chain would have on average, from (K, quantities).

    Of many small probabilities, those that are largest in a few chains are so by luck, and some
    that no chain has seen are not zero. By how much, the chains themselves tell: each is compared
    with the mean of the others, by isotonic regression over all quantities. The variance of a mean
    of K − 1 chains is K/(K − 1) times that of all, so (K − 1)/K of the correction is due. The order
    of the quantities stays, and where the chains agree nothing changes.
    """
    from sklearn.isotonic import IsotonicRegression

    n_chains = len(means)
    mean: FloatArray = means.mean(axis=0)
    if means.size == 0:
        return mean
    others = (means.sum(axis=0) - means) / (n_chains - 1)
    fit = IsotonicRegression(out_of_bounds="clip").fit(others.ravel(), means.ravel())
    corrected: FloatArray = mean + (n_chains - 1) / n_chains * (fit.predict(mean) - mean)
    return corrected


def typical_autocorrelation(draws: NDArray[Any]) -> float:
    """How many draws are worth one independent draw, for a typical slow quantity.

    The upper quartile over quantities that change often. Only for what is too rare to tell itself.
    """
    share = draws.mean(axis=(0, 1))
    n_draws = draws.shape[0] * draws.shape[1]
    often = np.flatnonzero(np.minimum(share, 1.0 - share) * n_draws >= 100)
    if len(often) == 0:
        return 1.0
    error, _ = _quick(draws[:, :, often])
    spread = share[often] * (1.0 - share[often])
    return float(np.quantile(n_draws * error**2 / spread, 0.75))


def _quick(draws: NDArray[Any]) -> tuple[FloatArray, FloatArray]:
    """Error by batch means and plain split R̂ of every quantity; only to find the worst."""
    n_chains, n_draws, n_quantities = draws.shape
    length = n_draws // _N_BATCHES
    if length == 0:
        return np.ones(n_quantities), np.ones(n_quantities)
    used = draws[:, n_draws - length * _N_BATCHES :]
    batches = used.reshape(n_chains, _N_BATCHES, length, n_quantities).mean(axis=2)
    spread = batches.std(axis=(0, 1), ddof=1)
    halves = batches.reshape(n_chains * 2, _N_BATCHES // 2, n_quantities)
    between = halves.mean(axis=1).var(axis=0, ddof=1)
    total = used.reshape(-1, n_quantities).var(axis=0)
    r_hat = 1.0 + between / np.maximum(total, 1e-300)
    return spread / np.sqrt(n_chains * _N_BATCHES), r_hat
