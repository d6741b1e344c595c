"""``asterism infer``: what the nodes of a given network did between the measurements.

A network in a results folder knows its run: which columns, codes, labels and unit of time were
used, what was set by the experimenter. All of it is taken over, unless a flag says otherwise, and
said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

from asterism.commands import exits
from asterism.commands.console import Console, Done
from asterism.commands.emissions import choose_emissions
from asterism.commands.exits import Refused, in_flags
from asterism.commands.input_table import (
    file_hash,
    only_nodes,
    read_numbers,
    read_table,
    with_interventions,
    with_sheet,
)
from asterism.commands.options import InferOptions, PanelOptions, TableOptions
from asterism.commands.outputs import (
    effective,
    recorded,
    say_accuracy,
    say_if_compiling,
    summary_of,
    writing_to,
)
from asterism.commands.panel import panel_emissions, read_values
from asterism.data.clock import UNITS
from asterism.data.files import read_json
from asterism.data.labels import canonical
from asterism.data.observations import Observations
from asterism.data.table_file import read_header
from asterism.data.trajectories import Trajectories
from asterism.errors import AsterismError, DataError, quoted
from asterism.inference.methods import METHODS
from asterism.model.network import Network
from asterism.results.manifest import RECORD, read_record, verify_files

#: the network of a results folder
RUN_NETWORK = "network.json"


def run(options: InferOptions, console: Console) -> Done:
    """Infer, write, and say how it went."""
    from asterism.inference.posterior import quiet_infer
    from asterism.report.page import write_report
    from asterism.results.courses import gather, measured_table
    from asterism.results.folder import save_run
    from asterism.results.run import Run

    with writing_to(options.output, options.force):
        network = _load_network(options)
        if network.drifts:
            raise Refused(
                "The network has continuous nodes, which are inferred in Python only so far: "
                "am.infer(am.Network.load(…), observations)."
            )
        with console.busy(f"Reading {options.table.data}"):
            data, emission, decisions = _read(options, network)
        for line in decisions:
            console.say(line)
        say_if_compiling(console)
        draws: dict[str, Any] = {}
        if not METHODS[options.method].has_evidence:
            draws = {"n_chains": options.chains, "seed": options.seed}
        with console.progress() as progress:
            posterior = quiet_infer(
                network,
                data,
                emission,
                method=options.method,
                tolerance=options.tolerance,
                time_step=options.time_step,
                max_sweeps=options.max_sweeps,
                n_jobs=options.jobs,
                minutes=options.minutes,
                progress=progress,
                **draws,
            )
        stop_reason = in_flags(posterior.stop_reason)
        checked = say_accuracy(posterior, console)
        has_evidence = METHODS[options.method].has_evidence
        log_evidence = posterior.log_evidence if has_evidence else None
        observed = measured_table(data) if isinstance(data, Observations) else None
        record: dict[str, Any] = {
            "converged": posterior.converged,
            "stop_reason": stop_reason,
            "log_evidence": log_evidence,
            "n_sweeps": posterior.n_sweeps,
            "settings": {"method": options.method, "tolerance": options.tolerance},
            **recorded(effective("infer", options), data, decisions, accuracy=checked),
            "emission": {str(node): repr(one) for node, one in (emission or {}).items()},
        }
        with console.busy(f"Writing {options.output}"):
            result = Run(
                network,
                posterior=gather(posterior),
                observations=observed,
                history=posterior.history,
                run=record,
            )
            save_run(result, options.output, force=True, page=write_report)
        evidence = f"Log evidence {log_evidence:.6g}. " if has_evidence else ""
        console.say(f"{evidence}{stop_reason}")
        console.say(f"Results: {options.output}; open {options.output / 'report.html'}")
        if not posterior.converged:
            console.warn(f"Inference did not converge: {stop_reason}")
    by_trajectory = None
    if has_evidence:
        each = posterior.log_evidence_by_trajectory
        by_trajectory = {str(label): value for label, value in each.items()}
    summary = summary_of(
        result,
        options.output,
        log_evidence=log_evidence,
        log_evidence_by_trajectory=by_trajectory,
        accuracy=checked,
    )
    return Done(summary, exits.OK if posterior.converged else exits.NOT_CONVERGED)


def _read(
    options: InferOptions, network: Network
) -> tuple[Observations | Trajectories, dict[str, Any] | None, list[str]]:
    """The data of the network's nodes, their emissions, and what was decided."""
    record = {}
    if options.network.name == RUN_NETWORK:
        record = _record_of(options.network.parent, verify=not options.unverified)
    how = as_learned(options.table, record, options.interventions)
    table = read_table(how.table)
    data = table.require()
    decisions = [*how.said, *table.decisions]
    if isinstance(data, Trajectories):
        if how.interventions is not None:
            raise Refused("Complete paths cannot have --interventions yet: give measurements.")
        return data, None, decisions
    data, coded = read_values(_of_these(how.panel, data), data)
    decisions += coded
    ours = [node for node in data.measurements if node in network.nodes]
    others = [node for node in data.measurements if node not in network.nodes]
    if not ours and not len(data.events) and not len(data.intervals):
        raise DataError(
            f"The table and the network share no node: the table measures {quoted(others)}, the "
            f"network has {quoted(network.nodes)}."
        )
    if others:
        decisions.append(f"Left out because they are not in the network: {quoted(others)}.")
    unseen = [node for node in network.nodes if node not in data.nodes]
    if unseen:
        decisions.append(f"Never measured: {quoted(unseen)}.")
    data = only_nodes(data, ours)
    if how.interventions is not None:
        held = read_numbers(how.interventions, ("start", "end"), how.table.comma)
        data, said = with_interventions(data, held)
        decisions.append(said)
    learned = {}
    if not options.emission:
        learned = learned_emissions(options.network, ours, verify=not options.unverified)
    given: dict[str, Any] = {"known_states": network.states, "learned": learned}
    if coded:
        choice = panel_emissions(data, options.emission, "auto", **given)
    else:
        choice = choose_emissions(data, options.emission, **given)
    return data, choice.emission, [*decisions, *choice.decisions]


