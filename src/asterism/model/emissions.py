"""Emissions: what every one can do, and the rules for choosing one per node, saving and loading.

An emission says how likely a measured value is under each state of a node. A user gives one
emission for all nodes or a dictionary with one per node. Joint measurements stand in the same
dictionary under the name of their column. Each emission has a file of its own and one line in
``emission_kinds.py``.
"""

from __future__ import annotations

import importlib
import math
from abc import ABC
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from asterism.data.numbers import as_number
from asterism.errors import Advice, DataError, ModelError, require_known
from asterism.model.emission_kinds import EMISSION_KINDS
from asterism.numerics.arrays import FloatArray, IntArray

if TYPE_CHECKING:
    from asterism.data.observations import Observations
    from asterism.model.emission_discrete import Categorical as Categorical
    from asterism.model.emission_discrete import Exact as Exact
    from asterism.model.emission_discrete import Likelihood as Likelihood
    from asterism.model.emission_numeric import Gaussian as Gaussian
    from asterism.model.emission_numeric import Poisson as Poisson
    from asterism.model.emission_numeric import StudentT as StudentT
    from asterism.model.emission_silent import SilentStates as SilentStates
    from asterism.model.emission_threshold import Threshold as Threshold

Values = NDArray[Any]


class Emission(ABC):  # noqa: B024  (its methods have defaults)
    """How likely a measured value is under each state of a node: the base of every emission.

    Write your own by subclassing it: :meth:`log_likelihood` is all that inference needs. Add
    :attr:`n_states` to learn graphs or rates, :meth:`sample` to simulate, :meth:`m_step` and
    :meth:`initialise` to learn parameters, and :meth:`to_dict` to save. Emissions are values:
    fitting one returns another. ``states`` are always the node's labels, in order.
    """

    learn: bool = False
    """Whether learning may change the parameters."""
    graph_learner: ClassVar[str] = ""
    """The module that learns graphs with such nodes, where they are of a kind of their own."""

    @classmethod
    def __subclasshook__(cls, other: type) -> Any:
        """A class that has all the methods counts as an emission, subclass or not."""
        if cls is not Emission:
            return NotImplemented
        needed = ("log_likelihood", "sample", "m_step", "initialise", "to_dict")
        return all(hasattr(other, name) for name in needed) or NotImplemented

    @property
    def n_states(self) -> int | None:
        """Number of states the parameters are for; None where any number will do."""
        return None

    def log_likelihood(self, values: Values, states: Sequence[Any]) -> FloatArray:
        """(n, S) log probability, or density, of each value under each state.

        No NaN in or out. A row of −inf says that no state explains the value; the caller turns it
        into an error with its place (:func:`require_possible`).
        """
        raise ModelError(f"{type(self).__name__} does not say how likely values are.")

    def sample(self, state_indices: IntArray, rng: np.random.Generator, states: Any) -> Values:
        """One measured value for each state number."""
        raise ModelError(f"{type(self).__name__} cannot be simulated: it has no sample method.")

    def m_step(self, values: Values, weights: FloatArray, states: Any = None) -> Emission:
        """The best parameters when value i came from state x with probability weights[i, x].

        Whether it is called at all is decided by ``learn``.
        """
        return self

    def initialise(self, values: Values, n_states: int) -> Emission:
        """A copy with parameters that were left open filled in from the data."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready description with its ``kind``, read back by :meth:`from_dict`."""
        kinds = {where: kind for kind, where in EMISSION_KINDS.items()}
        for known in type(self).__mro__:
            if kind := kinds.get((known.__module__, known.__name__)):
                content = {one.name: _plain(getattr(self, one.name)) for one in fields(known)}
                if content.get("levels", 0) is None:  # older releases know no levels
                    del content["levels"]
                return {"kind": kind, **content}
        raise ModelError(f"{type(self).__name__} cannot be saved: it has no to_dict method.")

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> Emission:
        """The inverse of :meth:`to_dict`; ``fields`` are without the kind."""
        return cls(**fields)


