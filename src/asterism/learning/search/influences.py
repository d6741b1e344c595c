"""Influences that are not nodes: a node that jumps feels a stimulus like a parent of known path.

A stimulus becomes an exogenous node with the states "off" and "on" that everything else may have as
a parent: the rates of a node that it hits differ while it is on. It is listed in ``targets_`` and
not among the edges, and it does not count as a parent where graphs are drawn.
"""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from asterism.data.interventions import OFF, ON
from asterism.data.observations import Observations
from asterism.learning.search.found import SearchResult
from asterism.learning.search.settings import StructureSettings


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
