"""Owns the prior over graphs: which families may be, how probable each is, and their enumeration.

A family is a set of parents of one node, written as a row of ascending node numbers, padded with −1
behind. Rows come smallest sets first, then in the order of the node numbers. Scores belong to sets,
not to rows: renumbering the nodes permutes the rows and changes nothing else.

ln P(family), up to a constant, is the sum of the log-odds of its edges (all zero is the uniform
prior). If every *number* of parents is to be equally probable, the logarithm of how many families
have that number is taken off. How probable one edge is beforehand follows by summing over all sets
that hold it, which elementary symmetric sums do without listing the sets.

``settings.py`` turns what the user says into a :class:`NumberedPrior`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, combinations

import numpy as np

from asterism.errors import ModelError, Setting, TooLargeError
from asterism.numerics.arrays import FloatArray, IntArray

#: sets of parents of a node that a user's function is asked about at most: seconds in Python
_MOST_LISTED = 200_000
#: stands behind the last parent of a family
NO_PARENT = -1


@dataclass(frozen=True)
class NumberedPrior:
    """Constraints and log-odds by node number; made by ``settings.numbered_prior``."""

    nodes: tuple[str, ...]
    max_parents: IntArray
    min_parents: IntArray
    """Both (N,), zero for exogenous nodes."""
    exogenous: frozenset[int]
    required: dict[int, tuple[int, ...]]
    """child -> parents it must have, ascending; only children that have any."""
    forbidden: dict[int, frozenset[int]]
    """child -> parents it must not have; only children that have any."""
    edge_log_odds: float = 0.0
    """Of every edge that ``pair_log_odds`` does not name."""
    pair_log_odds: Mapping[int, Mapping[int, float] | FloatArray] = field(default_factory=dict)
    """child -> parent -> log-odds, or those of all parents."""
    by_size: bool = False
    """Whether every number of parents is equally probable, rather than every family."""
    function: Callable[[str, tuple[str, ...]], float] | None = None
    """(child, parents) -> ln of a prior of the user's own."""

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.nodes)

    @property
    def children(self) -> list[int]:
        """Nodes whose parents are to be learned: all but the exogenous."""
        return [n for n in range(self.n_nodes) if n not in self.exogenous]

    def candidates(self, child: int) -> IntArray:
        """Nodes that may be parents of ``child``, required ones included, ascending."""
        if child in self.exogenous:
            return np.empty(0, dtype=np.int64)
        may = np.ones(self.n_nodes, dtype=np.bool_)
        may[child] = False
        if child in self.forbidden:
            may[list(self.forbidden[child])] = False
        return np.flatnonzero(may).astype(np.int64)

    def may_have(self, child: int, parent: int) -> bool:
        """Whether the edge parent → child may be in the graph."""
        return (
            child != parent
            and self.max_parents[child] > 0
            and parent not in self.forbidden.get(child, ())
        )

    def families(self, child: int, among: Sequence[int] | IntArray | None = None) -> IntArray:
        """(n_families, k) every family of ``child``, or only those of parents ``among`` a few."""
        pool = self.candidates(child)
        if among is not None:
            pool = np.intersect1d(pool, np.asarray(among, dtype=np.int64))
        required = self.required.get(child, ())
        return enumerate_families(
            pool, int(self.max_parents[child]), required, int(self.min_parents[child])
        )

    def n_families(self, child: int) -> int:
        """How many families ``families(child)`` gives, without making them."""
        return count_families(
            len(self.candidates(child)),
            int(self.max_parents[child]),
            len(self.required.get(child, ())),
            int(self.min_parents[child]),
        )

    def log_prior(self, child: int, families: IntArray) -> FloatArray:
        """(n_families,) ln P(family) up to a constant."""
        odds = self.log_odds(child)
        result: FloatArray = np.where(families == NO_PARENT, 0.0, odds[families]).sum(axis=1)
        if self.by_size:
            result -= self._log_number_of_families(child)[family_sizes(families)]
        if self.function is not None:
            result += self._by_function(child, families)
        return result

    def log_prior_by_number(self, child: int, most: int) -> FloatArray:
        """(most+1,) what the number of parents adds to ln P(family); −inf if it is not allowed."""
        number = np.arange(most + 1)
        allowed = (number >= self.min_parents[child]) & (number <= self.max_parents[child])
        terms = np.zeros(most + 1)
        if self.by_size:
            terms -= self._log_number_of_families(child)[number]
        return np.where(allowed, terms, -np.inf)

    def _by_function(self, child: int, families: IntArray) -> FloatArray:
        """(n_families,) what the user's function says."""
        assert self.function is not None
        name, values = self.nodes[child], np.empty(len(families))
        for i, family in enumerate(families):
            parents = tuple(self.nodes[p] for p in family_tuple(family))
            values[i] = self.function(name, parents)
            if not np.isfinite(values[i]):
                raise ModelError(
                    f"The structure prior of {name!r} with the parents {parents} is {values[i]}; "
                    "it must be a finite number. Use ",
                    *(Setting("forbidden"), " or ", Setting("required"), " for certain edges."),
                )
        return values

    def edge_probabilities(self, child: int) -> FloatArray:
        """(N,) prior probability that each node is a parent of ``child``, limits respected."""
        result = np.zeros(self.n_nodes)
        required = list(self.required.get(child, ()))
        free = np.setdiff1d(self.candidates(child), required)
        most = int(min(self.max_parents[child] - len(required), len(free)))
        if child in self.exogenous or most < 0:
            return result
        if self.function is not None:
            return self._listed_probabilities(child)
        result[required] = 1.0
        least = int(max(0, min(self.min_parents[child] - len(required), most)))
        if most == 0:
            return result
        odds = self.log_odds(child)[free]
        weight = np.full(most + 1, -np.inf)
        weight[least:] = 0.0
        if self.by_size:
            sizes = self._log_number_of_families(child)
            weight[least:] -= sizes[len(required) + least : len(required) + most + 1]
        result[free] = inclusion_probabilities(odds, weight)
        return result

    def _listed_probabilities(self, child: int) -> FloatArray:
        """As :meth:`edge_probabilities`, by a list of all families."""
        n_families = self.n_families(child)
        if n_families > _MOST_LISTED:
            raise TooLargeError(
                f"A structure prior that is a function is asked about every set of parents, and "
                f"{self.nodes[child]!r} has {n_families:,} (at most {_MOST_LISTED:,} here); give "
                "prior odds of edges instead, or lower ",
                *(Setting("max_parents"), "."),
            )
        families = self.families(child)
        log_prior = self.log_prior(child, families)
        weight = np.exp(log_prior - log_prior.max())
        result = np.zeros(self.n_nodes + 1)  # the last place is for "no parent"
        np.add.at(result, families, np.broadcast_to(weight[:, None], families.shape))
        probabilities: FloatArray = np.minimum(result[:-1] / weight.sum(), 1.0)
        return probabilities

    def _log_number_of_families(self, child: int) -> FloatArray:
        """[number of parents] ln of how many sets of so many parents there are."""
        n_required = len(self.required.get(child, ()))
        n_free = len(self.candidates(child)) - n_required
        # sizes that are not allowed may be asked about: a search starts from no parents
        counts = [
            max(1, math.comb(n_free, max(0, size - n_required))) for size in range(self.n_nodes)
        ]
        return np.log(np.array(counts, dtype=np.float64))

    def log_odds(self, child: int) -> FloatArray:
        """(N,) log-odds of each edge into ``child``."""
        given = self.pair_log_odds.get(child, {})
        if isinstance(given, np.ndarray):
            return given
        odds = np.full(self.n_nodes, self.edge_log_odds)
        odds[list(given)] = list(given.values())
        return odds


