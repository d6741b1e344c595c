"""Owns what a user says about rates: covariates that change them, and constraints between them.

    ln R(x→y) = ln R0(x→y) + Σ β z

:class:`Effect` names a covariate and the transitions it acts on. Covariates are turned into numbers
(a category becomes one 0/1 number per level but the first), measured from a reference value: the
mean of a number, the smaller of two numbers, the first level of a category, or what the user
says. R0 is the rate at the
reference. ``covariate_network.py`` brings these into inference; this file decides which parameters
there are and how every rate follows from them (a :class:`RateFormula`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from asterism.data.covariates import PERIOD, Covariates, with_periods
from asterism.data.measurements import objects
from asterism.data.numbers import as_number, read_numbers
from asterism.data.observations import Observations
from asterism.errors import DataError, ModelError, Setting, require_known
from asterism.learning.em.frailty import FIRST_SPREAD, Factor, Spreads
from asterism.learning.em.rates_update import RateFormula
from asterism.model.network import Network
from asterism.model.priors import state_number, transition_pairs
from asterism.model.rates import SummaryRates
from asterism.numerics.arrays import BoolArray, FloatArray, IntArray

#: of a category: more are names or numbers that were read as text
_MOST_LEVELS = 20


@dataclass(frozen=True)
class Effect:
    """A covariate that multiplies rates by exp(β·value), or changes how a state is measured.

    ``transitions``: ``"1>2, 1>4"`` or pairs; all if None. ``node``: the node whose rates it
    changes, all nodes if None. ``equal``: one β for all of its transitions instead of one each.
    ``fixed``: a β that is given, not learned. ``start``: where learning starts.

    ``on="outcome"``: it adds β·value to the mean of a learned Gaussian, to the log mean of a
    Poisson, or to the log odds of a wrong report; ``states`` are those it acts on, all if None.
    ``on="start"``: it adds β·value to the log odds of starting in a state, against the first one.
    """

    covariate: str
    transitions: Any = None
    node: str | None = None
    equal: bool = False
    fixed: float | None = None
    start: float = 0.0
    on: str = "rates"
    states: Any = None

    def __post_init__(self) -> None:
        if self.on not in ("rates", "outcome", "start"):
            raise ModelError(
                f'The effect of {self.covariate!r} is on {self.on!r}; it can be on "rates", on '
                'the "outcome" or on the "start".'
            )


@dataclass(frozen=True)
class Column:
    """One number made of a covariate."""

    covariate: str
    level: str | None
    """Of a category: 1 for this level, 0 otherwise. None for a number."""
    reference: float
    scale: float
    levels: tuple[str, ...] = ()
    """All levels of the category, the reference first."""
    why: str = ""
    """Why the reference is what it is."""

    @property
    def name(self) -> str:
        """How tables call it."""
        return self.covariate if self.level is None else f"{self.covariate}={self.level}"

    def standardised(self, values: NDArray[Any]) -> FloatArray:
        """What enters the design, in units of the scale from the reference."""
        if self.level is None:
            read = read_numbers(values)
            if read.is_text.any():
                raise DataError(
                    f"Covariate {self.covariate!r} was learned as a number, got "
                    f"{values[int(np.argmax(read.is_text))]!r}."
                )
            result: FloatArray = (read.value - self.reference) / self.scale
            return result
        texts = [_level(v) for v in values]
        unknown = sorted(set(texts) - set(self.levels))
        if unknown:
            raise DataError(
                f"Covariate {self.covariate!r} is {unknown[0]!r}; the levels learned are "
                f"{', '.join(self.levels)}."
            )
        return np.array([float(text == self.level) for text in texts])


@dataclass(frozen=True)
class EffectParameter:
    """One β: which rates it changes, and by which number."""

    node: str
    column: int
    places: BoolArray
    """Over the flat rates of the network without covariates."""
    transitions: str
    fixed: float | None
    start: float


@dataclass(frozen=True)
class RateModel:
    """All parameters of the rates, for the network without covariates."""

    base: IntArray
    """Per flat rate: the number of its baseline; −1 where it is fixed or not allowed."""
    fixed: FloatArray
    """Per flat rate: its value where it is fixed, else 0."""
    start: FloatArray
    """Per baseline: where learning starts; nan leaves it to the data."""
    columns: tuple[Column, ...]
    effects: tuple[EffectParameter, ...]
    """Those that are learned."""
    given: tuple[EffectParameter, ...]
    """Those that are fixed."""
    change_times: FloatArray = field(default_factory=lambda: np.zeros(0))
    """When all rates change: they are constant in between."""
    factors: tuple[Factor, ...] = ()
    """By which trajectories differ."""
    outcome: Mapping[str, Any] = field(default_factory=dict)
    """Effects of covariates on measurements, by node (``outcome_effects.py``)."""
    starts: Mapping[str, Any] = field(default_factory=dict)
    """Effects of covariates on the start, by node."""

    @property
    def possible(self) -> BoolArray:
        """Per flat rate: whether it can be above zero."""
        result: BoolArray = (self.base >= 0) | (self.fixed > 0.0)
        return result

    @property
    def nodes(self) -> tuple[str, ...]:
        """Nodes whose rates some covariate changes."""
        return tuple(dict.fromkeys(e.node for e in (*self.effects, *self.given)))

    def z_of_one(self, covariates: Mapping[str, Any] | None) -> FloatArray:
        """Covariates of one person as the numbers of the model; the reference where not given."""
        known = dict.fromkeys(c.covariate for c in self.columns)
        given = dict(covariates or {})
        for name in given:
            if name not in known:
                listed = ", ".join(known) or "none"
                raise ModelError(
                    f"There is no covariate {name!r} in this fit; there are: {listed}."
                )
        return np.array(
            [
                float(c.standardised(objects([given[c.covariate]]))[0])
                if c.covariate in given
                else 0.0
                for c in self.columns
            ]
        )

    def formula(self, place: IntArray, z: FloatArray, point: IntArray | None = None) -> RateFormula:
        """The formula of rates at these flat places, each in a situation z (rates, columns).

        ``point`` (rates, factors): at which point of each factor; None where all factors are 1.
        """
        base = self.base[place]
        held = self.fixed[place] > 0.0
        offset = np.where(held, np.log(np.where(held, self.fixed[place], 1.0)), 0.0)
        design = np.zeros((len(place), len(self.effects)))
        for k, parameter in enumerate(self.effects):
            design[:, k] = np.where(parameter.places[place], z[:, parameter.column], 0.0)
        for parameter in self.given:
            scale = self.columns[parameter.column].scale
            factor = (parameter.fixed or 0.0) * scale * z[:, parameter.column]
            offset += np.where(parameter.places[place], factor, 0.0)
        scales = [self.columns[p.column].scale for p in self.effects]
        start = np.array([p.start * s for p, s in zip(self.effects, scales)])
        spreads = None
        if self.factors:
            at = np.full((len(place), len(self.factors)), -1) if point is None else point
            acts = np.stack([f.places[place] for f in self.factors], axis=1)
            spreads = Spreads(tuple(f.x for f in self.factors), np.where(acts, at, -1))
            start = np.append(start, np.full(len(self.factors), FIRST_SPREAD))
        return RateFormula(base, offset, design, len(self.start), start, self.start, spreads)

    def rates(
        self,
        baselines: FloatArray,
        effects: FloatArray,
        place: IntArray,
        z: FloatArray,
        point: IntArray | None = None,
    ) -> FloatArray:
        """Rates at these flat places, each in a situation z; zero where none is allowed."""
        return np.where(
            self.possible[place], self.formula(place, z, point).rates(baselines, effects), 0.0
        )


def rate_model(
    network: Network,
    allowed: BoolArray,
    observations: Observations,
    covariates: Any = None,
    equal_rates: Mapping[Any, Any] | None = None,
    fixed_rates: Mapping[Any, Any] | None = None,
    start_rates: Mapping[Any, Any] | None = None,
    reference: Mapping[str, Any] | None = None,
    change_times: Any = None,
) -> RateModel:
    """Check what the user said and number the parameters."""
    changes = _change_times(change_times, observations)
    if len(changes):
        observations = in_periods(observations, changes)
        wanted = as_effects(covariates)
        named = any(effect.covariate == PERIOD and effect.on == "rates" for effect in wanted)
        covariates = wanted if named else (*wanted, Effect(PERIOD))
    base = np.full(len(allowed), -1, dtype=np.int64)
    group = np.where(allowed, np.arange(len(allowed)), -1)
    for node, groups in _by_node("equal_rates", equal_rates, network).items():
        for text in [groups] if isinstance(groups, str) else groups:
            members = [t.strip() for t in text.split("=")] if isinstance(text, str) else list(text)
            places = [_places(network, allowed, node, m, "equal_rates") for m in members]
            for other in places[1:]:
                group[other] = group[places[0]]
    fixed = np.zeros(len(allowed))
    none = " (for zero, leave the transition out of allowed_transitions)"
    for place, value in _rate_values("fixed_rates", fixed_rates, network, allowed, none):
        fixed[place] = value
    free = allowed & (fixed == 0.0)
    numbers, base[free] = np.unique(group[free], return_inverse=True)
    start = np.full(len(numbers), np.nan)
    for place, value in _rate_values("start_rates", start_rates, network, allowed):
        if base[place] >= 0:
            start[base[place]] = value
    columns, effects = _effects(network, allowed, observations, covariates, dict(reference or {}))
    return RateModel(
        base,
        fixed,
        start,
        columns,
        tuple(e for e in effects if e.fixed is None),
        tuple(e for e in effects if e.fixed is not None),
        changes,
    )


def in_periods(observations: Observations, change_times: FloatArray) -> Observations:
    """The observations with the period of time as a covariate."""
    found = with_periods(
        observations.covariates, observations.start, observations.end, change_times
    )
    return replace(observations, covariates=found)


def _change_times(given: Any, observations: Observations) -> FloatArray:
    times = np.atleast_1d(np.asarray([] if given is None else given, dtype=np.float64))
    if not np.isfinite(times).all() or (np.diff(times) <= 0.0).any():
        raise ModelError(Setting("change_times"), " must be finite numbers in ascending order.")
    cuts = [-np.inf, *times.tolist(), np.inf]
    for low, high in pairwise(cuts) if len(times) else ():
        if not ((observations.start < high) & (observations.end > low)).any():
            raise DataError(
                *(Setting("change_times"), f": nobody is followed between {low:g} and {high:g}, "),
                f"only between {observations.start.min():g} and {observations.end.max():g}.",
            )
    return times


def as_effects(covariates: Any) -> tuple[Effect, ...]:
    """What the user gave as ``covariates``: names, effects, or a list of both."""
    if covariates is None:
        return ()
    members = [covariates] if isinstance(covariates, str | Effect) else list(covariates)
    return tuple(m if isinstance(m, Effect) else Effect(str(m)) for m in members)


def _effects(
    network: Network,
    allowed: BoolArray,
    observations: Observations,
    covariates: Any,
    reference: dict[str, Any],
) -> tuple[tuple[Column, ...], list[EffectParameter]]:
    every = as_effects(covariates)
    names = list(dict.fromkeys(effect.covariate for effect in every))
    for name in reference:
        if name not in names:
            raise ModelError(
                *(Setting("reference"), f" names {name!r}, which is not a covariate of the fit; "),
                f"these are {', '.join(names) or 'none'}.",
            )
    wanted = [effect for effect in every if effect.on == "rates"]
    if not wanted:
        return (), []
    named = list(dict.fromkeys(effect.covariate for effect in wanted))
    table = require_covariates(observations.covariates, named)
    columns: list[Column] = []
    parameters: list[EffectParameter] = []
    taken: set[tuple[int, int]] = set()
    for name in named:
        columns += columns_of(name, table, reference.get(name))
    for effect in wanted:
        given = filter(None, [effect.node])
        require_known(given, network.nodes, f"The effect of {effect.covariate!r} names")
        nodes = [effect.node] if effect.node is not None else list(network.nodes)
        for node in [n for n in nodes if n not in network.exogenous]:
            if isinstance(network.rates[node], SummaryRates):
                raise ModelError(f"Node {node!r} has summary rates, which take no covariates.")
            for k, column in enumerate(columns):
                if column.covariate == effect.covariate:
                    parameters += _parameters(effect, node, k, network, allowed, taken)
    return tuple(columns), parameters


def _parameters(
    effect: Effect,
    node: str,
    column: int,
    network: Network,
    allowed: BoolArray,
    taken: set[tuple[int, int]],
) -> list[EffectParameter]:
    """The β of one number for one node: one each, or one for all transitions."""
    states = network.states[node]
    if effect.transitions is None:
        own = _places(network, allowed, node, None, "covariates")
        pairs = _pairs_of(network, node, own)
    else:
        pairs = [(str(a), str(b)) for a, b in transition_pairs(effect.transitions)]
    masks = []
    for before, after in pairs:
        mask = np.zeros(len(allowed), dtype=np.bool_)
        mask[_places(network, allowed, node, f"{before}>{after}", "covariates")] = True
        masks.append(mask)
        key = (column, int(np.flatnonzero(mask)[0]))
        if key in taken:
            raise ModelError(
                f"Two effects of {effect.covariate!r} act on {before}>{after} of node {node!r}."
            )
        taken.add(key)
    names = [f"{states[state_number(node, a, states)]}>{states[state_number(node, b, states)]}"
             for a, b in pairs]  # fmt: skip
    if effect.equal:
        masks, names = [np.any(masks, axis=0)], [", ".join(names)]
    return [
        EffectParameter(node, column, mask, name, effect.fixed, effect.start)
        for mask, name in zip(masks, names)
    ]


def require_covariates(table: Covariates | None, names: Iterable[str]) -> Covariates:
    """The covariates of some observations, which must have these."""
    known = () if table is None else table.names
    for name in names:
        if table is None or name not in known:
            raise DataError(
                f"The observations have no covariate {name!r} (they have "
                f"{', '.join(known) or 'none'}): add it with data.with_covariates(table)."
            )
    assert table is not None
    return table


def columns_of(name: str, table: Covariates, reference: Any = None) -> list[Column]:
    """The numbers made of one covariate: itself, or one per level of a category but the first."""
    values = table.values[name]
    if values.dtype != object:
        spread = float(np.std(values))
        if not spread > 0.0:
            raise DataError(
                f"Covariate {name!r} is {values[0]:g} throughout, so it can have no effect; leave "
                "it out."
            )
        is_pair = len(np.unique(values)) == 2
        at, why = float(values.mean()), "the mean"
        if is_pair:
            at, why = float(values.min()), "the smaller value"
        if reference is not None:
            given = as_number(reference)
            if given is None or not np.isfinite(given):
                raise ModelError(
                    *(Setting("reference"), f" of {name!r} is {str(reference)!r}; the covariate "),
                    "is a number.",
                )
            at, why = given, "as asked"
        return [Column(name, None, at, float(np.ptp(values)) if is_pair else spread, why=why)]
    levels, why = _in_order({_level(v) for v in values}), "the first level in order"
    if not 2 <= len(levels) <= _MOST_LEVELS:
        raise DataError(
            f"Covariate {name!r} has {len(levels)} different levels; a category needs 2 to "
            f"{_MOST_LEVELS}."
        )
    if reference is not None:
        if _level(reference) not in levels:
            raise ModelError(
                *(Setting("reference"), f" of {name!r} is {str(reference)!r}; its levels are "),
                f"{', '.join(levels)}.",
            )
        levels = tuple(sorted(levels, key=lambda level: level != _level(reference)))
        why = "as asked"
    return [Column(name, level, 0.0, 1.0, levels, why) for level in levels[1:]]


def _in_order(levels: set[str]) -> tuple[str, ...]:
    """By the alphabet; levels that each hold a number by it: <20, 20-40, >40."""
    numbers = {level: re.search(r"\d+(\.\d+)?", level) for level in levels}
    if not all(numbers.values()):
        return tuple(sorted(levels))

    def place(level: str) -> tuple[float, int, str]:
        found = numbers[level]
        assert found is not None
        side = -1 if "<" in level else 1 if ">" in level or "+" in level else 0
        return float(found.group()), side, level

    return tuple(sorted(levels, key=place))


def _level(value: Any) -> str:
    return str(value).strip()


def _by_node(what: str, given: Any, network: Network) -> dict[str, Any]:
    """{node: said}; with a single node its name may be left out."""
    if given is None:
        return {}
    changing = [n for n in network.nodes if n not in network.exogenous]
    named = isinstance(given, Mapping) and all(str(n) in network.nodes for n in given)
    if named and given:
        return {str(n): value for n, value in given.items()}
    if len(changing) == 1:
        return {changing[0]: given}
    raise ModelError(
        f"{what} must be a dictionary by node; the nodes are {', '.join(network.nodes)}."
    )


def _rate_values(
    what: str, given: Any, network: Network, allowed: BoolArray, advice: str = ""
) -> list[tuple[int, float]]:
    """Place and value of every rate that is given; they must be positive."""
    result: list[tuple[int, float]] = []
    for node, table in _by_node(what, given, network).items():
        if not isinstance(table, Mapping):
            raise ModelError(f"{what} of node {node!r} must be a dictionary {{'1>2': rate}}.")
        for text, value in table.items():
            places = _places(network, allowed, node, text, what)
            for place, each in zip(places, np.broadcast_to(value, len(places))):
                if not (np.isfinite(each) and each > 0.0):
                    raise ModelError(f"{what} holds {each:g}; a rate must be positive{advice}.")
                result.append((int(place), float(each)))
    return result


def _places(
    network: Network, allowed: BoolArray, node: str, transition: Any, what: str
) -> IntArray:
    """Flat places of one transition of a node (all its transitions if None), in every situation."""
    own = network.compiled.graph.place(network.node_index(node))
    if transition is None:
        return np.arange(own.start, own.stop)[allowed[own]]
    states = network.states[node]
    ((before, after),) = transition_pairs(
        [transition] if not isinstance(transition, str) else transition
    )
    size = len(states)
    x, y = (state_number(node, label, states) for label in (before, after))
    places = np.arange(own.start + x * size + y, own.stop, size * size)
    if x == y or not allowed[places].all():
        raise ModelError(
            f"{what} names {before}>{after} of node {node!r}, which is not an allowed transition."
        )
    return places


def _pairs_of(network: Network, node: str, places: IntArray) -> list[tuple[str, str]]:
    first = network.compiled.graph.place(network.node_index(node)).start
    states = network.states[node]
    size = len(states)
    numbers = dict.fromkeys(((p - first) % size**2 // size, (p - first) % size) for p in places)
    return [(str(states[int(x)]), str(states[int(y)])) for x, y in numbers]


def said_about_covariates(columns: Sequence[Column]) -> list[str]:
    """One sentence per covariate: where its baseline lies."""
    result = []
    for name in dict.fromkeys(c.covariate for c in columns):
        column = next(c for c in columns if c.covariate == name)
        at = f"{column.reference:.4g}" if column.level is None else column.levels[0]
        result.append(f"{name}: baseline rates are those at {at} ({column.why}).")
    return result
