"""What ``learn`` decides where the flags leave something open: the search, and what it says of it.

Every choice is said in a sentence that names its flag.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from asterism.commands.options import LearnOptions
from asterism.data.observations import Observations
from asterism.data.trajectories import Trajectories
from asterism.model.priors import BY_NODE, LEARNERS_PRIOR, GammaPrior

if TYPE_CHECKING:
    from asterism.learning.search.structure_learner import StructureLearner
    from asterism.learning.search.structure_prior import NumberedPrior


@dataclass(frozen=True)
class SearchChoice:
    """Which search suits the number of sets of parents, unless one was asked for."""

    n_families: int
    screened: bool
    keeps_all: bool


def choose_search(
    options: LearnOptions, learner: StructureLearner, data: Observations | Trajectories
) -> SearchChoice:
    """As the learner will choose; also checks what was asked about edges."""
    from asterism.learning.search import complete
    from asterism.learning.search import task as search

    prior = _prior_of(learner, data)
    n_families = sum(map(prior.n_families, prior.children))
    if isinstance(data, Trajectories):
        many = options.search == "auto" and n_families > complete.EXHAUSTIVE_LIMIT
        screened = options.search == "screened" or many
        return SearchChoice(n_families, screened, not screened)
    has_links = len(data.events) > 0
    return SearchChoice(n_families, *search.choose_search(options.search, n_families, has_links))


def model_decisions(
    options: LearnOptions,
    learner: StructureLearner,
    data: Observations | Trajectories,
    chosen: SearchChoice,
) -> list[str]:
    """How many parents, which search, which prior."""
    most = min(options.parents_searched, len(data.nodes) - 1)
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
        lines = [f"{limits} of a node ({flags}); {search}.", _about_edges(options, learner, data)]
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


def graph_decisions(
    options: LearnOptions, learner: StructureLearner, data: Observations | Trajectories
) -> list[str]:
    """Of continuous nodes, which have no rates and need no search: what is said of the graph."""
    most = min(options.parents_searched, len(data.nodes) - 1)
    return [
        f"At most {most} parent{'s' * (most != 1)} of a node (--max-parents).",
        _about_edges(options, learner, data),
    ]


def _about_edges(
    options: LearnOptions, learner: StructureLearner, data: Observations | Trajectories
) -> str:
    """How probable an edge is beforehand."""
    if options.family_prior == "by_size":
        text = "Every number of parents is equally likely"
    elif options.family_prior == "uniform":
        text = "Every set of parents is equally likely"
    else:
        text = "Few edges are expected"
    edges = _prior_of(learner, data)
    for child in edges.children:
        chance = edges.edge_probabilities(child)
        free = chance[(chance > 0.0) & (chance < 1.0)]
        if len(free):
            text += f": an edge has a probability of {free.max():.2g} before the data"
            break
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


def _prior_of(learner: StructureLearner, data: Observations | Trajectories) -> NumberedPrior:
    """What the flags say about the graph, but for single edges."""
    from asterism.learning.search.influences import with_stimuli

    from_paths = isinstance(data, Trajectories)
    settings = learner.search_settings()
    if isinstance(data, Observations) and not settings.may_be_continuous:
        settings, data = with_stimuli(settings, data)  # which may be parents
    known = replace(settings.structure_prior, probabilities=None)
    return replace(settings, structure_prior=known).numbered_prior(tuple(data.nodes), from_paths)
