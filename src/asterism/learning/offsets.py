"""Owns shifts of whole trajectories: values that all lie higher in one trajectory than in another.

A shift b of trajectory d is normal with mean 0 and standard deviation τ. Given the levels of a node
and how they move, ln P of the trajectory's values is computed for a row of shifts with the same
pass as in ``levels.py``, and summed over them:

    ln P(y_d) = ln ∫ P(y_d − b | levels) N(b; 0, τ²) db.

Means, noise and moves are fitted to the values less the shifts expected, τ to their second moment,
in turns. The sum over shifts is the evidence, with the penalties of ``levels.py`` and half the log
of the number of trajectories for τ. It is compared with that of the levels without shifts, which
may be more. A trajectory that stays in one level is explained by both, and then shifts do not win.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import logsumexp

from asterism.data.measurements import NodeMeasurements
from asterism.data.observations import Observations
from asterism.errors import first_few
from asterism.learning.levels import (
    CLEARLY_BETTER,
    FEWEST,
    LevelChoice,
    LevelFit,
    LevelRows,
    Offset,
    climb,
    fits_of,
    measured_while_free,
    scored,
)
from asterism.model.emission_numeric import PER_STATE
from asterism.model.emissions import Gaussian, StudentT
from asterism.numerics.arrays import FloatArray, IntArray
from asterism.numerics.resources import current_limit

#: trajectories that tell the spread of their shifts, and values that each of them needs
#: for its shift to be told from a level
_FEWEST_TRAJECTORIES, _FEWEST_VALUES = 4, 3
#: turns of fitting levels and shifts, and nats that are no gain
_TURNS, _NO_GAIN = 12, 0.1
#: shifts are looked for within this many of their standard deviations
_REACH = 4.0
#: shifts per noise scale at which ln P is computed; in between a spline is right to 1e-3 nats
_PER_SCALE, _MOST_SHIFTS = 3.0, 400
#: upper bound on the shifts that are summed over, where the noise is next to nothing
_MOST_SUMMED = 20_000


def with_offset(record: NodeMeasurements, plain: LevelChoice, always: bool = False) -> LevelChoice:
    """The choice with shifted trajectories, where that explains the measurements clearly better.

    Levels are counted anew, up to the number that was needed without shifts. With ``always``,
    shifts are taken whatever the evidence.
    """
    if not isinstance(plain.emission, Gaussian) or current_limit().stops():
        return plain
    rows = LevelRows.of(record)
    _, n_values = np.unique(rows.trajectory, return_counts=True)
    if (n_values >= _FEWEST_VALUES).sum() < _FEWEST_TRAJECTORIES:
        return plain
    as_before = _opened(plain.emission)
    without = plain.scores.get(plain.n_levels)
    if without is None:
        numbers, _ = scored(rows, as_before, [plain.n_levels], np.inf)
        without = numbers[plain.n_levels]
    sizes = range(FEWEST, plain.n_levels + 1) if plain.chosen else [plain.n_levels]
    # shifts may have been taken for outliers
    kinds = [as_before] if type(as_before) is Gaussian else [Gaussian(learn=True), as_before]
    best, needed = plain, -np.inf if always else without + CLEARLY_BETTER
    for emission in kinds:
        fits: dict[int, ShiftFit] = {}
        for size in sizes:
            fits[size] = fit_shifts(rows, emission, size)
            if fits[size].score < max(one.score for one in fits.values()) - CLEARLY_BETTER:
                break
        size = max(fits, key=lambda k: (fits[k].score, -k))
        if fits[size].score > needed:
            needed, fit = fits[size].score, fits[size]
            best = replace(
                plain,
                n_levels=size,
                emission=fit.emission,
                scores={k: one.score for k, one in fits.items()} if plain.chosen else {},
                complete=not current_limit().was_felt,
                offset=Offset(fit.sd, fit.score - without, fit.moves, rows.unit),
            )
    return best


def _opened(emission: Any) -> Any:
    """The same kind of noise with everything to be fitted."""
    scale = PER_STATE if isinstance(emission.scale, tuple) else None
    df = {"df": emission.df} if isinstance(emission, StudentT) else {}
    return type(emission)(scale=scale, learn=True, **df)


# ---- one number of levels ------------------------------------------------------------------------


class ShiftFit(NamedTuple):
    """One number of levels beneath shifted trajectories."""

    emission: Any
    moves: Any
    sd: float
    score: float


class Shifts(NamedTuple):
    """What is known about the shift of every trajectory, in their order."""

    log_evidence: FloatArray
    mean: FloatArray
    variance: FloatArray


def fit_shifts(rows: LevelRows, emission: Any, size: int) -> ShiftFit:
    """The best of two starts: no shifts, and shifts by all that trajectories differ on average."""
    _, group, count = np.unique(rows.trajectory, return_inverse=True, return_counts=True)
    average = np.bincount(group, rows.values) / count
    starts = (np.zeros(len(count)), average - average.mean())
    fits = [_in_turns(rows, group, emission, size, shift) for shift in starts]
    return max(fits, key=lambda fit: fit.score)


def _in_turns(
    rows: LevelRows, group: IntArray, emission: Any, size: int, shift: FloatArray
) -> ShiftFit:
    """Fit levels and shifts in turns until the evidence no longer grows."""
    fit: LevelFit | None = None
    best: ShiftFit | None = None
    lost, n = 0.0, len(rows.values)
    sd = float(shift.std())
    for _ in range(_TURNS):
        moved = rows._replace(values=rows.values - shift[group])
        if fit is None:
            fit = max(fits_of(moved, emission, size, None), key=lambda one: one.score)
            sd = sd or _spread_of_residuals(moved, group, fit)
        else:
            fit = climb(moved, fit.emission, fit.moves)
        # every shift fitted takes a part of one value's freedom, so the noise looks too small
        scale = np.asarray(fit.emission.scale) * np.sqrt(n / max(n - lost, 0.5 * n))
        free = replace(fit.emission, scale=tuple(scale) if scale.ndim else float(scale))
        found = shifts_of(rows, free, fit.moves, sd)
        penalty = fit.log_likelihood - fit.score + 0.5 * float(np.log(len(shift)))
        # the other kind of moves is as probable beforehand, and adds next to nothing
        score = float(found.log_evidence.sum()) - penalty - float(np.log(2.0))
        gained = np.inf if best is None else score - best.score
        if gained > 0.0:
            best = ShiftFit(free, fit.moves, sd, score)
        if gained < _NO_GAIN or current_limit().stops():
            break
        shift = found.mean
        lost = float((1.0 - found.variance / sd**2).sum())
        sd = float(np.sqrt((found.mean**2 + found.variance).mean()))
    assert best is not None
    return best


def _spread_of_residuals(rows: LevelRows, group: IntArray, fit: LevelFit) -> float:
    """The standard deviation between trajectories of what the nearest levels leave over."""
    means = np.asarray(fit.emission.means)
    nearest = means[np.abs(rows.values[:, None] - means).argmin(axis=1)]
    left = np.bincount(group, rows.values - nearest) / np.bincount(group)
    return max(float(left.std()), 0.3 * float(np.min(fit.emission.scale)))


def shifts_of(rows: LevelRows, emission: Any, moves: Any, sd: float) -> Shifts:
    """Sum over the shift of every trajectory, normal with standard deviation ``sd``."""
    from asterism.learning._level_pass import level_pass

    _, group, count = np.unique(rows.trajectory, return_inverse=True, return_counts=True)
    scale, reach = float(np.min(emission.scale)), _REACH * sd
    n_steps = int(np.clip(np.ceil(2.0 * reach / scale * _PER_SCALE), 8, _MOST_SHIFTS))
    coarse = np.linspace(-reach, reach, n_steps + 1)
    states = tuple(range(len(moves.initial)))
    posterior = np.empty((len(rows.values), len(states)))
    own = moves.arrays(rows.gap)
    chances = own.chances()
    pairs = np.empty_like(chances)
    logs = np.empty((len(coarse), len(count)))
    for k, shift in enumerate(coarse):
        density = emission.log_likelihood(rows.values - shift, states)
        by_row = level_pass(
            density, chances, own.which, rows.is_first, moves.initial, posterior, pairs
        )
        logs[k] = np.bincount(group, by_row)
    # two steps per standard deviation that the longest trajectory leaves to its shift
    n_fine = int(min(np.ceil(4.0 * reach * np.sqrt(count.max()) / scale) + 40, _MOST_SUMMED))
    fine = np.linspace(-reach, reach, n_fine)
    prior = -0.5 * (fine / sd) ** 2
    joint = CubicSpline(coarse, logs)(fine) + (prior - logsumexp(prior))[:, None]
    log_evidence = logsumexp(joint, axis=0)
    weight = np.exp(joint - log_evidence)
    mean = fine @ weight
    return Shifts(log_evidence, mean, np.maximum(fine**2 @ weight - mean**2, 0.0))


# ---- in the data ---------------------------------------------------------------------------------


def without_offsets(observations: Observations, choices: Iterable[LevelChoice]) -> Observations:
    """The observations less the shifts that are expected under what was fitted."""
    measurements = dict(observations.measurements)
    for choice in choices:
        if choice.offset is None or choice.node not in measurements:
            continue
        free = measured_while_free(observations, choice.node)
        free = free.take(np.flatnonzero(free.noisy))
        if not len(free):
            continue
        rows = LevelRows.of(free, np.inf, choice.offset.unit)
        found = shifts_of(rows, choice.emission, choice.offset.moves, choice.offset.sd)
        shift = np.zeros(observations.n_trajectories)
        shift[np.unique(rows.trajectory)] = found.mean
        record = measurements[choice.node]
        value = record.value.astype(np.float64)
        value = np.where(record.noisy, value - shift[record.trajectory], value)
        measurements[choice.node] = replace(record, value=value)
    return replace(observations, measurements=measurements)


def offset_words(choices: Sequence[LevelChoice]) -> str:
    """What was found and done, in one sentence; "" without shifts."""
    shifted = [c for c in choices if c.offset is not None]
    if not shifted:
        return ""
    sds = [c.offset.sd for c in shifted if c.offset is not None]
    least = min(shifted, key=lambda c: c.offset.gain if c.offset else 0.0)
    assert least.offset is not None
    much = f"{min(sds):.2g}" if len(sds) == 1 else f"{min(sds):.2g} to {max(sds):.2g}"
    return (
        f"All values of a trajectory are shifted in {first_few([c.node for c in shifted])}, with a "
        f"standard deviation of {much} between trajectories (least clearly in {least.node!r}, by "
        f"{least.offset.gain:.1f} nats): the shifts were estimated and subtracted"
    )
