"""The coefficients of smooth steps: exact for parabolas, and for sums whatever is summed."""

from __future__ import annotations

import numpy as np
import pytest

from asterism.star._buffers import BLOCK, FIRST, LAST
from asterism.star._stretches import find_stretches


def band(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    padded = np.concatenate([[0.0, 0.0], values, [0.0, 0.0]])
    n = len(values)
    return sum(weights[i, :n] * padded[i : i + n] for i in range(5))


def one_gap(width: np.ndarray, longest: float = 10.0) -> tuple[np.ndarray, ...]:
    n = len(width)
    return find_stretches(
        np.array([0, n]), width, np.zeros(2, dtype=np.int64), np.array([0, n]), longest
    )


@pytest.mark.parametrize("ratio", [1.0, 1.3, 0.8])
@pytest.mark.parametrize("n", [3, 4, 9])
def test_parabolas_are_turned_into_their_values_in_the_middle(n: int, ratio: float) -> None:
    width = 0.2 * ratio ** np.arange(n)
    _, _, edge, to_middle, to_step, quadrature = one_gap(width)
    ends = np.concatenate([[0.0], np.cumsum(width)])
    middle = 0.5 * (ends[1:] + ends[:-1])
    integrals = np.diff(2.0 * ends - 1.5 * ends**2 + ends**3 / 3.0)
    values = 2.0 - 3.0 * middle + middle**2
    np.testing.assert_allclose(band(to_middle, integrals), width * values, rtol=1e-12)
    # h² G''/24 is exact, h' is the slope of a parabola through three widths
    expected = values - width**2 / 24.0 * 2.0
    for k in range(n):
        near = np.arange(3) + min(max(k - 1, 0), n - 3)
        widening = np.polyfit(middle[near] - middle[k], width[near], 2)[1]
        expected[k] -= width[k] * widening / 6.0 * (2.0 * middle[k] - 3.0)
    np.testing.assert_allclose(band(to_step, values), expected, rtol=1e-12)
    for nearest, after, slope, weights in (
        (values[:3], width[:2], -3.0, edge[0, :3]),
        (values[:-4:-1], width[:-3:-1], 2.0 * ends[-1] - 3.0, edge[0, 3:]),
    ):
        square = max(1.5 * after[0] ** 2 - 0.5 * after[1] ** 2, 0.25 * after[0] ** 2)
        assert weights @ nearest == pytest.approx(square / 12.0 * slope, rel=1e-10)
    anything = np.random.default_rng(n).uniform(size=n)
    assert quadrature[:n] @ band(to_middle, anything) == pytest.approx(anything.sum(), rel=1e-14)


def test_constants_stay_as_they_are() -> None:
    width = np.array([0.1, 0.15, 0.2, 0.3, 0.25])
    _, _, edge, to_middle, to_step, _ = one_gap(width)
    np.testing.assert_allclose(band(to_middle, 3.0 * width), 3.0 * width, rtol=1e-14)
    np.testing.assert_allclose(band(to_step, np.full(5, 3.0)), 3.0, rtol=1e-14)
    np.testing.assert_allclose(edge[0, :3].sum(), 0.0, atol=1e-15)


def test_what_is_no_stretch() -> None:
    """Fewer than three steps, long ones, or very unequal ones."""
    for width in ([0.1, 0.1], [0.1, 11.0, 0.1], [0.1, 0.1, 0.3, 0.3]):
        start, stretch, _, to_middle, to_step, quadrature = one_gap(np.array(width))
        assert len(stretch) == 0
        assert start.tolist() == [0, 0]
        n = len(width)
        values = np.arange(1.0, n + 1.0)
        for weights in (to_middle, to_step):
            np.testing.assert_array_equal(band(weights, values), values)
        np.testing.assert_array_equal(quadrature[:n], 1.0)


def test_a_stretch_lies_in_one_block_and_inside_one_gap() -> None:
    n = 2 * BLOCK + 10
    point = np.array([0, 5, BLOCK + 40, n])
    start, stretch, *_ = find_stretches(
        np.array([0, n]), np.full(n, 0.1), np.zeros(4, dtype=np.int64), point, 1.0
    )
    bounds = [(0, 5), (5, BLOCK), (BLOCK, BLOCK + 40), (BLOCK + 40, 2 * BLOCK), (2 * BLOCK, n)]
    assert [(int(s[FIRST]), int(s[LAST])) for s in stretch] == bounds
    assert start.tolist() == [0, 5]
