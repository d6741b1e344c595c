"""``asterism fit``: the rates of a given graph, with intervals, from a table of measurements.

Without a graph the table must have one node: panel data of one disease, say. Covariates are
columns that change the rates. What the flags leave open is decided from the table, and said.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from asterism.commands import exits
from asterism.commands.console import Console, Done
from asterism.commands.exits import Refused, in_flags
from asterism.commands.input_table import Table, guess_columns, read_table, with_sheet
from asterism.commands.options import FitOptions, PanelOptions
from asterism.commands.outputs import effective, read_edges, recorded, summary_of, writing_to
from asterism.commands.panel import (
    allowed_transitions,
    both_sides,
    hints,
    node_of,
    panel_emissions,
    read_values,
    restrict,
    with_final_states,
)
from asterism.data.clock import per_unit, read_clock
from asterism.data.columns import cells, without_codes
from asterism.data.covariates import PERIOD, trajectories_without
from asterism.data.numbers import as_number
from asterism.data.observations import Observations
from asterism.data.table_file import read_header, read_text_table
from asterism.data.trajectories import Trajectories
from asterism.errors import DataError, counted, quoted, require_known
from asterism.model.network import Network
from asterism.numerics.progress import listening

if TYPE_CHECKING:
    import pandas as pd

    from asterism.learning.em.parameter_learner import ParameterLearner
    from asterism.results.run import Run


#: rates and hazard ratios that are printed; the tables hold all
MOST_LINES = 12


@dataclass(frozen=True)
class _Input:
    """Everything that was read and decided before the fit."""

    data: Observations
    panel: PanelOptions
    """As asked, and states that the data show to be final."""
    graph: Any
    emission: Any
    states: dict[str, list[Any]]
    decisions: list[str]
    warnings: list[str]


def run(options: FitOptions, console: Console) -> Done:
    """Fit, write, and say what was found."""
    from asterism.learning.em.saved_fit import fit_run
    from asterism.report.page import write_report
    from asterism.results.folder import save_run

    with writing_to(options.output, options.force):
        with console.busy(f"Reading {options.table.data}"):
            given = _read(options)
        for line in given.decisions:
            console.say(line)
        for line in given.warnings:
            console.warn(line)
        learner = _learner(options, given)
        with console.progress() as progress, listening(progress):
            learner.fit(given.data)
            _ = learner.parameters_
        command, told = effective("fit", options), {"warnings": given.warnings}
        record = recorded(command, given.data, given.decisions, title=options.title, **told)
        with console.busy(f"Writing {options.output}"):
            result = fit_run(learner, record)
            save_run(result, options.output, force=True, page=write_report)
        for line in _findings(options, learner, given.data.time_unit):
            console.say(line)
        if not learner.converged_:
            console.warn(f"The fit did not converge: {in_flags(learner.stop_reason_)}")
    code = exits.OK if learner.converged_ else exits.NOT_CONVERGED
    return Done(_summary(options, result, learner), code)


# ---- what goes in ---------------------------------------------------------------------------


def _read(options: FitOptions) -> _Input:
    network = None if options.network is None else Network.load(options.network)
    if network is not None and network.drifts:
        raise Refused(
            "The network has continuous nodes, and fit is for nodes that jump: asterism learn says "
            "the decay time, level and effects of continuous ones."
        )
    edges = None if options.edges is None else read_edges(options.edges)
    if network is not None and edges is not None:
        raise Refused("--network and --edges both give the graph; give one of them.")
    options = replace(options, table=with_sheet(options.table))
    nodes = _nodes(options, network, edges)
    _references(options), _change_times(options)  # misspelt ones are told before anything is read
    table = read_table(replace(options.table, nodes=nodes))
    data, known = table.require(), {}
    decisions = list(table.decisions)
    if isinstance(data, Trajectories):
        _refuse_flags_of_measurements(options)
        known = {node: list(names) for node, names in data.states.items()}
        data = Observations.from_trajectories(data)
    data, read = read_values(options.panel, data)
    if options.obstype is not None:
        data, told = _with_observation_types(options, data, table)
        read = [*read, told]
    panel, final = with_final_states(_listed_transitions(options.panel, table), data)
    warnings = hints(data, panel)
    decisions += [*read, *final]
    if covariate_names(options):
        data, lacking = _with_covariates(options, data, table)
        warnings += lacking
        decisions.append(f"Covariates (--covariate): {quoted(covariate_names(options))}.")
    graph: Any = network
    if network is None:
        parents: dict[str, list[str]] = {node: [] for node in data.nodes}
        for parent, child in edges or ():
            require_known((parent, child), parents, "--edges names", error=DataError)
            parents[child].append(parent)
        graph = parents
    emission, states, said = _emissions(options, data, network)
    if network is not None:
        known = {node: list(network.states[node]) for node in network.nodes}
    states = {**known, **states}
    if panel.restricts:
        states, more = restrict(panel, data, emission, states)
        said = [*said, *more]
    return _Input(data, panel, graph, emission, states, [*decisions, *said], warnings)


def _refuse_flags_of_measurements(options: FitOptions) -> None:
    """Complete paths leave nothing to read, to decode or to be wrong about."""
    given = {
        "--exact-entry": options.panel.exact_entry,
        "--state-code": options.panel.state_code,
        "--censored": options.panel.censored,
        "--emission": options.emission,
        "--misreported": options.misreported,
        "--obstype": options.obstype,
        "--exact": options.table.exact,
    }
    for flag in (flag for flag, value in given.items() if value):
        raise Refused(
            f"Complete paths (--kind paths) say which state was entered when; {flag} is about "
            "measurements (--kind wide or long). Leave one of them out."
        )


def _nodes(
    options: FitOptions, network: Network | None, edges: list[tuple[str, str]] | None
) -> list[str]:
    """Columns that are nodes: as asked, those of the graph, or the only one left."""
    if options.table.nodes:
        return list(options.table.nodes)
    header = read_header(options.table.data, options.table.sheet)
    columns = guess_columns(
        header, options.table.kind, options.table.time, options.table.trajectory
    )
    named = [*covariate_names(options), *options.ignore]
    named += [name for name in (options.obstype,) if name]
    require_known(named, header, "A flag names", "column", DataError)
    if network is not None:
        return [n for n in network.nodes if n in header] if columns.node is None else []
    if edges is not None:
        return list(dict.fromkeys(end for edge in edges for end in edge))
    if columns.node is not None:
        return []
    taken = columns.taken | set(named)
    taken |= {name for name in (options.table.exact, options.table.end_column) if name}
    left = [name for name in header if name not in taken]
    if len(left) != 1:
        raise Refused(
            f"The table has {counted(len(left), 'column')} that could be nodes ({quoted(left)}). "
            "Name the one to fit with --nodes COLUMN, give the graph with --edges or --network, "
            "and name columns that change the rates with --covariate."
        )
    return left


def covariate_names(options: FitOptions) -> list[str]:
    """Columns named by --covariate and the like, without what they act on."""
    texts = (*options.covariate, *options.outcome_covariate, *options.start_covariate)
    names = dict.fromkeys(text.partition(":")[0].strip() for text in texts)
    return [name for name in names if not (options.change_times and name == PERIOD)]


def _listed_transitions(panel: PanelOptions, table: Table) -> PanelOptions:
    """What a counting table shows to be possible, unless --allowed says it."""
    if panel.allowed or not table.transitions:
        return panel
    return replace(panel, allowed=[f"{a}>{b}" for a, b in table.transitions])


def _with_observation_types(
    options: FitOptions, data: Observations, table: Table
) -> tuple[Observations, str]:
    column = options.obstype or ""
    if len(data.measurements) != 1:
        raise Refused(f"--obstype {column} is for one node; name it with --nodes COLUMN.")
    (node,) = data.measurements
    frame, names = _whole_table(options, data, table)
    before = len(data.events)
    data = data.with_observation_types(node, frame, column, **names)
    count = counted(len(data.events) - before, "transition")
    return data, f"Rows are read as {column!r} says (--obstype): {count} at exact times."


def _with_covariates(
    options: FitOptions, data: Observations, table: Table
) -> tuple[Observations, list[str]]:
    """With covariates, without the trajectories that lack one, and what to say about these."""
    frame, names = _whole_table(options, data, table)
    wanted, known, told = covariate_names(options), set(data.trajectories), []
    if names["trajectory"] in frame.columns and set(wanted) <= set(frame.columns):
        frame[wanted] = without_codes(frame[wanted], options.table.missing)
        for name in wanted:
            lacking = trajectories_without(frame, name, names["trajectory"], data.trajectories)
            known -= set(lacking)
            if lacking:
                count = counted(len(lacking), "trajectory")
                told.append(
                    f"Covariate {name!r} has no value in {count} of {len(data.trajectories)} "
                    f"({quoted(map(str, lacking))}), which the fit leaves out."
                )
    if known and told:
        data = data.select([label for label in data.trajectories if label in known])
    return data.with_covariates(frame, wanted, **names), told


def _whole_table(
    options: FitOptions, data: Observations, table: Table
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The table with its times in numbers, and which of its columns are trajectory and time."""
    columns, frame, comma = table.columns, table.stays, options.table.comma
    if frame is None:
        frame = read_text_table(options.table.data, options.table.sheet)
        # as the times of the measurements were read: dates and durations become numbers
        unit = data.time_unit or None
        clock = read_clock(cells(frame[columns.time]), columns.time, unit, comma)
        frame[columns.time] = clock.time
    if columns.trajectory is None and "trajectory" in frame.columns:
        frame = frame.drop(columns="trajectory")
    return frame, {
        "trajectory": columns.trajectory or "trajectory",
        "time": columns.time,
        "comma": comma,
    }


