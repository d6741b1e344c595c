"""What was learned, in three sentences."""

from __future__ import annotations

import pandas as pd

from asterism.report.effects import LOWERS, RAISES, effect
from asterism.report.run import Run

CAUTION = (
    "Each probability is conditional on the rest of the graph being as learned, and is therefore "
    "rather too sure: take the ranking of the edges more seriously than the numbers."
)
GIVEN = (
    "The graph was given and not learned, so its edges carry no probabilities; rates and state "
    "probabilities hold only as far as the graph does."
)


def sentences(run: Run) -> list[str]:
    """What was analysed, what stands out, and how to read it."""
    return [_what(run), _findings(run), CAUTION if run.learned else GIVEN]


def _what(run: Run) -> str:
    data = ""
    if run.observations is not None and len(run.observations):
        n_trajectories = run.observations["trajectory"].nunique()
        data = (
            f"From {_count(len(run.observations), 'measurement')} in "
            f"{_count(n_trajectories, 'trajectory', 'trajectories')}, "
        )
    n_edges = sum(map(len, run.network.parents.values()))
    verb = "a network was learned" if run.learned else "a given network was fitted"
    text = (
        f"{data}{verb} among {_count(len(run.network.nodes), 'node')} "
        f"with {_count(n_edges, 'edge')}."
    )
    return text[0].upper() + text[1:]


def _findings(run: Run) -> str:
    if not run.learned:
        return _busiest(run)
    edges = run.edge_table
    inside = edges[edges["in_graph"]]
    doubtful = int(((edges["probability"] >= 0.1) & ~edges["in_graph"]).sum())
    rest = (
        f"{_count(doubtful, 'edge')} outside the graph still "
        f"{'has' if doubtful == 1 else 'have'} a probability of at least 0.1"
        if doubtful
        else "no edge outside the graph reaches a probability of 0.1"
    )
    if not len(inside):
        return f"No node was found to influence another, and {rest}."
    surest = _and([_described(run, row) for _, row in inside.head(3).iterrows()])
    if len(inside) == 1:
        return f"The only edge is {surest}; {rest}."
    return f"The surest are {surest}; {rest}."


def _busiest(run: Run) -> str:
    children = run.edge_table["parent"].value_counts(sort=False)
    if not len(children):
        return "No node influences another."
    name = min(children.index, key=lambda node: (-children[node], node))
    return f"{name} has the most children ({children[name]})."


def _described(run: Run, row: pd.Series) -> str:
    parent, child = row["parent"], row["child"]
    kind = effect(run.network, child, parent) if parent in run.network.parents[child] else ""
    note = f", {kind}" if kind in (RAISES, LOWERS) else ""
    return f"{parent} → {child} ({probability_text(row['probability'])}{note})"


def probability_text(probability: float) -> str:
    """Two decimals, but never a certainty that rounding alone has made."""
    if 0.995 <= probability < 1.0:
        return ">0.99"
    return f"{probability:.2f}"


def _count(number: int, singular: str, plural: str | None = None) -> str:
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def _and(items: list[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"
