"""What ``learn`` is asked to do, and what it decides where the flags leave something open.

The emission of every measured node: text is a state; a few whole numbers are states; other numbers
are a noisy level of a hidden state, whose Gaussian is learned. The search, by the number of sets of
parents. Every choice is said in a sentence that names its flag.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from asterism.commands.exits import Refused
from asterism.commands.input_table import TableOptions, listed
from asterism.commands.options import as_flag, parse_emission
from asterism.commands.panel import PanelOptions
from asterism.data.columns import canonical, encode
from asterism.data.measurements import NodeMeasurements
from asterism.data.observations import Observations
from asterism.data.trajectories import Trajectories
from asterism.errors import DataError
from asterism.learning.levels import choose_levels, measured_while_free
from asterism.model.emissions import (
    Categorical,
    Exact,
    Gaussian,
    Likelihood,
    Poisson,
    Threshold,
)
from asterism.model.priors import BY_NODE, LEARNERS_PRIOR, GammaPrior

if TYPE_CHECKING:
    from asterism.learning.search.structure_learner import StructureLearner
    from asterism.learning.search.structure_prior import StructurePrior

#: a column of whole numbers with no more different ones than this holds states
MOST_NUMBERED_STATES = 5

#: a column with more different texts than this holds notes rather than states
MOST_TEXT_STATES = 20

#: values beyond this, or differences below its inverse, are beyond floating point once squared
LARGEST = 1e100


@dataclass(frozen=True)
class LearnOptions:
    """The settings of ``asterism learn``; names are those of the flags."""

    table: TableOptions
    output: Path = Path("RUN")
    max_parents: int = 2
    min_parents: int = 0
    family_prior: str = "sparse"
    edge_prior: Path | None = None
    interventions: Path | None = None
    graph: str = "probable"
    threshold: float = 0.5
    null: int | None = None
    minutes: float | None = None
    refine_emissions: bool = False
    emission: Sequence[str] = ()
    states: int | str = "auto"
    prior: tuple[float, float | str] | None = None
    method: str = "auto"
    sample: float | None = None
    search: str = "auto"
    candidates: int = 10
    initial: str = "learn"
    exogenous: Sequence[str] = ()
    required: Sequence[tuple[str, str]] = ()
    forbidden: Sequence[tuple[str, str]] = ()
    n_init: int = 1
    tolerance: float = 1e-3
    time_step: float | None = None
    max_sweeps: int = 20
    jobs: int = -1
    scheduler: str | None = None
    seed: int = 0
    truth: Path | None = None
    resume: bool = False
    force: bool = False
    as_json: bool = False
    quiet: bool = False
    title: str | None = None
    config: Path | None = None
    panel: PanelOptions = field(default_factory=PanelOptions)


@dataclass(frozen=True)
class Choice:
    """Emissions, the names of hidden states, and what was decided."""

    emission: dict[str, Any]
    states: dict[str, list[str]]
    nodes: list[str]
    decisions: list[str]
    levels: dict[str, Any] = field(default_factory=dict)
    """For run.json: per node how many levels were counted, and how clearly."""


def choose_emissions(
    observations: Observations,
    specifications: Sequence[str] = (),
    n_states: int | str = "auto",
    keep: Sequence[str] = (),
    known_states: Mapping[str, Sequence[Any]] | None = None,
    learned: Mapping[str, Any] | None = None,
) -> Choice:
    """One emission per node; columns without information are left out unless in ``keep``.

    ``n_states`` is that of hidden states behind numbers; "auto" counts the levels of each node.
    ``known_states`` are those of a given network: values that are among them are states.
    ``learned`` are emissions that came with that network.
    """
    measured = observations.measurements
    everywhere, by_node = _asked(specifications, list(measured))
    emission: dict[str, Any] = {}
    states: dict[str, list[str]] = {}
    groups: dict[str, list[str]] = {}
    levels: dict[str, Any] = {}
    for node, record in measured.items():
        asked = by_node.get(node, everywhere)
        known = None if known_states is None else known_states.get(node)
        if learned is not None and node in learned:
            emission[node] = learned[node]
            how = as_flag(learned[node]) or type(learned[node]).__name__.lower()
            groups.setdefault(f"As learned with the network (--emission), {how}", []).append(node)
            continue
        kind = asked or _guess(record, known)
        if kind.startswith("left out"):
            if node not in keep and known is None:
                groups.setdefault(kind, []).append(node)
                continue
            kind = "exact" if record.holds_labels else "gaussian"
        size = len(known) if known is not None else 2 if isinstance(n_states, str) else n_states
        emission[node] = _made(kind, node, record, size, known)
        if n_states == "auto" and known is None and _has_open_levels(emission[node]):
            free = measured_while_free(observations, node)
            if len(np.unique(free.value)) > 2:
                choice = choose_levels(node, free, replace(emission[node], levels="auto"))
                if not asked and _are_counts(free.value):
                    counts = choose_levels(node, free, Poisson(levels="auto", learn=True))
                    choice = max(choice, counts, key=lambda one: one.scores[one.n_levels])
                emission[node], size = choice.emission, choice.n_levels
                levels[node] = choice.to_dict()
        if not isinstance(emission[node], Exact | Categorical | Likelihood):
            states[node] = hidden_names(emission[node].n_states or size)
        flags = "--states, --emission" if known is None else "--emission"
        words = f"As asked, {kind}" if asked else _in_words(emission[node], size, flags)
        if node in levels:
            words += f", {size} levels counted" if asked else ", as many levels as the data show"
        groups.setdefault(words, []).append(node)
    decisions = [
        f"{words[0].upper()}{words[1:]}: {listed(nodes)}." for words, nodes in groups.items()
    ]
    if levels:
        decisions.append(_least_clear(levels))
    return Choice(emission, states, list(emission), decisions, levels)


def _least_clear(levels: dict[str, Any]) -> str:
    """How sure the numbers of levels are, by the least sure of them."""
    node = min(levels, key=lambda name: float(levels[name]["probability"]))
    return (
        f"The number of levels is least clear for {node!r}: {levels[node]['levels']}, with a "
        f"probability of {levels[node]['probability']:.2f} (--states sets the number)."
    )


def _has_open_levels(emission: Any) -> bool:
    """Whether it is still open how many levels a node has."""
    return isinstance(emission, Gaussian | Poisson) and emission.means is None


def _are_counts(values: Any) -> bool:
    """Whole numbers from zero on, whose noise may be that of counting."""
    return bool(np.all(values >= 0) and np.all(values == np.round(values)))


def hidden_names(n_states: int) -> list[str]:
    """Names for levels that only the measurements' size tells apart."""
    few = {2: ["low", "high"], 3: ["low", "mid", "high"]}
    return few.get(n_states) or [f"level {i + 1}" for i in range(n_states)]