def enumerate_families(
    candidates: Sequence[int] | IntArray,
    max_parents: int,
    required: Sequence[int] = (),
    min_parents: int = 0,
) -> IntArray:
    """(n_families, k) every set of up to ``max_parents`` candidates that holds all ``required``.

    ``required`` nodes need not be listed among the candidates. k is the size of the largest set,
    and at least 1, so that there is always a column. Sets of fewer than ``min_parents`` are left
    out, as far as there are larger ones.
    """
    fixed = np.unique(np.asarray(required, dtype=np.int64))
    free = np.setdiff1d(np.asarray(candidates, dtype=np.int64), fixed)
    if len(fixed) > max_parents:
        raise ModelError(
            f"{len(fixed)} required parents do not fit into ",
            *(Setting("max_parents", max_parents), "."),
        )
    least, extra = _numbers_of_free(len(free), len(fixed), min_parents, max_parents)
    chosen = _subsets(len(free), extra, least)
    rows = np.full((len(chosen), max(1, len(fixed) + extra)), NO_PARENT, dtype=np.int64)
    rows[:, : len(fixed)] = fixed
    if extra:
        names = np.append(free, NO_PARENT)  # position −1, no parent, reads the last entry
        rows[:, len(fixed) : len(fixed) + extra] = names[chosen]
        if len(fixed):
            rows = _ascending(rows)
    return rows


