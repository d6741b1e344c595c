"""Owns what is known about the graph beforehand: which families may be, and how probable each is.

Hard knowledge: required and forbidden edges, the least and largest number of parents, exogenous
nodes, which never have parents. Soft knowledge, up to a constant: ln P(family) is the sum of the
log-odds of its edges (all zero is the uniform prior), less, if every *number* of parents is to be
equally probable, the logarithm of how many families have as many. Contradictions are refused with
the edge or node named.

Owns the enumeration of candidate families: sets of parents of one node.

A family is a set, written as a row of ascending node numbers, padded with −1 behind. Rows come
smallest sets first, then in the order of the node numbers. Scores belong to sets, not to rows:
renumbering the nodes permutes the rows and changes nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asterism.errors import ModelError, Setting
from asterism.learning.search.prior_edges import inclusion_probabilities

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

#: the limit of nodes that a dictionary of limits does not name
DEFAULT_MAX_PARENTS = 2
#: what is equally probable beforehand: every family, or every number of parents
FAMILY_PRIORS = ("uniform", "by_size")
#: the word for prior odds of 1/(2N) per edge: about one parent for every two nodes beforehand
SPARSE = "sparse"
#: with odds of 1/N, exact scores of ten unconnected nodes still claim almost one edge per data set
#: (benchmarks/nothing.py), and the log loss on simulated networks is the same
_SPARSENESS = 2.0


@dataclass(frozen=True)
class StructurePrior:
    """Constraints and log-odds by node number; made by :func:`structure_prior`."""

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
    pair_log_odds: Mapping[int, Mapping[int, float]] | FloatArray | None = None
    """child -> parent -> log-odds, or a matrix [child, parent]."""
    by_size: bool = False
    """Whether every number of parents is equally probable, rather than every family."""

    @property
    def n_nodes(self) -> int:
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
        odds = self._log_odds_into(child)
        result: FloatArray = np.where(families == NO_PARENT, 0.0, odds[families]).sum(axis=1)
        if self.by_size:
            result -= self._log_number_of_families(child)[family_sizes(families)]
        return result

    def edge_probabilities(self, child: int) -> FloatArray:
        """(N,) prior probability that each node is a parent of ``child``, limits respected."""
        result = np.zeros(self.n_nodes)
        required = list(self.required.get(child, ()))
        free = np.setdiff1d(self.candidates(child), required)
        most = int(min(self.max_parents[child] - len(required), len(free)))
        if child in self.exogenous or most < 0:
            return result
        result[required] = 1.0
        least = int(max(0, min(self.min_parents[child] - len(required), most)))
        if most == 0:
            return result
        odds = self._log_odds_into(child)[free]
        weight = np.full(most + 1, -np.inf)
        weight[least:] = 0.0
        if self.by_size:
            sizes = self._log_number_of_families(child)
            weight[least:] -= sizes[len(required) + least : len(required) + most + 1]
        result[free] = inclusion_probabilities(odds, weight)
        return result

    def _log_number_of_families(self, child: int) -> FloatArray:
        """[number of parents] ln of how many sets of so many parents there are."""
        n_required = len(self.required.get(child, ()))
        n_free = len(self.candidates(child)) - n_required
        # sizes that are not allowed may be asked about: a search starts from no parents
        counts = [
            max(1, math.comb(n_free, max(0, size - n_required))) for size in range(self.n_nodes)
        ]
        return np.log(np.array(counts, dtype=np.float64))

    def _log_odds_into(self, child: int) -> FloatArray:
        if isinstance(self.pair_log_odds, np.ndarray):
            row: FloatArray = self.pair_log_odds[child]
            return row
        odds = np.full(self.n_nodes, self.edge_log_odds)
        for parent, value in (self.pair_log_odds or {}).get(child, {}).items():
            odds[parent] = value
        return odds


def structure_prior(
    nodes: Sequence[str],
    max_parents: int | Mapping[Any, int] = DEFAULT_MAX_PARENTS,
    exogenous: Iterable[Any] = (),
    required: Any = (),
    forbidden: Any = (),
    edge_log_odds: Any = None,
    min_parents: int | Mapping[Any, int] = 0,
    family_prior: str = "uniform",
    edge_prior: Any = None,
) -> StructurePrior:
    """Check and number what the user says about the graph.

    ``required`` and ``forbidden`` are pairs (parent, child), a networkx.DiGraph, or a table with
    columns parent and child. ``max_parents`` is a number or {node: number}; nodes that the
    dictionary does not name may have two; ``min_parents`` likewise, and they may have none.
    ``edge_log_odds`` is a number for every edge, {(parent, child): number}, or a table with parents
    as rows and children as columns, or "sparse" for odds of one to twice the number of nodes.
    ``edge_prior`` gives probabilities of single edges, {(parent, child): probability} or a table
    with these columns, and wins over ``edge_log_odds``. ``family_prior`` is one of
    ``FAMILY_PRIORS``; with "by_size", "sparse" adds nothing.
    """
    number = {name: i for i, name in enumerate(nodes)}
    if isinstance(exogenous, str):
        raise ModelError(Setting("exogenous"), f" must be a list of nodes, got {exogenous!r}.")
    given = frozenset(_known(number, name, "exogenous") for name in exogenous)
    limits = _limits(number, max_parents, "max_parents", DEFAULT_MAX_PARENTS)
    limits[list(given)] = 0
    least = _limits(number, min_parents, "min_parents", 0)
    least[list(given)] = 0
    must = _by_child(number, required, "required")
    never = _by_child(number, forbidden, "forbidden")
    for child, parents in must.items():
        _check_required(nodes, child, parents, never.get(child, set()), given, int(limits[child]))
    if isinstance(edge_log_odds, str) and edge_log_odds == SPARSE:
        edge_log_odds = (
            0.0 if family_prior == "by_size" else -math.log(_SPARSENESS * max(2, len(nodes)))
        )
    scalar, pairs = _log_odds(number, edge_log_odds)
    pairs = _with_probabilities(number, scalar, pairs, edge_prior)
    prior = StructurePrior(
        nodes=tuple(nodes),
        max_parents=limits,
        min_parents=least,
        exogenous=given,
        required={child: tuple(sorted(parents)) for child, parents in must.items()},
        forbidden={child: frozenset(parents) for child, parents in never.items()},
        edge_log_odds=scalar,
        pair_log_odds=pairs,
        by_size=family_prior == "by_size",
    )
    for child in map(int, np.flatnonzero(least)):
        _check_least(nodes[child], int(least[child]), int(limits[child]), prior.candidates(child))
    return prior


def _check_least(name: str, least: int, most: int, candidates: IntArray) -> None:
    if least > most:
        raise ModelError(
            *(f"Node {name!r} needs ", Setting("min_parents", least), " and may have "),
            *(Setting("max_parents", most), "; lower the first or raise the second."),
        )
    if least > len(candidates):
        are = "is" if len(candidates) == 1 else "are"
        raise ModelError(
            *(f"Node {name!r} needs ", Setting("min_parents", least)),
            f", but there {are} only {len(candidates)} that may be its parents; lower ",
            *(Setting("min_parents"), " or forbid fewer edges."),
        )


def _check_required(
    nodes: Sequence[str],
    child: int,
    parents: set[int],
    never: set[int],
    exogenous: frozenset[int],
    limit: int,
) -> None:
    name = nodes[child]
    first = nodes[min(parents)]
    if child in exogenous:
        raise ModelError(
            f"The edge {first!r} → {name!r} is required, but {name!r} is exogenous and so has no "
            "parents; drop one of the two."
        )
    if child in parents:
        raise ModelError(f"The edge {name!r} → {name!r} is required; self-loops are not allowed.")
    if parents & never:
        both = nodes[min(parents & never)]
        raise ModelError(f"The edge {both!r} → {name!r} is both required and forbidden.")
    if len(parents) > limit:
        listed = ", ".join(repr(nodes[p]) for p in sorted(parents))
        raise ModelError(
            f"Node {name!r} has {len(parents)} required parents ({listed}), more than its ",
            *(Setting("max_parents", limit), "; raise ", Setting("max_parents")),
            " or require fewer.",
        )


def _limits(
    number: Mapping[str, int], given: int | Mapping[Any, int], what: str, default: int
) -> IntArray:
    limits = np.full(len(number), default, dtype=np.int64)
    if isinstance(given, Mapping):
        for name, value in given.items():
            limits[_known(number, name, what)] = _limit(value, what, f" of {name!r}")
    else:
        limits[:] = _limit(given, what)
    return limits


def _limit(value: Any, what: str, whose: str = "") -> int:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise ModelError(Setting(what), f"{whose} must be a whole number ≥ 0, got {value!r}.")
    return int(value)


def _by_child(number: Mapping[str, int], edges: Any, what: str) -> dict[int, set[int]]:
    result: dict[int, set[int]] = {}
    for parent, child in _pairs(edges, what):
        into = _known(number, child, what)
        result.setdefault(into, set()).add(_known(number, parent, what))
    return result


def _pairs(edges: Any, what: str) -> list[tuple[Any, Any]]:
    """Edges from a graph, a table or plain pairs."""
    if hasattr(edges, "predecessors"):
        return list(edges.edges())
    if hasattr(edges, "columns"):
        if not {"parent", "child"} <= set(edges.columns):
            raise ModelError(f"The table of {what} edges needs the columns parent and child.")
        return list(zip(edges["parent"], edges["child"]))
    pairs = []
    for edge in edges:
        if isinstance(edge, str) or not isinstance(edge, Sequence) or len(edge) != 2:
            raise ModelError(Setting(what), f" must hold pairs (parent, child), got {edge!r}.")
        pairs.append((edge[0], edge[1]))
    return pairs


def _log_odds(number: Mapping[str, int], given: Any) -> tuple[float, Any]:
    """The number for all edges, and what differs from it."""
    if given is None:
        return 0.0, None
    if hasattr(given, "columns"):
        return 0.0, _log_odds_table(number, given)
    if isinstance(given, Mapping):
        by_child: dict[int, dict[int, float]] = {}
        for edge, value in given.items():
            ((parent, child),) = _pairs([edge], "edge_log_odds")
            into = _known(number, child, "edge_log_odds")
            parent_number = _known(number, parent, "edge_log_odds")
            by_child.setdefault(into, {})[parent_number] = _finite(value, parent, child)
        return 0.0, by_child
    return _finite(given), None


def _with_probabilities(
    number: Mapping[str, int], scalar: float, pairs: Any, edge_prior: Any
) -> Any:
    """The log-odds with those of the edges that ``edge_prior`` names put in their place."""
    if edge_prior is None:
        return pairs
    if hasattr(edge_prior, "columns"):
        absent = [c for c in ("parent", "child", "probability") if c not in edge_prior.columns]
        if absent:
            raise ModelError(
                *("The table ", Setting("edge_prior")),
                f" has no column {absent[0]!r}; it needs parent, child, probability.",
            )
        columns = (edge_prior[c].tolist() for c in ("parent", "child", "probability"))
        given = {(p, c): value for p, c, value in zip(*columns)}
        if len(given) < len(edge_prior):
            raise ModelError("The table ", Setting("edge_prior"), " names an edge twice.")
    elif isinstance(edge_prior, Mapping):
        given = dict(edge_prior)
    else:
        raise ModelError(
            Setting("edge_prior"),
            " must be {(parent, child): probability} or a table with the columns parent, "
            f"child, probability, got {type(edge_prior).__name__}.",
        )
    matrix = pairs.copy() if isinstance(pairs, np.ndarray) else None
    by_child: dict[int, dict[int, float]] = {}
    if isinstance(pairs, Mapping):
        by_child = {child: dict(row) for child, row in pairs.items()}
    for edge, value in given.items():
        ((parent, child),) = _pairs([edge], "edge_prior")
        into, above = _known(number, child, "edge_prior"), _known(number, parent, "edge_prior")
        if into == above:
            raise ModelError(
                Setting("edge_prior"),
                f" names {parent!r} → {child!r}; self-loops are not allowed.",
            )
        odds = _logit(value, parent, child)
        if matrix is not None:
            matrix[into, above] = odds
        else:
            by_child.setdefault(into, {})[above] = odds
    return by_child if matrix is None else matrix


def _logit(value: Any, parent: Any, child: Any) -> float:
    try:
        probability = float(value)
    except (TypeError, ValueError):
        probability = math.nan
    if not 0.0 < probability < 1.0:
        raise ModelError(
            Setting("edge_prior"),
            f" of {parent!r} → {child!r} must be a probability between 0 and 1, got {value!r}; "
            "use ",
            *(Setting("required"), " or ", Setting("forbidden"), " for certain edges."),
        )
    return math.log(probability) - math.log1p(-probability)


def _log_odds_table(number: Mapping[str, int], table: Any) -> FloatArray:
    """[child, parent]; pairs that the table does not hold are 0, its diagonal is not read."""
    rows = [_known(number, name, "edge_log_odds") for name in table.index]
    columns = [_known(number, name, "edge_log_odds") for name in table.columns]
    for names, axis in ((rows, "row"), (columns, "column")):
        if len(set(names)) < len(names):
            raise ModelError("The table ", Setting("edge_log_odds"), f" has a {axis} twice.")
    result = np.zeros((len(number), len(number)))
    try:
        values = np.asarray(table, dtype=np.float64)
    except (TypeError, ValueError):
        raise ModelError("The table ", Setting("edge_log_odds"), " must hold numbers.") from None
    result[np.ix_(columns, rows)] = values.T
    np.fill_diagonal(result, 0.0)
    bad = np.argwhere(~np.isfinite(result))
    if len(bad):
        every = list(number)
        child, parent = (int(i) for i in bad[0])
        _finite(result[child, parent], every[parent], every[child])
    return result


def _finite(value: Any, parent: Any = None, child: Any = None) -> float:
    try:
        result = float(value)
    except (TypeError, ValueError):
        result = math.nan
    if not math.isfinite(result):
        where = "" if parent is None else f" of {parent!r} → {child!r}"
        raise ModelError(
            Setting("edge_log_odds"),
            f"{where} must be a finite number, got {value!r}; use ",
            *(
                Setting("required"),
                " or ",
                Setting("forbidden"),
                " for certain edges, or the word 'sparse' for odds of 1/(2N).",
            ),
        )
    return result


def _known(number: Mapping[str, int], name: Any, what: str) -> int:
    if str(name) not in number:
        names = list(number)
        listed = ", ".join(names[:8]) + (f", … ({len(names)} in all)" if len(names) > 8 else "")
        raise ModelError(
            Setting(what), f" names {str(name)!r}, which is not a node; the nodes are {listed}."
        )
    return number[str(name)]


#: stands behind the last parent of a family
NO_PARENT = -1


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
        names = np.append(free, NO_PARENT)  # position −1, "nobody", reads the last entry
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
