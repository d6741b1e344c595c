"""Who influences whom among nodes that move continuously: families scored in closed form.

Measured nodes are continuous, or jump: they hold labels, or their emissions say so. Jumping nodes
are parents here; ``mixed_search.py`` learns their own parents, unless they are exogenous. As with
complete paths nothing iterates: a time at which an unknown stimulus ended is looked for where no
stimuli are told, then every family is scored once (``continuous/family_score.py``). With
``method="sample"`` graphs and paths are drawn (``continuous/sampled.py``); by default they are
drawn too where many cells are missing, and both answers averaged.

``emission="auto"`` lets the evidence decide per column whether it is continuous
(``learning/kinds.py``). Where both kinds are clearly there, or emissions by node say so, or other
columns hold labels or counts, a table is learned as one of both kinds.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from asterism.continuous.effects import node_summary
from asterism.continuous.family_score import FamilyScorer
from asterism.continuous.learn import (
    LEARNING_RATE,
    ContinuousFit,
    Families,
)
from asterism.continuous.learned_network import learned_network
from asterism.continuous.sampled import (
    advanced,
    continuous_setup,
    family_probabilities,
    sample_graphs,
)
from asterism.continuous.series import (
    Series,
    Stimulus,
    series_from_observations,
    stimuli_from_frame,
)
from asterism.continuous.switching import SwitchingTime, ends_at, find_switching_time
from asterism.data.observations import Observations
from asterism.errors import DataError, ModelError, Setting, TooLargeError, first_few
from asterism.learning.kinds import (
    KindChoice,
    count_levels,
    decide_kinds,
    has_normal_noise,
    kind_frame,
    may_be_either,
)
from asterism.learning.levels import measured_while_free
from asterism.learning.offsets import offset_words, without_offsets
from asterism.learning.search.found import FamilyTable, SearchResult, shown_graph
from asterism.learning.search.influences import with_stimuli
from asterism.learning.search.mixed_search import learn_jumping
from asterism.learning.search.pieces import scores_by_child
from asterism.learning.search.sampled import (
    SMALLEST,
    DrawLimits,
    SampledGraphs,
    check_edges,
    run_plan,
    seconds_left,
)
from asterism.learning.search.settings import AUTO, StructureSettings
from asterism.learning.search.staged import FEWEST_SWEEPS, SECONDS
from asterism.learning.search.structure_prior import NO_PARENT, NumberedPrior
from asterism.learning.tasks import ProgressListener
from asterism.model.emission_continuous import LEARNED_BY, Continuous
from asterism.model.emissions import Emission, Exact, Joint, Likelihood, check_emissions
from asterism.numerics.arrays import FloatArray, IntArray
from asterism.numerics.progress import Ranking, tell_ranking
from asterism.numerics.resources import current_limit
from asterism.sampling.model_posterior import SampledModels

#: families of one node that are scored at most: about a minute
_MOST_FAMILIES = 200_000
#: nodes up to which all families are scored, whatever single parents say
_ALL_FAMILIES = 20
#: Below this share of measured cells graphs and paths are drawn too, and both answers averaged:
#: where 30 % were missing that found half as many edges again. Where all are measured it is a
#: little better as well, for twenty times the time (benchmarks/continuous.py, seeds 1000 to 1007).
_COMPLETE = 0.85
#: sweeps per chain for that, where there is time for so many
_SWEEPS = 400
#: best single parents among which all families are scored in larger networks
_N_CANDIDATES = 20


def learn_from_observations(
    settings: StructureSettings, observations: Observations, progress: ProgressListener
) -> SearchResult:
    """Learn the graph; called by ``StructureLearner.fit``."""
    if isinstance(settings.emission, str):
        return _by_evidence(settings, observations, progress)
    continuous = _continuous_nodes(settings, observations)
    jumping = [n for n in observations.measurements if n not in continuous]
    if not _have_parents(settings, observations, jumping):
        return _learn(settings, observations, continuous, progress)
    if not isinstance(settings.emission, Mapping):
        by_node = {n: Exact() if n in jumping else Continuous() for n in observations.measurements}
        settings = replace(settings, emission=by_node)
    for name in ("states", "allowed_transitions"):
        if wrong := [n for n in getattr(settings, name) or () if str(n) in continuous]:
            raise ModelError(f"{name}= names {wrong[0]!r}, which is continuous: it has no states.")
    moving = replace(settings, states=None, allowed_transitions=None)
    _check(moving, observations, continuous)
    part = learn_jumping(settings, observations, continuous, progress)
    decoded = part.decoded(observations)
    # the journal holds the long part, the scores of jumping nodes
    moving = replace(moving, search=replace(settings.search, journal=None))
    return part.joined(_learn(moving, decoded, continuous, progress, jumping_are_scored=True))


def _have_parents(
    settings: StructureSettings, observations: Observations, jumping: Sequence[str]
) -> bool:
    """Whether parents of jumping nodes are looked for: not of exogenous ones.

    Nor, so far, of labels beside stimuli that were told, or of labels that never change.
    """
    emission, records = settings.emission, observations.measurements
    given = set(map(str, settings.structure_prior.exogenous))
    own = [n for n in jumping if n not in given]
    hidden = isinstance(emission, Mapping) and not all(
        isinstance(one, Exact) for n, one in emission.items() if str(n) in own
    )
    told = observations.stimuli is not None and len(observations.stimuli) > 0
    changing = [n for n in own if len(pd.unique(records[n].value)) > 1]
    return hidden or (bool(changing) and not told)


def _continuous_nodes(settings: StructureSettings, observations: Observations) -> list[str]:
    """Names of the continuous nodes."""
    emission, measured = settings.emission, observations.measurements
    if not isinstance(emission, Mapping):
        return [n for n, record in measured.items() if not record.holds_labels]
    check_emissions(emission, observations.nodes)
    by_name = {str(name): one for name, one in emission.items()}
    for node in measured:
        one = by_name.get(node)
        if not isinstance(one, Emission) or isinstance(one, Likelihood | Joint):
            raise ModelError(
                f"Node {node!r} has the emission {one!r} beside continuous nodes; give every "
                "measured node am.Continuous(), am.Exact() or an emission of its own states."
            )
    return [n for n in measured if isinstance(by_name[n], Continuous)]


def _check(settings: StructureSettings, data: Observations, continuous: Sequence[str]) -> None:
    if settings.method not in LEARNED_BY:
        raise ModelError(
            "Continuous nodes are learned in closed form or with ",
            *(Setting("method", "sample"), "; ", Setting("method", settings.method)),
            " is for nodes that jump between states: leave it out.",
        )
    for name in ("states", "allowed_transitions"):
        if getattr(settings, name):
            raise ModelError(f"{name}= is for nodes that jump; continuous nodes have no states.")
    for what in ("events", "intervals", "interventions"):
        if len(getattr(data, what)):
            raise DataError(
                f"the data have {what}; beside continuous nodes only measurements are read so far"
            )
    if not continuous:
        raise DataError("no measured node is continuous: all hold labels")
    for node in continuous:
        record = data.measurements[node]
        if record.likelihood is not None or record.holds_labels or not record.noisy.all():
            raise DataError(
                f"node {node!r} holds labels, known states or likelihoods, not only numbers, so it "
                "cannot be continuous"
            )


def _series(data: Observations, continuous: Sequence[str]) -> Series:
    """Nodes in the order of their names, with the stimuli that were told."""
    series = series_from_observations(data.select(nodes=sorted(data.nodes)), continuous)
    return series.with_stimuli(_told(data))


def _told(data: Observations) -> list[Stimulus]:
    return [] if data.stimuli is None else stimuli_from_frame(data.stimuli, data.trajectories)


def _switching(series: Series, data: Observations) -> SwitchingTime | None:
    """When an unknown stimulus ended; not looked for where stimuli were told."""
    return find_switching_time(series) if data.stimuli is None else None


def _learn(
    settings: StructureSettings,
    data: Observations,
    continuous: Sequence[str],
    progress: ProgressListener,
    jumping_are_scored: bool = False,
) -> SearchResult:
    _check(settings, data, continuous)
    series = _series(data, continuous)
    prior = settings.numbered_prior(series.names)
    switching = _switching(series, data)
    if switching is not None and switching.is_taken:
        series = ends_at(series, switching.time)
    tempering = settings.accuracy.tempering
    rate = LEARNING_RATE if isinstance(tempering, str) else float(tempering)
    seed = int(np.random.default_rng(settings.random_state).integers(2**31))
    scorer = FamilyScorer(series)
    fit = ContinuousFit(scorer, {}, switching, rate, settings.threshold, seed)
    tables = _score(fit, settings, prior, progress)
    by_node = {child: table for child, table in enumerate(tables) if table is not None}
    graph = shown_graph(settings, prior, by_node)
    scored = list(by_node.values())
    late = current_limit().was_felt
    drawn, share = None, _sampled_share(settings, series)
    if share > 0.0 and not late:
        drawn = _drawn(fit, settings, tables, share, progress)
    if drawn is not None:
        by_node = {child: table for child, table in enumerate(tables) if table is not None}
        graph = shown_graph(settings, prior, by_node)
    line: dict[str, Any] = {
        "sweep": 1,
        "score": float(sum(table.scores.max() for table in scored)),
        "n_families": sum(len(table.scores) for table in scored),
    }
    if switching is not None:
        line |= {"switching_time": switching.time, "switching_gain": switching.gain}
    found = SearchResult(
        nodes=series.names,
        columns=tuple(data.nodes),
        states={name: tuple(node.states or ()) for name, node in zip(series.names, series.nodes)},
        tables=tables,
        graph=graph,
        network=learned_network(fit, graph, data.nodes),
        emission={
            name: Continuous() if node.is_continuous else Exact()
            for name, node in zip(series.names, series.nodes)
        },
        prior_rate=math.inf,
        converged=not late,
        stop_reason=f"{current_limit().sentence}: some nodes were not scored."
        if late
        else "The nodes are continuous: families were scored in closed form, without iteration.",
        history=[line],
        n_sweeps=1,
        structure=prior,
        tempering=rate,
        stage=_stage(fit, prior, share if drawn is not None else 0.0, jumping_are_scored),
        continuous=fit,
    )
    if drawn is None:
        return found
    check = check_edges(drawn)
    return replace(
        found,
        sampled=SampledGraphs(drawn, share),
        converged=check.converged and not drawn.interrupted,
        usable=check.usable,
        stop_reason=drawn.stop_reason,
        history=[line, *(dict(row) for row in drawn.history)],
        n_sweeps=drawn.n_draws * drawn.keep_every,
    )


def _measured_share(series: Series) -> float:
    """Of all continuous nodes at all times at which any node was measured."""
    n_seen = sum(len(series.nodes[n].value) for n in series.continuous)
    return n_seen / (len(series.continuous) * len(series.grid_time))


def _sampled_share(settings: StructureSettings, series: Series) -> float:
    """The weight of the draws in the probabilities: all, half, or none."""
    known = any(stimulus.targets is not None for stimulus in series.stimuli)
    if settings.method == "sample":
        if known:
            raise ModelError(
                "Graphs of continuous nodes are not drawn yet where it is known whom a stimulus "
                "acts on; leave the column 'node' of the stimuli out, or use ",
                *(Setting("method", AUTO), "."),
            )
        return 1.0
    if known:
        return 0.0
    few = len(series.nodes) <= _ALL_FAMILIES
    return 0.5 if settings.method == AUTO and few and _measured_share(series) < _COMPLETE else 0.0


def _drawn(
    fit: ContinuousFit,
    settings: StructureSettings,
    tables: list[FamilyTable | None],
    share: float,
    progress: ProgressListener,
) -> SampledModels | None:
    """Draw graphs and paths; children's tables get the average of their probabilities.

    Nothing is drawn where that is not worth the time.
    """
    scorer = fit.scorer
    setup = continuous_setup(
        scorer.series,
        scorer.grids,
        {child: (own.parents, own.log_prior) for child, own in fit.families.items()},
        scorer.rhos,
    )
    limits = DrawLimits(settings.sampling.max_draws, seconds_left())
    if share < 1.0:
        each = settings.sampling.chains * setup.seconds_per_sweep
        if FEWEST_SWEEPS * each > SECONDS:
            return None
        n_sweeps = min(_SWEEPS, max(FEWEST_SWEEPS, int(SECONDS / each)))
        n_draws = min(settings.sampling.max_draws, n_sweeps)
        limits = DrawLimits(n_draws, limits.seconds, n_sweeps // 4)
    progress.start(100, "drawing graphs and paths (percent of the limit)")
    plan = run_plan(settings, limits, scorer.series.names, progress, advanced)
    models = sample_graphs(setup, settings.sampling.chains, plan)
    progress.finish()
    for child, drawn in family_probabilities(setup, models).items():
        if child in fit.families:
            own = fit.families[child]
            mean = share * drawn + (1.0 - share) * own.probabilities
            tables[child] = FamilyTable(own.parents, np.log(np.maximum(mean, SMALLEST)))
    return models


def _stage(fit: ContinuousFit, prior: NumberedPrior, share: float, jumping_are_scored: bool) -> str:
    """What was scored, in sentences."""
    series = fit.scorer.series
    closed = (
        f"a closed form for continuous nodes, in which the data count {fit.learning_rate:g} times"
    )
    said = [f"The probabilities are {closed}.", fit.switching_sentence()]
    if share == 1.0:
        said[0] = "The probabilities are averages over graphs and paths that were drawn."
    elif share > 0.0:
        missing = 1.0 - _measured_share(series)
        said[0] = (
            f"As {missing:.0%} of the measurements are missing, the probabilities are means of "
            f"{closed}, and of averages over graphs and paths that were drawn."
        )
    labels = [
        name
        for i, (name, node) in enumerate(zip(series.names, series.nodes))
        if not node.is_continuous and i not in prior.exogenous
    ]
    if labels and not jumping_are_scored:
        said.append(f"Edges into {first_few(labels)} were not scored: these nodes hold labels.")
    silent = [series.names[n] for n in series.continuous if n not in fit.scorer.children]
    if silent:
        said.append(
            f"The data say nothing about edges into {first_few(silent)}, which did not move or "
            "were measured too rarely."
        )
    return " ".join(filter(None, said))


def _score(
    fit: ContinuousFit,
    settings: StructureSettings,
    prior: NumberedPrior,
    progress: ProgressListener,
) -> list[FamilyTable | None]:
    """The families of every node; None where there was no time, and for nodes of labels."""
    from asterism.learning.search.journal import context_of, opened

    scorer = fit.scorer
    single = scorer.combined(scorer.single_parents()[1])
    tables: list[FamilyTable | None] = [None] * len(scorer.series.nodes)
    waiting: dict[int, IntArray] = {}
    for child, node in enumerate(scorer.series.nodes):
        if child in prior.exogenous:
            tables[child] = FamilyTable.from_pairs([((), 0.0)])
        elif node.is_continuous:
            waiting[child] = family_rows(prior, child, single[child])
    # what cannot be learned from keeps its prior
    for child in set(waiting) - set(scorer.children):
        rows = waiting.pop(child)
        tables[child] = FamilyTable(rows, prior.log_prior(child, rows))
    n_strengths = len(scorer.rhos)
    with opened(settings, scorer.series.names, scorer.series.content) as journal:
        scores = scores_by_child(
            _score_piece,
            scorer,
            waiting,
            per_task=1,
            n_jobs=settings.n_jobs,
            progress=progress,
            told="scoring families",
            journal=journal,
            around=context_of("closed form", *(rows.tobytes() for rows in waiting.values())),
            per_family=n_strengths,
        )
        for child, flat in scores:
            rows, by_strength = waiting[child], flat.reshape(-1, n_strengths)
            log_prior = prior.log_prior(child, rows)
            fit.families[child] = Families(rows, by_strength, log_prior, fit.learning_rate)
            table = FamilyTable(rows, scorer.combined(by_strength) + log_prior)
            tables[child] = table = table.tempered_by(fit.learning_rate, log_prior)
            tell_ranking(progress, partial(_ranking, scorer.series.names, child, table))
    in_order = sorted(fit.families.items())  # those of the journal came first
    fit.families.clear()
    fit.families.update(in_order)
    return tables


def _score_piece(
    scorer: FamilyScorer, nodes: IntArray, families: list[IntArray]
) -> list[FloatArray]:
    """Scores of some nodes' families, for each strength of the stimuli: a piece of the work."""
    return [scorer.families(int(n), rows).ravel() for n, rows in zip(nodes, families)]


