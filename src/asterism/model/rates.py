"""Owns tables of rates: checked, completed with their diagonals, made read-only; and summary rates.

The user gives the entries off the diagonal; the diagonal follows from them. A diagonal that is
given must agree, because a contradiction usually means that rows and columns were swapped.

:class:`SummaryRates` depend on many parents only through a weighted sum of their states. A node
with 300 binary parents has 2³⁰⁰ parent configurations, but if its rates depend on how many parents
are on there are only 301 cases. State u_l of parent l adds the integer ``weights[l][u_l]`` to the
sum s, and block i of the table holds the rates for s = ``shift`` + i, where ``shift`` is the
smallest sum that the parents can reach.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from asterism.errors import Advice, ModelError, TooLargeError
from asterism.numerics.arrays import FloatArray, IntArray

Weights = tuple[int, ...]


class SummaryRates:
    """Intensities (n_s, S, S), one block per value of a weighted sum over the parents.

    ``weights`` is ``{parent: one integer per state of that parent}``, or a list of such sequences
    in the order of the parents. ``table`` has n_s = largest − smallest reachable sum + 1 blocks,
    the first for the smallest sum; diagonals are optional, as for ordinary rates.
    """

    def __init__(
        self,
        weights: Mapping[Any, Sequence[int]] | Sequence[Sequence[int]],
        table: Any,
    ) -> None:
        if isinstance(weights, Mapping):
            self.parents: tuple[str, ...] | None = tuple(str(p) for p in weights)
            rows = list(weights.values())
        else:
            self.parents = None
            rows = list(weights)
        names = self.parents if self.parents is not None else tuple(map(str, range(len(rows))))
        self.weights: tuple[Weights, ...] = tuple(
            _checked_weights(name, row) for name, row in zip(names, rows)
        )
        array = as_numbers("The table of SummaryRates", table)
        span = sum(max(w) - min(w) for w in self.weights)
        if array.ndim != 3 or array.shape[1] != array.shape[2] or array.shape[1] < 2:
            raise ModelError(
                f"The table of SummaryRates has shape {array.shape}, expected (n_s, S, S) "
                f"with n_s = {span + 1} values of the sum."
            )
        if array.shape[0] != span + 1:
            raise ModelError(
                f"The table of SummaryRates has {array.shape[0]} blocks, but the sum of the "
                f"weights takes the values {self.shift} to {self.shift + span}: "
                f"expected {span + 1} blocks."
            )
        self.table: FloatArray = with_diagonal("SummaryRates", array)

    @property
    def shift(self) -> int:
        """The smallest reachable sum, which block 0 of the table belongs to."""
        return sum(min(w) for w in self.weights)

    @property
    def n_summary(self) -> int:
        """Number of values of the sum, reachable or in between."""
        return int(self.table.shape[0])

    @property
    def n_states(self) -> int:
        """Number of states of the node."""
        return int(self.table.shape[1])

    @property
    def shifted_weights(self) -> list[list[int]]:
        """What each parent state adds to the block number: the weights, moved to start at 0."""
        return [[c - min(w) for c in w] for w in self.weights]

    def ordered(self, node: str, parents: Sequence[str], sizes: Sequence[int]) -> SummaryRates:
        """The same rates with one weight sequence per parent, named and in the given order."""
        by_name = dict(zip(self.parents if self.parents is not None else parents, self.weights))
        if len(self.weights) != len(parents) or set(by_name) != set(parents):
            raise ModelError(
                f"The SummaryRates of node {node!r} have weights for "
                f"{list(self.parents) if self.parents is not None else len(self.weights)}, "
                f"but its parents are {list(parents)}."
            )
        for parent, size in zip(parents, sizes):
            if len(by_name[parent]) != size:
                raise ModelError(
                    f"The SummaryRates of node {node!r} have {len(by_name[parent])} weights for "
                    f"parent {parent!r}, which has {size} states."
                )
        return SummaryRates({p: by_name[p] for p in parents}, self.table)

    def with_table(self, table: Any) -> SummaryRates:
        """The same weights with another table."""
        named = self.weights if self.parents is None else dict(zip(self.parents, self.weights))
        return SummaryRates(named, table)

    def block_of(self, configurations: Sequence[IntArray]) -> IntArray:
        """Block numbers, given one array of state numbers per parent."""
        total = np.zeros(np.shape(configurations[0]) if len(configurations) else (), np.int64)
        for weight, states in zip(self.shifted_weights, configurations):
            total = total + np.asarray(weight, dtype=np.int64)[states]
        return total

    def expand(self) -> FloatArray:
        """The equivalent table (*parent states, S, S), for small families."""
        sizes = [len(w) for w in self.weights]
        require_table_fits("(summary)", sizes, self.n_states)
        blocks = self.block_of(list(np.indices(sizes, dtype=np.int64)))
        expanded: FloatArray = self.table[blocks]
        return expanded

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SummaryRates):
            return NotImplemented
        return (
            self.parents == other.parents
            and self.weights == other.weights
            and np.array_equal(self.table, other.table)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        low, high = self.shift, self.shift + self.n_summary - 1
        return (
            f"SummaryRates({len(self.weights)} parents, sum {low} to {high}, "
            f"{self.n_states} states)"
        )


def _checked_weights(parent: str, weights: Sequence[int]) -> Weights:
    values = as_numbers(f"The weights of parent {parent!r}", list(weights))
    if values.ndim != 1 or len(values) < 2:
        raise ModelError(
            f"The weights of parent {parent!r} must be one integer for each of its states."
        )
    if not all(math.isfinite(v) and float(v).is_integer() for v in values):
        raise ModelError(
            f"The weights of parent {parent!r} must be whole numbers, got {values.tolist()}."
        )
    return tuple(int(v) for v in values)


#: no family may have more table entries than this (8 MB); a summary of the parents needs far fewer
TABLE_LIMIT = 2**20

#: relative disagreement up to which a given diagonal counts as minus the sum of its row
DIAGONAL_TOLERANCE = 1e-6


def require_table_fits(node: str, parent_sizes: Sequence[int], n_states: int) -> None:
    """Refuse a family table that is too large, before anything is allocated."""
    entries = math.prod(parent_sizes) * n_states**2
    if entries > TABLE_LIMIT:
        raise TooLargeError(
            f"The rates of node {node!r} with {len(parent_sizes)} parents need a table of "
            f"{entries:,} entries, more than the limit of {TABLE_LIMIT:,}; ",
            Advice(
                "give its rates as SummaryRates(weights, table), which depend on a sum over the "
                "parents.",
                "use a smaller --max-parents.",
            ),
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


# ---- rates in JSON files ----------------------------------------------------------------------


def rates_to_json(rates: Any) -> Any:
    """A node's rates as lists; None for a node whose path is always given by the data."""
    if rates is None:
        return None
    if isinstance(rates, SummaryRates):
        names = rates.parents if rates.parents is not None else ()
        weights = {name: list(w) for name, w in zip(names, rates.weights)}
        return {"weights": weights, "table": rates.table.tolist()}
    return rates.tolist()


def rates_from_json(node: str, rates: Any) -> Any:
    """The inverse of :func:`rates_to_json`."""
    if isinstance(rates, dict):
        if not {"weights", "table"} <= set(rates):
            raise ModelError(f"The summary rates of node {node!r} need 'weights' and 'table'.")
        return SummaryRates(rates["weights"], rates["table"])
    return rates