@dataclass(frozen=True)
class Joint:
    """A measurement that reads several nodes at once.

    ``log_likelihood(value)`` returns an array with one axis per node, in the order of ``nodes``.
    The measured values stand in the column called ``column``, by default the names joined by "+".
    """

    nodes: Sequence[str]
    log_likelihood: Callable[[Any], Any] = field(repr=False)
    column: str = ""

    learn = False

    def __post_init__(self) -> None:
        if isinstance(self.nodes, str) or len(set(map(str, self.nodes))) < max(len(self.nodes), 2):
            raise ModelError(
                f"A joint measurement reads at least two different nodes, got {self.nodes!r}."
            )
        if not callable(self.log_likelihood):
            raise ModelError("The log_likelihood of a joint measurement must be a function.")
        object.__setattr__(self, "nodes", tuple(map(str, self.nodes)))
        object.__setattr__(self, "column", self.column or "+".join(self.nodes))

    def table(self, value: Any, n_states: Sequence[int]) -> FloatArray:
        """The log-likelihood of one value, checked: one axis per node, no NaN, not all −inf."""
        logs = np.asarray(self.log_likelihood(value), dtype=np.float64)
        if logs.shape != tuple(n_states):
            raise ModelError(
                f"The log-likelihood of {self.column!r} has shape {logs.shape}, expected "
                f"{tuple(n_states)}: one axis per node {', '.join(self.nodes)}."
            )
        if np.isnan(logs).any() or (logs == np.inf).any():
            raise ModelError(f"The log-likelihood of {self.column!r} = {value!r} is not a number.")
        if not (logs > -np.inf).any():
            raise DataError(
                f"The measurement {self.column!r} = {value!r} is impossible under every "
                f"combination of states of {', '.join(self.nodes)}."
            )
        return logs

    def to_dict(self) -> dict[str, Any]:
        """Names only: a function cannot be written to a file."""
        return {"kind": "joint", "nodes": list(self.nodes), "column": self.column}


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
        names = ", ".join(name for _, name in EMISSION_KINDS.values())
        raise ModelError(
            f"The emission of node {node!r} is {found!r}; give one of {names}, an am.Emission of "
            "your own, or a dictionary of them by node."
        )
    return found


def check_emissions(emission: Any, nodes: Collection[str]) -> None:
    """Every name in a dictionary must be a node, or the column of a joint measurement of nodes."""
    for joint in joint_emissions(emission):
        require_known(joint.nodes, nodes, f"The joint measurement {joint.column!r} reads")
    if isinstance(emission, Mapping):
        single = [name for name, value in emission.items() if not isinstance(value, Joint)]
        require_known(single, nodes, "There is an emission for")


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


def leaves_levels_open(emission: Any) -> bool:
    """Whether some node's number of levels is still to be counted."""
    members = emission.values() if isinstance(emission, Mapping) else [emission]
    return any(getattr(one, "levels", None) is not None for one in members)


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
    kind = content.get("kind")
    if kind == "per node":
        return {name: emission_from_dict(value) for name, value in fields["emissions"].items()}
    if kind == "joint":
        raise ModelError(
            f"The joint measurement {fields.get('column')!r} holds a function, which files "
            "do not keep; make it again with Joint(nodes, log_likelihood)."
        )
    if kind not in EMISSION_KINDS:
        raise ModelError(
            f"Unknown kind of emission {kind!r}; known are {', '.join(EMISSION_KINDS)}."
        )
    return emission_class(str(kind)).from_dict(fields)


def emission_class(kind: str) -> type[Emission]:
    """The class of a kind of emission, loaded now."""
    module, name = EMISSION_KINDS[kind]
    found: type[Emission] = getattr(importlib.import_module(module), name)
    return found


def __getattr__(name: str) -> Any:
    """Every emission by its class name, loaded on first use."""
    for module, known in EMISSION_KINDS.values():
        if name == known:
            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _plain(value: Any) -> Any:
    """A parameter as lists and numbers; those by group as pairs."""
    if isinstance(value, Mapping):
        return [[group, one] for group, one in value.items()]
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value.to_dict() if hasattr(value, "to_dict") else value