def _emissions(
    options: FitOptions, data: Observations, network: Network | None
) -> tuple[dict[str, Any], dict[str, list[Any]], list[str]]:
    """Emissions and states; values that codes have explained are not looked at."""
    from asterism.commands.infer import learned_emissions

    misread = [node_of(text, data.measurements, "--misreported") for text in options.misreported]
    learned: dict[str, Any] = {}
    if options.network is not None and not options.emission:
        learned = learned_emissions(options.network, list(data.measurements))
    asked = [*options.emission, *(f"{node}=categorical" for node, _ in misread)]
    choice = panel_emissions(
        data,
        asked,
        options.states,
        keep=list(data.measurements),
        known_states=None if network is None else network.states,
        learned=learned,
        misread=dict(misread),
    )
    return choice.emission, dict(choice.states), choice.decisions


def _learner(options: FitOptions, given: _Input) -> ParameterLearner:
    """The one place that turns flags into a learner."""
    from asterism.learning.em.parameter_learner import ParameterLearner
    from asterism.model.priors import GammaPrior

    changing = list(given.data.nodes)
    prior = None if options.prior is None else GammaPrior(*options.prior)  # type: ignore[arg-type]
    return ParameterLearner(
        given.graph,
        emission=given.emission or None,
        prior=prior,
        method=options.method,
        initial=options.initial,
        allowed_transitions=allowed_transitions(given.panel, changing),
        n_init=options.n_init,
        minutes=options.minutes,
        states=given.states or None,
        level=options.level,
        n_jobs=options.jobs,
        random_state=options.seed,
        covariates=_effects(options, changing) or None,
        equal_rates=_by_node(options.equal, changing, "--equal") or None,
        fixed_rates=_fixed(options, changing) or None,
        reference=_references(options) or None,
        change_times=_change_times(options) or None,
        frailty=_frailty(options, changing),
    )


