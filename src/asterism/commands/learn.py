"""``asterism learn``: from a table to a network with a probability on every edge.

What the flags leave open is decided from the table, and said. The results folder is refused before
anything is computed if it could not be written.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asterism.commands import exits
from asterism.commands.chance import chance_of, held_out_words
from asterism.commands.choices import (
    choose_search,
    graph_decisions,
    model_decisions,
    prior_of_rates,
    time_scale,
)
from asterism.commands.console import Console, Done, seconds_so_far
from asterism.commands.exits import Refused, in_flags
from asterism.commands.input_table import (
    Table,
    read_numbers,
    read_table,
    require_readable,
    with_interventions,
    with_stimuli,
)
from asterism.commands.learnable import Learnable, in_words, make_learnable, many_levels, summarise
from asterism.commands.options import LearnOptions
from asterism.commands.outputs import (
    CHECKPOINT,
    JOURNAL,
    effective,
    on_cluster,
    read_truth,
    recorded,
    say_accuracy,
    say_if_compiling,
    scored_in,
    summary_of,
    writing_to,
)
from asterism.commands.panel import allowed_transitions, hints, with_final_states, without_coded
from asterism.data.interventions import known_targets
from asterism.data.observations import Observations
from asterism.data.problems import listed
from asterism.data.trajectories import Trajectories
from asterism.errors import ModelError
from asterism.inference.methods import METHODS
from asterism.learning.compile_ahead import compiling_ahead
from asterism.model.emission_continuous import LEARNED_BY
from asterism.numerics.resources import current_limit, minutes_limit, time_limit, time_to_finish

if TYPE_CHECKING:
    from asterism.inference.posterior import Posterior
    from asterism.learning.search.structure_learner import StructureLearner
    from asterism.results.run import Run


@dataclass(frozen=True)
class Learned:
    """A finished run."""

    run: Run
    usable: bool
    """Whether the answer can be used: it converged, or says how far it may be off."""
    summary: dict[str, Any]
    findings: list[str]
    """The result in words, and where it lies."""
    posterior: Posterior | None = None
    interrupted: bool = False
    """Ctrl-C stopped it early, and what was drawn until then is kept."""


def run(options: LearnOptions, console: Console) -> Done:
    """Learn, write, and say what was found."""
    learned = learn(options, console)
    for line in learned.findings:
        console.say(line)
    try:
        learned.summary["accuracy"] = say_accuracy(learned.posterior, console)
    except KeyboardInterrupt:
        console.warn("Interrupted: the results are complete, but not compared with others.")
        return Done(code=exits.INTERRUPTED)
    if learned.interrupted:
        console.warn("Interrupted: the results hold what was drawn; --resume goes on.")
        return Done(learned.summary, exits.INTERRUPTED)
    if not learned.usable:
        console.warn(f"The search did not converge: {learned.summary['stop_reason']}")
    elif not learned.summary["converged"]:
        console.say(learned.summary["stop_reason"])
    return Done(learned.summary, exits.OK if learned.usable else exits.NOT_CONVERGED)


def learn(options: LearnOptions, console: Console) -> Learned:
    """Everything but the last words."""
    command = effective("learn", options)
    require_readable(options.table)
    with (
        writing_to(options.output, options.force, options.resume),
        minutes_limit(
            _ENDLESS if console.is_watched and options.minutes is None else options.minutes,
            _SECONDS_TO_FINISH,
            seconds_so_far(),
        ),
    ):
        return _learn(options, command, console)


def _learn(options: LearnOptions, command: dict[str, Any], console: Console) -> Learned:
    with console.busy(f"Reading {options.table.data}"):
        found, decisions = read_data(options, console)
    data, emission, states = found.require(), found.emission, found.states
    options = replace(options, exogenous=found.outside)
    if not found.moving:
        panel, final = with_final_states(options.panel, data, options.exogenous)
        options, decisions = replace(options, panel=panel), [*decisions, *final]
    say_if_compiling(console, "up to a minute" if options.method == "star" else "a minute or two")
    nodes = list(data.nodes)
    truth = None if options.truth is None else read_truth(options.truth, nodes)
    if options.min_parents > options.parents_searched:
        raise Refused(
            f"--min-parents {options.min_parents} is more than --max-parents "
            f"{options.parents_searched}; lower the first or raise the second."
        )
    coded = options.panel.state_code or options.panel.censored
    plain = without_coded(data) if coded and isinstance(data, Observations) else data
    n_states = {node: len(labels) for node, labels in (states or {}).items()}
    summary = summarise(plain, options.parents_searched, options.exogenous, n_states, found.moving)
    summary["warnings"] += many_levels(found)
    if isinstance(data, Observations):
        summary["warnings"] += hints(data, options.panel)
    # results of an interrupted search are kept, whatever it was doing
    with ExitStack() as around:
        around.enter_context(scored_in(options.output, console))
        with console.progress() as progress:
            changing = [node for node in nodes if node not in options.exogenous]
            learner = make_learner(options, emission, states, changing)
            search = choose_search(options, learner, data)
            decisions += in_words(summary)
            if not found.moving:
                decisions += model_decisions(options, learner, data, search)
            elif options.parents_searched > 0 and len(nodes) > 1:
                decisions += graph_decisions(options, learner, data)
            if options.refine_emissions:
                decisions.append(_about_refining(emission))
            for line in decisions:
                console.say(line)
            for warning in summary["warnings"]:
                console.warn(warning)
            if options.resume and not (options.output / JOURNAL).exists():
                console.warn(
                    f"{options.output} holds no journal to resume from: the search starts again."
                )
            alone = ""
            if not (found.moving or search.screened or options.method in ("auto", "sample")):
                alone = (
                    "Only a screened search is shared among workers, and this one is not: it runs "
                    "on this machine (--search screened would run on the cluster)."
                )
            around.enter_context(on_cluster(options.scheduler, alone, console))
            if search.screened and not found.moving:
                around.enter_context(compiling_ahead())
            learner.fit(data, progress=progress)
        learner.checks_ = learner._checked(decided=found.levels)
        late = stimuli_in_words(learner)
        if learner.stage_:
            flags = "" if found.moving else " (--method, --minutes)"
            late.append(f"{in_flags(learner.stage_)}{flags}")
        if not found.moving:
            late.append(time_scale(learner, options.prior, summary.get("time_unit") or ""))
        for line in late:
            console.say(line)
        decisions += late
        record = recorded(
            command, data, decisions, warnings=summary["warnings"], levels=found.levels
        )
        if found.kinds:
            record["kinds"] = found.kinds
        if isinstance(data, Observations):
            with console.busy("Comparing edges with unmeasured causes"):
                causes = learner.unmeasured_causes(data)
            record["unmeasured_causes"] = _recorded(causes)
            from asterism.learning.search.measured_oddly import OddMeasurements
            from asterism.learning.search.rate_factors import RateFactor, sentences
            from asterism.learning.search.residuals import MoveTogether
            from asterism.learning.search.sample_errors import OddErrors

            checks = learner.checks_
            record["rate_factors"] = _recorded(c for c in checks if isinstance(c, RateFactor))
            pairs = [c for c in checks if isinstance(c, MoveTogether)]
            record["moving_together"] = _recorded(pairs[:_PAIRS_RECORDED])
            record["odd_measurements"] = _recorded(
                c for c in checks if isinstance(c, OddMeasurements)
            )
            record["odd_errors"] = _recorded(c for c in checks if isinstance(c, OddErrors))
            record["not_checked"] = learner.checks_left_out_
            if record["not_checked"]:
                console.say(record["not_checked"])
                decisions.append(record["not_checked"])
            said = [cause.sentence for cause in causes if cause.is_likely]
            said += sentences(checks)
            for sentence in said:
                summary["warnings"].append(sentence)
                console.warn(sentence)
        chance = chance_of(learner, data, options.null, options.seed, console)
        if chance is not None:
            record["null"] = chance.record
        if options.cross_validate is not None:
            try:
                record["held_out"] = _held_out(options, learner, data, console)
            except ModelError as error:  # no ln P of this network: the rest of the run stands
                summary["warnings"].append(f"--cross-validate was left out: {error}")
                console.warn(summary["warnings"][-1])
        result, posterior = _make_run(options, learner, data, truth, record, console)
        if chance is not None:
            result.edge_table["by_chance"] = chance.of(result.edge_table)

    from asterism.report.page import write_report
    from asterism.results.folder import save_run

    findings = _findings(result, options.output)
    with console.busy(f"Writing {options.output}"):
        save_run(result, options.output, force=True, page=write_report)
        finished = bool(learner.stage_ or learner.converged_) and not learner.interrupted_
        if finished:  # nothing is left to go on with
            (options.output / CHECKPOINT).unlink(missing_ok=True)
    return Learned(
        result,
        bool(learner.usable_),
        _summary(options, result),
        findings,
        posterior,
        learner.interrupted_,
    )


# ---- what goes in ---------------------------------------------------------------------------


def _measurements(table: Table, flag: str) -> Observations:
    """The data of a table, refused if they are complete paths."""
    data = table.require()
    if isinstance(data, Trajectories):
        raise Refused(f"Complete paths cannot have {flag} yet: give measurements.")
    return data


def read_data(options: LearnOptions, console: Console) -> tuple[Learnable, list[str]]:
    """The data with their emissions, and all that was decided."""
    table = read_table(options.table)
    if not table.errors:
        for line in listed(p for p in table.problems if p.severity == "warning"):
            console.warn(in_flags(line))
    held = None
    if options.interventions is not None:
        free = _measurements(table, "--interventions")
        held = read_numbers(options.interventions, ("start", "end"), options.table.comma)
        # before levels are counted: what is measured meanwhile is no level of the node's own
        table = replace(table, data=free.with_interventions(held))
    if options.stimuli is not None:
        free = _measurements(table, "--stimuli")
        table = replace(
            table, data=with_stimuli(free, options.table, table.columns, options.stimuli)
        )
    # counting levels may take a third of the time
    left = current_limit().left / 3.0
    with time_limit(None if left == math.inf else max(left, 1e-3)):
        found = make_learnable(
            table,
            options.emission,
            options.states,
            options.table.nodes,
            options.exogenous,
            options.panel,
            options.method in LEARNED_BY,
            options.offset,
            options.log,
        )
    data, decisions = found.require(), list(table.decisions)
    if held is not None:
        assert isinstance(data, Observations)
        data, said = with_interventions(data, held)  # refuses those of columns that were left out
        decisions.append(said)
        found = replace(found, data=data)
    if options.stimuli is not None:
        assert isinstance(data, Observations)
        assert data.stimuli is not None
        names = ", ".join(dict.fromkeys(map(str, data.stimuli["name"])))
        on = "nodes that are named" if known_targets(data.stimuli) else "nodes to be found"
        decisions.append(f"Acts from outside, on {on} (--stimuli): {names}.")
    return found, [*decisions, *found.decisions]


def stimuli_in_words(learner: StructureLearner) -> list[str]:
    """Whom each stimulus acts on."""
    said = []
    for name, own in learner.targets_.groupby("stimulus", sort=False):
        likely = own[own["probability"] >= _LIKELY_TARGET]
        hit = ", ".join(f"{n} ({p:.2f})" for n, p in zip(likely["node"], likely["probability"]))
        if not hit:
            first = own.iloc[0]
            hit = f"no node for certain; the likeliest is {first['node']}"
            hit += f" ({first['probability']:.2f})"
        said.append(f"{name} acts on {hit}; all probabilities are in targets.csv.")
    return said


def _recorded(checks: Iterable[Any]) -> list[dict[str, Any]]:
    """Checks for run.json."""
    return [{**asdict(check), "is_likely": check.is_likely} for check in checks]


def _about_refining(emission: Any) -> str:
    if any(one.learn for one in dict(emission or {}).values()):
        return "Emissions are fitted once more on the graph found (--refine-emissions)."
    return "No emission is learned, so --refine-emissions changes nothing."


#: what the page and the files of a small run take, libraries loaded for them included (measured)
_SECONDS_TO_FINISH = 3.0

#: probability of a target that is named
_LIKELY_TARGET = 0.5

#: pairs that move together: so many are noted
_PAIRS_RECORDED = 50

#: minutes of a run that ends early only where a program asks for that: nineteen years
_ENDLESS = 1e7

#: nodes times trajectories up to which the paths in the results are sampled too
_PATHS_SAMPLED = 3_000


def make_learner(
    options: LearnOptions,
    emission: Any,
    states: dict[str, list[str]] | None,
    nodes: Sequence[str] = (),
) -> StructureLearner:
    """The one place that turns flags into a learner."""
    from asterism.learning.learner_settings import (
        Accuracy,
        Sampling,
        Search,
        StructurePrior,
        picked,
    )
    from asterism.learning.search.structure_learner import StructureLearner

    edge_prior = None
    if options.edge_prior is not None:
        edge_prior = read_numbers(options.edge_prior, ("probability",), options.table.comma)
    return StructureLearner(
        emission,
        options.max_parents,
        method=options.method,
        prior=prior_of_rates(options),
        random_state=options.seed,
        n_jobs=options.jobs,
        structure_prior=picked(
            StructurePrior, options, edge=options.family_prior, probabilities=edge_prior
        ),
        states=states,
        initial=options.initial,
        allowed_transitions=allowed_transitions(options.panel, nodes),
        graph=options.graph,
        threshold=options.threshold,
        minutes=options.minutes,
        search=picked(Search, options, kind=options.search, journal=options.output / JOURNAL),
        sampling=Sampling(chains=options.chains),
        accuracy=picked(Accuracy, options),
        ties=options.table.ties,
    )


# ---- what comes out -------------------------------------------------------------------------


def _make_run(
    options: LearnOptions,
    learner: StructureLearner,
    data: Observations | Trajectories,
    truth: list[tuple[str, str]] | None,
    record: dict[str, Any],
    console: Console,
) -> tuple[Run, Posterior | None]:
    from asterism.results.courses import gather, measured_table
    from asterism.results.run import Run

    rates = learner.rate_intervals_
    found = posterior = observed = None
    if isinstance(data, Observations) and learner.network_.drifts:
        observed = measured_table(data)
    elif isinstance(data, Observations):
        with console.busy("State probabilities over time"), time_to_finish():
            found = _paths(options, learner, data)
            posterior = gather(found)
        observed = measured_table(data)
    run = Run.from_learner(
        learner,
        posterior=posterior,
        observations=observed,
        truth=truth,
        rates=rates,
        run={
            "title": options.title,
            "stop_reason": in_flags(learner.stop_reason_),
            **record,
        },
    )
    return run, found


def _paths(options: LearnOptions, learner: StructureLearner, data: Observations) -> Posterior:
    """State probabilities under the network found; by the star where sampling would take long."""
    from asterism.inference.posterior import quiet_infer

    method = options.method
    if method == "auto":
        method = "star"
    more: dict[str, Any] = {}
    if not METHODS[method].has_evidence:
        if len(data.nodes) * data.n_trajectories > _PATHS_SAMPLED:
            method = "star"
        else:
            more = {"n_draws": 500, "seed": options.seed}
    return quiet_infer(
        learner.network_, data, learner.emission_, method=method, n_jobs=options.jobs, **more
    )


def _held_out(
    options: LearnOptions,
    learner: StructureLearner,
    data: Observations | Trajectories,
    console: Console,
) -> dict[str, Any]:
    """What the network gains on trajectories that it was not learned from."""
    from asterism.learning.held_out import held_out_gain

    n_folds = options.cross_validate or 2
    with console.progress() as progress:
        gain = held_out_gain(learner, data, n_folds, options.seed, progress)
    return {
        "gain": {str(name): float(value) for name, value in gain.items()},
        "sentence": held_out_words(gain, n_folds),
    }


def _summary(options: LearnOptions, result: Run) -> dict[str, Any]:
    edges = result.edge_table
    shown = edges[edges["in_graph"] | (edges["probability"] >= 0.1)]
    return summary_of(
        result,
        options.output,
        nodes=list(result.network.nodes),
        edges=shown.to_dict("records"),
        scores=result.scores(),
        warnings=result.run["warnings"],
    )


def _findings(result: Run, folder: Path) -> list[str]:
    """The result in words, and where it lies."""
    from asterism.results.summary import against_truth, sentences

    lines = sentences(result)
    if result.run.get("null"):
        lines.append(result.run["null"]["sentence"])
    if result.run.get("held_out"):
        lines.append(result.run["held_out"]["sentence"])
    scores = result.scores()
    if scores is not None:
        lines.append(against_truth(result, scores))
    lines.append(f"Results: {folder}; open {folder / 'report.html'}")
    return lines