def _ranking(names: Sequence[str], child: int, table: FamilyTable) -> Ranking:
    return {names[child]: dict(zip(names, table.edge_probabilities(len(names)).tolist()))}


def family_rows(prior: NumberedPrior, child: int, single: FloatArray) -> IntArray:
    """The families of one node that are scored.

    All of them in networks of up to 20 nodes. In larger ones those of the best single parents, by
    evidence and prior odds, the best one together with everybody else, and every single parent, so
    that no allowed edge is left without a probability.
    """
    required = prior.required.get(child, ())
    free = np.setdiff1d(prior.candidates(child), required)
    likely = single + prior.log_odds(child)
    ranked = free[np.argsort(-likely[free], kind="stable")]
    pool = ranked if prior.n_nodes <= _ALL_FAMILIES else ranked[:_N_CANDIDATES]
    room = int(prior.max_parents[child]) - len(required)
    n_families = sum(math.comb(len(pool), k) for k in range(room + 1))
    if n_families > _MOST_FAMILIES:
        raise TooLargeError(
            f"Node {prior.nodes[child]!r} has {n_families:,} families, more than the "
            f"{_MOST_FAMILIES:,} that are scored; lower ",
            *(Setting("max_parents"), "."),
        )
    rows = prior.families(child, among=pool)
    others = ranked[len(pool) :].tolist()
    more = [(*required, m) for m in others] if room >= 1 else []
    if room >= 2:
        more += [(*required, int(ranked[0]), m) for m in others]
    more = [family for family in more if len(family) >= prior.min_parents[child]]
    if not more:
        return rows
    added = np.full((len(more), rows.shape[1]), NO_PARENT, dtype=np.int64)
    for row, family in zip(added, more):
        row[: len(family)] = sorted(family)
    return np.concatenate([rows, added])


