"""Owns what the user asks of a structure search: settings, and what is known about the graph.

Hard knowledge: required and forbidden edges, the least and largest number of parents, exogenous
nodes, which never have parents. Soft knowledge: prior odds or probabilities of edges.
:func:`numbered_prior` checks and numbers it, and refuses contradictions with the edge or node
named.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np

from asterism.data.columns import require_columns
from asterism.data.numbers import as_number
from asterism.data.trajectories import Trajectories
from asterism.errors import (
    DataError,
    ModelError,
    Sentence,
    Setting,
    require_known,
    require_one_of,
    require_positive,
    require_whole,
)
from asterism.inference.methods import METHODS
from asterism.learning.learner_settings import (
    BY_SIZE,
    KINDS,
    SPARSE,
    UNIFORM,
    Accuracy,
    FamilyPrior,
    Sampling,
    Search,
    StructurePrior,
    as_object,
)
from asterism.learning.search.searches import SEARCHES
from asterism.learning.search.structure_prior import NumberedPrior
from asterism.model.emission_continuous import Continuous
from asterism.model.priors import LEARNERS_PRIOR, GammaPrior
from asterism.numerics.arrays import FloatArray, IntArray
from asterism.results.edge_sets import edge_list

#: the limit of nodes that a dictionary of limits does not name
DEFAULT_MAX_PARENTS = 2
#: Complete paths have odds of 1/(2N): with 1/N, exact scores of ten unconnected nodes still claim
#: almost one edge per data set (chosen on seeds 0 to 49 of benchmarks/nothing.py, which now counts
#: on others). Measurements say less, and 1/N has the lower log loss (benchmarks/tempering.py).
FEWER_FROM_PATHS = 2.0
#: the graph of the probable edges, or that of the most probable families
GRAPHS = ("probable", "map")
#: the word for: star first, then draws where the network is small enough (``staged.py``)
AUTO = "auto"
#: The star takes expected transitions for seen ones, so its log scores are too large, the more so
#: the less the measurements tell. From this share of information on (``known_share``) they count in
#: full, below it by a power of the share; chosen by log loss (``benchmarks/tempering.py``).
FULL_SHARE = 0.25
SHARE_POWER = 2.0
#: The least that data count: nothing, but for rounding. Where nothing can be learned (a share of
#: 0.002) scores of graphs still differ by 0.3 nats per trajectory of pure noise: a hundredth of
#: that would make edges of some hundred trajectories.
LEAST_TEMPERING = 1e-5


#: states of hidden nodes that were added
HIDDEN_STATES = ("low", "high")


@dataclass(frozen=True)
class HiddenNode:
    """A node without measurements, added for what a group of nodes has in common."""

    node: str
    children: tuple[str, ...]
    gain: float
    """ln P of one hidden cause of the group less that of the edges among them."""
    paths: Trajectories = field(repr=False)
    """Among others of this node, labelled (trajectory, draw)."""

    @property
    def sentence(self) -> str:
        """What it is."""
        better = "better" if self.gain >= 0.0 else "worse"
        return (
            f"{self.node} was not measured: it began as one cause of {', '.join(self.children)}, "
            f"which alone explains them {better} than the edges among them, by "
            f"{abs(self.gain):.1f} nats. Its states may be exchanged."
        )


@dataclass(repr=False, eq=False)
class Asked:
    """What a user may say of a search; ``StructureLearner`` describes each."""

    emission: Any = AUTO
    max_parents: int | Mapping[str, int] | None = None
    _: KW_ONLY
    method: str = AUTO
    prior: GammaPrior = LEARNERS_PRIOR
    random_state: Any = 0
    n_jobs: int = -1
    structure_prior: StructurePrior | FamilyPrior | str = StructurePrior()
    states: Mapping[str, Sequence[Any]] | None = None
    initial: Any = "learn"
    allowed_transitions: Mapping[str, Any] | None = None
    graph: str = "probable"
    threshold: float = 0.5
    search: Search | str = "auto"
    sampling: Sampling = Sampling()
    accuracy: Accuracy = Accuracy()
    ties: str = "error"


@dataclass(kw_only=True)
class StructureSettings(Asked):
    """What a search needs to know besides the data: a learner's settings, checked."""

    structure_prior: StructurePrior = StructurePrior()
    search: Search = Search()
    influences: tuple[str, ...] = ()
    """Exogenous nodes that are stimuli (``influences.py``)."""
    begins: tuple[HiddenNode, ...] = ()
    """With what the draws of hidden nodes begin."""

    def __post_init__(self) -> None:
        for name in KINDS:  # a short word may stand for an object
            setattr(self, name, as_object(name, getattr(self, name)))
        if not isinstance(self.prior, GammaPrior):
            raise ModelError(
                Setting("prior"),
                f" must be a GammaPrior, got {self.prior!r}; without a prior on the rates "
                "graphs cannot be compared.",
            )
        methods = (m.name for m in METHODS.values() if m.scores_graphs)
        require_one_of("method", self.method, (AUTO, *methods))
        require_one_of("search", self.search.kind, ("auto", *SEARCHES))
        require_one_of("ties", self.ties, ("error", "order"))
        require_one_of("graph", self.graph, GRAPHS)
        if not (isinstance(self.threshold, int | float) and 0.0 < self.threshold <= 1.0):
            raise ModelError(f"threshold must lie above 0 and up to 1, got {self.threshold!r}.")
        tempering = self.accuracy.tempering
        if tempering != "auto" and not (
            isinstance(tempering, int | float) and 0.0 < tempering <= 1.0
        ):
            raise ModelError(
                f'tempering must be "auto" or lie above 0 and up to 1, got {tempering!r}.'
            )
        require_whole("n_candidates", self.search.candidates)
        require_whole("n_init", self.search.n_init)
        require_whole("max_sweeps", self.accuracy.max_sweeps)
        require_whole("max_draws", self.sampling.max_draws)
        require_whole("hidden", self.search.hidden, least=0)
        require_whole("n_chains", self.sampling.chains, least=2)  # to compare them
        require_one_of("refine_emissions", self.search.refine_emissions, (True, False))
        require_positive("minutes", self.sampling.minutes)
        require_positive("tolerance", self.accuracy.tolerance)
        require_positive("time_step", self.accuracy.time_step)

    @property
    def may_be_continuous(self) -> bool:
        """Whether some nodes move continuously, or may."""
        return bool(_learner_of_kind(self.emission))

    @property
    def home(self) -> str:
        """The module whose ``learn_from_observations`` learns graphs by the method."""
        own = _learner_of_kind(self.emission)
        if own:
            return own
        if self.method == AUTO:
            return "asterism.learning.search.staged"
        return METHODS[self.method].graph_learner

    def tempering_factor(self, known_share: float) -> float:
        """How often hidden paths count in the probabilities of families.

        ``known_share``: how much the measurements tell of what complete paths would.
        """
        if not isinstance(self.accuracy.tempering, str):
            return float(self.accuracy.tempering)
        return float(min(1.0, max(LEAST_TEMPERING, (known_share / FULL_SHARE) ** SHARE_POWER)))

    def numbered_prior(self, nodes: tuple[str, ...], from_paths: bool = False) -> NumberedPrior:
        """What is known about the graph, by the numbers of these nodes.

        ``from_paths``: the data are complete paths, from which "sparse" expects fewer edges.
        """
        fewer = FEWER_FROM_PATHS if from_paths else 1.0
        return numbered_prior(nodes, self.max_parents, self.structure_prior, fewer)


