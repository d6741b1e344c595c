"""Families of many nodes scored in pieces, on threads or a cluster, and kept in the journal.

Whatever the kind of node: a piece of work is a few nodes with the families of each, and gives back
one array of scores per node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from asterism.learning.tasks import ProgressListener, map_tasks
from asterism.numerics.arrays import FloatArray, IntArray
from asterism.numerics.resources import chunks, current_limit

if TYPE_CHECKING:
    from asterism.learning.search.journal import Journal

#: scores of some nodes' families: (shared, nodes, families of each); NaN: there was no time for it
ScorePiece = Callable[[Any, IntArray, list[IntArray]], list[FloatArray]]


def scores_by_child(
    work: ScorePiece,
    shared: Any,
    families: Mapping[int, IntArray],
    *,
    per_task: int,
    n_jobs: int,
    progress: ProgressListener,
    told: str,
    journal: Journal | None,
    around: str,
    per_family: int = 1,
) -> Iterator[tuple[int, FloatArray]]:
    """(node, flat scores) as they come, those that the journal knows ``around`` this point first.

    Nodes of whose families a time limit left some unscored are left out. There are ``per_family``
    scores of each family.
    """
    children = sorted(families)
    pieces = [children[a:b] for a, b in chunks(len(children), max(1, len(children) // per_task))]
    progress.start(sum(map(len, families.values())), told)
    if journal is not None:
        known = {int(item): own for item, own in journal.known(around).items()}
        for child in [c for c in children if c in known]:
            if len(known[child]) == per_family * len(families[child]):
                progress.advance(len(families[child]))
                yield child, known[child]
            else:
                del known[child]
        pieces = [left for p in pieces if (left := [c for c in p if c not in known])]
    tasks = [(np.array(p, dtype=np.int64), [families[c] for c in p]) for p in pieces]
    for piece, found in zip(pieces, map_tasks(work, shared, tasks, n_jobs, progress)):
        for child, own in zip(piece, found):
            if np.isnan(own).any():
                continue
            if journal is not None:
                journal.add(around, str(child), own)
            yield child, own
        if current_limit().stops():
            break
    progress.finish()