def _frailty(options: FitOptions, nodes: Sequence[str]) -> Any:
    if list(options.frailty) == ["auto"] and "auto" not in nodes:
        return "auto"
    result = {}
    for text in options.frailty:
        node, _, which = (text, "", "") if text in nodes else text.rpartition(":")
        result[node or text] = which or "all"
    return result or None


def _change_times(options: FitOptions) -> list[float]:
    times = [as_number(text) for text in options.change_times]
    if None in times:
        raise Refused(f"--change-times {','.join(options.change_times)} are not all numbers.")
    return [time for time in times if time is not None]


def _references(options: FitOptions) -> dict[str, str]:
    result = {}
    for text in options.reference:
        name, value = both_sides(text, f"--reference {text!r}", "COLUMN=VALUE, such as 'age=20-40'")
        result[name] = value
    return result


def _effects(options: FitOptions, nodes: Sequence[str]) -> list[Any]:
    """COLUMN, COLUMN:1>2, and in networks COLUMN:NODE and COLUMN:NODE:1>2; states for outcomes."""
    from asterism.learning.em.rate_model import Effect

    result = []
    for flag, texts in (
        ("--covariate", options.covariate),
        ("--outcome-covariate", options.outcome_covariate),
        ("--start-covariate", options.start_covariate),
    ):
        for text in texts:
            name, colon, rest = (part.strip() for part in text.partition(":"))
            node, _, which = (part.strip() for part in rest.partition(":"))
            if not colon or node not in nodes:
                node, which = "", rest
            if colon and not node and len(nodes) > 1:
                raise Refused(
                    f"{flag} {text!r} needs the name of a node, as COLUMN:NODE or "
                    f"COLUMN:NODE:…; the nodes are {quoted(nodes)}."
                )
            equal = name in options.equal_effects
            if flag == "--covariate":
                result.append(Effect(name, which or None, node or None, equal))
            else:
                states = [s.strip() for s in which.split(",")] if which else None
                on = flag.removeprefix("--").removesuffix("-covariate")
                result.append(Effect(name, None, node or None, equal, on=on, states=states))
    acting = {effect.covariate for effect in result}
    for name in options.equal_effects:
        if name == PERIOD and options.change_times and name not in acting:
            result.append(Effect(PERIOD, equal=True))
        elif name not in acting:
            raise Refused(f"--equal-effects names {name!r}, which is not a --covariate.")
    return result