def _learner_of_kind(emission: Any) -> str:
    """The module that learns nodes of a kind of their own, if the emissions ask for one.

    "auto" leaves it to the evidence whether nodes are continuous.
    """
    if isinstance(emission, str):
        return Continuous.graph_learner if emission == "auto" else ""
    members = emission.values() if isinstance(emission, Mapping) else [emission]
    return next(filter(None, (getattr(one, "graph_learner", "") for one in members)), "")


def numbered_prior(
    nodes: Sequence[str],
    max_parents: int | Mapping[Any, int] | None = None,
    known: StructurePrior = StructurePrior(UNIFORM),
    sparseness: float = 1.0,
) -> NumberedPrior:
    """Check and number what the user says about the graph.

    ``max_parents`` is a number or {node: number}; nodes that the dictionary does not name may have
    two, as all by default. "sparse" is for odds of one to ``sparseness`` times the number of nodes.
    """
    number = {name: i for i, name in enumerate(nodes)}
    if isinstance(known.exogenous, str):
        raise ModelError(
            Setting("exogenous"), f" must be a list of nodes, got {known.exogenous!r}."
        )
    given = frozenset(_known(number, name, "exogenous") for name in known.exogenous)
    most = DEFAULT_MAX_PARENTS if max_parents is None else max_parents
    limits = _limits(number, most, "max_parents", DEFAULT_MAX_PARENTS)
    limits[list(given)] = 0
    least = _limits(number, known.min_parents, "min_parents", 0)
    least[list(given)] = 0
    must = _by_child(number, known.required, "required")
    never = _by_child(number, known.forbidden, "forbidden")
    for child, parents in must.items():
        _check_required(nodes, child, parents, never.get(child, set()), given, int(limits[child]))
    scalar, pairs = _log_odds(number, known.edge, sparseness)
    prior = NumberedPrior(
        nodes=tuple(nodes),
        max_parents=limits,
        min_parents=least,
        exogenous=given,
        required={child: tuple(sorted(parents)) for child, parents in must.items()},
        forbidden={child: frozenset(parents) for child, parents in never.items()},
        edge_log_odds=scalar,
        pair_log_odds=_with_probabilities(number, pairs, known.probabilities),
        by_size=isinstance(known.edge, str) and known.edge == BY_SIZE,
        function=known.edge if callable(known.edge) else None,
    )
    for child in map(int, np.flatnonzero(least)):
        _check_least(nodes[child], int(least[child]), int(limits[child]), prior.candidates(child))
    return prior