def _of_these(panel: PanelOptions, data: Observations) -> PanelOptions:
    """Without what is said about nodes and values that do not occur in the table."""
    nodes = list(data.measurements)
    values = {
        node: {canonical(value) for value in record.value.tolist()}
        for node, record in data.measurements.items()
    }

    def known(text: str) -> bool:
        node, colon, rest = (part.strip() for part in text.partition(":"))
        if not colon or node not in nodes:
            if len(nodes) != 1:
                return False
            node, rest = nodes[0], text
        value, is_code, state = (part.strip() for part in rest.partition("="))
        there = canonical(value) in values[node]
        if there and is_code:
            values[node].update(map(canonical, state.split(",")))  # states that codes stand for
        return there

    codes, sets, entries = (
        [text for text in texts if known(text)]
        for texts in (panel.state_code, panel.censored, panel.exact_entry)
    )
    return PanelOptions(exact_entry=entries, state_code=codes, censored=sets)


def _load_network(options: InferOptions) -> Network:
    """The network; one of a results folder must be the one that its run wrote."""
    folder = options.network.parent
    if options.network.name == RUN_NETWORK and not options.unverified:
        verify_files(folder, _record_of(folder, verify=True), [RUN_NETWORK])
    return Network.load(options.network)


def _record_of(folder: Path, verify: bool) -> dict[str, Any]:
    """What the run that wrote a folder recorded; nothing where another program wrote it."""
    if not (folder / RECORD).is_file():
        return {}
    content = read_json(folder / RECORD, "record of a run")
    ours = isinstance(content, dict) and {"format", "format_version", "files"} & set(content)
    return read_record(folder, verify) if ours else {}


