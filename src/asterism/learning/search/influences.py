"""Influences that are not nodes: a node that jumps feels a stimulus like a parent of known path.

A stimulus becomes an exogenous node with the states "off" and "on" that everything else may have as
a parent: the rates of a node that it hits differ while it is on. It is listed in ``targets_`` and
not among the edges, and it does not count as a parent where graphs are drawn. Where it is known
whom it hits, those edges are required and all others of the stimulus forbidden.
"""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from asterism.data.interventions import OFF, ON, known_targets
from asterism.data.observations import Observations
from asterism.learning.search.found import SearchResult
from asterism.learning.search.settings import StructureSettings
from asterism.results.edge_sets import edge_list


def with_stimuli(
    settings: StructureSettings, data: Observations
) -> tuple[StructureSettings, Observations]:
    """Settings and data in which every stimulus is an exogenous node."""
    if data.stimuli is None or not len(data.stimuli):
        return settings, data
    names = tuple(dict.fromkeys(map(str, data.stimuli["name"])))
    states = {**(settings.states or {}), **dict.fromkeys(names, (OFF, ON))}
    prior = settings.structure_prior
    prior = replace(prior, exogenous=(*prior.exogenous, *names))
    if known := known_targets(data.stimuli):
        hit = [(name, node) for name, own in known.items() for node in data.nodes if node in own]
        spared = [(name, node) for name in known for node in data.nodes if node not in known[name]]
        prior = replace(
            prior,
            required=[*edge_list(prior.required, "required"), *hit],
            forbidden=[*edge_list(prior.forbidden, "forbidden"), *spared],
        )
    told = replace(settings, structure_prior=prior, states=states, influences=names)
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
