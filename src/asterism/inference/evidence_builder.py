"""Owns the step from what was measured to what inference reads: observations → evidence.

Labels become numbers, emissions turn values into likelihoods of the states, and everything that
cannot be true under the network is refused with its place. The work is split by kind:
``point_evidence.py`` (measurements at a time) and ``path_evidence.py`` (jumps, intervals,
exogenous nodes); cutting evidence short is in this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from asterism.data.observations import Observations
from asterism.errors import DataError, ModelError
from asterism.inference.evidence import Evidence
from asterism.inference.path_evidence import build_paths, check_against_points
from asterism.inference.point_evidence import build_joint, build_points
from asterism.model.emissions import Joint, check_emissions
from asterism.model.network import Network


def build_evidence(network: Network, observations: Observations, emission: Any) -> Evidence:
    """Everything the observations say about the network's nodes.

    ``emission`` is one emission for all nodes, a dictionary by node, or a list of these; joint
    measurements stand in the dictionary or list and are found by the name of their column.
    """
    single, joint = split_emissions(emission, observations)
    _check_nodes(network, observations, joint)
    check_emissions(single, network.nodes)
    paths = build_paths(network, observations)
    points = build_points(network, observations, single, set(joint), paths.known_at_a_time)
    check_against_points(network, observations, points, paths)
    return Evidence(
        n_nodes=network.n_nodes,
        start=observations.start.astype(np.float64),
        end=observations.end.astype(np.float64),
        points=points.points,
        jumps=paths.jumps,
        spans=paths.spans,
        joint=build_joint(network, observations, joint),
        exogenous=frozenset(network.node_index(n) for n in network.exogenous),
        labels=observations.trajectories,
    )


def split_emissions(emission: Any, observations: Observations) -> tuple[Any, dict[str, Joint]]:
    """The emissions of single nodes, and the joint measurements by the column they read."""
    members = list(emission) if isinstance(emission, list | tuple) else [emission]
    joint: dict[str, Joint] = {}
    by_node: dict[str, Any] = {}
    for_all: list[Any] = []

    def add_joint(column: str, measurement: Joint) -> None:
        if column in joint:
            raise ModelError(
                f"Two joint measurements read the column {column!r}; give each a column of its own."
            )
        if column not in observations.measurements:
            listed = ", ".join(map(repr, observations.measurements))
            raise DataError(
                f"The joint measurement of {', '.join(measurement.nodes)} reads the column "
                f"{column!r}, which the data do not have; there are {listed}."
            )
        joint[column] = measurement

    for member in members:
        if isinstance(member, Joint):
            add_joint(member.column, member)
        elif isinstance(member, Mapping):
            for name, value in member.items():
                if isinstance(value, Joint):
                    named = str(name) in observations.measurements
                    add_joint(str(name) if named else value.column, value)
                else:
                    by_node[str(name)] = value
        elif member is not None:
            for_all.append(member)
    if len(for_all) > 1 or (for_all and by_node):
        raise ModelError(
            "Give one emission for all nodes or a dictionary with one per node, not both; joint "
            "measurements may be added to either."
        )
    return (for_all[0] if for_all else by_node), joint


def with_joint_by_column(emission: Any, observations: Observations) -> Any:
    """One emission, or a dictionary of them by node, with joint measurements by their columns."""
    if emission is None:
        return None
    single, joint = split_emissions(emission, observations)
    if not joint:
        return single
    if not isinstance(single, Mapping):
        single = {n: single for n in observations.measurements if n not in joint}
    return {**single, **joint}


def _check_nodes(network: Network, observations: Observations, joint: Mapping[str, Joint]) -> None:
    known = set(network.nodes)
    for column, measurement in joint.items():
        if column in known:
            raise ModelError(
                f"the joint measurement {column!r} has the name of a node; name it otherwise"
            )
        if extra := [n for n in measurement.nodes if n not in known]:
            raise ModelError(
                f"the joint measurement {column!r} reads {extra[0]!r}, which is not a node"
            )
    strangers = [n for n in observations.nodes if n not in known and n not in joint]
    if strangers:
        shown = ", ".join(map(repr, strangers[:5])) + (", …" if len(strangers) > 5 else "")
        nodes = ", ".join(map(repr, network.nodes[:8])) + (", …" if network.n_nodes > 8 else "")
        raise DataError(
            f"the observations have {shown}, which the network does not; its nodes are {nodes}"
        )