def _by_node(texts: Sequence[str], nodes: list[str], flag: str) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for text in texts:
        node, rest = node_of(text, nodes, flag)
        result.setdefault(node, []).append(rest)
    return result


def _fixed(options: FitOptions, nodes: list[str]) -> dict[str, dict[str, float]]:
    result: dict[str, dict[str, float]] = {}
    for node, texts in _by_node(options.fix, nodes, "--fix").items():
        for text in texts:
            transition, sign, value = (part.strip() for part in text.partition("="))
            rate = as_number(value)
            if not sign or rate is None:
                raise Refused(f"--fix {text!r} is not TRANSITION=RATE, such as '1>2=0.1'.")
            result.setdefault(node, {})[transition] = rate
    return result


# ---- what comes out -------------------------------------------------------------------------


def _findings(options: FitOptions, learner: ParameterLearner, unit: str) -> list[str]:
    from asterism.report.page_frame import share_text

    share = f"{options.level:.0%}"

    def first(
        table: pd.DataFrame, line: Callable[[dict[Any, Any]], str], what: str = "", file: str = ""
    ) -> list[str]:
        """The first rows in words, with their notes, and how many there are."""
        rows = table.head(MOST_LINES).to_dict("records") if what else table.to_dict("records")
        said = ["; ".join(filter(None, (line(row), row.get("note")))) + "." for row in rows]
        left = [f"{what}: {MOST_LINES} of {len(table)}; all in {file}."]
        return said + left * (len(table) > len(rows))

    def between(row: dict[Any, Any], name: str = "", digits: str = ".4g") -> str:
        return f"({share}: {row[f'{name}lower']:{digits}} to {row[f'{name}upper']:{digits}})"

    def rate(row: dict[Any, Any]) -> str:
        where = f" ({row['configuration']})" if row["configuration"] else ""
        name = f"{row['node']} {row['from']} → {row['to']}{where}"
        if row["note"] == "fixed":
            return f"{name}: {row['rate']:.4g} {per_unit(unit)}"
        found = 0.0 if row["note"].startswith("at zero") else row["rate"]
        return f"{name}: {found:.4g} {per_unit(unit)} {between(row)}"

    def effect(row: dict[Any, Any]) -> str:
        node = f"{row['node']} " if len(learner.network_.nodes) > 1 else ""
        return (
            f"Hazard ratio of {row['covariate']} on {node}{row['transitions']}: "
            f"{row['hazard_ratio']:.4g} {between(row, 'hazard_ratio_')}"
        )

    def edge(row: dict[Any, Any]) -> str:
        where = f" (with {row['others']})" if row["others"] else ""
        return (
            f"{row['parent']} {row['state']} against {row['against']}: {row['child']} "
            f"{row['transition']} {row['hazard_ratio']:.3g} times as fast "
            f"{between(row, digits='.3g')}{where}"
        )

    parameters = learner.parameters_
    lines = first(learner.rate_intervals_, rate, "Rates", "rates.csv")
    lines += learner.baseline_
    lines += first(learner.effects_, effect, "Hazard ratios", "effects.csv")
    lines += first(learner.edge_ratios_, edge, "Hazard ratios of edges", "edge_ratios.csv")
    lines += learner.differences_
    if options.misreported:
        errors = parameters.query("kind == 'emission'")
        lines += first(
            errors[[not _is_right(name) for name in errors["parameter"]]],
            lambda row: (
                f"{row['parameter']}: {share_text(row['estimate'])} of the visits "
                f"{between(row, digits='.3g')}"
            ),
        )
    lines += first(
        parameters.query("kind in ('outcome effect', 'start effect')"),
        lambda row: f"Effect on {row['parameter']}: {row['estimate']:.4g} {between(row)}",
    )
    lines.append(
        f"Log-likelihood {learner.log_evidence_:.4f} with "
        f"{counted(learner.n_parameters_, 'parameter')}, start probabilities among them; "
        f"AIC {learner.aic_:.2f}, BIC {learner.bic_:.2f}."
    )
    given_first = f"Given the first visits: −2 ln L {-2.0 * learner.log_evidence_given_first_:.4f}"
    if learner.aic_given_first_ is not None:
        given_first += (
            f" with {counted(learner.n_parameters_given_first_, 'parameter')}, as msm counts them "
            f"(no start probabilities); AIC {learner.aic_given_first_:.2f}, "
            f"BIC {learner.bic_given_first_:.2f}"
        )
    lines.append(f"{given_first}.")
    lines.append(f"Results: {options.output}; open {options.output / 'report.html'}")
    return lines


def _is_right(name: str) -> bool:
    """Whether a parameter is the chance that a state is reported as itself."""
    true, _, reported = name.partition(": ")[2].partition(" reported as ")
    return true == reported


def _summary(options: FitOptions, result: Run, learner: ParameterLearner) -> dict[str, Any]:
    from asterism.learning.em.saved_fit import MEASURES

    # as it has been called here from the first release on
    measures = {
        name.replace("log_evidence", "log_likelihood"): result.run[name] for name in MEASURES
    }
    tables = {
        "rates": learner.rate_intervals_,
        "effects": learner.effects_,
        "frailty": learner.frailty_,
    }
    return summary_of(
        result,
        options.output,
        **measures,
        **{name: table.to_dict("records") for name, table in tables.items()},
        warnings=result.run["warnings"],
    )
