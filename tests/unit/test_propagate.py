"""Propagators and moments of single steps against scipy's matrix exponential."""

from __future__ import annotations

import decimal
from decimal import Decimal

import numpy as np
import pytest
from scipy.linalg import expm

from asterism.numerics import _matrix_step
from asterism.numerics._jit import kernel
from asterism.numerics._step import (
    two_state_moments,
    two_state_series,
    two_state_stiff,
    two_state_stiff_moments,
)
from asterism.numerics._tile_products import room_for
from tests.reference.step_moments import step_in_many_digits

STEPS = 12

general_propagator = _matrix_step.general_propagator.dispatcher
general_moments = _matrix_step.general_moments.dispatcher


@kernel(cache=False)
def series(generator, width, count, padded, coefficients, propagator, log_scale):
    return two_state_series(generator, width, count, padded, coefficients, propagator, log_scale)


@kernel(cache=False)
def series_moments(generator, width, count, coefficients, forward, backward, moments):
    two_state_moments(generator, width, count, coefficients, forward, backward, moments)


@kernel(cache=False)
def stiff(generator, width, count, coefficients, propagator, log_scale):
    two_state_stiff(generator, width, count, coefficients, propagator, log_scale)


@kernel(cache=False)
def stiff_moments(generator, width, count, coefficients, forward, backward, moments):
    two_state_stiff_moments(generator, width, count, coefficients, forward, backward, moments)


def random_generators(rng: np.random.Generator, size: int, low: float, high: float) -> np.ndarray:
    """(size², steps): log-uniform rates, exits and a pull of either sign on the diagonal."""
    a = np.exp(rng.uniform(np.log(low), np.log(high), size=(STEPS, size, size)))
    a *= 1 - np.eye(size)
    pull = rng.normal(size=(STEPS, size)) * a.max(axis=(1, 2))[:, None] * 0.3
    a[:, range(size), range(size)] = -a.sum(axis=2) + pull
    return np.ascontiguousarray(a.reshape(STEPS, -1).T)