# ---- tools that emissions share ---------------------------------------------------------------


def as_floats(kind: str, values: Any) -> FloatArray:
    """Measured values as finite floats, or an error that quotes the first that is not one."""
    array = np.asarray(values)
    if array.dtype.kind not in "iufb":
        numbers = np.empty(array.shape, dtype=np.float64)
        for place, value in zip(np.ndindex(array.shape), array.ravel().tolist()):
            number = as_number(value)
            if number is None:
                raise DataError(f"{kind} measures numbers, got {value!r}.")
            numbers[place] = number
        array = numbers
    array = array.astype(np.float64)
    if not np.isfinite(array).all():
        raise DataError(f"{kind} measures finite numbers, got {array[~np.isfinite(array)][0]}.")
    return array


def require_n_states(kind: str, has: int | None, states: Sequence[Any]) -> None:
    """The parameters must be for as many states as the node has."""
    if has is not None and has != len(states):
        raise ModelError(
            f"{kind} has parameters for {has} states, but the node has {len(states)}: "
            f"{', '.join(map(repr, states))}."
        )


def require_possible(log_likelihood: FloatArray, describe: Callable[[int], str]) -> None:
    """Raise for the first row in which every state is excluded; ``describe(row)`` names it."""
    impossible = ~(log_likelihood > -np.inf).any(axis=-1)
    if impossible.any():
        row = int(np.argmax(impossible))
        raise DataError(f"{describe(row)} is impossible under every state of its node.")


def weighted_means(values: FloatArray, weights: FloatArray, otherwise: FloatArray) -> FloatArray:
    """(S,) weighted means; a state without any weight keeps what it had."""
    total = weights.sum(axis=0)
    known = total > 0.0
    means = weights.T @ values / np.where(known, total, 1.0)
    return np.where(known, means, otherwise)


def checked_weights(values: Values, weights: Any, n_states: int) -> FloatArray:
    """Posterior probabilities (n, S) that belong to the values."""
    array = np.asarray(weights, dtype=np.float64)
    if array.shape != (len(values), n_states):
        raise ModelError(
            f"Weights have shape {array.shape}, expected {(len(values), n_states)} "
            "(values, states)."
        )
    return array


def cluster_means(kind: str, values: FloatArray, n_clusters: int) -> FloatArray:
    """Ascending centres of k-means in one dimension, started at evenly spaced quantiles."""
    if len(values) == 0 or np.ptp(values) == 0.0:
        raise DataError(
            f"The starting means of {kind} cannot be found from "
            f"{len(values)} measured values without any variation; ",
            Advice("give means=.", "give them, as in --emission NODE=gaussian:-1,1:0.2."),
        )
    centres = np.quantile(values, (np.arange(n_clusters) + 0.5) / n_clusters)
    for _ in range(25):
        if (np.diff(centres) <= 0.0).any():
            # ties (many equal values) would leave empty clusters: start evenly spaced instead
            centres = np.linspace(values.min(), values.max(), n_clusters)
        nearest = np.argmin(np.abs(values[:, None] - centres), axis=1)
        count = np.bincount(nearest, minlength=n_clusters)
        total = np.bincount(nearest, weights=values, minlength=n_clusters)
        moved = np.where(count > 0, total / np.maximum(count, 1), centres)
        if np.array_equal(moved, centres):
            break
        centres = moved
    return np.sort(centres)


def as_tuple(values: FloatArray) -> tuple[float, ...]:
    """Parameters as plain floats, so that emissions compare and print well."""
    return tuple(float(v) for v in values)


def finite_numbers(what: str, values: Any) -> tuple[float, ...]:
    """Parameters given by the user, or an error that says which are wrong."""
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.array(math.nan)
    if array.ndim != 1 or len(array) == 0 or not np.isfinite(array).all():
        raise ModelError(f"{what} must be finite numbers, one per state, got {values!r}.")
    return as_tuple(array)