# ---- which kind of node -------------------------------------------------------------------------


def _by_evidence(
    settings: StructureSettings, data: Observations, progress: ProgressListener
) -> SearchResult:
    """Let the evidence say which columns are continuous, then learn."""
    named = set(settings.states or ())
    records = {
        n: measured_while_free(data, n)
        for n, record in data.measurements.items()
        if may_be_either(record) and n not in named
    }
    emission: dict[str, Any] = {
        n: Likelihood()
        if n in data.measurements and data.measurements[n].likelihood is not None
        else Exact()
        for n in data.nodes
        if n not in records
    }
    levels = {n: count_levels(n, record) for n, record in records.items()}
    emission |= {n: one.emission for n, one in levels.items()}
    # what counts jumps
    open_columns = {n: records[n] for n, one in levels.items() if has_normal_noise(one)}
    choices: Sequence[KindChoice] = ()
    said: list[str] = []
    if open_columns and _may_move(settings, data, set(data.nodes) - set(open_columns)):
        may_mix = data.stimuli is None
        decision = decide_kinds(data, open_columns, levels, may_mix)
        choices, said = decision.choices, decision.sentences
        emission |= dict.fromkeys(decision.continuous, Continuous())
        levels = {n: one for n, one in levels.items() if n not in decision.continuous}
    settings = replace(settings, emission=emission)
    shifted = offset_words(list(levels.values()))
    if shifted:
        said = [*said, f"{shifted}."]
    free = without_offsets(data, levels.values())
    learn = learn_from_observations if settings.may_be_continuous else _jumping
    found = learn(settings, free, progress)
    stage = " ".join([*said, found.stage]).strip()
    return replace(found, kinds=choices, levels=list(levels.values()) or found.levels, stage=stage)