def general(
    generator: np.ndarray, width: np.ndarray, f: np.ndarray, r: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    size = f.shape[0]
    propagator, log_scale = np.zeros_like(generator), np.zeros(STEPS)
    moments, scratch = np.zeros_like(generator), np.zeros(room_for(size))
    general_propagator(generator, width, size, STEPS, propagator, log_scale, scratch)
    general_moments(generator, width, size, STEPS, f, r, moments, scratch)
    return propagator, log_scale, moments


def expected_moments(a: np.ndarray, h: float, f: np.ndarray, r: np.ndarray) -> np.ndarray:
    size = len(f)
    block = np.zeros((2 * size, 2 * size))
    block[:size, :size] = block[size:, size:] = a
    block[:size, size:] = np.outer(r, f)
    result = expm(block * h)
    return result[:size, size:].T / (f @ result[:size, :size] @ r)


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("width", [1e-4, 0.1, 3.0])
def test_any_number_of_states(size: int, width: float) -> None:
    rng = np.random.default_rng(size)
    generator = random_generators(rng, size, 0.1, 5.0)
    widths = rng.uniform(0.5, 1.5, STEPS) * width
    f, r = rng.uniform(0, 1, (size, STEPS)), rng.uniform(0, 1, (size, STEPS))
    propagator, log_scale, moments = general(generator, widths, f, r)
    for k in range(STEPS):
        a = generator[:, k].reshape(size, size)
        exact = expm(a * widths[k])
        found = propagator[:, k].reshape(size, size) * np.exp(log_scale[k])
        np.testing.assert_allclose(found, exact, rtol=1e-11)
        np.testing.assert_allclose(
            moments[:, k].reshape(size, size),
            expected_moments(a, widths[k], f[:, k], r[:, k]),
            rtol=1e-10,
        )


@pytest.mark.parametrize("width", [1e-9, 1e-3, 0.1])
def test_closed_form_of_two_states(width: float) -> None:
    rng = np.random.default_rng(3)
    generator = random_generators(rng, 2, 0.1, 5.0)
    widths = rng.uniform(0.5, 1.5, STEPS) * width
    f, r = rng.uniform(0, 1, (2, STEPS)), rng.uniform(0, 1, (2, STEPS))
    propagator, log_scale = np.zeros((4, STEPS)), np.zeros(STEPS)
    moments, coefficients = np.zeros((4, STEPS)), np.zeros((3, STEPS))
    assert series(generator, widths, STEPS, STEPS, coefficients, propagator, log_scale)
    series_moments(generator, widths, STEPS, coefficients, f, r, moments)
    for k in range(STEPS):
        a = generator[:, k].reshape(2, 2)
        found = propagator[:, k].reshape(2, 2) * np.exp(log_scale[k])
        np.testing.assert_allclose(found, expm(a * widths[k]), rtol=1e-12)
        np.testing.assert_allclose(
            moments[:, k].reshape(2, 2),
            expected_moments(a, widths[k], f[:, k], r[:, k]),
            rtol=1e-11,
        )


def test_the_closed_form_declines_stiff_steps() -> None:
    generator = np.tile([[-50.0], [50.0], [50.0], [-50.0]], STEPS)
    room = np.zeros((3, STEPS)), np.zeros((4, STEPS)), np.zeros(STEPS)
    assert not series(generator, np.ones(STEPS), STEPS, STEPS, *room)


@pytest.mark.parametrize("width", [1e-7, 1e-3, 0.3, 3.0])
@pytest.mark.parametrize("spread", [1.0, 100.0])
def test_stiff_steps_of_two_states_keep_the_accuracy_of_small_entries(
    width: float, spread: float
) -> None:
    """Known at both ends, mild and stiff steps in one block: against many digits."""
    rng = np.random.default_rng(4)
    generator = random_generators(rng, 2, 0.3 / spread, 0.3 * spread)
    generator[1, 0] = 0.0  # a state that is never left
    generator[:, 1] *= 1e-3
    widths = np.full(STEPS, width)
    f, r = rng.uniform(0, 1, (2, STEPS)), rng.uniform(0, 1, (2, STEPS))
    f[:, 2], r[:, 2], f[:, 3], r[:, 3] = (1, 0), (0, 1), (0, 1), (1, 0)
    propagator, log_scale, coefficients = (
        np.zeros((4, STEPS)),
        np.zeros(STEPS),
        np.zeros((3, STEPS)),
    )
    moments = np.zeros((4, STEPS))
    stiff(generator, widths, STEPS, coefficients, propagator, log_scale)
    stiff_moments(generator, widths, STEPS, coefficients, f, r, moments)
    for k in range(6):
        a = generator[:, k].reshape(2, 2)
        exact, expected = step_in_many_digits(a, width, f[:, k], r[:, k])
        found = propagator[:, k].reshape(2, 2)
        np.testing.assert_allclose(found / found.max(), exact, rtol=1e-12, atol=1e-290)
        np.testing.assert_allclose(moments[:, k].reshape(2, 2), expected, rtol=1e-12, atol=1e-290)
        if width * np.abs(a).max() < 100.0:
            scale = np.log(expm(a * width).max() / found.max())
            assert log_scale[k] == pytest.approx(scale, abs=1e-9)


@pytest.mark.parametrize("size", [2, 3, 4, 6])
def test_rates_from_a_millionth_to_a_million_stay_positive(size: int) -> None:
    rng = np.random.default_rng(size)
    generator = random_generators(rng, size, 1e-6, 1e6)
    widths = np.exp(rng.uniform(np.log(1e-6), np.log(1.0), STEPS))
    f, r = rng.uniform(0, 1, (size, STEPS)), rng.uniform(0, 1, (size, STEPS))
    propagator, _, moments = general(generator, widths, f, r)
    assert np.all(np.isfinite(propagator))
    assert np.all(propagator >= 0.0)
    assert np.all(np.isfinite(moments))
    assert np.all(moments >= 0.0)
    trace = moments.reshape(size, size, STEPS)[range(size), range(size)].sum(axis=0)
    np.testing.assert_allclose(trace, widths, rtol=1e-12)


@pytest.mark.parametrize("size", [3, 5])
def test_stiff_generators_without_pull(size: int) -> None:
    """Rows of exp(A h) sum to one, so scipy's absolute accuracy is enough to compare with."""
    rng = np.random.default_rng(size)
    generator = random_generators(rng, size, 1e-6, 1e6).T.reshape(STEPS, size, size)
    diagonal = np.arange(size)
    generator[:, diagonal, diagonal] = 0.0
    generator[:, diagonal, diagonal] = -generator.sum(axis=2)
    flat = np.ascontiguousarray(generator.reshape(STEPS, -1).T)
    widths = np.full(STEPS, 1e-2)
    ones = np.ones((size, STEPS))
    propagator, log_scale, _ = general(flat, widths, ones, ones)
    for k in range(STEPS):
        found = propagator[:, k].reshape(size, size) * np.exp(log_scale[k])
        np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-8)
        np.testing.assert_allclose(found, expm(generator[k] * widths[k]), atol=1e-8)


