"""Tables of intensities: checked, completed with their diagonals, and made read-only.

The off-diagonal entries are what the user says; the diagonal follows from them. A diagonal that is
given must agree, because a contradiction usually means that rows and columns were swapped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asterism.errors import ModelError, TooLargeError

FloatArray = NDArray[np.float64]

#: no family may have more table entries than this; a summary of the parents needs far fewer
TABLE_LIMIT = 2**20

#: relative disagreement up to which a given diagonal counts as minus the sum of its row
DIAGONAL_TOLERANCE = 1e-6


def require_table_fits(node: str, parent_sizes: Sequence[int], n_states: int) -> None:
    """Refuse a family table that is too large, before anything is allocated."""
    entries = math.prod(parent_sizes) * n_states**2
    if entries > TABLE_LIMIT:
        raise TooLargeError(
            f"The rates of node {node!r} with {len(parent_sizes)} parents need a table of "
            f"{entries:,} entries, more than the limit of {TABLE_LIMIT:,}; give its rates as "
            "SummaryRates(weights, table), which depend on a sum over the parents."
        )


def as_numbers(what: str, values: Any) -> FloatArray:
    """A fresh array of floats, or an error that says what could not be read."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ModelError(f"{what} must be an array of numbers ({error}).") from None


def with_diagonal(what: str, table: FloatArray) -> FloatArray:
    """The read-only table (…, S, S) whose diagonal is minus the sum of the rest of each row."""
    n_states = table.shape[-1]
    own = np.arange(n_states)
    given = table[..., own, own].copy()
    table[..., own, own] = 0.0
    bad = ~(np.isfinite(table) & (table >= 0.0))
    if bad.any():
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        raise ModelError(
            f"{what}: the rate at index {place} is {table[place]}; "
            "rates must be finite and not negative."
        )
    exit_rates = table.sum(axis=-1)
    # zero and NaN both mean "not given"
    stated = ~(np.isnan(given) | (given == 0.0))
    with np.errstate(invalid="ignore"):
        off = np.abs(given + exit_rates) > DIAGONAL_TOLERANCE * np.maximum(
            exit_rates, np.abs(given)
        )
    wrong = stated & off
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise ModelError(
            f"{what}, row {place}: the diagonal is {given[place]} but the other rates of the row "
            f"sum to {exit_rates[place]}; give minus that sum, or zero to have it filled in."
        )
    # adding zero turns a row without any exit from -0.0 into 0.0
    table[..., own, own] = -exit_rates + 0.0
    table.flags.writeable = False
    return table


def checked_rates(
    node: str, rates: Any, parents: Sequence[str], parent_sizes: Sequence[int], n_states: int
) -> FloatArray:
    """The rates of one node as a complete table (*parent states, S, S)."""
    require_table_fits(node, parent_sizes, n_states)
    table = as_numbers(f"The rates of node {node!r}", rates)
    expected = (*parent_sizes, n_states, n_states)
    if table.shape != expected:
        axes = ", ".join([*(f"states of {p!r}" for p in parents), "from", "to"])
        raise ModelError(
            f"The rates of node {node!r} have shape {table.shape}, expected {expected} ({axes})."
        )
    return with_diagonal(f"Rates of node {node!r}", table)


def checked_probabilities(what: str, values: Any, n_states: int) -> FloatArray:
    """A read-only probability vector, renormalised to rounding."""
    p = as_numbers(what, values)
    if p.shape != (n_states,):
        raise ModelError(f"{what} must have {n_states} entries, got shape {p.shape}.")
    if not np.all(np.isfinite(p) & (p >= 0.0)) or abs(p.sum() - 1.0) > 1e-6:
        raise ModelError(
            f"{what} must be probabilities that sum to one, got {p.tolist()} (sum {p.sum()})."
        )
    # leaving a vector that already sums to one untouched makes saving and loading exact
    if abs(p.sum() - 1.0) > 1e-15:
        p /= p.sum()
    p.flags.writeable = False
    return p
