"""Owns a whole fit: evidence, starts, restarts, grids, and the order in which these come.

Star and mean field run twice: first on coarse grids made for the starting rates, then on grids
as fine as asked for, made for the rates found. A prior's automatic rate comes first of all, from
maximum-likelihood fits of the nodes without their parents.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import networkx as nx
import numpy as np

from asterism.data.observations import Observations
from asterism.data.trajectories import Trajectories
from asterism.errors import (
    DataError,
    ModelError,
    Sentence,
    Setting,
    require_positive,
    require_whole,
)
from asterism.exact.groups import JOINT_LIMIT
from asterism.inference.methods import METHODS, methods_that_learn_rates
from asterism.learning.em import emission_fit
from asterism.learning.em.cluster_step import chosen_method
from asterism.learning.em.covariate_network import ADDED, Expanded, expand
from asterism.learning.em.e_step import ExactStep, Step, StepPlan
from asterism.learning.em.estimate import Coordinates, Estimate
from asterism.learning.em.frailty import Factor, points
from asterism.learning.em.iterate import EmOutcome, Task, maximise
from asterism.learning.em.outcome_effects import not_learned
from asterism.learning.em.rate_model import RateModel, rate_model
from asterism.learning.em.rates_update import (
    RateUpdate,
    complete_diagonals,
    fastest_rate,
    rate_update,
)
from asterism.learning.em.relabel import in_order_of_means
from asterism.learning.em.start import crude_start, other_start
from asterism.learning.learner_settings import Accuracy
from asterism.model.emissions import split_emissions
from asterism.model.network import Network
from asterism.model.priors import GammaPrior, automatic_rate, totals_of_nodes
from asterism.model.rates import SummaryRates
from asterism.model.template import Template
from asterism.numerics.arrays import BoolArray, FloatArray
from asterism.numerics.compiled import CompiledGraph
from asterism.timeline.build import build_evidence
from asterism.timeline.evidence import Evidence, require_time, with_log_likelihood

AUTO, EXACT = "auto", "exact"
#: how much coarser the first grids are, and the remaining gain at which EM leaves them. Not tuned:
#: where EM ends does not depend on them
_COARSE = 10.0
_COARSE_GAIN = 1e-2
#: relative changes of an objective below this are those of messages that have settled
_VARIATIONAL_RESOLUTION = 1e-9
#: of the largest rate: below this a rate is as good as zero
_ZERO = 1e-9


@dataclass(frozen=True)
class Settings:
    """What the user chose."""

    method: str
    prior: GammaPrior | None = None
    map: bool = False
    learn_initial: bool = True
    n_init: int = 1
    stop_gain: float = 1e-3
    max_iterations: int = 200
    accuracy: Accuracy = Accuracy()
    n_jobs: int = 1
    random_state: Any = 0

    @property
    def joint_limit(self) -> int:
        """The most joint states for exact inference."""
        return self.accuracy.joint_limit or JOINT_LIMIT


@dataclass(frozen=True)
class Fit:
    """What was found."""

    network: Network
    emission: Any
    outcome: EmOutcome
    task: Task
    prior: GammaPrior | None
    starts: tuple[float, ...]
    """Log evidence that each start reached."""
    model: RateModel
    expanded: Expanded
    method: str
    """By which expectations were found; never "auto"."""
    plain: Fit | None = None
    """Where trajectories have factors: the fit without them."""

    def base_rates(self, estimate: Estimate) -> FloatArray:
        """Flat rates of the network without covariates, at their reference."""
        return _rates_at(self.model, self.task.coordinates.update, estimate)

    def network_for(self, estimate: Estimate, covariates: Mapping[str, Any] | None) -> Network:
        """The network without covariates, at these values of them."""
        return self.network_at(estimate, self.model.z_of_one(covariates))

    def network_at(self, estimate: Estimate, z: FloatArray) -> Network:
        """The network without covariates, at standardised values ``z`` of them."""
        rates = _rates_at(self.model, self.task.coordinates.update, estimate, z)
        return network_of(self.network, rates, estimate.initial)

    def evidence_of(self, observations: Observations) -> tuple[Network, Evidence]:
        """What inference needs for these data: a network in which covariates and factors are nodes,
        and evidence in which they change how states are measured."""
        best, coordinates = self.outcome.best.estimate, self.task.coordinates
        expanded = expand(self.network, observations, self.model)
        index, network = np.arange(expanded.n_rates), expanded.network
        rates = np.zeros(len(expanded.place))
        rates[index] = self.model.rates(
            coordinates.update.baselines(best.rates, best.effects),
            best.effects,
            expanded.place[index],
            expanded.z_of(index),
            expanded.point[index],
        )
        starts, first = network.compiled.initial.copy(), network.compiled.graph.state_start
        for node in self.model.starts:  # the measurements of the start hold its probabilities
            n = network.node_index(node)
            starts[first[n] : first[n + 1]] = 1.0 / (first[n + 1] - first[n])
        network = network_of(network, rates, starts)
        evidence, _, nodes = laid_out(network, expanded.observations, self.emission, self.model)
        learned = {(n.node, n.is_start): e for n, e in zip(coordinates.nodes, best.emissions)}
        nodes = tuple(node for node in nodes if node.design is not None)
        logs = emission_fit.write_log_likelihoods(
            nodes,
            tuple(learned[n.node, n.is_start] for n in nodes),
            evidence.points.log_likelihood,
        )
        return network, with_log_likelihood(evidence, logs)


def laid_out(
    network: Network, observations: Observations, emission: Any, model: RateModel | None = None
) -> tuple[Evidence, dict[str, Any], tuple[emission_fit.LearnedNode, ...]]:
    """The evidence, the emissions with what they leave open filled in, and those that learn."""
    single, joint = split_emissions(emission, observations)
    emissions = emission_fit.started_emissions(network, observations, single)
    evidence = build_evidence(network, observations, {**emissions, **joint})
    nodes = emission_fit.learned_nodes(
        network, observations, emissions, evidence, model.outcome if model else {}
    )
    if model and model.starts:
        nodes += emission_fit.learned_starts(network, observations, evidence, model.starts)
    return evidence, {**emissions, **joint}, nodes


def _rates_at(
    model: RateModel, update: RateUpdate, estimate: Estimate, z: FloatArray | None = None
) -> FloatArray:
    """Flat rates of the network without covariates, at values ``z`` or at their reference."""
    at = np.zeros(len(model.columns)) if z is None else z
    size = len(model.base)
    baselines = update.baselines(estimate.rates, estimate.effects)
    return model.rates(
        baselines, estimate.effects, np.arange(size), np.broadcast_to(at, (size, len(at)))
    )


def fit_parameters(
    template: Template,
    observations: Observations,
    emission: Any,
    settings: Settings,
    model: RateModel | None = None,
    plain: Fit | None = None,
) -> Fit:
    """Learn rates, start probabilities and emissions of the template's network.

    ``model``: constraints on the rates and effects of covariates, if there are any. ``plain``: the
    fit without factors of trajectories, where there are factors and it is known.
    """
    if model is None:
        model = rate_model(template.network, template.allowed, observations)
    if model.factors:
        alike = replace(model, factors=())
        plain = plain or fit_parameters(template, observations, emission, settings, alike)
        model = replace(model, factors=_with_points(model.factors, plain))
        settings = replace(settings, method=_method_for_factors(settings, plain, model.factors))
    expanded = expand(template.network, observations, model)
    network, observations = expanded.network, expanded.observations
    if model.starts and not settings.learn_initial:
        raise ModelError(
            "Covariates act on the start only where it is learned: ",
            *(Setting("initial", "learn"), "."),
        )
    evidence, emissions, nodes = laid_out(network, observations, emission, model)
    require_time(evidence)
    for node in set(model.outcome) - {learned.node for learned in nodes}:
        raise not_learned(node)
    prior = settings.prior
    allowed: BoolArray = template.allowed[expanded.place]
    allowed[expanded.n_rates :] = False
    larger = Template(network, allowed)
    if prior is not None and prior.is_auto:
        prior = prior.resolved(single_node_rate(prior.shape, larger, evidence, nodes, settings))
    graph = network.compiled.graph
    index = np.flatnonzero(allowed)
    formula = model.formula(expanded.place[index], expanded.z_of(index), expanded.point[index])
    ceiling = fastest_rate(evidence)
    update = rate_update(graph, allowed, prior, settings.map, ceiling, formula)
    coordinates = Coordinates(update, _initial_groups(network, settings, model.starts), nodes)
    if settings.method == AUTO:
        settings = replace(settings, method=chosen_method(graph, evidence))
    solver = _Solver(graph, evidence, coordinates, settings)
    rng = np.random.default_rng(settings.random_state)
    if plain is None:
        first = crude_start(graph, evidence, coordinates, network.compiled.initial, rng)
        others = (other_start(first, coordinates, rng) for _ in range(settings.n_init - 1))
        starts = [first, *others]
    else:
        starts = [_from_plain(plain, coordinates, network.compiled.initial)]
    results = [solver.solve(start) for start in starts]
    reached = [outcome.best.objective for outcome, _ in results]
    outcome, task = results[int(np.argmax(reached))]
    outcome = _completed(outcome, task, network, evidence)
    best = outcome.best.estimate
    learned = {
        node.node: emission_fit.with_silence(emissions[node.node], e)
        for node, e in zip(nodes, best.emissions)
        if not node.is_start
    }
    return Fit(
        network=network_of(
            template.network, _rates_at(model, update, best), _starts(network, coordinates, best)
        ),
        emission={**emissions, **learned} if nodes else emission,
        outcome=outcome,
        task=task,
        prior=prior,
        starts=tuple(o.best.log_evidence for o, _ in results),
        model=model,
        expanded=expanded,
        method=settings.method,
        plain=plain,
    )


def _with_points(factors: tuple[Factor, ...], plain: Fit) -> tuple[Factor, ...]:
    """The factors with points close enough for the transitions of most trajectories."""
    update, expected = plain.task.coordinates.update, plain.outcome.best.expected
    seen, place = expected.transitions[update.index], plain.expanded.place[update.index]
    n_trajectories = len(expected.log_evidence)
    result = []
    for factor in factors:
        mean = float(seen[factor.places[place]].sum()) / n_trajectories
        # three times the mean and some: few trajectories have more
        result.append(replace(factor, x=points(3.0 + 3.0 * mean, len(factors))))
    return tuple(result)


def _method_for_factors(settings: Settings, plain: Fit, factors: tuple[Factor, ...]) -> str:
    """Exact inference sums factors out; other methods do not do so well enough."""
    if settings.method not in (AUTO, EXACT):
        raise ModelError(
            *(Setting("frailty"), " needs exact inference, not "),
            *(Setting("method", settings.method), "; use ", Setting("method", AUTO), "."),
        )
    evidence, graph = plain.expanded, plain.expanded.network.compiled.graph
    largest = max(
        math.prod(
            [int(graph.n_states[n]) for n in group]
            + [len(f.x) for f in factors if evidence.network.node_index(f.node) in group]
        )
        for group in _groups(plain.expanded.network)
    )
    if largest > settings.joint_limit:
        raise ModelError(
            *(
                Setting("frailty"),
                f" makes {largest:,} joint states of coupled nodes and factors, ",
            ),
            f"more than {settings.joint_limit:,}: give fewer nodes a factor.",
        )
    return EXACT


def _groups(network: Network) -> list[list[int]]:
    """Nodes that edges couple, without those whose paths are known."""
    coupled = network.graph.to_undirected()
    coupled.remove_nodes_from(network.exogenous)
    return [[network.node_index(n) for n in group] for group in nx.connected_components(coupled)]


def _from_plain(plain: Fit, coordinates: Coordinates, initial: FloatArray) -> Estimate:
    """Where learning starts with factors: at the maximum without them."""
    best, update = plain.outcome.best.estimate, coordinates.update
    baselines = plain.task.coordinates.update.baselines(best.rates, best.effects)
    n = update.formula.n_covariate_effects
    effects = np.concatenate([best.effects, update.formula.start_effects[n:]])
    starts = initial.copy()
    own = int(plain.expanded.network.compiled.graph.state_start[plain.network.n_nodes])
    starts[:own] = best.initial[:own]
    empty = np.zeros(int(update.graph.table_start[-1]))
    return Estimate(update.with_rates(empty, baselines, effects), starts, best.emissions, effects)


@dataclass(frozen=True)
class _Solver:
    """Runs EM from a start by the chosen method."""

    graph: CompiledGraph
    evidence: Evidence
    coordinates: Coordinates
    settings: Settings

    def solve(self, start: Estimate) -> tuple[EmOutcome, Task]:
        s = self.settings
        is_coupled = bool(len(self.graph.parents))
        history: list[dict[str, Any]] = []
        if is_coupled and s.accuracy.time_step is None and self._has_grid:
            task = self._task(start, _COARSE * s.accuracy.tolerance)
            coarse = maximise(task, start, max(s.stop_gain, _COARSE_GAIN), s.max_iterations)
            start, history = coarse.best.estimate, coarse.history
            if coarse.ran_away:
                return coarse, task
        task = self._task(start, s.accuracy.tolerance)
        fine = maximise(task, start, s.stop_gain, s.max_iterations)
        if not self._has_grid:
            return fine, task
        grids = [{**row, "grid": "coarse"} for row in history]
        grids += [{**row, "grid": "fine", "iteration": len(history) + int(row["iteration"])}
                  for row in fine.history]  # fmt: skip
        return replace(fine, history=grids), task

    @property
    def _has_grid(self) -> bool:
        """Whether the method has time steps, which may be too long."""
        return "tolerance" in METHODS[self.settings.method].uses

    def _task(self, at: Estimate, tolerance: float) -> Task:
        """What EM maximises, on grids made for one estimate."""
        s, flat = self.settings, self.evidence.points.log_likelihood
        logs = emission_fit.write_log_likelihoods(self.coordinates.nodes, at.emissions, flat)
        module, _, function = METHODS[s.method].e_step.partition(":")
        step: Step = getattr(importlib.import_module(module), function)(
            StepPlan(
                *(self.graph, self.evidence, (at.rates, at.initial, logs), s.method, tolerance),
                *(s.accuracy.time_step, s.n_jobs, s.joint_limit),
                with_points=bool(self.coordinates.nodes),
            )
        )
        if not self._has_grid:
            complete = _is_complete(self.graph, self.evidence)
            return Task(self.coordinates, step, flat, is_complete=complete)
        return Task(self.coordinates, step, flat, resolution=_VARIATIONAL_RESOLUTION)


def _is_complete(graph: CompiledGraph, evidence: Evidence) -> bool:
    """Whether the state of every node is known all the time."""
    spans = evidence.spans
    known = np.bincount(spans.node, spans.end - spans.start, graph.n_nodes)
    own = [n for n in range(graph.n_nodes) if n not in evidence.exogenous]
    lasting = float((evidence.end - evidence.start).sum())
    return bool(own) and not evidence.joint and bool(np.allclose(known[own], lasting, 1e-12, 0.0))


def _completed(outcome: EmOutcome, task: Task, network: Network, evidence: Evidence) -> EmOutcome:
    """States in the order of their means, rates that the data leave open filled in; one E-step."""
    best = outcome.best
    update = task.coordinates.update
    if not update.formula.is_plain:
        return outcome
    estimate = in_order_of_means(best.estimate, task.coordinates, network, evidence)
    expected = best.expected
    if estimate is not best.estimate:
        expected = task.evaluate(estimate).expected
    rates = update.pooled_where_unseen(expected.transitions, expected.dwell, estimate.rates)
    if estimate is best.estimate and np.array_equal(rates, estimate.rates):
        return outcome
    return replace(outcome, best=task.evaluate(replace(estimate, rates=rates)))


def _starts(network: Network, coordinates: Coordinates, best: Estimate) -> FloatArray:
    """Flat start probabilities; where covariates change them, those at the reference."""
    initial = best.initial.copy()
    for node, one in zip(coordinates.nodes, best.emissions):
        if node.is_start:
            first = int(network.compiled.graph.state_start[network.node_index(node.node)])
            initial[first : first + len(node.states)] = one.base.confusion[0]
    return initial


def _initial_groups(
    network: Network, settings: Settings, elsewhere: Collection[str] = ()
) -> tuple[Any, ...]:
    if not settings.learn_initial:
        return ()
    start = network.compiled.graph.state_start
    return tuple(
        np.arange(start[n], start[n + 1])
        for n, node in enumerate(network.nodes)
        if not (node in network.exogenous or node in elsewhere or node.startswith(ADDED))
    )


def single_node_rate(
    shape: float,
    template: Template,
    evidence: Evidence,
    nodes: tuple[emission_fit.LearnedNode, ...],
    settings: Settings,
) -> float:
    """The automatic prior rate: every node fitted alone by maximum likelihood, exactly."""
    network = template.network
    if evidence.joint:
        evidence = replace(evidence, joint=())  # they would couple the nodes again
    masks = {
        node: None
        if network.rates[node] is None
        else network.compiled.graph.blocks(template.allowed, n)[0].astype(np.float64)
        for n, node in enumerate(network.nodes)
    }
    alone = Network(
        {node: [] for node in network.nodes},
        masks,
        network.states,
        network.initial,
    )
    graph = alone.compiled.graph
    update: RateUpdate = rate_update(
        graph, alone.compiled.rates > 0.0, None, False, fastest_rate(evidence)
    )
    coordinates = Coordinates(update, _initial_groups(alone, settings), nodes)
    rng = np.random.default_rng(settings.random_state)
    start = crude_start(graph, evidence, coordinates, alone.compiled.initial, rng)
    logs = evidence.points.log_likelihood
    plan = StepPlan(graph, evidence, (start.rates, start.initial, logs), n_jobs=settings.n_jobs)
    task = Task(coordinates, ExactStep(plan), logs)
    found = maximise(task, start, _COARSE_GAIN, settings.max_iterations).best.expected
    allowed = [graph.blocks(alone.compiled.rates > 0.0, n)[0] for n in range(graph.n_nodes)]
    return automatic_rate(shape, *totals_of_nodes(allowed, found.dwell, found.transitions))


def network_of(template: Network, rates_flat: FloatArray, starts: FloatArray) -> Network:
    """The template with these flat rates and start probabilities."""
    graph = template.compiled.graph
    flat = rates_flat.copy()
    complete_diagonals(flat, graph)
    rates: dict[str, Any] = {}
    initial: dict[str, FloatArray] = {}
    for n, node in enumerate(template.nodes):
        table = flat[graph.place(n)]
        old = template.rates[node]
        if old is None:
            rates[node] = None
        elif isinstance(old, SummaryRates):
            rates[node] = old.with_table(table.reshape(old.table.shape))
        else:
            rates[node] = table.reshape(old.shape)
        initial[node] = starts[graph.state_start[n] : graph.state_start[n + 1]]
    return Network(template.parents, rates, template.states, initial)


def check_settings(settings: Settings) -> None:
    """One clear sentence about the first setting that cannot be."""
    prior = settings.prior
    if prior is not None and not isinstance(prior, GammaPrior):
        raise ModelError(
            Setting("prior"),
            f" is {prior!r}; give None (maximum likelihood) or GammaPrior(shape, rate).",
        )
    if settings.map and prior is None:
        raise ModelError("map=True needs a prior; without one the fit is maximum likelihood.")
    valid = (AUTO, *methods_that_learn_rates())
    if settings.method not in valid:
        trouble = "does not learn rates" if settings.method in METHODS else "is not known"
        raise ModelError(f"method {settings.method!r} {trouble}; valid are {', '.join(valid)}.")
    for name in ("n_init", "max_iterations"):
        require_whole(name, getattr(settings, name))
    require_positive("stop_gain", settings.stop_gain)
    require_positive("tolerance", settings.accuracy.tolerance)


def as_observations(data: Observations | Trajectories) -> Observations:
    """Observations as they are; paths as seen throughout."""
    if isinstance(data, Trajectories):
        return Observations.from_trajectories(data)
    if not isinstance(data, Observations):
        raise DataError(
            f"fit needs Observations or Trajectories, got {type(data).__name__}; "
            "use Observations.from_frame(table)."
        )
    return data


def about_rates(method: str) -> str:
    """Why rates learned by a method whose intervals do not cover need care."""
    return Sentence(
        *("Rates learned with ", Setting("method", method), " are biased: where exact fits were "),
        "possible, its 95 % intervals covered the truth in 36 to 79 % of cases, and the star often "
        "found no maximum. No intervals are given. Use ",
        *(Setting("method", "auto"), "."),
    )


def about_zeros(fit: Fit, allowed: BoolArray) -> str:
    """A warning where the maximum of the likelihood has rates of zero: few data, not knowledge."""
    rates = fit.network.compiled.rates[allowed]
    if fit.prior is not None or not len(rates):
        return ""
    n_zero = int((rates < _ZERO * rates.max()).sum())
    if n_zero == 0:
        return ""
    which = "rate is" if n_zero == 1 else "rates are"
    return f" At this maximum {n_zero} {which} zero: too few data show them; a prior helps."
