"""What was learned, in three sentences, and the record of a run (run.json) as rows of words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pandas as pd

from asterism.data.numbers import as_number
from asterism.errors import DataError, counted, first_few
from asterism.inference.methods import METHODS
from asterism.results.edge_effects import LOWERS, RAISES, effect
from asterism.results.edge_sets import edge_list
from asterism.results.ranking import LARGE_FLOOR, MOST_LISTED_NODES, support

if TYPE_CHECKING:
    from asterism.results.run import Run

CAUTION = (
    "Each probability assumes that the rest of the graph is as learned, so it tends to be too "
    "sure. Trust the ranking of the edges more than the numbers."
)
TEMPERED = (
    "Measurements show only a part of what happened, and the approximation is too sure about the "
    "rest. So the learner multiplies what the data say about a set of parents by {factor:.2g}, a "
    "factor that depends on how much these measurements tell. Each probability assumes that the "
    "rest of the graph is as learned."
)
SAMPLED = (
    "The probabilities are averages over graphs, rates and paths drawn from their posterior. The "
    "table of edges gives their Monte Carlo errors."
)
CONTINUOUS = (
    "The nodes move continuously: their probabilities are a closed form for linear or quadratic "
    "influences, in which the data count {factor:.2g} times, because real influences have other "
    "shapes. It says nothing about causes that were not measured."
)
CONTINUOUS_DRAWN = (
    "The nodes move continuously: their probabilities are averages over graphs and paths drawn "
    "from their posterior, alone or together with a closed form. The table of edges gives their "
    "Monte Carlo errors. Influences are linear or quadratic; real ones have other shapes."
)
BOTH_KINDS = (
    " That holds for nodes that move; families of nodes that jump were scored by the star, with "
    "continuous parents as low or high."
)
EXACT = (
    "The paths are known completely, so each probability is exact under the model and its prior. "
    "It says nothing about causes that the model leaves out."
)
GIVEN = (
    "The graph was given and not learned, so its edges have no probabilities. Rates and state "
    "probabilities are only as good as the graph."
)

ALONE = "Rates and state probabilities are only as good as the model."


def sentences(run: Run) -> list[str]:
    """What was analysed, what stands out, and how to read it."""
    if len(run.network.nodes) == 1:
        return [_what(run), "There is no other node that could influence it.", ALONE]
    if not run.learned:
        return [_what(run), _evidence(run), GIVEN]
    supported = support(run.edge_table)
    return [
        *(_what(run), _findings(run)),
        *([supported] if supported else []),
        *(*_left_out(run), *_added(run), _how_to_read(run)),
    ]


def _left_out(run: Run) -> list[str]:
    """How many pairs the table of a large network leaves out, and what is known of them."""
    n_nodes = len(run.network.nodes)
    n_left = n_nodes * (n_nodes - 1) - len(run.edge_table)
    if n_nodes <= MOST_LISTED_NODES or n_left <= 0:
        return []
    return [
        f"The table of edges leaves out {n_left:,} pairs with a probability below {LARGE_FLOOR:g}, "
        "likelier ones into the same node aside: they are improbable, not impossible."
    ]


def against_truth(run: Run, scores: Mapping[str, float]) -> str:
    """How the result compares with the true edges."""
    ranking = f"Against the truth: AUROC {scores['auroc']:.2f}, AUPR {scores['aupr']:.2f}"
    if not run.edge_table["in_graph"].any():
        return f"{ranking}; the graph has no edges to compare."
    return (
        f"{ranking}; of the graph's edges {scores['ppv']:.0%} are true, of the true edges "
        f"{scores['se']:.0%} are in the graph."
    )


def _how_to_read(run: Run) -> str:
    if run.run.get("complete_data"):
        return EXACT
    factor = run.run.get("tempering")
    if run.network.drifts:
        said = CONTINUOUS.format(factor=factor if isinstance(factor, int | float) else 1.0)
        if run.run.get("chains"):
            said = CONTINUOUS_DRAWN
        jump = any(rates is not None for rates in run.network.rates.values())
        return said + BOTH_KINDS if jump else said
    method = METHODS.get(str(run.setting("method")))
    if method is not None and not method.has_evidence:
        return SAMPLED
    if isinstance(factor, int | float) and factor < 1.0:
        return TEMPERED.format(factor=factor)
    return CAUTION


def _added(run: Run) -> list[str]:
    """What the data added to the prior, where edges were found."""
    edges = run.edge_table
    inside = edges[edges["in_graph"]]
    if "prior" not in edges or not len(inside):
        return []
    free = inside[(inside["prior"] > 0.0) & (inside["prior"] < 1.0 - 1e-9)]
    if not len(free):
        return []
    # two digits: in a large network 0.0025 must not be read as nothing
    low, high = f"{free['prior'].min():.2g}", f"{free['prior'].max():.2g}"
    prior = low if low == high else f"{low} to {high}"
    least = float(free["bayes_factor"].min())
    rounded = f"{float(f'{least:.2g}'):,.0f}" if least < 1e6 else "a million"
    factor = f"{least:.2g}" if least < 10.0 else rounded
    which, more = "each", " or more"
    if len(free) == 1:
        which = f"{free['parent'].iloc[0]} → {free['child'].iloc[0]}"
        more = more if least >= 1e6 else ""
    return [
        f"Before the data an edge had a probability of {prior}. The data raised the odds of "
        f"{which} by a factor of {factor}{more}."
    ]


def _what(run: Run) -> str:
    data = ""
    if sizes := run.sizes:
        n_seen, n_trajectories = sizes["measurements"], sizes["trajectories"]
        data = f"From {counted(n_seen, 'measurement')} in {counted(n_trajectories, 'trajectory')}, "
    if len(run.network.nodes) == 1:
        name = run.network.nodes[0]
        text = f"{data}the {'rates' if run.learned else 'courses'} of {name} were " + (
            "learned." if run.learned else "inferred."
        )
        return text[0].upper() + text[1:]
    edges = counted(sum(map(len, run.network.parents.values())), "edge")
    nodes = counted(len(run.network.nodes), "node")
    if run.learned and run.not_scored:
        nodes += f", of which {len(run.not_scored):,} were not scored,"
    text = (
        f"{data}a network was learned among {nodes} with {edges}."
        if run.learned
        else f"{data}the courses of {nodes} were inferred in a given network with {edges}."
    )
    return text[0].upper() + text[1:]


def _findings(run: Run) -> str:
    edges = run.edge_table
    inside = edges[edges["in_graph"]]
    scored = edges[edges["probability"].notna()]
    doubtful = int(((scored["probability"] >= 0.1) & ~scored["in_graph"]).sum())
    if not len(inside):
        return _nothing(run, scored) + _about_the_others(run)
    rest = (
        f"{counted(doubtful, 'edge')} outside the graph still "
        f"{'has' if doubtful == 1 else 'have'} a probability of at least 0.1"
        if doubtful
        else f"no {'scored ' if run.not_scored else ''}edge outside the graph reaches a "
        "probability of 0.1"
    )
    rest += f".{_about_the_others(run)}"
    surest = _and([_described(run, row) for _, row in inside.head(3).iterrows()])
    if len(inside) == 1:
        return f"The only edge is {surest}; {rest}"
    return f"The surest are {surest}; {rest}"


def _about_the_others(run: Run) -> str:
    """What is not known because nodes were not scored; nothing where all were."""
    names = run.not_scored
    if not names:
        return ""
    if len(names) == len(run.network.nodes):
        return " Nothing is known about any edge."
    why = (
        "beside continuous nodes, labels are only parents."
        if run.network.drifts and not any(name in run.network.drifts for name in names)
        else "there was no time to score all sets of parents."
    )
    which = f"{counted(len(names), 'node')} ({first_few(names, 5)})"
    return f" Nothing is known about edges into {which}: {why}"


def _nothing(run: Run, edges: pd.DataFrame) -> str:
    """That no edge was found, and how close the likeliest came."""
    if not len(edges) and run.not_scored:
        return "No edge was scored: the time was too short."
    threshold = run.setting("threshold")
    reached = f"a probability of {threshold:g}" if isinstance(threshold, float) else "the threshold"
    text = f"No edge reaches {reached}"
    if run.not_scored:
        text = f"None of the edges that were scored reaches {reached}"
    if not len(edges):
        return f"{text}."
    row = edges.iloc[0]
    likeliest = f"the likeliest, {row['parent']} → {row['child']}, has "
    likeliest += probability_text(row["probability"])
    if "prior" in edges:
        likeliest += f" ({row['prior']:.2f} before the data)"
    return f"{text}: {likeliest}."


def _evidence(run: Run) -> str:
    value = run.run.get("log_evidence")
    if not isinstance(value, int | float):
        return "Rates and state probabilities are below."
    method = METHODS.get(str(run.setting("method")))
    if method is not None and method.is_comparable:
        use = "by which networks can be compared on the same data"
    else:
        use = "an approximation, too rough to choose between networks whose edges differ much"
    return f"The log evidence, {use}, is {value:.6g}."


def _described(run: Run, row: pd.Series) -> str:
    parent, child = row["parent"], row["child"]
    kind = effect(run.network, child, parent) if parent in run.network.parents[child] else ""
    note = ""
    unclear = _has_unclear_order(run, parent) or _has_unclear_order(run, child)
    if child in run.network.drifts:
        kind, moved = row.get("effect") or kind, row.get("shift")
        note = f", {kind}" if kind else ""
        if isinstance(moved, float) and not pd.isna(moved):
            how = f" by {abs(moved):.2g}" if kind in (RAISES, LOWERS) else f", shift {moved:+.2g}"
            note += f"{how} standard deviations"
            if unclear and kind in (RAISES, LOWERS) and len(run.network.states[parent]) == 2:
                more = "higher" if kind == RAISES else "lower"
                note = f"; {child} is {more}{how} standard deviations when {parent} is "
                note += str(run.network.states[parent][-1])
    elif kind in (RAISES, LOWERS):
        note = f", {kind}"
        if unclear:
            often = "more" if kind == RAISES else "less"
            # a continuous node has no states
            above, own = ((run.network.states[n] or ("high",))[-1] for n in (parent, child))
            note = f"; {child} is {own} {often} often when {parent} is {above}"
    sure = "required" if (parent, child) in _required(run) else probability_text(row["probability"])
    return f"{parent} → {child} ({sure}{note})"


def _required(run: Run) -> list[tuple[str, str]]:
    """Edges that were not found but demanded; what is no set of edges is not looked into."""
    with suppress(DataError):
        return [(str(a), str(b)) for a, b in edge_list(run.setting("required"))]
    return []


def _has_unclear_order(run: Run, node: str) -> bool:
    """Whether its states are words in alphabetical order, which need not be the order of more."""
    labels = [str(label) for label in run.network.states[node]]
    are_numbers = all(as_number(label) is not None for label in labels)
    return not are_numbers and labels == sorted(labels)


def probability_text(probability: float) -> str:
    """Two decimals, but never a certainty that rounding alone has made."""
    if 0.995 <= probability < 1.0:
        return ">0.99"
    return f"{probability:.2f}"


def _and(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


Group = tuple[str, list[tuple[str, str]]]

#: shown elsewhere on the page, or of no use to a reader
HIDDEN = frozenset(
    [
        "format",
        "format_version",
        "files",
        "checksum",
        "notices",
        "history",
        "title",
        "converged",
        "usable",
        "warnings",
        "stop_reason",
        "n_nodes",
        "n_edges",
        "decisions",
        "complete",
        "complete_data",
        "emissions",
        "not_scored",
        "null",
    ]
)

#: flags about messages and places of files, which do not change results
BESIDES = frozenset({"name", "data", "output", "as_json", "quiet", "force", "title", "resume"})

#: longer values are cut; run.json holds them in full
LONGEST = 300

_LONG_NUMBER = re.compile(r"-?\d+\.\d{4,}(?:e[-+]?\d+)?")


def settings_rows(run: Run) -> list[Group]:
    """Groups of (name, value): the run itself first, then each nested group under its name.

    A run of the command line is described by its flags, which say all that the learner's settings
    do; only those that were set are listed.
    """
    record = {name: value for name, value in run.run.items() if name not in HIDDEN}
    command = record.pop("command", None)
    if isinstance(command, dict):
        for repeated in ("settings", "seed"):
            record.pop(repeated, None)
    plain = [(name, value) for name, value in record.items() if not isinstance(value, dict)]
    groups = [("Run", [(_words(n), as_text(v)) for n, v in plain if v is not None])]
    if isinstance(command, dict):
        title = f"Settings of asterism {command.get('name', '')}".rstrip()
        groups.append((title, _flags(command)))
    for name, value in record.items():
        if isinstance(value, dict) and value:
            groups.append((_words(name), [(_words(k), as_text(v)) for k, v in value.items()]))
    return [(name, rows) for name, rows in groups if rows]


def _flags(command: dict[str, Any]) -> list[tuple[str, str]]:
    """The flags as they would be typed; what was left open is left out."""
    rows = []
    for name, value in command.items():
        left_open = value is None or value is False or value == []
        if name not in BESIDES and not left_open:
            rows.append((f"--{name.replace('_', '-')}", _typed(value)))
    return rows


def _typed(value: Any) -> str:
    """Edges as A->B, lists with commas."""
    if isinstance(value, list) and value and all(isinstance(v, list) for v in value):
        return ", ".join("->".join(map(str, pair)) for pair in value)
    return as_text(value)


def as_text(value: Any) -> str:
    """A setting in words."""
    if value is None:
        return "not set"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list | tuple):
        text = ", ".join(as_text(item) for item in value) or "none"
    elif isinstance(value, dict):
        text = "; ".join(f"{key}: {as_text(item)}" for key, item in value.items()) or "none"
    else:
        text = _LONG_NUMBER.sub(lambda found: f"{float(found[0]):.4g}", str(value))
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"


def _words(name: str) -> str:
    return str(name).replace("_", " ")
