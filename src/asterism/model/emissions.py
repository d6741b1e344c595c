"""Every emission by name, and the rules for choosing one per node, saving and loading them.

A user gives one emission for all nodes or a dictionary with one per node. Joint measurements stand
in the same dictionary under the name of their column.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from asterism.errors import ModelError
from asterism.model.emission_base import Emission, require_possible
from asterism.model.emission_discrete import Categorical, Exact, Joint, Likelihood
from asterism.model.emission_numeric import Gaussian, Poisson
from asterism.model.emission_silent import SilentStates
from asterism.model.emission_threshold import Threshold

__all__ = [
    "Categorical",
    "Emission",
    "Exact",
    "Gaussian",
    "Joint",
    "Likelihood",
    "Poisson",
    "SilentStates",
    "Threshold",
    "check_emissions",
    "emission_for",
    "emission_from_dict",
    "emission_to_dict",
    "joint_emissions",
    "require_possible",
]

AnyEmission = Emission | Joint | Mapping[Any, Any]


def emission_for(emission: Any, node: str, nodes: Collection[str] | None = None) -> Emission:
    """The emission of one node; with ``nodes`` a dictionary's other names are checked too."""
    if nodes is not None:
        check_emissions(emission, nodes)
    if isinstance(emission, Mapping):
        found = {str(name): value for name, value in emission.items()}.get(node)
        if found is None:
            given = ", ".join(repr(str(name)) for name in emission) or "none"
            raise ModelError(
                f"Node {node!r} is measured but has no emission; there are emissions for {given}."
            )
    else:
        found = emission
    if isinstance(found, Joint):
        raise ModelError(
            f"Node {node!r} is measured on its own, but only a joint measurement of "
            f"{', '.join(found.nodes)} was given; add an emission for it."
        )
    if not isinstance(found, Emission):
        raise ModelError(
            f"The emission of node {node!r} is {found!r}; give Gaussian, Poisson, Categorical, "
            "Exact, Threshold or Likelihood, or a dictionary of them by node."
        )
    return found


def check_emissions(emission: Any, nodes: Collection[str]) -> None:
    """Every name in a dictionary must be a node, or the column of a joint measurement of nodes."""
    for joint in joint_emissions(emission):
        for node in joint.nodes:
            if node not in nodes:
                raise ModelError(
                    f"The joint measurement {joint.column!r} reads {node!r}, which is not a node; "
                    f"the nodes are {', '.join(map(str, nodes))}."
                )
    if isinstance(emission, Mapping):
        for name, value in emission.items():
            if not isinstance(value, Joint) and str(name) not in nodes:
                raise ModelError(
                    f"There is an emission for {str(name)!r}, which is not a node; "
                    f"the nodes are {', '.join(map(str, nodes))}."
                )


def joint_emissions(emission: Any) -> tuple[Joint, ...]:
    """The joint measurements among the emissions given."""
    values = emission.values() if isinstance(emission, Mapping) else [emission]
    return tuple(value for value in values if isinstance(value, Joint))


def emission_to_dict(emission: Any) -> dict[str, Any]:
    """A JSON-ready description of one emission, or of a dictionary of them."""
    if isinstance(emission, Mapping):
        members = {str(name): value.to_dict() for name, value in emission.items()}
        return {"kind": "per node", "emissions": members}
    description: dict[str, Any] = emission.to_dict()
    return description


def emission_from_dict(content: Mapping[str, Any]) -> Any:
    """The inverse of :func:`emission_to_dict`; the function of a joint measurement is not kept."""
    fields = {name: value for name, value in content.items() if name != "kind"}
    match content.get("kind"):
        case "per node":
            return {name: emission_from_dict(value) for name, value in fields["emissions"].items()}
        case "gaussian":
            return Gaussian(**fields)
        case "poisson":
            return Poisson(**fields)
        case "categorical":
            return Categorical(**fields)
        case "threshold":
            for name in ("mean", "scale"):
                if isinstance(fields.get(name), list):
                    fields[name] = dict(fields[name])
            return Threshold(**fields)
        case "exact":
            return Exact()
        case "likelihood":
            return Likelihood()
        case "silent":
            return SilentStates(emission_from_dict(fields["emission"]), fields["silent"])
        case "joint":
            raise ModelError(
                f"The joint measurement {fields.get('column')!r} holds a function, which files "
                "do not keep; make it again with Joint(nodes, log_likelihood)."
            )
        case kind:
            raise ModelError(f"Unknown kind of emission {kind!r}.")