def _may_move(settings: StructureSettings, data: Observations, others: Collection[str]) -> bool:
    """Whether columns of numbers may be continuous: nothing asks for what only states have.

    Beside ``others`` that have parents of their own, stimuli are not learned yet.
    """
    asks = settings.method not in LEARNED_BY or settings.allowed_transitions
    hidden = set(settings.states or ()) - set(data.measurements)
    seen = len(data.events) or len(data.intervals) or len(data.interventions)
    plain = all(
        record.noisy.all() and record.likelihood is None for record in data.measurements.values()
    )
    has_parents = set(others) - set(settings.structure_prior.exogenous)
    alone = data.stimuli is None or not has_parents
    return bool(plain and alone and not asks and not hidden and not seen)


def _jumping(
    settings: StructureSettings, data: Observations, progress: ProgressListener
) -> SearchResult:
    learn = importlib.import_module(settings.home)
    settings, data = with_stimuli(settings, data)
    found: SearchResult = learn.learn_from_observations(settings, data, progress)
    return found


# ---- tables for the user ------------------------------------------------------------------------


def node_frame(found: SearchResult) -> pd.DataFrame:
    """node, kind, levels; of continuous nodes decay time, resting level and noise.

    The log evidence of both kinds where they were compared.
    """
    fit = found.continuous
    frame = pd.DataFrame(
        [_node_line(found, name) for name in found.columns],
        columns=["node", "kind", "levels"] + ([] if fit is None else list(_NUMBERS)),
    )
    frame["levels"] = frame["levels"].astype("Int64")
    if not found.kinds:
        return frame
    evidence = kind_frame(found.kinds).drop(columns=["kind", "levels"])
    return frame.merge(evidence, on="node", how="left")


_NUMBERS = (
    *("decay_time", "decay_time_lower", "decay_time_upper"),
    *("resting_level", "resting_level_lower", "resting_level_upper", "noise_sd"),
)


def _node_line(found: SearchResult, name: str) -> dict[str, object]:
    fit, n = found.continuous, found.nodes.index(name)
    if fit is None or not fit.scorer.series.nodes[n].is_continuous:
        return {"node": name, "kind": "jumps", "levels": len(found.states[name])}
    line: dict[str, object] = {"node": name, "kind": "continuous", "levels": pd.NA}
    if n in fit.families:
        family = tuple(found.graph[n])
        numbers = node_summary(fit.scorer, fit.draws(n, family), n, family)
        line |= zip(_NUMBERS, (*numbers.decay_time, *numbers.resting_level, numbers.noise_sd))
    return line