def _asked(
    specifications: Sequence[str], nodes: Sequence[str]
) -> tuple[str | None, dict[str, str]]:
    everywhere: str | None = None
    by_node: dict[str, str] = {}
    for text in specifications:
        node, equals, kind = text.rpartition("=")
        if not equals:
            everywhere = kind
        elif node in nodes:
            by_node[node] = kind
        else:
            raise Refused(
                f"--emission {text!r} names {node!r}, which is not a node; the nodes are "
                f"{listed(nodes)}."
            )
        parse_emission(kind, 2)  # misspelt kinds are told before anything is computed
    return everywhere, by_node


def _guess(record: NodeMeasurements, known: Sequence[Any] | None) -> str:
    if record.likelihood is not None:
        return "likelihood"
    if len(record) == 0:
        return "left out because nothing was measured"
    if known is not None and bool(np.all(encode(record.value, list(known)) >= 0)):
        return "exact"
    if record.holds_labels:
        n_different = len({canonical(v) for v in record.value})
        if n_different > MOST_TEXT_STATES:
            return f"left out because of more than {MOST_TEXT_STATES} different texts"
        return "left out because the value never changes" if n_different < 2 else "exact"
    different = np.unique(record.value)
    if len(different) < 2:
        return "left out because the value never changes"
    whole = bool(np.all(different == np.round(different)))
    few = len(different) <= MOST_NUMBERED_STATES and len(record) >= 3 * len(different)
    return "exact" if whole and few else "gaussian"


