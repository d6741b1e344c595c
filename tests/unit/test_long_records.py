"""Long records: levels are counted on a part of them, and reading stays quick."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import asterism as am
from asterism.data.columns import cells, exact_numbers, missing
from asterism.data.numbers import read_numbers
from asterism.learning import levels


@pytest.mark.parametrize("n_trajectories", [1, 7])
def test_stretches_of_a_long_record_are_spread_over_it(
    n_trajectories: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(levels, "_MOST_VALUES", 300)
    monkeypatch.setattr(levels, "_STRETCH", 20)
    n = 4200
    is_first = np.zeros(n, dtype=bool)
    is_first[:: n // n_trajectories] = True
    kept, opens = levels._spread_stretches(is_first)
    assert 240 <= len(kept) <= 360
    assert kept[0] < 500
    assert kept[-1] > n - 500
    # a row whose predecessor was left out has none before it, and only such a row
    follows = np.concatenate([[False], np.diff(kept) == 1]) & ~is_first[kept]
    assert (opens | follows).all()
    assert opens.sum() == len(kept) // 20


def test_levels_of_a_long_record_are_those_of_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    n = 6000
    state = np.repeat(rng.integers(0, 2, n // 10), 10)
    frame = pd.DataFrame({"time": np.arange(n), "A": state + 0.1 * rng.normal(size=n)})
    seen = am.Observations.from_frame(frame)
    monkeypatch.setattr(levels, "_MOST_VALUES", 1000)
    monkeypatch.setattr(levels, "_STRETCH", 100)
    looked_at = []
    real = levels.fits_of
    monkeypatch.setattr(
        levels,
        "fits_of",
        lambda rows, *more: looked_at.append(len(rows.values)) or real(rows, *more),
    )
    open_levels = am.Gaussian(levels="auto", learn=True)
    choice = levels.choose_levels("A", seen.measurements["A"], open_levels)
    assert choice.n_levels == 2
    np.testing.assert_allclose(choice.emission.means, [0.0, 1.0], atol=0.02)
    assert max(looked_at) <= 1100


def test_numbers_are_read_to_their_last_digit() -> None:
    """The smallest pandas that we allow rounds this one."""
    texts = pd.Series(["0.056954922342826314", "x", "1e-3", "7"], dtype=object, index=[4, 3, 2, 1])
    found = exact_numbers(texts)
    assert found[4] == 0.056954922342826314
    assert np.isnan(found[3])
    assert found.index.tolist() == [4, 3, 2, 1]
    assert exact_numbers(pd.Series(["1", "2"])).dtype.kind == "i"


def test_cells_are_read_as_before() -> None:
    """Plain numbers at once, everything else one by one: the same answers."""
    given = ["1", " 2.5 ", "na", "", None, "-", "1_000", "x", "inf", "0x10", 3, np.nan, "1e400"]
    column = cells(pd.Series(given, dtype=object))
    gone = missing(column)
    assert gone.tolist() == [v in ("na", "", None, "-") or v is given[11] for v in given]
    found = read_numbers(column)
    assert found.is_text.tolist() == [v in ("x", "0x10", "1_000") for v in given]
    np.testing.assert_array_equal(
        found.value, [1, 2.5, *[np.nan] * 6, np.inf, np.nan, 3, np.nan, np.inf]
    )
    plain = pd.Series(["0.1", "0.30000000000000004", "7"], dtype=object)
    np.testing.assert_array_equal(read_numbers(cells(plain)).value, [0.1, 0.30000000000000004, 7.0])
    signs = cells(pd.Series(["+", "-"], dtype=object))
    assert signs.tolist() == ["+", "-"]
    huge = read_numbers(np.array([10**400, True, "2"], dtype=object))
    assert huge.is_text.tolist() == [True, True, False]
