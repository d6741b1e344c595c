"""Which nodes are kept together, and what neighbouring clusters must agree on.

A *cluster* is a set of nodes whose joint chain is followed exactly. Every family (a node with its
parents) lies in one cluster, its *owner*. A *separator* is the set of nodes on whose joint process
two clusters agree. For every node, the clusters that hold it, joined by the separators that hold
it, form a tree; so every node is counted once:

    number of clusters with n − number of separators with n = 1.

Exogenous nodes have a given path and belong to no cluster. A joint measurement needs all its nodes
in one cluster and so acts like a family.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from asterism.errors import AsterismError, Setting, TooLargeError, first_few
from asterism.numerics.compiled import CompiledGraph
from asterism.timeline.evidence import Evidence

#: joint states a cluster may have if a family needs them
STATE_LIMIT = 1024
#: clusters that are merged without being asked to stay below these
MERGED_NODES = 4
MERGED_STATES = 81
#: a node in more clusters than this is a hub: its clusters meet only in the one that owns it
_HUB = 12
_FEW = 200  # the same where the user asks for merging


@dataclass(frozen=True)
class Separator:
    """What two clusters share, and agree on."""

    clusters: tuple[int, int]
    nodes: tuple[int, ...]


@dataclass(frozen=True)
class Regions:
    """Clusters, separators, and the cluster that owns each node's rates."""

    clusters: tuple[tuple[int, ...], ...]
    separators: tuple[Separator, ...]
    owner: tuple[int, ...]
    """Per node its cluster; −1 for exogenous nodes."""

    def holding(self, nodes: Iterable[int]) -> int:
        """The smallest cluster that holds all these nodes; −1 if none does."""
        wanted = set(nodes)
        fits = [(len(c), i) for i, c in enumerate(self.clusters) if wanted <= set(c)]
        return min(fits)[1] if fits else -1


def joint_probabilities(
    nodes: Sequence[int], parts: Iterable[tuple[Sequence[int], NDArray[np.float64]]]
) -> NDArray[np.float64]:
    """(times, S_1, S_2, …) of these nodes, rows that sum to one.

    ``parts``: independent sets of nodes, each with its probabilities (times, S, S, …).
    """
    time, operands = len(nodes), []
    for members, probability in parts:
        others = tuple(1 + i for i, n in enumerate(members) if n not in nodes)
        operands.append(probability.sum(axis=others))
        operands.append([time, *(nodes.index(n) for n in members if n in nodes)])
    found = np.einsum(*operands, [time, *range(len(nodes))])
    return np.asarray(found / found.sum(axis=tuple(range(1, found.ndim)), keepdims=True))


def find_regions(
    graph: CompiledGraph,
    evidence: Evidence,
    cluster_size: int | None = None,
    state_limit: int = STATE_LIMIT,
    names: Sequence[str] = (),
) -> Regions:
    """Clusters and separators of a network.

    ``cluster_size``: families are merged while a cluster has at most that many nodes and
    ``state_limit`` joint states; 1 keeps the families as they are. By default only families that
    share two nodes are merged, into clusters of at most 4 nodes and 81 joint states.
    """
    if cluster_size is not None and cluster_size < 1:
        raise AsterismError(Setting("cluster_size"), f" is {cluster_size}; it must be at least 1.")
    families = _families(graph, evidence)
    required = list(families.values()) + sorted(
        {frozenset(m.nodes) - evidence.exogenous for m in evidence.joint} - {frozenset()},
        key=sorted,
    )
    sizes = [int(size) for size in graph.n_states]
    for members in required:
        _require_small(members, sizes, state_limit, names)
    clusters = _maximal(required)
    if cluster_size is None:
        clusters = _merged(clusters, sizes, MERGED_NODES, MERGED_STATES, only_close=True)
    elif cluster_size > 1:
        clusters = _merged(clusters, sizes, cluster_size, state_limit, only_close=False)
    clusters = _in_order_of_neighbours(clusters)
    ordered = tuple(tuple(sorted(c)) for c in clusters)
    owner = _owners(graph.n_nodes, families, clusters, sizes)
    return Regions(ordered, _separators(graph, clusters, owner), owner)


def _families(graph: CompiledGraph, evidence: Evidence) -> dict[int, frozenset[int]]:
    """Every node that is not exogenous, with its parents that are not."""
    found = {}
    for n in range(graph.n_nodes):
        if n not in evidence.exogenous:
            parents = graph.parents[graph.parent_start[n] : graph.parent_start[n + 1]]
            found[n] = frozenset({n, *map(int, parents)}) - evidence.exogenous
    return found


def _require_small(
    members: frozenset[int], sizes: Sequence[int], limit: int, names: Sequence[str]
) -> None:
    count = _joint_states(members, sizes)
    if count > limit:
        shown = first_few([names[n] if names else f"number {n}" for n in sorted(members)], 4)
        number = f"{count:,}" if count < 10**12 else f"about 10^{len(str(count)) - 1}"
        raise TooLargeError(
            f"The nodes {shown} must be in one cluster, which needs {number} joint states, "
            f"above the limit of {limit:,}: use ",
            *(
                Setting("method", "star"),
                " or ",
                Setting("method", "sample"),
                ", or fewer parents.",
            ),
        )