def _made(
    kind: str, node: str, record: NodeMeasurements, size: int, known: Sequence[Any] | None
) -> Any:
    n_labels = None
    if record.likelihood is None:
        n_labels = len({canonical(v) for v in pd.unique(record.value)})
    made = parse_emission(kind, size, len(known) if known is not None else n_labels)
    numeric = isinstance(made, Gaussian | Poisson | Threshold)
    if numeric and (record.holds_labels or record.likelihood is not None):
        raise Refused(f"--emission: {node!r} holds {_content(record)}, which is not for {kind}.")
    if isinstance(made, Likelihood) != (record.likelihood is not None):
        raise Refused(f"--emission: {node!r} holds {_content(record)}, which is not for {kind}.")
    if numeric and len(record):
        _require_ordinary_size(node, record.value)
    if known is not None and made.learn and numeric:
        made = made.initialise(record.value[~record.exact], size)
    return made


def _require_ordinary_size(node: str, values: Any) -> None:
    """Squares of the values, and of their differences, must be numbers too."""
    largest, spread = float(np.abs(values).max()), float(np.ptp(values))
    if largest > LARGEST or 0.0 < spread < 1.0 / LARGEST:
        raise DataError(
            f"The values of {node!r} reach {largest:g} and differ by {spread:g}; use a unit in "
            f"which both lie between {1 / LARGEST:g} and {LARGEST:g}."
        )


def _content(record: NodeMeasurements) -> str:
    if record.likelihood is not None:
        return "likelihoods"
    return "text" if record.holds_labels else "numbers"


def _in_words(emission: Any, size: int, flags: str) -> str:
    if isinstance(emission, Exact):
        return "The values are states, seen without error (--emission categorical allows errors)"
    if isinstance(emission, Likelihood):
        return "The values are likelihoods of the states"
    if isinstance(emission, Poisson):
        return (
            f"Counts are read as noisy levels of {size} hidden states, with Poisson noise, which "
            f"fits better here than Gaussian, and means learned from the data ({flags})"
        )
    return (
        f"Numbers are read as noisy levels of {size} hidden states, with means and noise learned "
        f"from the data ({flags})"
    )


# ---- the search and the model --------------------------------------------------------------


@dataclass(frozen=True)
class SearchChoice:
    """Which search suits the number of sets of parents, unless one was asked for."""

    n_families: int
    screened: bool
    keeps_all: bool


def choose_search(options: LearnOptions, data: Observations | Trajectories) -> SearchChoice:
    """As the learner will choose; also checks what was asked about edges."""
    from asterism.learning.search import complete
    from asterism.learning.search import task as search

    n_families = _count_families(options, data)
    if isinstance(data, Trajectories):
        many = options.search == "auto" and n_families > complete.EXHAUSTIVE_LIMIT
        screened = options.search == "screened" or many
        return SearchChoice(n_families, screened, not screened)
    has_links = len(data.events) > 0
    return SearchChoice(n_families, *search.choose_search(options.search, n_families, has_links))