@pytest.mark.parametrize("in_closed_form", [False, True])
def test_small_entries_of_stiff_steps_keep_their_accuracy(in_closed_form: bool) -> None:
    """Two states in sixty digits: exp(A h) = e^{μh} (cosh δh + B sinh(δh)/δ)."""
    rng = np.random.default_rng(9)
    generator = random_generators(rng, 2, 1e-6, 1e6)
    widths = np.exp(rng.uniform(np.log(1e-7), np.log(1e-3), STEPS))
    ones = np.ones((2, STEPS))
    propagator, log_scale, _ = general(generator, widths, ones, ones)
    if in_closed_form:
        stiff(generator, widths, STEPS, np.zeros((3, STEPS)), propagator, log_scale)
    with decimal.localcontext(prec=60, Emin=-999999, Emax=999999):
        for k in range(STEPS):
            a, b, c, d = (Decimal(float(v)) for v in generator[:, k])
            h = Decimal(float(widths[k]))
            mean, half = (a + d) / 2, (a - d) / 2
            delta = (half * half + b * c).sqrt()
            up, down = (delta * h).exp(), (-delta * h).exp()
            cosh, sinh = (up + down) / 2, (up - down) / (2 * delta)
            scale = (mean * h - Decimal(float(log_scale[k]))).exp()
            exact = [cosh + sinh * half, sinh * b, sinh * c, cosh - sinh * half]
            for row, value in enumerate(exact):
                assert propagator[row, k] == pytest.approx(float(value * scale), rel=1e-9)


@pytest.mark.parametrize("size", [3, 4, 5])
@pytest.mark.parametrize("width", [1e-3, 0.3, 20.0])
def test_states_that_take_several_jumps_keep_their_accuracy(size: int, width: float) -> None:
    """A chain of neighbouring states, known at both ends: entries over many powers of ten."""
    rng = np.random.default_rng(size)
    generator = random_generators(rng, size, 0.05, 2.0).reshape(size, size, STEPS)
    far = np.abs(np.subtract.outer(np.arange(size), np.arange(size))) > 1
    generator[far] = 0.0
    flat = np.ascontiguousarray(generator.reshape(size * size, STEPS))
    widths = np.full(STEPS, width)
    f, r = np.zeros((size, STEPS)), np.zeros((size, STEPS))
    f[0], r[-1] = 1.0, 1.0
    propagator, _, moments = general(flat, widths, f, r)
    for k in range(2):
        exact, expected = step_in_many_digits(generator[:, :, k], width, f[:, k], r[:, k])
        found = propagator[:, k].reshape(size, size)
        np.testing.assert_allclose(found / found.max(), exact, rtol=1e-11)
        np.testing.assert_allclose(moments[:, k].reshape(size, size), expected, rtol=1e-11)


@pytest.mark.parametrize("size", [2, 3, 4, 6])
@pytest.mark.parametrize("n_steps", [1, 16, 31, 33, 100])
def test_every_number_of_steps(size: int, n_steps: int) -> None:
    """Steps are worked on in tiles: none is left out, and none behind the last is written."""
    rng = np.random.default_rng(n_steps)
    generator = np.tile(random_generators(rng, size, 0.1, 5.0), n_steps)[:, : n_steps + 1]
    generator = np.ascontiguousarray(generator)
    widths = np.append(rng.uniform(0.01, 2.0, n_steps), 1.0)
    f, r = rng.uniform(0, 1, (2, size, n_steps + 1))
    propagator = np.full_like(generator, 7.0)
    moments, log_scale = propagator.copy(), np.full(n_steps + 1, 7.0)
    scratch = np.full(room_for(size), np.nan)
    general_propagator(generator, widths, size, n_steps, propagator, log_scale, scratch)
    scratch[:] = np.nan
    general_moments(generator, widths, size, n_steps, f, r, moments, scratch)
    for k in range(n_steps):
        a = generator[:, k].reshape(size, size)
        found = propagator[:, k].reshape(size, size) * np.exp(log_scale[k])
        np.testing.assert_allclose(found, expm(a * widths[k]), rtol=1e-10)
        expected = expected_moments(a, widths[k], f[:, k], r[:, k])
        np.testing.assert_allclose(moments[:, k].reshape(size, size), expected, rtol=1e-9)
    assert np.all(propagator[:, -1] == 7.0)
    assert np.all(moments[:, -1] == 7.0)
    assert log_scale[-1] == 7.0
