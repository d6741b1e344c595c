"""Where to put the nodes when a network is drawn.

Each connected part is laid out on its own and the parts are then set in rows, the largest first.
(One layout of everything lets unconnected parts fly apart until nothing can be read.) The same
graph always gets the same picture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from asterism.numerics.arrays import FloatArray

if TYPE_CHECKING:
    import networkx

Positions = dict[Any, tuple[float, float]]

#: above this many nodes in one part the faster layout is used
SPRING_FROM = 120

#: width of the rows relative to their height
ASPECT = 1.5


def positions(graph: networkx.DiGraph) -> Positions:
    """Position of every node; neighbours are about one unit apart, y grows downwards."""
    import networkx

    undirected = networkx.Graph(graph)
    order = {node: i for i, node in enumerate(graph.nodes)}
    parts = [
        sorted(part, key=order.__getitem__) for part in networkx.connected_components(undirected)
    ]
    parts.sort(key=lambda part: (-len(part), order[part[0]]))
    boxes = [_part_positions(undirected.subgraph(part), part) for part in parts]
    return _set_in_rows(parts, boxes)


def _part_positions(graph: networkx.Graph, nodes: list[Any]) -> FloatArray:
    """(n, 2) positions of one connected part, its longer side lying flat."""
    import networkx

    if len(nodes) == 1:
        return np.zeros((1, 2))
    ordered = networkx.Graph()
    ordered.add_nodes_from(nodes)
    ordered.add_edges_from(
        sorted(graph.edges, key=lambda e: (nodes.index(e[0]), nodes.index(e[1])))
    )
    if len(nodes) <= SPRING_FROM:
        found = networkx.kamada_kawai_layout(ordered)
    else:
        found = networkx.spring_layout(ordered, seed=0, iterations=60)
    place = np.array([found[node] for node in nodes], dtype=np.float64)
    place -= place.mean(axis=0)
    # turn the longest direction level; its sign is fixed so that the picture does not flip
    _, _, axes = np.linalg.svd(place, full_matrices=False)
    place = place @ axes.T if axes.shape[0] == 2 else place
    place *= np.where(place[0] > 0, -1.0, 1.0)
    lengths = [np.hypot(*(place[nodes.index(a)] - place[nodes.index(b)])) for a, b in ordered.edges]
    place /= max(float(np.median(lengths)), 1e-9)
    return _spread_apart(place, 0.8)


def _spread_apart(place: FloatArray, least: float) -> FloatArray:
    """Push nodes that nearly coincide to a readable distance, a few gentle rounds."""
    place = place.copy()
    for _ in range(30):
        gap = place[:, None] - place[None]
        distance = np.hypot(gap[..., 0], gap[..., 1]) + np.eye(len(place)) * 1e9
        close = np.clip(least - distance, 0.0, None)
        if not close.any():
            break
        # coincident nodes have no direction to part in: take one from their positions in the list
        angle = np.subtract.outer(np.arange(len(place)), np.arange(len(place))) * 2.4
        aside = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
        direction = np.where(distance[..., None] > 1e-6, gap / distance[..., None], aside)
        place += 0.5 * (close[..., None] * direction).sum(axis=1)
    return place


def _set_in_rows(parts: list[list[Any]], boxes: list[FloatArray]) -> Positions:
    sizes = [np.ptp(box, axis=0) + 1.0 for box in boxes]
    area = sum(float(size[0] * size[1]) for size in sizes)
    width = max(float(np.sqrt(area * ASPECT)), max((float(s[0]) for s in sizes), default=1.0))
    found: Positions = {}
    x = y = row_height = 0.0
    for part, box, size in zip(parts, boxes, sizes):
        if x > 0 and x + size[0] > width + 1e-9:
            x, y, row_height = 0.0, y + row_height, 0.0
        corner = box.min(axis=0)
        for node, place in zip(part, box):
            found[node] = (
                float(x + 0.5 + place[0] - corner[0]),
                float(y + 0.5 + place[1] - corner[1]),
            )
        x += float(size[0])
        row_height = max(row_height, float(size[1]))
    return found
