"""Influences that are not nodes: a node that jumps feels a stimulus like a parent of known path.

A stimulus becomes an exogenous node with the states "off" and "on" that everything else may have as
a parent: the rates of a node that it hits differ while it is on. It is listed in ``targets_`` and
not among the edges, and it does not count as a parent where graphs are drawn.

A trend is a few stimuli too: "after 5", "after 10", … are on from that time since the start to the
end. Which of them a node takes up says how many spans its rates differ between.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd

from asterism.data.interventions import OFF, ON
from asterism.data.observations import Observations
from asterism.learning.search.found import SearchResult
from asterism.learning.search.settings import StructureSettings

#: spans of time between which a trend may change the rates
N_SPANS = 4


def with_stimuli(
    settings: StructureSettings, data: Observations
) -> tuple[StructureSettings, Observations]:
    """Settings and data in which every stimulus is an exogenous node."""
    if data.stimuli is None or not len(data.stimuli):
        return settings, data
    names = tuple(dict.fromkeys(map(str, data.stimuli["name"])))
    states = {**(settings.states or {}), **dict.fromkeys(names, (OFF, ON))}
    told = replace(
        settings, exogenous=(*settings.exogenous, *names), states=states, influences=names
    )
    return told, data.stimuli_as_nodes()


def with_trend(data: Observations) -> Observations:
    """The same data with stimuli that say how long ago each trajectory began."""
    whole = float((data.end - data.start).max(initial=0.0))
    rows = []
    for span in range(1, N_SPANS):
        since = whole * span / N_SPANS
        name = f"after {since:.4g}"
        for d in np.flatnonzero(data.start + since < data.end):
            rows.append((name, data.trajectories[d], data.start[d] + since, data.end[d]))
    told = pd.DataFrame(rows, columns=["name", "trajectory", "start", "end"])
    if data.stimuli is not None:
        told = pd.concat([data.stimuli, told], ignore_index=True)
    return replace(data, stimuli=told)


def target_frame(found: SearchResult) -> pd.DataFrame:
    """stimulus, node, probability: whom each stimulus acts on; likeliest first."""
    if found.continuous is not None:
        frame = found.continuous.targets()
    else:
        rows = [
            (name, child, float(chance[found.nodes.index(name)]))
            for name in found.influences
            for child in found.columns
            if child not in found.influences
            for chance in (found.edge_probabilities(found.nodes.index(child)),)
        ]
        frame = pd.DataFrame(rows, columns=["stimulus", "node", "probability"])
    return frame.sort_values(
        ["stimulus", "probability", "node"], ascending=[True, False, True], ignore_index=True
    )