def count_families(
    n_candidates: int, max_parents: int, n_required: int = 0, min_parents: int = 0
) -> int:
    """How many rows :func:`enumerate_families` gives; ``n_candidates`` includes the required."""
    free = n_candidates - n_required
    least, most = _numbers_of_free(free, n_required, min_parents, max_parents)
    return sum(math.comb(free, size) for size in range(least, most + 1))


def _numbers_of_free(
    n_free: int, n_required: int, min_parents: int, max_parents: int
) -> tuple[int, int]:
    """How few and how many parents a family may have besides the required ones."""
    most = min(max_parents - n_required, n_free)
    return max(0, min(min_parents - n_required, most)), most


def family_sizes(families: IntArray) -> IntArray:
    """(n_families,) number of parents."""
    sizes: IntArray = (families != NO_PARENT).sum(axis=1)
    return sizes


def family_rows(sets: Sequence[Sequence[int]]) -> IntArray:
    """Plain sets of node numbers as padded rows, in the order given."""
    width = max([1, *map(len, sets)])
    rows = np.full((len(sets), width), NO_PARENT, dtype=np.int64)
    for row, members in zip(rows, sets):
        row[: len(members)] = sorted(members)
    return rows


def family_tuple(row: IntArray) -> tuple[int, ...]:
    """One row as plain numbers, without padding."""
    return tuple(int(p) for p in row if p != NO_PARENT)


@lru_cache(maxsize=8)
def _subsets(n: int, largest: int, smallest: int = 0) -> IntArray:
    """(…, largest) subsets of 0 … n−1 with ``smallest`` … ``largest`` members, padded with −1."""
    blocks = []
    for size in range(smallest, largest + 1):
        block = np.full((math.comb(n, size), largest), NO_PARENT, dtype=np.int64)
        if size:
            flat = chain.from_iterable(combinations(range(n), size))
            block[:, :size] = np.fromiter(flat, np.int64, block.shape[0] * size).reshape(-1, size)
        blocks.append(block)
    rows = np.concatenate(blocks)
    rows.flags.writeable = False  # shared between callers
    return rows


def _ascending(rows: IntArray) -> IntArray:
    """Sort every row, padding last; then the rows, small sets first."""
    largest = np.iinfo(np.int64).max
    rows = np.sort(np.where(rows == NO_PARENT, largest, rows), axis=1)
    sizes = (rows != largest).sum(axis=1)
    order = np.lexsort((*rows.T[::-1], sizes))
    ordered: IntArray = np.where(rows == largest, NO_PARENT, rows)[order]
    return ordered


def inclusion_probabilities(log_odds: FloatArray, log_weight: FloatArray) -> FloatArray:
    """(n,) chance of each item in a random set with P(set) ∝ weight[size] Π odds of its items."""
    sizes = len(log_weight)
    if np.ptp(log_odds) == 0.0:
        n = len(log_odds)
        size = np.arange(sizes)
        logs = np.array([math.log(math.comb(n, int(k))) for k in size]) + size * log_odds[0]
        mass = np.exp(logs + log_weight - (logs + log_weight).max())
        return np.full(n, float((mass * size).sum() / (mass.sum() * n)))
    # elementary symmetric sums of the items before and behind each one, in logs
    before = _running_sums(log_odds, sizes)
    behind = _running_sums(log_odds[::-1], sizes)[::-1]
    total = np.logaddexp.reduce(before[-1] + log_weight)
    result = np.empty(len(log_odds))
    for i, own in enumerate(log_odds):
        terms = [
            before[i, a] + behind[i + 1, b] + own + log_weight[a + b + 1]
            for a in range(sizes - 1)
            for b in range(sizes - 1 - a)
        ]
        result[i] = np.exp(np.logaddexp.reduce(terms) - total)
    return np.minimum(result, 1.0)


def _running_sums(log_odds: FloatArray, sizes: int) -> FloatArray:
    """[i, k] ln of the sum over all sets of k of the first i items of the product of their odds."""
    sums = np.full((len(log_odds) + 1, sizes), -np.inf)
    sums[:, 0] = 0.0
    for i, own in enumerate(log_odds):
        sums[i + 1, 1:] = np.logaddexp(sums[i, 1:], sums[i, :-1] + own)
    return sums
