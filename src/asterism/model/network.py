"""The continuous-time Bayesian network: nodes, their states, their parents, and their rates.

A :class:`Network` is checked once, when it is made, and does not change afterwards; ``with_rates``
and ``with_initial`` make altered copies. What the kernels read is ``compiled``; graph helpers,
label spelling, table checks and the joint chain each have their own file. As a JSON file it has a
versioned format; numbers are written so that they read back to the same bits.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from asterism.data.files import read_json, require_version, write_text
from asterism.errors import Advice, AsterismError, ModelError, counted, first_few
from asterism.model import joint_space
from asterism.model import names as labels
from asterism.model.drift import Drift
from asterism.model.names import as_parents, states_in
from asterism.model.rates import (
    SummaryRates,
    as_numbers,
    checked_probabilities,
    checked_rates,
    rates_from_json,
    rates_to_json,
)
from asterism.notebook_card import MOST_ROWS, card
from asterism.numerics.arrays import FloatArray, IntArray
from asterism.numerics.compiled import CompiledNetwork, compile_graph

if TYPE_CHECKING:
    import networkx
    from scipy.sparse import csr_matrix

Rates = FloatArray | SummaryRates | None

#: what a network file says it is
FORMAT = "asterism-network"
VERSION = 2


class Network:
    """Nodes with named states that jump at rates set by the current states of their parents.

    ``parents``: {node: [parents]}, a networkx.DiGraph (whose nodes may carry ``states``), or a name
    such as "tree:14"; cycles are legal. ``rates``: per node an array
    (\\*parent states, S, S) with one axis per parent in their order, then from, then to; diagonals
    optional; or :class:`SummaryRates`; or None for an *exogenous* node, whose path the data always
    give. ``states``: {node: labels}, by default "0", "1", …; ``initial``: {node: probabilities},
    uniform where not given. ``drifts``: {node: :class:`Drift`} of nodes that move continuously;
    they have no rates and no states. ``slopes``: {jumping node: {continuous parent: slope}}: its
    rates, which have no axis for this parent, are multiplied by e^(slope · x); a slope is one
    number for all transitions, or (S, S).
    """

    def __init__(
        self,
        parents: Any,
        rates: Mapping[Any, Any] | None = None,
        states: Mapping[Any, Sequence[Any]] | None = None,
        initial: Mapping[Any, Any] | None = None,
        drifts: Mapping[Any, Drift] | None = None,
        slopes: Mapping[Any, Mapping[Any, Any]] | None = None,
    ) -> None:
        self.parents: dict[str, tuple[str, ...]] = as_parents(parents)
        self.nodes: tuple[str, ...] = tuple(self.parents)
        given_rates = self._by_node("rates", rates)
        given_drifts = self._by_node("drifts", drifts)
        self.drifts: dict[str, Drift] = {
            node: given_drifts[node] for node in self.nodes if node in given_drifts
        }
        for node in self.nodes:
            if node not in given_rates and node not in self.drifts:
                raise ModelError(
                    f"Node {node!r} has no rates; ",
                    Advice(
                        "give an array, SummaryRates, or None for a node whose path the data "
                        "always give.",
                        "its network file must hold them, or null for a node whose path the data "
                        "always give.",
                    ),
                )
        given_states = {**states_in(parents), **self._by_node("states", states)}
        self.states: dict[str, tuple[Any, ...]] = {
            node: ()
            if node in self.drifts
            else labels.checked_states(node, given_states[node])
            if given_states.get(node) is not None
            else _default_states(node, given_rates[node])
            for node in self.nodes
        }
        self.rates: dict[str, Rates] = {
            node: None if node in self.drifts else self._checked_rates(node, given_rates[node])
            for node in self.nodes
        }
        given_initial = self._by_node("initial", initial)
        self.initial: dict[str, FloatArray] = {
            node: self._checked_initial(node, given_initial.get(node)) for node in self.nodes
        }
        self.slopes: dict[str, dict[str, FloatArray]] = self._checked_slopes(slopes)
        self._check_drifts(given_rates)
        self.exogenous: frozenset[str] = frozenset(
            n for n in self.nodes if self.rates[n] is None and n not in self.drifts
        )

    # ---- sizes and labels -------------------------------------------------------------------

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.nodes)

    @property
    def n_states(self) -> dict[str, int]:
        """Number of states of every node."""
        return {node: len(labels_) for node, labels_ in self.states.items()}

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {node: number for number, node in enumerate(self.nodes)}

    def node_index(self, node: Any) -> int:
        """The position of a node in ``nodes``."""
        number = self._numbers.get(str(node))
        if number is None:
            raise ModelError(
                f"There is no node {str(node)!r}; the nodes are {first_few(self.nodes)}."
            )
        return number

    def state_index(self, node: Any, label: Any) -> int:
        """The number of a node's state; 1, "1" and 1.0 are the same label."""
        name = self.nodes[self.node_index(node)]
        return labels.state_index(name, self.states[name], label)

    def state_indices(self, node: Any, values: Any) -> IntArray:
        """The numbers of many states of one node."""
        name = self.nodes[self.node_index(node)]
        return labels.state_indices(name, self.states[name], values)

    # ---- other views ------------------------------------------------------------------------

    @property
    def graph(self) -> networkx.DiGraph:
        """A fresh networkx.DiGraph; every node carries its ``states``."""
        import networkx

        graph = networkx.DiGraph()
        for node in self.nodes:
            graph.add_node(node, states=self.states[node])
        for node in self.nodes:
            graph.add_edges_from((parent, node) for parent in self.parents[node])
        return graph

    @cached_property
    def compiled(self) -> CompiledNetwork:
        """The network as plain arrays, for the kernels; exogenous nodes have zero rates."""
        self.require_jumping("This")
        weights: dict[int, list[list[int]]] = {}
        n_summary: dict[int, int] = {}
        tables: list[FloatArray] = []
        for number, node in enumerate(self.nodes):
            rates = self.rates[node]
            if rates is None:
                tables.append(np.zeros(len(self.states[node]) ** 2))
            elif isinstance(rates, SummaryRates):
                weights[number] = rates.shifted_weights
                n_summary[number] = rates.n_summary
                tables.append(rates.table.ravel())
            else:
                tables.append(rates.ravel())
        return CompiledNetwork(
            graph=compile_graph(self._sizes, self._parent_numbers, weights, n_summary),
            rates=np.concatenate(tables),
            initial=np.concatenate([self.initial[node] for node in self.nodes]),
        )

    @property
    def n_joint_states(self) -> int:
        """Number of states of all nodes together: the product of theirs."""
        self.require_jumping("A joint chain")
        return math.prod(self._sizes)

    def joint_states(self, limit: int = joint_space.JOINT_LIMIT) -> IntArray:
        """(n_joint, N) state numbers, the last node varying fastest."""
        joint_space.require_joint_fits(self.n_joint_states, limit)
        return joint_space.joint_states(self._sizes)

    def joint_generator(self, limit: int = joint_space.JOINT_LIMIT) -> csr_matrix:
        """The generator of the joint chain, rows in the order of ``joint_states``."""
        joint_space.require_joint_fits(self.n_joint_states, limit)
        rates = [self.rates[node] for node in self.nodes]
        return joint_space.joint_generator(self._sizes, self._parent_numbers, rates)

    # ---- altered copies ---------------------------------------------------------------------

    def with_rates(self, rates: Mapping[Any, Any]) -> Network:
        """A copy with other rates for the nodes named."""
        changed = {**self.rates, **self._by_node("rates", rates)}
        return Network(self.parents, changed, self.states, self.initial, self.drifts, self.slopes)

    def with_initial(self, initial: Mapping[Any, Any] | None) -> Network:
        """A copy with other start probabilities for the nodes named; None: uniform for all."""
        changed = None if initial is None else {**self.initial, **self._by_node("initial", initial)}
        return Network(self.parents, self.rates, self.states, changed, self.drifts, self.slopes)

    # ---- files ------------------------------------------------------------------------------

    def jumping_parents(self, node: str) -> tuple[str, ...]:
        """The parents that have states: rates have one axis for each."""
        return tuple(p for p in self.parents[node] if p not in self.drifts)

    def configurations(
        self, node: str, limit: int
    ) -> list[tuple[tuple[Any, ...], FloatArray]] | None:
        """Each configuration of jumping parents (labels) with its (S, S) rates.

        None beyond the limit. Continuous parents count as 0.
        """
        rates = self.rates[node]
        if rates is None:
            return []
        above = self.jumping_parents(node)
        sizes = [len(self.states[p]) for p in above]
        if np.prod(sizes, dtype=np.float64) > limit:
            return None
        table = rates.expand() if isinstance(rates, SummaryRates) else rates
        labels = [self.states[p] for p in above]
        return [
            (tuple(names[i] for names, i in zip(labels, place)), table[place])
            for place in product(*(range(size) for size in sizes))
        ]

    def to_dict(self) -> dict[str, Any]:
        """The content of the JSON file."""
        nodes = [
            {
                "name": node,
                "states": list(self.states[node]),
                "parents": list(self.parents[node]),
                "initial": self.initial[node].tolist(),
                "rates": rates_to_json(self.rates[node]),
                **({"drift": self.drifts[node].to_dict()} if node in self.drifts else {}),
                **({"slopes": _as_lists(self.slopes[node])} if node in self.slopes else {}),
            }
            for node in self.nodes
        ]
        # files without continuous nodes stay readable for releases that know none
        return {"format": FORMAT, "version": VERSION if self.drifts else 1, "nodes": nodes}

    @classmethod
    def from_dict(cls, content: Any, where: str = "The content") -> Network:
        """The inverse of ``to_dict``; ``where`` names the source in messages."""
        nodes = _checked_content(content, where)["nodes"]
        try:
            return cls._from_nodes(nodes, where)
        except AsterismError:
            raise
        except (TypeError, ValueError, LookupError, AttributeError, OverflowError) as error:
            raise ModelError(f"{where} is not laid out as a network file: {error}.") from None

    @classmethod
    def _from_nodes(cls, nodes: Any, where: str) -> Network:
        names = [str(n["name"]) for n in nodes]
        if len(set(names)) < len(names):
            twice = next(n for n in names if names.count(n) > 1)
            raise ModelError(f"{where} has two nodes named {twice!r}.")
        return cls(
            parents={n["name"]: n["parents"] for n in nodes},
            rates={n["name"]: rates_from_json(str(n["name"]), n["rates"]) for n in nodes},
            states={n["name"]: n["states"] for n in nodes},
            initial={n["name"]: n.get("initial") for n in nodes},
            drifts={n["name"]: Drift.from_dict(n["drift"]) for n in nodes if n.get("drift")},
            slopes={n["name"]: n["slopes"] for n in nodes if n.get("slopes")},
        )

    def save(self, path: str | Path) -> None:
        """Write the network as JSON."""
        write_text(path, json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> Network:
        """Read a network that ``save`` wrote."""
        return cls.from_dict(read_json(path, "network file", ModelError), where=repr(str(path)))

    # ---- comparison and text ----------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Network):
            return NotImplemented
        return (
            self.nodes == other.nodes
            and self.parents == other.parents
            and self.states == other.states
            and self.drifts == other.drifts
            and _as_lists(self.slopes) == _as_lists(other.slopes)
            and all(_same_rates(self.rates[n], other.rates[n]) for n in self.nodes)
            and all(np.array_equal(self.initial[n], other.initial[n]) for n in self.nodes)
        )

    __hash__ = None  # type: ignore[assignment]

    def _repr_html_(self) -> str:
        n_edges = sum(map(len, self.parents.values()))
        rows = [
            (node, self._in_words(node), first_few(self.parents[node]) or "–")
            for node in self.nodes[:MOST_ROWS]
        ]
        title = f"Network: {counted(self.n_nodes, 'node')}, {counted(n_edges, 'edge')}"
        return card(title, (), ("node", "states", "parents"), rows, self.n_nodes)

    def __repr__(self) -> str:
        n_edges = sum(map(len, self.parents.values()))
        lines = [f"Network: {counted(self.n_nodes, 'node')}, {counted(n_edges, 'edge')}"]
        shown = self.nodes[:20]
        width = max(len(node) for node in shown)
        for node in shown:
            above = first_few(self.parents[node]) if self.parents[node] else "no parents"
            rates = self.rates[node]
            what = self._in_words(node)
            if node not in self.drifts:
                note = " (summary rates)" if isinstance(rates, SummaryRates) else ""
                what, above = f"states {what}", above + (" (exogenous)" if rates is None else note)
            lines.append(f"  {node:<{width}}  {what}  <- {above}")
        if len(shown) < self.n_nodes:
            lines.append(f"  … and {self.n_nodes - len(shown)} more")
        return "\n".join(lines)

    def _in_words(self, node: str) -> str:
        return "continuous" if node in self.drifts else first_few(self.states[node])

    # ---- checks -----------------------------------------------------------------------------

    def require_jumping(self, what: str) -> None:
        """Refuse continuous nodes: ``what`` begins the sentence."""
        if self.drifts:
            raise ModelError(
                f"{what} is for nodes that jump between states, but "
                f"{first_few(self.drifts)} move{'s' * (len(self.drifts) == 1)} continuously."
            )

    def _check_drifts(self, given_rates: Mapping[str, Any]) -> None:
        for node, drift in self.drifts.items():
            if not isinstance(drift, Drift):
                raise ModelError(f"The drift of node {node!r} must be am.Drift, got {drift!r}.")
            if given_rates.get(node) is not None:
                raise ModelError(f"Node {node!r} has both rates and a drift; give one of them.")
            if set(drift.parents) != set(self.parents[node]):
                raise ModelError(
                    f"The drift of node {node!r} names {first_few(drift.parents) or 'no parents'}, "
                    f"but its parents are {first_few(self.parents[node]) or 'none'}."
                )
            for parent in (*drift.linear, *drift.quadratic):
                if parent not in self.drifts:
                    raise ModelError(f"Node {node!r} has a weight for {parent!r}, which jumps.")
            for parent, shifts in drift.shifts.items():
                if len(shifts) != len(self.states[parent]):
                    raise ModelError(
                        f"Node {node!r} has {len(shifts)} shifts for {parent!r}, which has "
                        f"{counted(len(self.states[parent]), 'state')}."
                    )

    def _checked_slopes(self, given: Any) -> dict[str, dict[str, FloatArray]]:
        """(S, S) slopes, zero on the diagonal, of every continuous parent of jumping nodes."""
        found = self._by_node("slopes", given)
        checked: dict[str, dict[str, FloatArray]] = {}
        for node in self.nodes:
            own = found.get(node) or {}
            if not isinstance(own, Mapping):
                raise ModelError(f"The slopes of node {node!r} must be {{parent: slope}}.")
            own = {str(parent): slope for parent, slope in own.items()}
            above = (
                [] if node in self.drifts else [p for p in self.parents[node] if p in self.drifts]
            )
            if set(own) != set(above):
                raise ModelError(
                    f"Node {node!r} has slopes for {first_few(own) or 'no parents'}, but its "
                    f"rates depend on the continuous parents {first_few(above) or 'none'}."
                )
            size = len(self.states[node])
            for parent in above:
                slope = as_numbers(f"The slope of node {node!r} for {parent!r}", own[parent])
                if slope.shape not in ((), (size, size)) or not np.isfinite(slope).all():
                    raise ModelError(
                        f"The slope of node {node!r} for {parent!r} must be a finite number, or "
                        f"{size} × {size} of them."
                    )
                checked.setdefault(node, {})[parent] = np.where(np.eye(size) > 0.0, 0.0, slope)
        return checked

    @cached_property
    def _sizes(self) -> list[int]:
        return [len(self.states[node]) for node in self.nodes]

    @cached_property
    def _parent_numbers(self) -> list[list[int]]:
        return [[self._numbers[p] for p in self.parents[node]] for node in self.nodes]

    def _by_node(self, what: str, given: Mapping[Any, Any] | None) -> dict[str, Any]:
        return labels.by_node(f"'{what}'", given, self.parents)

    def _checked_rates(self, node: str, rates: Any) -> Rates:
        above = self.parents[node]
        if rates is None:
            if above:
                raise ModelError(
                    f"Node {node!r} has no rates (exogenous) and so cannot have parents, "
                    f"got {first_few(above)}."
                )
            return None
        above = self.jumping_parents(node)
        sizes = [len(self.states[p]) for p in above]
        n_states = len(self.states[node])
        if isinstance(rates, SummaryRates):
            if rates.n_states != n_states:
                raise ModelError(
                    f"The SummaryRates of node {node!r} are for {rates.n_states} states, "
                    f"expected {n_states}."
                )
            return rates.ordered(node, above, sizes)
        return checked_rates(node, rates, above, sizes, n_states)

    def _checked_initial(self, node: str, initial: Any) -> FloatArray:
        n_states = len(self.states[node])
        if node in self.drifts:
            return np.empty(0)
        if initial is None:
            initial = np.full(n_states, 1.0 / n_states)
        return checked_probabilities(f"The start probabilities of node {node!r}", initial, n_states)


def _default_states(node: str, rates: Any) -> tuple[str, ...]:
    if rates is None:
        raise ModelError(f"Node {node!r} has no rates (exogenous), so its states must be given.")
    if isinstance(rates, SummaryRates):
        size = rates.n_states
    else:
        shape = as_numbers(f"The rates of node {node!r}", rates).shape
        size = shape[-1] if shape else 0
    return labels.checked_states(node, [str(i) for i in range(size)])


def _same_rates(one: Rates, other: Rates) -> bool:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return np.array_equal(one, other)
    if isinstance(one, SummaryRates) and isinstance(other, SummaryRates):
        return one == other
    return one is None and other is None


def _as_lists(slopes: Any) -> Any:
    """Slopes as a file holds them."""
    return {k: _as_lists(v) if isinstance(v, Mapping) else v.tolist() for k, v in slopes.items()}


def _checked_content(content: Any, where: str) -> dict[str, Any]:
    """Refuse anything that is not a network of a version this release can read."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ModelError(f"{where} is not a network file: its 'format' is not {FORMAT!r}.")
    require_version(content.get("version"), VERSION, where, ModelError)
    nodes = content.get("nodes")
    if not isinstance(nodes, list) or not all(
        isinstance(n, dict) and {"name", "states", "parents", "rates"} <= set(n) for n in nodes
    ):
        raise ModelError(
            f"{where} needs a list 'nodes' whose entries have name, states, parents and rates."
        )
    return content