def _joint_states(members: Iterable[int], sizes: Sequence[int]) -> int:
    return math.prod(sizes[n] for n in members)


def _maximal(sets: list[frozenset[int]]) -> list[frozenset[int]]:
    """The sets that no other one contains, in their order."""
    holders: dict[int, list[frozenset[int]]] = {}
    kept: list[frozenset[int]] = []
    for members in sorted(set(sets), key=lambda s: (-len(s), sorted(s))):
        nearby = min((holders.get(n, []) for n in members), key=len)
        if not any(members <= other for other in nearby):
            kept.append(members)
            for n in members:
                holders.setdefault(n, []).append(members)
    return sorted(kept, key=sorted)


def _merged(
    clusters: list[frozenset[int]],
    sizes: Sequence[int],
    most_nodes: int,
    most_states: int,
    *,
    only_close: bool,
) -> list[frozenset[int]]:
    """Merge the two that share most, again and again, while the union stays small enough.

    ``only_close``: only clusters that share two nodes; elsewhere the families by themselves are
    nearly exact.
    """
    alive = dict(enumerate(clusters))
    holders: dict[int, set[int]] = {}
    for i, members in alive.items():
        for n in members:
            holders.setdefault(n, set()).add(i)
    queue: list[tuple[int, int, int, int]] = []

    most_holders = _HUB if only_close else _FEW

    def offer(i: int) -> None:
        near = {j for n in alive[i] if len(holders[n]) <= most_holders for j in holders[n]} - {i}
        for j in near:
            shared, union = alive[i] & alive[j], alive[i] | alive[j]
            fits = len(union) <= most_nodes and _joint_states(union, sizes) <= most_states
            if fits and (not only_close or len(shared) > 1):
                heapq.heappush(queue, (-len(shared), len(union), min(i, j), max(i, j)))

    for i in alive:
        offer(i)
    following = len(clusters)
    while queue:
        _, _, i, j = heapq.heappop(queue)
        if i not in alive or j not in alive:
            continue
        union = alive.pop(i) | alive.pop(j)
        for n in union:
            holders[n] -= {i, j}
            holders[n].add(following)
        alive[following] = union
        offer(following)
        following += 1
    return _maximal(list(alive.values()))


def _holders(clusters: list[frozenset[int]]) -> dict[int, list[int]]:
    """Per node the clusters that hold it, ascending."""
    found: dict[int, list[int]] = {}
    for i, members in enumerate(clusters):
        for n in members:
            found.setdefault(n, []).append(i)
    return found


def _in_order_of_neighbours(clusters: list[frozenset[int]]) -> list[frozenset[int]]:
    """Breadth first over shared nodes: what a cluster says reaches the next within a sweep."""
    import networkx

    nodes_and_clusters = networkx.Graph()  # cluster i stands as −1 − i
    for i, members in enumerate(clusters):
        nodes_and_clusters.add_edges_from((-1 - i, n) for n in sorted(members))
    seen: dict[int, None] = {}
    for i in range(len(clusters)):
        if i not in seen:
            reached = networkx.bfs_edges(nodes_and_clusters, -1 - i)
            seen.update(dict.fromkeys([i, *(-1 - j for _, j in reached if j < 0)]))
    return [clusters[i] for i in seen]


def _owners(
    n_nodes: int,
    families: dict[int, frozenset[int]],
    clusters: list[frozenset[int]],
    sizes: Sequence[int],
) -> tuple[int, ...]:
    """The smallest cluster that holds a node's family."""
    holders = _holders(clusters)
    owner = [-1] * n_nodes
    for n, family in families.items():
        rarest = min(family, key=lambda m: len(holders[m]))
        fits = [i for i in holders[rarest] if family <= clusters[i]]
        owner[n] = min(fits, key=lambda i: (_joint_states(clusters[i], sizes), i))
    return tuple(owner)


def _separators(
    graph: CompiledGraph, clusters: list[frozenset[int]], owner: Sequence[int]
) -> tuple[Separator, ...]:
    """Join clusters, those that share most mutual edges first, until every node's form a tree."""
    from networkx.utils import UnionFind

    holders = _holders(clusters)
    pairs: set[tuple[int, int]] = set()
    for n, held_by in holders.items():
        if len(held_by) <= _HUB:
            pairs.update(combinations(held_by, 2))
        else:
            pairs.update((min(i, owner[n]), max(i, owner[n])) for i in held_by if i != owner[n])
    edges = {
        (int(p), n)
        for n in range(graph.n_nodes)
        for p in graph.parents[graph.parent_start[n] : graph.parent_start[n + 1]]
    }

    def rank(pair: tuple[int, int]) -> tuple[int, int, tuple[int, int]]:
        shared = clusters[pair[0]] & clusters[pair[1]]
        mutual = sum((a, b) in edges and (b, a) in edges for a, b in combinations(shared, 2))
        return -mutual, -len(shared), pair

    trees, found = UnionFind(), []
    for i, j in sorted(pairs, key=rank):
        new = [n for n in sorted(clusters[i] & clusters[j]) if trees[n, i] != trees[n, j]]
        for n in new:
            trees.union((n, i), (n, j))
        if new:
            found.append(Separator((i, j), tuple(new)))
    return tuple(found)
