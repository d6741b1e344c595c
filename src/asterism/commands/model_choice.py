"""What ``learn`` decides about the model and the search, in sentences that name the flags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from asterism.data.observations import Observations
from asterism.data.trajectories import Trajectories
from asterism.model.priors import GammaPrior

if TYPE_CHECKING:
    from asterism.commands.learn import LearnOptions
    from asterism.learning.search.structure_prior import StructurePrior


@dataclass(frozen=True)
class Search:
    """Which search suits the number of sets of parents, unless one was asked for."""

    n_families: int
    screened: bool
    keeps_all: bool


def choose_search(options: LearnOptions, data: Observations | Trajectories) -> Search:
    """As the learner will choose; also checks what was asked about edges."""
    from asterism.learning.search import complete
    from asterism.learning.search import task as search

    n_families = _count_families(options, data)
    if isinstance(data, Trajectories):
        many = options.search == "auto" and n_families > complete.EXHAUSTIVE_LIMIT
        screened = options.search == "screened" or many
        return Search(n_families, screened, not screened)
    has_links = len(data.events) > 0
    return Search(n_families, *search.choose_search(options.search, n_families, has_links))


def model_decisions(
    options: LearnOptions, data: Observations | Trajectories, chosen: Search
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
    lines = [
        f"{limits} of a node ({flags}); {search}."
        if most > 0
        else "No node may have a parent (--max-parents)."
    ]
    lines.append(_about_edges(options, data))
    if options.exogenous:
        listed = ", ".join(map(repr, options.exogenous))
        lines.append(
            f"Set from outside (--exogenous), each value holds until the next row: {listed}."
        )
    shape, rate = options.prior
    if rate == "auto":
        lines.append(
            f"Gamma prior of the rates: shape {shape:g}, its rate from the time scale of the data "
            "(--prior SHAPE,RATE)."
        )
    else:
        lines.append(f"Gamma prior of the rates, as asked: shape {shape:g}, rate {rate:g}.")
    return lines


def _about_edges(options: LearnOptions, data: Observations | Trajectories) -> str:
    """How probable an edge is beforehand."""
    if options.family_prior == "by_size":
        text = "Every number of parents is equally probable beforehand"
    elif options.family_prior == "uniform":
        text = "Every set of parents is equally probable beforehand"
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


def time_scale(prior: GammaPrior, asked: tuple[float, float | str], unit: str = "") -> str:
    """What the automatic rate came to, once it is known."""
    rate = prior.rate_value
    stay = f"{rate / prior.shape:.3g} {unit or 'units of time'}"
    expected = f"a node stays in a state for about {stay}"
    if asked[1] == "auto":
        return (
            f"Time scale of the data: {expected} (the prior's rate is {rate:.4g}; "
            f"--prior {prior.shape:g},{rate:.4g} fixes it)."
        )
    return f"Time scale of the prior: {expected}."


def _count_families(options: LearnOptions, data: Observations | Trajectories) -> int:
    """How many sets of parents there are."""
    prior = _prior_of(options, data)
    return sum(prior.n_families(child) for child in prior.children)


def _prior_of(options: LearnOptions, data: Observations | Trajectories) -> StructurePrior:
    """What the flags say about the graph."""
    from asterism.learning.search.structure_prior import structure_prior

    return structure_prior(
        tuple(data.nodes),
        options.max_parents,
        options.exogenous,
        options.required,
        options.forbidden,
        "sparse" if options.family_prior == "sparse" else None,
        options.min_parents,
        "by_size" if options.family_prior == "by_size" else "uniform",
    )
