"""A finished run: everything that the results folder holds and the report page shows.

A :class:`Run` is plain data. It is made from a fitted learner, or read back from a folder, and
answers the few questions that files, figures and page all ask of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from asterism.data.columns import require_columns
from asterism.data.labels import RATE_LABELS, combinations, rate_labels
from asterism.errors import DataError, quoted
from asterism.model.network import Network
from asterism.model.rates import SummaryRates
from asterism.notebook_card import MOST_ROWS, card
from asterism.numerics.arrays import FloatArray
from asterism.results.edge_sets import Edge, edge_list, require_few, square

if TYPE_CHECKING:
    import networkx
    import xarray

EDGE_COLUMNS = ["parent", "child", "probability", "in_graph"]
RATE_COLUMNS = [*RATE_LABELS, "rate", "lower", "upper"]
FAMILY_COLUMNS = ["node", "parents", "score", "probability"]
OBSERVATION_COLUMNS = ["trajectory", "time", "node", "value"]

#: how the intervals of a learned network's rates are described to readers
GIVEN_THE_GRAPH = "90 % intervals given the graph and the expected courses, somewhat too narrow"

#: tables that a fit adds to its rates, or continuous nodes to edges, each a CSV file of this name
FIT_TABLES = (
    *("effects", "edge_ratios", "parameters", "covariance", "contributions"),
    *("sojourn_times", "transition_probabilities", "prevalence", "survival"),
    *("nodes", "targets", "frailty"),
)

#: the caveat of a node, and of pairs of nodes, for which a search had no time
NOT_SCORED = "not scored"


@dataclass
class Run:
    """One analysis: the network, how sure its edges are, and how they were found."""

    network: Network
    edges: pd.DataFrame | None = None
    """parent, child, probability, in_graph and more where known; surest first. None: as given."""
    families: pd.DataFrame | None = None
    """node, parents (a tuple of names), score, probability; None when no structure was learned."""
    posterior: xarray.Dataset | None = None
    """State probabilities over time; see :mod:`asterism.results.courses`."""
    run: dict[str, Any] = field(default_factory=dict)
    """settings, versions, seed, data_hash, stop_reason, converged, and whatever else to record."""
    observations: pd.DataFrame | None = None
    """trajectory, time, node, value."""
    history: pd.DataFrame | None = None
    """One row per iteration, numbers only."""
    truth: list[Edge] | None = None
    """The true edges, where they are known."""
    rates: pd.DataFrame | None = None
    """node, configuration ("A=on, B=off"), from, to, rate, lower, upper: rates with intervals."""
    tables: dict[str, pd.DataFrame] = field(default_factory=dict)
    """Tables of a fit of rates by name: those of :data:`FIT_TABLES` that there are."""

    def __post_init__(self) -> None:
        self.edges = _checked_edges(self.edges, self.network)
        self.families = _checked_families(self.families, self.network)
        self.history = _as_history(self.history)
        if self.truth is not None:
            self.truth = [(str(p), str(c)) for p, c in edge_list(self.truth)]
            _require_known(self.network, [end for edge in self.truth for end in edge], "The truth")
        if self.rates is not None:
            require_columns(self.rates, RATE_COLUMNS, "The table of rates")
        if self.observations is not None:
            require_columns(self.observations, OBSERVATION_COLUMNS, "The table of observations")

    @classmethod
    def from_learner(
        cls,
        learner: Any,
        *,
        posterior: xarray.Dataset | None = None,
        observations: pd.DataFrame | None = None,
        truth: Any = None,
        run: Mapping[str, Any] | None = None,
        rates: pd.DataFrame | None = None,
        tables: Mapping[str, pd.DataFrame] | None = None,
    ) -> Run:
        """What a fitted learner knows, with what it was given; ``run`` adds to the record."""
        settings = learner.get_params(deep=False) if hasattr(learner, "get_params") else {}
        if settings.get("method") == "auto" and hasattr(learner, "stage_"):
            settings = {**settings, "method": learner.method_}  # what it came to
        record: dict[str, Any] = {
            "settings": settings,
            "seed": settings.get("random_state"),
            "converged": getattr(learner, "converged_", None),
            "usable": getattr(learner, "usable_", None),
            "stop_reason": getattr(learner, "stop_reason_", None),
            "n_sweeps": getattr(learner, "n_sweeps_", None),
            "not_scored": getattr(learner, "not_scored_", []),
            **_learned_record(learner),
        }
        # intervals of a fit of rates take long; whoever wants them hands them over
        if hasattr(learner, "edges_"):
            rates = getattr(learner, "rate_intervals_", None) if rates is None else rates
            record["rate_intervals"] = GIVEN_THE_GRAPH
        found: dict[str, pd.DataFrame] = {}
        if hasattr(learner, "nodes_"):
            if learner.network_.drifts or learner.hidden_:
                found["nodes"] = learner.nodes_
            if len(learner.targets_):
                found["targets"] = learner.targets_
        return cls(
            network=learner.network_,
            edges=getattr(learner, "edges_", None),
            families=getattr(learner, "family_scores_", None),
            posterior=posterior,
            run={**record, **(run or {})},
            observations=observations,
            history=getattr(learner, "history_", None),
            truth=None if truth is None else edge_list(truth),
            rates=rates,
            tables={**found, **(tables or {})},
        )

    def _repr_html_(self) -> str:
        from asterism.results.summary import sentences

        said = sentences(self)
        stop = self.run.get("stop_reason") or ""
        unusable = self.run.get("converged") is False and not self.run.get("usable")
        warning = f"Not converged. {stop}" if unusable else ""
        names = ("parent", "child", "probability", "in_graph")
        rows = [
            (p, c, NOT_SCORED if pd.isna(q) else f"{q:.3f}", "yes" if g else "no")
            for p, c, q, g in self.edge_table[list(names)].head(MOST_ROWS).itertuples(index=False)
        ]
        return card(said[0], [(said[1], "")], names, rows, len(self.edge_table), warning)

    @property
    def is_fit(self) -> bool:
        """Whether this is a fit of rates on a given graph, with tables about them."""
        return self.rates is not None and not self.learned

    @property
    def learned(self) -> bool:
        """Whether the edges were learned, rather than given."""
        return self.families is not None

    def setting(self, name: str) -> Any:
        """A setting of the learner, of one of its objects, or of the command; None if unknown."""
        settings, command = self.run.get("settings"), self.run.get("command")
        own = settings if isinstance(settings, dict) else {}
        places = [own, *inner_settings(own).values(), command]
        known = (place.get(name) for place in places if isinstance(place, dict))
        return next((value for value in known if value is not None), None)

    @property
    def sizes(self) -> dict[str, int]:
        """Numbers of trajectories and measurements that were read; nothing where none are known.

        A fit keeps the measurements of its first trajectories only, but its record counts all.
        """
        seen = self.observations
        if seen is None or not len(seen):
            return {}
        known = {"trajectories": seen["trajectory"].nunique(), "measurements": len(seen)}
        counts = {name: self.run.get(f"n_{name}") for name in known}
        return known | {name: n for name, n in counts.items() if isinstance(n, int)}

    @property
    def not_scored(self) -> list[str]:
        """Nodes for which the search had no time; nothing is known about the edges into them."""
        names = self.run.get("not_scored")
        return [str(n) for n in names if n in self.network.nodes] if isinstance(names, list) else []

    @property
    def edge_table(self) -> pd.DataFrame:
        """The edges, never None."""
        assert self.edges is not None  # set in __post_init__
        return self.edges

    @property
    def graph(self) -> networkx.DiGraph:
        """The network's graph; edges carry ``probability``, and what else the table says."""
        graph = self.network.graph
        table = self.edge_table
        for row in table[[c for c in table.columns if c != "in_graph"]].to_dict("records"):
            if graph.has_edge(row["parent"], row["child"]):
                known = {k: v for k, v in row.items() if v != "" and not pd.isna(v)}
                del known["parent"], known["child"]
                graph.edges[row["parent"], row["child"]].update(known)
        return graph

    @property
    def edge_probabilities(self) -> pd.DataFrame:
        """Square table, rows = parents, columns = children; pairs that are not listed are 0.

        Above 200 nodes most below .01 are not listed. Pairs that were not scored are missing.
        """
        nodes = list(self.network.nodes)
        require_few(len(nodes), "'edges'")
        return with_missing(square(self.edge_table, nodes), nodes)

    def scores(self) -> dict[str, float] | None:
        """Edge metrics against the truth; None without a truth that can be ranked against.

        None also where some nodes were not scored.
        """
        from asterism.results.metrics import edge_scores

        if (
            self.not_scored
            or not self.truth
            or len(set(self.truth)) == len(self.network.nodes) * (len(self.network.nodes) - 1)
        ):
            return None
        return edge_scores(
            self.edge_table, self.truth, graph=self.network, nodes=self.network.nodes
        )


