"""What "auto" means for a fit of rates: exact, clusters, or neither."""

from __future__ import annotations

import pytest

from asterism.learning.em.cluster_step import NoClusters, chosen_method
from asterism.numerics.compiled import compile_graph
from tests.reference.random_evidence import make_evidence


def chosen(sizes: list[int], parents: list[list[int]]) -> str:
    return chosen_method(compile_graph(sizes, parents), make_evidence(sizes, [0.0], [1.0]))


@pytest.mark.parametrize(("n_nodes", "method"), [(2, "exact"), (8, "exact"), (9, "clusters")])
def test_coupled_nodes_count_together(n_nodes: int, method: str) -> None:
    assert chosen([2] * n_nodes, [[(i - 1) % n_nodes] for i in range(n_nodes)]) == method


def test_nodes_that_are_not_coupled_count_apart() -> None:
    assert chosen([2] * 40, [[] for _ in range(40)]) == "exact"


def test_a_family_too_large_for_clusters_is_left_to_sampling() -> None:
    with pytest.raises(NoClusters, match="2,048 joint states"):
        chosen([2] * 11, [list(range(1, 11)), *([] for _ in range(10))])
