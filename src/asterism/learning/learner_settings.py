"""What users say to the learners beside the everyday arguments: small objects with defaults.

:class:`StructurePrior` is what is known about the graph, :class:`Search` how graphs are looked for,
:class:`Sampling` how long draws take, :class:`Accuracy` how exact inference is. A short word does
where the defaults of the rest are meant: ``search="screened"``, ``structure_prior="uniform"``.

Version 0.2 had all of these as arguments of the learners; :data:`MOVED` says where each went, and a
call with an old name is refused with the new one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from asterism.errors import ModelError, Setting

if TYPE_CHECKING:
    import networkx
    import pandas as pd

    Edges: TypeAlias = "Sequence[tuple[str, str]] | networkx.DiGraph | pd.DataFrame"
    ByEdge: TypeAlias = "Mapping[tuple[str, str], float] | pd.DataFrame"

Made = TypeVar("Made")

#: ln of the prior probability of a set of parents, up to a constant of the child
FamilyPrior = Callable[[str, tuple[str, ...]], float]

#: words for priors of edges
SPARSE, UNIFORM, BY_SIZE = "sparse", "uniform", "by_size"


class Shown:
    """A dataclass that shows what differs from its defaults."""

    def __repr__(self) -> str:
        shown = [f"{name}={value!r}" for name, value in changed_fields(self).items()]
        return f"{type(self).__name__}({', '.join(shown)})"


class _Described(Shown):
    """One that can be written to a record of a run."""

    def to_dict(self) -> dict[str, Any]:
        """Every setting by its name."""
        return {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]


@dataclass(frozen=True, repr=False)
class StructurePrior(_Described):
    """What is known about the graph before the data.

    Parameters
    ----------
    edge
        "sparse": few edges, odds of 1/N each (1/(2N) for complete paths); "uniform": every set of
        parents alike; "by_size": every number of parents alike. Or prior log-odds: one number,
        {(parent, child): number}, or a table with parents as rows. Or a function
        (child, parents) -> ln of the prior probability of these parents, up to a constant.
    probabilities
        Prior probabilities of single edges, which win over ``edge``:
        {(parent, child): probability}, or a table with the columns parent, child, probability.
    required, forbidden
        Edges (parent, child) that must or must not be in the graph.
    exogenous
        Nodes given from outside: they may be parents, and never have any.
    min_parents
        The fewest parents a node may have: a number, or {node: number}.
    """

    edge: str | float | ByEdge | FamilyPrior | None = SPARSE
    probabilities: ByEdge | None = None
    required: Edges = ()
    forbidden: Edges = ()
    exogenous: Sequence[str] = ()
    min_parents: int | Mapping[str, int] = 0


@dataclass(frozen=True, repr=False)
class Search(_Described):
    """How graphs are looked for.

    Parameters
    ----------
    kind
        "exhaustive" scores every family; "screened" only families of the ``candidates`` parents
        that score best alone. "auto" is exhaustive up to 150 families in all; up to 3,000 it scores
        every family too, but with the rest of the network frozen; beyond, it screens. Two parents
        that act only together can escape screening.
    candidates
        Candidate parents of each node that a screened search keeps.
    n_init
        Number of starting graphs: the empty one, then random ones.
    refine_emissions
        Whether learned emissions are fitted once more on the graph found, from which the search
        then goes on, until the graph stays.
    journal, resume
        A file that remembers every score, and whether to continue from what it holds: an
        interrupted search then ends with the same result as an uninterrupted one.
    hidden
        How many nodes that nobody measured are added: hidden1, hidden2, … with two states, each
        begun as the common cause of a group of nodes that edges tie together. Only where graphs
        are drawn.
    """

    kind: str = "auto"
    candidates: int = 10
    n_init: int = 1
    refine_emissions: bool = False
    journal: str | Path | None = None
    resume: bool = False
    hidden: int = 0


@dataclass(frozen=True, repr=False)
class Sampling(_Described):
    """How long graphs, rates and paths are drawn.

    Drawing stops before if every edge has a Monte Carlo error of at most .03 and every edge with a
    probability between .02 and .98 has R̂ ≤ 1.05 and at least 100 effective draws. Method "auto"
    makes 300 to 1,900 sweeps, burn-in included, by the size of the data; a limit of time only ends
    them earlier.

    Parameters
    ----------
    minutes
        A limit of time; a third of it at most is for the search before the draws.
    chains
        How many chains are compared.
    max_draws
        The most sweeps per chain.
    """

    minutes: float | None = None
    chains: int = 4
    max_draws: int = 20_000

    @property
    def seconds(self) -> float:
        """The limit of time; infinite where there is none."""
        return math.inf if self.minutes is None else 60.0 * self.minutes


@dataclass(frozen=True, repr=False)
class Accuracy(_Described):
    """How exact inference is, for methods with a time grid or an iteration.

    Parameters
    ----------
    tolerance
        Error of computed probabilities that is accepted.
    time_step
        The step of the time grid; chosen by ``tolerance`` if not given.
    max_sweeps
        The most sweeps over the nodes in a search.
    digamma
        Whether a search uses the exact stationary rates instead of the posterior means.
    tempering
        How often the data count in the probabilities of families. The star's log-odds are too
        large where measurements tell little of the paths, so "auto" finds how much they tell and
        takes a factor by that; it is 1 where paths are known. 1.0 prints the probabilities as the
        method gives them.
    joint_limit
        For a fit of rates by exact inference: the most joint states.
    """

    tolerance: float = 1e-3
    time_step: float | None = None
    max_sweeps: int = 20
    digamma: bool = False
    tempering: float | str = "auto"
    joint_limit: int | None = None


#: argument -> the object that it is; a word, a number or a function stands for its first field
KINDS: dict[str, Any] = {
    "structure_prior": StructurePrior,
    "search": Search,
    "sampling": Sampling,
    "accuracy": Accuracy,
}


def as_object(name: str, value: Any) -> Any:
    """The object that an argument stands for, where a short form was given."""
    kind = KINDS.get(name)
    if kind is None or isinstance(value, kind):
        return value
    if value is None or (name in ("sampling", "accuracy") and isinstance(value, str)):
        raise ModelError(Setting(name), f" is {value!r}; it must be an am.{kind.__name__}.")
    return kind(value)


# ---- names that went --------------------------------------------------------------------------

#: argument that a learner had in version 0.2, or field of one of the objects above -> the argument
#: and the field that take its place
MOVED = {
    **{one.name: (argument, one.name) for argument, kind in KINDS.items() for one in fields(kind)},
    "edge_log_odds": ("structure_prior", "edge"),
    "family_prior": ("structure_prior", "edge"),
    "edge_prior": ("structure_prior", "probabilities"),
    "n_candidates": ("search", "candidates"),
    "n_chains": ("sampling", "chains"),
    "grid_tolerance": ("accuracy", "tolerance"),
    "max_seconds": ("minutes", ""),
}
del MOVED["minutes"]  # an argument of both learners


def new_name(argument: str, field: str) -> str:
    """``search=am.Search(candidates=…)``, or ``minutes=…``."""
    if not field:
        return f"{argument}=…"
    return f"{argument}=am.{KINDS[argument].__name__}({field}=…)"


def refuse_old_names(given: Iterable[str], moved: Mapping[str, tuple[str, str]] = MOVED) -> None:
    """Refuse arguments that went, with the name of what took their place."""
    for name in given:
        if name in moved:
            raise TypeError(f"There is no argument {name}; say {new_name(*moved[name])}.")


def changed_fields(value: Any) -> dict[str, Any]:
    """The fields of an object that differ from their defaults."""
    every = {one.name: (getattr(value, one.name), one.default) for one in fields(value)}
    return {name: own for name, (own, default) in every.items() if not _same(own, default)}


def _same(value: Any, default: Any) -> bool:
    if value is default:
        return True
    return type(value) is type(default) and repr(value) == repr(default)


def picked(kind: type[Made], options: Any, /, **more: Any) -> Made:
    """An object whose fields are those of ``options`` that have their names, and ``more``."""
    names = [one.name for one in fields(kind)]  # type: ignore[arg-type]
    found = {name: getattr(options, name) for name in names if hasattr(options, name)}
    return kind(**{**found, **more})
