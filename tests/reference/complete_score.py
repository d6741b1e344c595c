"""The exact score of complete paths, one family and one interval at a time."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from itertools import product
from typing import Any

from asterism.data.trajectories import Trajectories


def family_counts(
    paths: Trajectories, child: int, parents: Sequence[int]
) -> tuple[dict[Any, float], dict[Any, float]]:
    """Time in (configuration, state) and jumps (configuration, from, to), walking every path."""
    dwell: dict[Any, float] = defaultdict(float)
    jumps: dict[Any, float] = defaultdict(float)
    for d in range(paths.n_trajectories):
        state = [int(x) for x in paths.initial[d]]
        now = float(paths.start[d])
        for k in range(int(paths.jump_offset[d]), int(paths.jump_offset[d + 1])):
            configuration = tuple(state[p] for p in parents)
            time, node = float(paths.jump_time[k]), int(paths.jump_node[k])
            dwell[configuration, state[child]] += time - now
            if node == child:
                jumps[configuration, state[child], int(paths.jump_state[k])] += 1
            state[node] = int(paths.jump_state[k])
            now = time
        configuration = tuple(state[p] for p in parents)
        dwell[configuration, state[child]] += float(paths.end[d]) - now
    return dwell, jumps


def family_score(
    paths: Trajectories,
    child: int,
    parents: Sequence[int],
    shape: float,
    rate: float,
    allowed: Any = None,
) -> float:
    """ln of the marginal likelihood of the child's jumps, term by term."""
    dwell, jumps = family_counts(paths, child, parents)
    sizes = [len(paths.states[n]) for n in paths.nodes]
    total = 0.0
    for configuration in product(*(range(sizes[p]) for p in parents)):
        for x, y in product(range(sizes[child]), repeat=2):
            if x == y or (allowed is not None and not allowed[x][y]):
                continue
            m, t = jumps[configuration, x, y], dwell[configuration, x]
            total += shape * math.log(rate) - math.lgamma(shape)
            total += math.lgamma(m + shape) - (m + shape) * math.log(t + rate)
    return total