def model_decisions(
    options: LearnOptions, data: Observations | Trajectories, chosen: SearchChoice
) -> list[str]:
    """How many parents, which search, which prior."""
    most = min(options.max_parents, len(data.nodes) - 1)
    n_families = chosen.n_families
    total = f"{n_families:,} sets of parents"
    if chosen.keeps_all:
        how = " while the rest of the network stays fixed" if chosen.screened else ""
        flag = " (--search)" if options.search == "auto" else ""
        search = f"all {total} are scored{how}{flag}"
    else:
        why = "as asked, " if options.search == "screened" else "that is too many, so "
        search = (
            f"there are {total}; {why}only those of the {options.candidates} best candidates of "
            "each node are scored (--candidates, --search exhaustive)"
        )
    parent = "parent" if most == 1 else "parents"
    limits, flags = f"At most {most} {parent}", "--max-parents"
    if options.min_parents:
        limits, flags = f"{options.min_parents} to {most} {parent}", "--min-parents, --max-parents"
    lines = []
    if most > 0:
        lines = [f"{limits} of a node ({flags}); {search}.", _about_edges(options, data)]
    elif len(data.nodes) > 1:
        lines = ["No node may have a parent (--max-parents)."]
    if options.exogenous:
        listed = ", ".join(map(repr, options.exogenous))
        lines.append(
            f"Set from outside (--exogenous), each value holds until the next row: {listed}."
        )
    prior = prior_of_rates(options)
    if isinstance(data, Trajectories):
        prior = prior.for_paths()
    shape, rate = prior.shape, prior.rate
    if isinstance(rate, str):
        whose = "of each node" if rate == BY_NODE else "of the data"
        lines.append(
            f"Gamma prior of the rates: shape {shape:g}, its rate from the time scale {whose} "
            "(--prior SHAPE,RATE)."
        )
    else:
        lines.append(f"Gamma prior of the rates, as asked: shape {shape:g}, rate {rate:g}.")
    return lines


def _about_edges(options: LearnOptions, data: Observations | Trajectories) -> str:
    """How probable an edge is beforehand."""
    if options.family_prior == "by_size":
        text = "Every number of parents is equally likely"
    elif options.family_prior == "uniform":
        text = "Every set of parents is equally likely"
    else:
        text = "Few edges are expected"
    edges = _prior_of(options, data)
    children = edges.children
    if children:
        chance = edges.edge_probabilities(children[0])
        typical = float(max(chance)) if len(chance) else 0.0
        text += f": an edge has a probability of {typical:.2g} before the data"
    more = "; --edge-prior gives others" if options.edge_prior is not None else ""
    return f"{text} (--family-prior{more})."


def prior_of_rates(options: LearnOptions) -> GammaPrior:
    """The prior that was asked for, or the learner's own."""
    if options.prior is None:
        return LEARNERS_PRIOR
    return GammaPrior(*options.prior)  # type: ignore[arg-type]


def time_scale(
    learner: StructureLearner, asked: tuple[float, float | str] | None, unit: str = ""
) -> str:
    """What the automatic rates came to, once they are known."""
    prior, unit = learner.prior_, unit or "units of time"
    shape, rate = prior.shape, prior.rate_value
    expected = f"a node stays in a state for about {rate / shape:.3g} {unit}"
    if asked is not None and not isinstance(asked[1], str):
        return f"Time scale of the prior: {expected}."
    waits = learner.prior_rates_ / shape
    if waits.max() > 1.005 * waits.min():
        return (
            f"Time scale of the data: a transition takes about {rate / shape:.3g} {unit}, from "
            f"{waits.min():.3g} in {waits.idxmin()} to {waits.max():.3g} in {waits.idxmax()} "
            f"(--prior {shape:g},auto expects the same of all nodes)."
        )
    return (
        f"Time scale of the data: {expected} (the prior's rate is {rate:.4g}; "
        f"--prior {shape:g},{rate:.4g} fixes it)."
    )


def _count_families(options: LearnOptions, data: Observations | Trajectories) -> int:
    """How many sets of parents there are."""
    prior = _prior_of(options, data)
    return sum(prior.n_families(child) for child in prior.children)


def _prior_of(options: LearnOptions, data: Observations | Trajectories) -> StructurePrior:
    """What the flags say about the graph."""
    from asterism.learning.search.settings import FEWER_FROM_PATHS, structure_prior

    return structure_prior(
        tuple(data.nodes),
        options.max_parents,
        options.exogenous,
        options.required,
        options.forbidden,
        "sparse" if options.family_prior == "sparse" else None,
        options.min_parents,
        "by_size" if options.family_prior == "by_size" else "uniform",
        None,
        FEWER_FROM_PATHS if isinstance(data, Trajectories) else 1.0,
    )