def _check_least(name: str, least: int, most: int, candidates: IntArray) -> None:
    if least > most:
        raise ModelError(
            *(f"Node {name!r} needs ", Setting("min_parents", least), " and may have "),
            *(Setting("max_parents", most), "; lower the first or raise the second."),
        )
    if least > len(candidates):
        are = "is" if len(candidates) == 1 else "are"
        raise ModelError(
            *(f"Node {name!r} needs ", Setting("min_parents", least)),
            f", but there {are} only {len(candidates)} that may be its parents; lower ",
            *(Setting("min_parents"), " or forbid fewer edges."),
        )


def _check_required(
    nodes: Sequence[str],
    child: int,
    parents: set[int],
    never: set[int],
    exogenous: frozenset[int],
    limit: int,
) -> None:
    name = nodes[child]
    first = nodes[min(parents)]
    if child in exogenous:
        raise ModelError(
            f"The edge {first!r} → {name!r} is required, but {name!r} is exogenous and so has no "
            "parents; drop one of the two."
        )
    if child in parents:
        raise ModelError(f"The edge {name!r} → {name!r} is required; self-loops are not allowed.")
    if parents & never:
        both = nodes[min(parents & never)]
        raise ModelError(f"The edge {both!r} → {name!r} is both required and forbidden.")
    if len(parents) > limit:
        listed = ", ".join(repr(nodes[p]) for p in sorted(parents))
        raise ModelError(
            f"Node {name!r} has {len(parents)} required parents ({listed}), more than its ",
            *(Setting("max_parents", limit), "; raise ", Setting("max_parents")),
            " or require fewer.",
        )


def _limits(
    number: Mapping[str, int], given: int | Mapping[Any, int], what: str, default: int
) -> IntArray:
    limits = np.full(len(number), default, dtype=np.int64)
    if isinstance(given, Mapping):
        for name, value in given.items():
            limits[_known(number, name, what)] = require_whole(what, value, 0, f" of {name!r}")
    else:
        limits[:] = require_whole(what, given, 0)
    return limits


def _by_child(number: Mapping[str, int], edges: Any, what: str) -> dict[int, set[int]]:
    result: dict[int, set[int]] = {}
    for parent, child in _pairs(edges, what):
        into = _known(number, child, what)
        result.setdefault(into, set()).add(_known(number, parent, what))
    return result


def _pairs(edges: Any, what: str) -> list[tuple[Any, Any]]:
    """Edges from a graph, a table or plain pairs."""
    try:
        return edge_list(edges, what)
    except DataError as error:
        raise ModelError(error.sentence) from None


#: child -> parent -> log-odds; of a table the row of each child
Odds = dict[int, Any]


def _by_edge(number: Mapping[str, int], given: Mapping[Any, Any], what: str) -> Iterator[Any]:
    """Child and parent by number, the edge and its value."""
    for edge, value in given.items():
        ((parent, child),) = _pairs([edge], what)
        yield _known(number, child, what), _known(number, parent, what), (parent, child), value


