"""The most probable edges, whatever the threshold, and how many of them are true.

A graph of the edges above a threshold may be empty while the ranking is good. The sum of the
probabilities of some edges is the number of them that are expected to be true.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from asterism.errors import counted

#: edges in a ranking
TOP = 10
#: edges that can be drawn at once; each has an effect, so that every line drawn has its sign
DRAWN = 100
#: an edge is likely from this many times its prior probability on
TIMES_PRIOR = 2.0
#: nodes up to which a table of edges lists every allowed pair
MOST_LISTED_NODES = 200
#: In larger networks it lists pairs at least this probable, and the likeliest of each child: then
#: it has some hundred rows per node at most, and the likeliest pairs even if little is known.
LARGE_FLOOR, LIKELIEST = 0.01, 10
#: an edge this probable is called certain
CERTAIN = 0.95


def ranked(table: pd.DataFrame, n: int = TOP) -> pd.DataFrame:
    """The ``n`` most probable of a table of edges, which lists the surest first."""
    known = table[table["probability"].notna()]
    return known[known["probability"] > 0.0].head(n).reset_index(drop=True)


def likely(table: pd.DataFrame) -> pd.DataFrame:
    """Edges of the graph, those of twice their prior probability, and the most probable."""
    chance = table["probability"].to_numpy(dtype=np.float64, na_value=np.nan)
    kept = np.arange(len(table)) < TOP
    if "prior" in table.columns:
        kept |= chance >= TIMES_PRIOR * table["prior"].to_numpy(dtype=np.float64, na_value=np.nan)
    kept &= np.nan_to_num(chance) > 0.0
    shown: pd.DataFrame = table[kept | table["in_graph"].to_numpy(dtype=bool)]
    return shown


def expected_true(table: pd.DataFrame) -> float:
    """How many of these edges are true on average: the sum of their probabilities."""
    return float(table["probability"].sum())


def support(table: pd.DataFrame) -> str:
    """One sentence on how much the data support; empty without any edge that was scored."""
    top = ranked(table)
    if not len(top):
        return ""
    n_certain = int((top["probability"] >= CERTAIN).sum())
    certain = "No single edge is certain"
    if n_certain:
        certain = f"{counted(n_certain, 'edge')} {'is' if n_certain == 1 else 'are'} almost certain"
    if len(top) == 1:
        return f"{certain}."
    count = {10: "ten"}.get(len(top), str(len(top)))
    before = ""
    if "prior" in top.columns and top["prior"].notna().all():
        before = f"; before the data {float(top['prior'].sum()):.1f} were expected"
    return (
        f"{certain}; the {count} most probable contain about {expected_true(top):.1f} true ones "
        f"(the sum of their probabilities{before})."
    )


def by_chance(record: Mapping[str, Any], probability: float) -> float | None:
    """Edges at least as probable in one permuted data set, on average; None if none was made.

    ``record`` is that of a run (``--null``).
    """
    null = record.get("null")
    if not isinstance(null, Mapping) or not isinstance(null.get("probabilities"), list):
        return None
    n_permutations = max(1, len(null.get("largest", [])))
    found = np.array(null["probabilities"], dtype=np.float64)
    return float((found >= probability).sum()) / n_permutations