def learned_emissions(network: Path, nodes: Sequence[str], verify: bool = True) -> dict[str, Any]:
    """The emissions that ``learn``, or a learner's ``save``, wrote beside a network."""
    from asterism.model.emissions import emission_from_dict

    if network.name != RUN_NETWORK:
        return {}
    content = _record_of(network.parent, verify)
    found = content.get("emissions") or content.get("emission")
    if not isinstance(found, dict):
        return {}
    written = dict.fromkeys(nodes, found) if "kind" in found else found
    result = {}
    for node in nodes:
        with suppress(AsterismError, AttributeError, KeyError, TypeError, ValueError):
            result[node] = emission_from_dict(written[node])
    return result


# ---- a new table read as the one that the network comes from ----------------------------------


#: settings that name one column; they are taken over only if the new table has it
COLUMNS = ("trajectory", "time", "end_column", "exact")
OTHERS = ("kind", "start", "end", "missing", "sort", "labels", "comma", "ties")
#: settings that say what a value of a node means
VALUES = ("exact_entry", "state_code", "censored")


class AsLearned(NamedTuple):
    """How to read a table, and sentences about what came from the run."""

    table: TableOptions
    panel: PanelOptions
    interventions: Path | None
    said: list[str]


def as_learned(
    options: TableOptions, record: Mapping[str, Any], interventions: Path | None = None
) -> AsLearned:
    """The settings with those of the run filled in; ``interventions`` are the user's own."""
    command = record.get("command")
    if not isinstance(command, Mapping) or command.get("name") not in ("learn", "fit"):
        return AsLearned(options, PanelOptions(), interventions, [])
    header = read_header(options.data, with_sheet(options).sheet)
    default = {field.name: field.default for field in fields(TableOptions)}
    taken: dict[str, Any] = {}
    for name in (*COLUMNS, *OTHERS):
        value = command.get(name)
        left_open = _same(getattr(options, name), default[name])
        if not left_open or value is None or _same(value, default[name]):
            continue
        if name in COLUMNS and value not in header and (name, value) != ("exact", "first"):
            continue
        if name == "labels":
            value = [column for column in value if column in header]
        if not _same(value, default[name]) and _is_usable(value, default[name]):
            taken[name] = tuple(value) if isinstance(value, list) else value
    unit = record.get("time_unit")
    if options.unit is None and isinstance(unit, str) and unit in UNITS.values():
        taken["unit"] = unit
    meant: dict[str, Any] = {
        name: tuple(command[name]) for name in VALUES if _is_usable(command.get(name), ())
    }
    meant = {name: value for name, value in meant.items() if value}
    flags = [_as_flag(name, value) for name, value in taken.items()]
    flags += [_as_flag(name, (one,)) for name, value in meant.items() for one in value]
    said = [f"As {command['name']} read its table: {' '.join(flags)}."] if flags else []
    before = command.get("interventions")
    if interventions is None and isinstance(before, str):
        if record.get("data_hash") == file_hash(options.data) and Path(before).is_file():
            interventions = Path(before)
        else:
            said.append(
                f"The network was learned from a table with interventions ({before}); if this "
                "table has some too, name their file with --interventions."
            )
    return AsLearned(replace(options, **taken), PanelOptions(**meant), interventions, said)


def _same(value: Any, default: Any) -> bool:
    if isinstance(value, list | tuple):
        return not value and not default
    return bool(value == default)


def _is_usable(value: Any, default: Any) -> bool:
    """Whether a value from a file has the type of a setting."""
    if isinstance(default, tuple):
        return isinstance(value, list) and all(isinstance(v, str) for v in value)
    if isinstance(default, bool):
        return isinstance(value, bool)
    return isinstance(value, str) or (isinstance(value, int | float) and default is None)


def _as_flag(name: str, value: Any) -> str:
    flag = f"--{name.replace('_', '-')}"
    if value is True:
        return flag
    return f"{flag} {','.join(value) if isinstance(value, tuple) else value}"