def _log_odds(number: Mapping[str, int], given: Any, sparseness: float) -> tuple[float, Odds]:
    """The number for all edges, and what differs from it."""
    if isinstance(given, str):
        if given not in (SPARSE, UNIFORM, BY_SIZE):
            raise ModelError(
                f"The prior of edges is {given!r}; valid are 'sparse', 'uniform', 'by_size', "
                "log-odds, and a function of child and parents."
            )
        return -math.log(sparseness * max(2, len(number))) if given == SPARSE else 0.0, {}
    if given is None or callable(given):
        return 0.0, {}
    if hasattr(given, "columns"):
        return 0.0, dict(enumerate(_log_odds_table(number, given)))
    if isinstance(given, Mapping):
        by_child: Odds = {}
        for into, above, edge, value in _by_edge(number, given, "edge_log_odds"):
            by_child.setdefault(into, {})[above] = _finite(value, *edge)
        return 0.0, by_child
    return _finite(given), {}


def _with_probabilities(number: Mapping[str, int], pairs: Odds, edge_prior: Any) -> Odds:
    """The log-odds with those of the edges that ``edge_prior`` names put in their place."""
    if edge_prior is None:
        return pairs
    if hasattr(edge_prior, "columns"):
        names = ("parent", "child", "probability")
        says = Sentence("The table ", Setting("edge_prior"))
        require_columns(edge_prior, names, says, ModelError)
        columns = (edge_prior[name].tolist() for name in names)
        given = {(p, c): value for p, c, value in zip(*columns)}
        if len(given) < len(edge_prior):
            raise ModelError("The table ", Setting("edge_prior"), " names an edge twice.")
    elif isinstance(edge_prior, Mapping):
        given = dict(edge_prior)
    else:
        raise ModelError(
            Setting("edge_prior"),
            " must be {(parent, child): probability} or a table with the columns parent, "
            f"child, probability, got {type(edge_prior).__name__}.",
        )
    pairs = {child: row.copy() for child, row in pairs.items()}
    for into, above, (parent, child), value in _by_edge(number, given, "edge_prior"):
        if into == above:
            raise ModelError(
                Setting("edge_prior"),
                f" names {parent!r} → {child!r}; self-loops are not allowed.",
            )
        pairs.setdefault(into, {})[above] = _logit(value, parent, child)
    return pairs


def _logit(value: Any, parent: Any, child: Any) -> float:
    probability = as_number(value)
    if probability is None or not 0.0 < probability < 1.0:
        raise ModelError(
            Setting("edge_prior"),
            f" of {parent!r} → {child!r} must be a probability between 0 and 1, got {value!r}; "
            "use ",
            *(Setting("required"), " or ", Setting("forbidden"), " for certain edges."),
        )
    return math.log(probability) - math.log1p(-probability)


def _log_odds_table(number: Mapping[str, int], table: Any) -> FloatArray:
    """[child, parent]; pairs that the table does not hold are 0, its diagonal is not read."""
    rows = [_known(number, name, "edge_log_odds") for name in table.index]
    columns = [_known(number, name, "edge_log_odds") for name in table.columns]
    for names, axis in ((rows, "row"), (columns, "column")):
        if len(set(names)) < len(names):
            raise ModelError("The table ", Setting("edge_log_odds"), f" has a {axis} twice.")
    result = np.zeros((len(number), len(number)))
    try:
        values = np.asarray(table, dtype=np.float64)
    except (TypeError, ValueError):
        raise ModelError("The table ", Setting("edge_log_odds"), " must hold numbers.") from None
    result[np.ix_(columns, rows)] = values.T
    np.fill_diagonal(result, 0.0)
    bad = np.argwhere(~np.isfinite(result))
    if len(bad):
        every = list(number)
        child, parent = (int(i) for i in bad[0])
        _finite(result[child, parent], every[parent], every[child])
    return result


def _finite(value: Any, parent: Any = None, child: Any = None) -> float:
    result = as_number(value)
    if result is None or not math.isfinite(result):
        where = "" if parent is None else f" of {parent!r} → {child!r}"
        raise ModelError(
            Setting("edge_log_odds"),
            f"{where} must be a finite number, got {value!r}; use ",
            *(
                Setting("required"),
                " or ",
                Setting("forbidden"),
                " for certain edges, or the word 'sparse' for odds of 1/N.",
            ),
        )
    return result


def _known(number: Mapping[str, int], name: Any, what: str) -> int:
    require_known([name], number, Sentence(Setting(what), " names"))
    return number[str(name)]
