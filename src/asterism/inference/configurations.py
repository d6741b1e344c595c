"""How a parent's state enters the number of its child's configuration.

The configuration of a node is the sum of one term per parent: state × stride for an ordinary
table, the summary weight for a summary node. Both are the same table of terms per edge and state.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asterism.model.compiled import CompiledGraph

IntArray = NDArray[np.int64]


def configuration_terms(graph: CompiledGraph) -> tuple[IntArray, IntArray]:
    """(E+1,) offsets per edge, and flat: what each state of the edge's parent adds."""
    start = np.zeros(len(graph.parents) + 1, dtype=np.int64)
    np.cumsum(graph.n_states[graph.parents], out=start[1:])
    terms = np.zeros(int(start[-1]), dtype=np.int64)
    for node in range(graph.n_nodes):
        first, last = int(graph.parent_start[node]), int(graph.parent_start[node + 1])
        stride = 1
        for edge in range(last - 1, first - 1, -1):
            size = int(graph.n_states[graph.parents[edge]])
            if graph.is_summary[node]:
                at = int(graph.weight_start[edge])
                terms[start[edge] : start[edge + 1]] = graph.weights[at : at + size]
            else:
                terms[start[edge] : start[edge + 1]] = stride * np.arange(size)
                stride *= size
    return start, terms