#: settings that are objects with settings of their own
_OBJECTS = ("structure_prior", "search", "sampling", "accuracy")


def inner_settings(settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Those of settings that are objects, by the object: as learners hold them, or as files do."""
    found: dict[str, Any] = {name: settings.get(name) for name in _OBJECTS}
    plain = {name: one.to_dict() if hasattr(one, "to_dict") else one for name, one in found.items()}
    return {name: one for name, one in plain.items() if isinstance(one, dict)}


def _learned_record(learner: Any) -> dict[str, Any]:
    """Prior and emissions that were used, in words and as they can be read back."""
    record: dict[str, Any] = {}
    if getattr(learner, "prior_", None) is not None:
        record["prior"] = {"shape": learner.prior_.shape, "rate": learner.prior_.rate}
        rates = getattr(learner, "prior_rates_", None)
        if rates is not None and rates.nunique() > 1:
            record["prior"]["rates"] = {str(n): float(b) for n, b in rates.items()}
    emission = getattr(learner, "emission_", None)
    if emission is not None:
        by_node = emission
        if not isinstance(emission, Mapping):
            by_node = dict.fromkeys(learner.network_.nodes, emission)
        record["emission"] = {str(node): repr(one) for node, one in by_node.items()}
        record["emissions"] = {str(node): one for node, one in by_node.items()}
    for name, attribute in (
        ("complete_data", "_from_paths"),
        ("method", "method_"),
        ("tempering", "tempering_"),
        ("known_share", "known_share_"),
        ("levels", "level_record_"),
        ("kinds", "kind_record_"),
        ("chains", "chain_record_"),
    ):
        if getattr(learner, attribute, None) is not None:
            record[name] = getattr(learner, attribute)
    return record


def _checked_edges(edges: pd.DataFrame | None, network: Network) -> pd.DataFrame:
    if edges is None:
        pairs = [(p, child) for child in network.nodes for p in network.parents[child]]
        edges = pd.DataFrame(pairs, columns=EDGE_COLUMNS[:2], dtype=object)
        edges["probability"], edges["in_graph"] = 1.0, True
    require_columns(edges, EDGE_COLUMNS, "The table of edges")
    _require_known(network, [*edges["parent"], *edges["child"]], "The table of edges")
    # what else a learner says of an edge (prior, Bayes factor, …) stays beside it
    more = [name for name in edges.columns if name not in EDGE_COLUMNS]
    edges = edges[[*EDGE_COLUMNS, *more]].copy()
    edges["in_graph"] = edges["in_graph"].astype(bool)
    probability = edges["probability"].to_numpy(dtype=np.float64, na_value=np.nan)
    edges["probability"] = probability
    unknown = np.isnan(probability) & ~edges["in_graph"].to_numpy()
    if "caveat" in edges.columns:
        unknown &= (edges["caveat"] == NOT_SCORED).to_numpy()
    else:
        unknown[:] = False
    bad = np.flatnonzero(~((probability >= 0) & (probability <= 1 + 1e-9)) & ~unknown)
    if len(bad):
        row = edges.iloc[int(bad[0])]
        raise DataError(
            f"The probability of {row['parent']!r} → {row['child']!r} is {row['probability']}; "
            "it must lie between 0 and 1."
        )
    # ties keep the order of names, so that the same result always gives the same file
    edges = edges.sort_values(
        ["probability", "parent", "child"], ascending=[False, True, True], ignore_index=True
    )
    return with_missing(edges, ["probability"])


def with_missing(table: pd.DataFrame, columns: Iterable[str]) -> pd.DataFrame:
    """The table with missing values, not NaN, in those of these columns that lack some."""
    for name in columns:
        if table[name].isna().any():
            table[name] = table[name].astype("Float64")
    return table


def _checked_families(families: pd.DataFrame | None, network: Network) -> pd.DataFrame | None:
    if families is None:
        return None
    require_columns(families, FAMILY_COLUMNS, "The table of families")
    more = [name for name in families.columns if name == "caveat"]
    families = families[[*FAMILY_COLUMNS, *more]].reset_index(drop=True)
    families = with_missing(families, ["score", "probability"])
    parents = [
        split_names(names) if isinstance(names, str) else tuple(str(name) for name in names)
        for names in families["parents"]
    ]
    named = [*families["node"], *(name for names in parents for name in names)]
    _require_known(network, named, "The table of families")
    families["parents"] = pd.Series(parents, dtype=object)
    return families


def _as_history(history: Any) -> pd.DataFrame | None:
    """Numbers only, from a table, a list of dictionaries, a dictionary of lists, or one list."""
    if history is None or len(history) == 0:
        return None
    if not isinstance(history, pd.DataFrame):
        if not isinstance(history, Mapping) and not isinstance(history[0], Mapping):
            history = {"objective": list(history)}
        history = pd.DataFrame(history)
    numbers = history.select_dtypes(include=["number", "bool"]).astype(np.float64)
    return numbers.reset_index(drop=True) if numbers.shape[1] else None


def _require_known(network: Network, names: Sequence[Any], what: str) -> None:
    unknown = sorted(set(names) - set(network.nodes), key=str)
    if unknown:
        raise DataError(f"{what} names {quoted(unknown)}, which the network does not have.")


# ---- rates with intervals ----------------------------------------------------------------------

DESCRIBED = "95 % intervals of the rates"


@dataclass(frozen=True)
class RateIntervals:
    """Lower and upper ends, by node, configuration of its parents, from and to (all as text)."""

    ends: dict[tuple[str, str, str, str], tuple[float, float]]
    described: str = DESCRIBED
    """What kind of interval this is, for readers."""

    def of(self, network: Network, node: str) -> tuple[FloatArray, FloatArray] | None:
        """Ends in the shape of the node's rates; NaN where unknown, None if all are."""
        table = network.rates[node]
        if table is None or isinstance(table, SummaryRates):
            return None
        given = combinations(network.states, network.jumping_parents(node))
        labels = rate_labels(node, given, [*map(str, network.states[node])])
        pairs = np.array([self.ends.get(rate, (np.nan, np.nan)) for rate in labels])
        low, high = pairs.T.reshape(2, *table.shape)
        return None if np.isnan(low).all() else (low, high)


def rate_intervals(table: pd.DataFrame | None, record: Mapping[str, Any]) -> RateIntervals | None:
    """The intervals in a table of rates; ``record`` (run.json) says what they are."""
    if table is None or not len(table):
        return None
    texts = [table[name].map(str) for name in RATE_LABELS]
    ends = zip(*(pd.to_numeric(table[name], errors="coerce") for name in ("lower", "upper")))
    described = record.get("rate_intervals") or DESCRIBED
    return RateIntervals(dict(zip(zip(*texts), ends)), str(described))


# ---- several names in one cell: "A;B", with a backslash before a semicolon in a name ----------


_PIECE = re.compile(r"((?:[^;\\]|\\.)*)(;|$)", re.DOTALL)


def join_names(names: Iterable[str]) -> str:
    """No names give the empty text, and only no names do: an empty name is written as ``\\e``."""
    escaped = (name.replace("\\", "\\\\").replace(";", "\\;") or "\\e" for name in names)
    return ";".join(escaped)


def split_names(text: str) -> tuple[str, ...]:
    """The inverse of :func:`join_names`."""
    if text == "":
        return ()
    names = []
    for match in _PIECE.finditer(text):
        piece = match.group(1)
        names.append("" if piece == "\\e" else re.sub(r"\\(.)", r"\1", piece, flags=re.DOTALL))
        if match.group(2) == "":
            break
    return tuple(names)
