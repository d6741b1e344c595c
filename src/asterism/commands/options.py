"""The settings of every command: one dataclass each, whose fields are its flags (``flags.py``).

The first line of its docstring is what the list of commands says of it, the rest is its help.

Settings that several commands share are parts (:class:`TableOptions`, :class:`PanelOptions`) or
bases (:class:`Printed`, :class:`Written`, :class:`Computed`), so that a flag has one name, one
default and one help text wherever it appears.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from asterism.commands.flags import (
    AMOUNT,
    COMPUTATION,
    FILE,
    FOLDER,
    INPUT,
    MODEL,
    NUMBER,
    OLD_FOLDER,
    OUTPUT,
    POSITIVE,
    READABLE,
    SAMPLING,
    SEARCH,
    Group,
    address,
    argument,
    jobs,
    n_levels,
    part,
    prior,
    read_config,
)
from asterism.inference.methods import METHODS, methods_that_learn_rates, methods_that_score_graphs
from asterism.learning.search.searches import SEARCHES
from asterism.model.emission_kinds import kinds_for_flags

#: whether trajectories may be shifted
OFFSETS = ("auto", "trajectory", "none")

PROBABILITY = click.FloatRange(0, 1, min_open=True)


def _emission() -> Any:
    return MODEL.flag(
        (),
        f"How measured values depend on states: {', '.join(kinds_for_flags())}; for all nodes or "
        "for one; parameters after a colon, such as gaussian:-1,1:0.2 (means:scale) or "
        "gaussian:per-state (a scale for each state).",
        metavar="[NODE=]KIND",
    )


def _states() -> Any:
    return MODEL.flag(
        "auto",
        "Measured numbers are noisy levels of N hidden states, or move continuously; auto lets the "
        "evidence decide, and counts the levels of each node.",
        callback=n_levels,
        metavar="auto|N|continuous",
    )


def _offset() -> Any:
    return MODEL.rare.choice(
        *OFFSETS,
        help="Whether all values of a trajectory may be shifted, node by node: by evidence (auto), "
        "always (trajectory) or never (none). Shifts are estimated and subtracted.",
    )


def _log() -> Any:
    return MODEL.rare.names("Columns to take logarithms of, or all.", metavar="COLUMN,…|all")


#: parents of a node in a search, as in ``StructureLearner``
_PARENTS = 2


def _max_parents(help: str, default: int | None = _PARENTS, **settings: Any) -> Any:
    return MODEL.whole(default, help, at_least=0, **settings)


def _exogenous() -> Any:
    return MODEL.names(
        "Nodes set from outside, such as a treatment: they can be parents, but have none."
    )


def _interventions() -> Any:
    return INPUT.file("Table of nodes set by the experimenter: trajectory,node,start,end,state.")


def _stimuli() -> Any:
    return INPUT.flag(
        None,
        "Table of times during which something from outside acts on nodes yet to be found: "
        "name,trajectory,start,end (and node, if you know it); or a column of the data that says "
        "when it is on.",
        metavar="FILE|COLUMN",
    )


def _title() -> Any:
    return OUTPUT.rare.flag(None, "Title of the report.")


def _truth() -> Any:
    return OUTPUT.file("Table of the true edges (parent,child or source,target) to compare with.")


def _unverified() -> Any:
    return INPUT.rare.flag(False, "Read results as they are, also where a file was changed since.")


def _initial() -> Any:
    return MODEL.rare.choice("learn", "uniform", help="How probable each state is at the start.")


def _config() -> Any:
    return INPUT.rare.file(
        "TOML file with settings; flags override it.", is_eager=True, callback=read_config
    )


def _jobs() -> Any:
    return COMPUTATION.flag(
        *(-1, "Number of threads.", "-j", "--jobs"),
        type=int,
        callback=jobs,
        show_default="all cores",
    )


def _run_folder() -> Any:
    return OUTPUT.flag(Path("RUN"), "Folder for the results.", "-o", "--output", type=FOLDER)


def _new_folder(help: str) -> Any:
    return OUTPUT.flag(None, help, "-o", "--output", type=FOLDER, required=True)


# --- what commands share -----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Printed:
    """Of every command."""

    as_json: bool = OUTPUT.flag(False, "Print a summary as JSON to stdout.", "--json")


@dataclass(frozen=True, kw_only=True)
class Written(Printed):
    """Of every command that writes results."""

    force: bool = OUTPUT.flag(False, "Overwrite existing results.")
    quiet: bool = OUTPUT.flag(False, "Print only warnings.", "-q", "--quiet")


@dataclass(frozen=True, kw_only=True)
class Computed(Written):
    """Of every command that computes for a while."""

    minutes: float | None = COMPUTATION.flag(
        None,
        "Stop after this time, with the best so far; sampling takes what a search leaves of it.",
        type=POSITIVE,
        metavar="M",
    )
    jobs: int = _jobs()
    seed: int = SAMPLING.whole(0, "Random seed.", at_least=0)
    config: Path | None = _config()


@dataclass(frozen=True)
class TableOptions:
    """How the user wants a table read; None and "auto" leave it to the guess."""

    data: Path = argument(type=READABLE)
    trajectory: str | None = INPUT.flag(None, "Column that names the trajectory.", metavar="COLUMN")
    time: str | None = INPUT.flag(None, "Column that holds the time.", metavar="COLUMN")
    nodes: Sequence[str] = INPUT.names("Columns to use as nodes; all others if not given.")
    kind: str = INPUT.choice(
        *("auto", "wide", "long", "rows", "paths", "counting"),
        help="One column per node (wide), one row per measurement (long), one row per node and one "
        "column per sample (rows), complete paths, or one row per stay (counting: id, from, to, "
        "start, stop, status).",
    )
    samples: str | None = INPUT.flag(
        None,
        "File or sheet that annotates samples: column, time, trajectory, stimulus.",
        metavar="FILE",
    )
    top: int | None = INPUT.whole(None, "Use only the N most variable nodes.", at_least=2)
    counts: str = INPUT.rare.choice(
        *("log", "keep"),
        help="Counts in a table with one column per sample: take log2(1 + count) by the depth of "
        "the sample, or leave them as they are.",
    )
    start: float | None = INPUT.flag(
        None, "Start of every trajectory; its first measurement if not given.", type=NUMBER
    )
    end: float | None = INPUT.flag(
        None, "End of every trajectory; its last measurement if not given.", type=NUMBER
    )
    end_column: str | None = INPUT.rare.flag(
        None, "Column that holds the end of each trajectory.", metavar="COLUMN"
    )
    unit: str | None = INPUT.rare.flag(
        None,
        "Unit of time to convert to; that of the table if not given.",
        type=click.Choice(["s", "min", "h", "days", "weeks", "months", "years"]),
    )
    missing: Sequence[str] = INPUT.names(
        "Further codes for cells that were not measured; NA, n/a, nd, - and the like are known."
    )
    sheet: str | None = INPUT.flag(None, "Sheet of a workbook (.xlsx).", metavar="NAME")
    sort: bool = INPUT.rare.flag(False, "Sort the rows by time first.")
    labels: Sequence[str] = INPUT.names(
        "Nodes whose values are names of states, even where they look like numbers."
    )
    comma: str | None = INPUT.rare.flag(
        None,
        "What commas in numbers are, where a column leaves it open: 1,234 is 1.234 or 1234.",
        type=click.Choice(["decimal", "thousands"]),
    )
    ties: str = INPUT.rare.choice(
        *("error", "order"),
        help="If two nodes jump at the same time: refuse, or take the order of the rows.",
    )
    exact: str | None = INPUT.rare.flag(
        None,
        "Column that marks rows without measurement error; or 'first': the first row of each "
        "trajectory.",
        metavar="COLUMN",
    )


def _about_states(group: Group, metavar: str, help: str) -> Any:
    return group.flag((), help, metavar=metavar)


@dataclass(frozen=True)
class PanelOptions:
    """What the user says about states and transitions (``panel.py``)."""

    allowed: Sequence[str] = _about_states(
        *(MODEL, "[NODE:]1>2,2>3"),
        "Only these transitions can happen; in quotes, or the shell takes > for itself.",
    )
    absorbing: Sequence[str] = _about_states(MODEL, "[NODE:]STATE", "State that is never left.")
    progressive: bool = MODEL.flag(
        False, "Only later states can be entered; the last is never left."
    )
    order: Sequence[str] = _about_states(
        *(MODEL, "[NODE:]mild,severe,dead"),
        "Order of the states; by size or alphabet if not given.",
    )
    exact_entry: Sequence[str] = _about_states(
        *(INPUT, "[NODE:]STATE"),
        "State whose rows say exactly when it was entered, such as death.",
    )
    state_code: Sequence[str] = _about_states(
        *(INPUT, "[NODE:]VALUE=STATE"),
        "Value that stands for a state known for certain, such as 999=dead.",
    )
    censored: Sequence[str] = _about_states(
        *(INPUT, "[NODE:]VALUE=1,2,3"),
        "Value that only says the state is one of several, such as 99=1,2,3.",
    )

    @property
    def restricts(self) -> bool:
        """Whether anything is said about the order of states or about transitions."""
        return bool(self.order or self.allowed or self.absorbing or self.progressive)


@dataclass(frozen=True, kw_only=True)
class Accurate:
    """How accurate inference is to be, and how many chains are drawn."""

    chains: int = SAMPLING.rare.whole(4, "Chains that sampling compares.", at_least=2)

    tolerance: float = COMPUTATION.rare.flag(
        1e-3, "Accuracy of the computed probabilities.", type=POSITIVE
    )
    time_step: float | None = COMPUTATION.rare.flag(
        None, "Time step of the computation; chosen automatically if not given.", type=POSITIVE
    )


# --- the commands ------------------------------------------------------------------------------


@dataclass(frozen=True)
class DemoOptions(Written):
    """Learn a network from example data and compare it with the truth.

    Learn a network of eight genes from example data and compare it with the truth.

    \b
    Example:
      asterism demo -o RUN
      asterism demo --tables .
    """

    output: Path = _run_folder()
    tables: Path | None = OUTPUT.flag(
        None, "Only copy the example's tables to this folder, to try things.", type=FOLDER
    )
    jobs: int = _jobs()


@dataclass(frozen=True)
class CheckOptions(Printed):
    """List everything that is wrong with a table.

    List everything that is wrong with a table, and say what it holds.

    \b
    Example:
      asterism check cells.csv
    """

    table: TableOptions = part(TableOptions)
    max_parents: int = _max_parents(
        "Warn if there are too few measurements to learn this many parents."
    )
    exogenous: Sequence[str] = _exogenous()
    emission: Sequence[str] = _emission()
    states: int | str = _states()
    offset: str = _offset()
    log: Sequence[str] = _log()
    config: Path | None = _config()

    @property
    def quiet(self) -> bool:
        """What is found goes to stdout; for a program nothing else is said."""
        return self.as_json


@dataclass(frozen=True)
class LearnOptions(Accurate, Computed):
    """Learn a network with a probability on every edge.

    Learn a network, with a probability for every edge, from a table of measurements.

    \b
    Examples:
      asterism learn cells.csv
      asterism learn cells.csv -o RUN --max-parents 3 --truth edges.csv
      asterism learn cells.csv --method sample --minutes 10
      asterism learn visits.csv --trajectory patient --emission categorical
    """

    table: TableOptions = part(TableOptions)
    output: Path = _run_folder()
    interventions: Path | None = _interventions()
    stimuli: str | None = _stimuli()
    max_parents: int | None = _max_parents(
        "Largest number of parents of a node.",
        default=None,
        show_default="2 in a search, 3 where graphs are drawn",
    )
    min_parents: int = MODEL.rare.whole(0, "Smallest number of parents of a node.", at_least=0)
    emission: Sequence[str] = _emission()
    states: int | str = _states()
    offset: str = _offset()
    log: Sequence[str] = _log()
    family_prior: str = MODEL.choice(
        *("sparse", "uniform", "by_size"),
        help="Expected before the data: few edges, all sets of parents alike, or all numbers of "
        "parents alike.",
    )
    edge_prior: Path | None = MODEL.file(
        "Table with prior probabilities of edges: parent,child,probability."
    )
    exogenous: Sequence[str] = _exogenous()
    required: Sequence[tuple[str, str]] = MODEL.edges(
        "Edge that must be in the graph; repeat the flag for more."
    )
    forbidden: Sequence[tuple[str, str]] = MODEL.edges(
        "Edge that must not be in the graph; repeat the flag for more."
    )
    panel: PanelOptions = part(PanelOptions)
    prior: tuple[float, float | str] | None = MODEL.flag(
        None,
        "Gamma prior of the rates; auto takes the time scale from the data, by-node that of each "
        "node.  [default: 5,by-node; complete paths: 1,auto]",
        callback=prior,
        metavar="SHAPE[,RATE]",
    )
    initial: str = _initial()
    method: str = SEARCH.choice(
        *("auto", *methods_that_score_graphs()),
        help="How graphs are scored; auto: by the star, then by sampling if the network is small; "
        "sample: by sampling, whatever its size.",
    )
    null: int | None = SEARCH.whole(
        None,
        "Also search N times in permuted data, to see what arises by chance; 0: not at all.  "
        "[default: a quick form where it takes seconds]",
        at_least=0,
        metavar="N",
    )
    cross_validate: int | None = SEARCH.whole(
        None,
        "Also learn from all but one of K parts of the trajectories, and say how well the network "
        "predicts the part left out.",
        at_least=2,
        metavar="K",
    )
    search: str = SEARCH.rare.choice(
        *("auto", *SEARCHES),
        help="Score every set of parents (exhaustive), or only sets of the best candidates "
        "(screened).",
    )
    candidates: int = SEARCH.rare.whole(
        10, "Candidate parents of each node that a screened search keeps."
    )
    n_init: int = SEARCH.rare.whole(1, "Number of graphs from which the search starts.")
    refine_emissions: bool = SEARCH.rare.flag(
        False, "Fit learned emissions again on the graph that was found."
    )
    hidden: int = SEARCH.rare.whole(
        0,
        "Add up to N nodes that nobody measured, each begun as the common cause of a group of "
        "nodes that edges tie together.",
        at_least=0,
        metavar="N",
    )
    resume: bool = SEARCH.flag(False, "Continue an interrupted run.")
    max_sweeps: int = COMPUTATION.rare.whole(20, "Largest number of sweeps over all nodes.")
    scheduler: str | None = COMPUTATION.rare.flag(
        None,
        "Score on the workers of this dask scheduler, such as tcp://host:8786.",
        metavar="ADDRESS",
        callback=address,
    )
    graph: str = OUTPUT.choice(
        *("probable", "map"),
        help="Show the edges that reach --threshold, or the most probable parents of each node.",
    )
    threshold: float = OUTPUT.flag(
        0.5, "An edge is in the graph from this probability on.", type=PROBABILITY
    )
    truth: Path | None = _truth()
    title: str | None = _title()

    @property
    def parents_searched(self) -> int:
        """Largest number of parents of a node in a search."""
        return _PARENTS if self.max_parents is None else self.max_parents


@dataclass(frozen=True)
class FitOptions(Computed):
    """Fit the rates of a given graph, with intervals.

    Fit the rates of a given graph, or of one node, with intervals and hazard ratios.

    \b
    Examples:
      asterism fit visits.csv --nodes state --absorbing dead --exact-entry dead
      asterism fit visits.csv --nodes state --allowed "1>2,2>3" --covariate sex --covariate age
      asterism fit cells.csv --edges edges.csv -o RUN
    """

    table: TableOptions = part(TableOptions)
    panel: PanelOptions = part(PanelOptions)
    network: Path | None = MODEL.file("The graph with its states, a network JSON file.")
    edges: Path | None = MODEL.file("The graph: a table with parent,child.")
    output: Path = _run_folder()
    covariate: Sequence[str] = MODEL.flag(
        (),
        "Column that changes the rates of all nodes and transitions, or of some.",
        metavar="COLUMN[:NODE][:1>2,…]",
    )
    outcome_covariate: Sequence[str] = MODEL.flag(
        (),
        "Column that changes what is measured in a state: the mean, or the odds of wrong reports.",
        metavar="COLUMN[:NODE][:STATES]",
    )
    start_covariate: Sequence[str] = MODEL.flag(
        (),
        "Column that changes the probabilities of the states at the start.",
        metavar="COLUMN[:NODE]",
    )
    equal_effects: Sequence[str] = MODEL.names(
        "Covariates with one effect for all of their transitions, or states."
    )
    reference: Sequence[str] = MODEL.flag(
        (),
        "Value of a covariate at which baseline rates are given, and with which the levels of a "
        "category are compared.",
        metavar="COLUMN=VALUE",
    )
    change_times: Sequence[str] = MODEL.names(
        "Times at which all rates change; between them they are constant.", metavar="T1,T2,…"
    )
    frailty: Sequence[str] = MODEL.flag(
        (),
        "Node whose rates differ between trajectories by a factor of each (:up-down for one factor "
        "up and one down); auto for those nodes where the evidence asks for it.",
        metavar="NODE[:up-down]|auto",
    )
    fix: Sequence[str] = _about_states(MODEL, "[NODE:]1>2=RATE", "A rate that is known.")
    equal: Sequence[str] = _about_states(MODEL, "[NODE:]1>2=2>3", "Rates that are equal.")
    misreported: Sequence[str] = _about_states(
        *(MODEL, "[NODE:]1>2,…"),
        "States may be misreported: true>reported, only in these ways.",
    )
    obstype: str | None = INPUT.flag(
        None,
        "Column that says row by row what was seen: 1 the state at a visit, 2 an exact transition "
        "with no change before it, 3 an exact entry from an unknown state.",
        metavar="COLUMN",
    )
    ignore: Sequence[str] = INPUT.names("Columns to leave out.")
    emission: Sequence[str] = _emission()
    states: int = MODEL.whole(2, "Hidden states of measured numbers.", at_least=2)
    method: str = COMPUTATION.flag(
        "auto",
        "How the hidden states between measurements are computed.",
        metavar="|".join(("auto", *methods_that_learn_rates())),
    )
    prior: tuple[float, float | str] | None = MODEL.flag(
        None,
        "Gamma prior of the rates; maximum likelihood if not given.",
        callback=lambda c, p, v: prior(c, p, v, alone="auto"),
        metavar="SHAPE[,RATE]",
    )
    initial: str = _initial()
    level: float = OUTPUT.flag(
        0.95, "Level of the intervals.", type=click.FloatRange(0, 1, min_open=True, max_open=True)
    )
    n_init: int = COMPUTATION.rare.whole(1, "Number of starts; the best fit is kept.")
    title: str | None = _title()


@dataclass(frozen=True)
class InferOptions(Accurate, Computed):
    """Infer the hidden states of a given network over time.

    Infer the states of the nodes of a given network, at and between the measurements.

    \b
    Example:
      asterism infer cells.csv --network network.json -o RUN
    """

    table: TableOptions = part(TableOptions)
    network: Path = MODEL.file("The network, a JSON file.", required=True)
    output: Path = _run_folder()
    interventions: Path | None = _interventions()
    emission: Sequence[str] = _emission()
    method: str = COMPUTATION.choice(
        *METHODS, help="Approximations for any size, or exact for small networks."
    )
    max_sweeps: int = COMPUTATION.rare.whole(200, "Largest number of iterations for a trajectory.")
    unverified: bool = _unverified()


@dataclass(frozen=True)
class SimulateOptions(Computed):
    """Simulate measurements of a network.

    Simulate measurements of a network.

    \b
    Examples:
      asterism simulate network.json -o data.csv --trajectories 50
      asterism simulate --glauber tree:14 -o data.csv --save-truth edges.csv
      asterism simulate --random 5 -o paths.csv --paths
    """

    network: Path | None = argument(type=FILE, required=False)
    glauber: str | None = MODEL.flag(
        None,
        "Spins that align with their parents on tree:N, plain-tree:N, chain:N, ring:N, cycle:N, "
        "empty:N, full:N or random:N.",
        metavar="GRAPH",
    )
    random: int | None = MODEL.whole(None, "Simulate a random network with N nodes.", metavar="N")
    output: Path = OUTPUT.flag(Path("DATA.csv"), "The table to write.", "-o", "--output", type=FILE)
    trajectories: int = MODEL.whole(20, "Number of trajectories.")
    duration: float | None = MODEL.flag(
        None,
        "Length of each trajectory; 10 if neither this nor --transitions is given.",
        type=AMOUNT,
    )
    transitions: int | None = MODEL.whole(
        None, "Number of jumps of each trajectory, instead of --duration.", at_least=0
    )
    observations: int = MODEL.whole(10, "Number of measurements of each trajectory.")
    interval: float | None = MODEL.flag(
        None, "Time between measurements; at random times if not given.", type=POSITIVE
    )
    missing: float = MODEL.flag(
        0.0, "Share of the values that are missing.", type=click.FloatRange(0, 1, max_open=True)
    )
    emission: Sequence[str] = _emission()
    paths: bool = OUTPUT.flag(False, "Write complete paths instead of measurements.")
    a: float = MODEL.flag(1.0, "Glauber rate.", "-a", type=POSITIVE)
    b: float = MODEL.flag(0.6, "Glauber coupling.", "-b", type=float)
    anti_align: bool = MODEL.rare.flag(
        False, "Spins avoid the state of their parents (the sign printed in the paper)."
    )
    max_parents: int = _max_parents("Largest number of parents in random graphs.")
    n_states: int = MODEL.whole(2, "Number of states of each node, with --random.", at_least=2)
    save_network: Path | None = OUTPUT.flag(None, "Also write the network, as JSON.", type=FILE)
    save_truth: Path | None = OUTPUT.flag(None, "Also write the true edges, as a table.", type=FILE)


@dataclass(frozen=True)
class ReportOptions(Written):
    """Write the report page of a run, and figures.

    Write the report page of a results folder, and figures for papers.

    \b
    Example:
      asterism report RUN --figures
      asterism report RUN --threshold 0.8 --node GAL4 --format pdf,svg
    """

    run: Path = argument(type=OLD_FOLDER)
    output: Path | None = OUTPUT.flag(
        None, "The page; RUN/report.html if not given.", "-o", "--output", type=FILE
    )
    threshold: float = OUTPUT.flag(
        0.5, "Show edges with at least this probability.", type=click.FloatRange(0, 1)
    )
    nodes: Sequence[str] = OUTPUT.names(
        "Nodes whose state probabilities are drawn; the page starts with the first.", "--node"
    )
    figures: bool = OUTPUT.flag(False, "Also write figures, as PNG, SVG and PDF.")
    formats: Sequence[str] = OUTPUT.names(
        "Write figures in these formats only.", "--format", metavar="png,svg,pdf"
    )
    truth: Path | None = _truth()
    unverified: bool = _unverified()


@dataclass(frozen=True)
class CompareOptions(Written):
    """Set runs side by side on one page.

    Compare runs with the first: edges gained, lost and changed, and how sure that is.

    \b
    Example:
      asterism compare CONTROL TREATED -o COMPARED
    """

    runs: Sequence[Path] = argument(
        type=OLD_FOLDER, nargs=-1, required=True, metavar="RUN1 RUN2 ..."
    )
    output: Path = _new_folder("Folder for the page and a table.")
    names: Sequence[str] = OUTPUT.names(
        "What to call the runs; the names of their folders if not given."
    )
    title: str | None = OUTPUT.flag(None, "Title of the page.")
    unverified: bool = _unverified()


@dataclass(frozen=True)
class ReproduceOptions(Written):
    """Make a figure or table of the paper again.

    Make a figure or table of the paper again, beside its printed numbers.

    \b
    Example:
      asterism reproduce irma --quick --data DATA -o OUT
    """

    name: str = argument(metavar="fig2|fig3|table1|fig4|irma|dream4")
    output: Path = _new_folder("Folder for the results.")
    quick: bool = COMPUTATION.flag(False, "A small version, in minutes.")
    data: Path | None = INPUT.flag(
        None, "Folder with the published measurements (irma, dream4).", type=OLD_FOLDER
    )


@dataclass(frozen=True)
class ConvertOptions(Written):
    """Convert files of other tools.

    Convert files of other tools.

    Formats: FORMATS.

    \b
    Examples:
      asterism convert trajectories.csv paths.csv --from pyagrum
      asterism convert DATA.mat likelihoods.csv --nodes SWI5,CBF1,GAL4,GAL80,ASH1
      asterism convert network.json graph.graphml
    """

    source: Path = argument(type=READABLE)
    target: Path = argument(type=FILE)
    from_format: str | None = INPUT.file_format(
        "--from", "Format of SOURCE; recognised from its content if not given."
    )
    to_format: str | None = OUTPUT.file_format(
        "--to", "Format of TARGET; taken from its ending if not given."
    )
    nodes: Sequence[str] = INPUT.names("Names of the nodes of a .mat file.")
    index: int = INPUT.whole(0, "Which entry of a PyCTBN file to read.", at_least=0)
    network: Path | None = INPUT.file("Network to write with paths for PyCTBN.")


@dataclass(frozen=True, kw_only=True)
class WarmUpOptions(Printed):
    """Compile everything now, for containers and clusters.

    Compile now what the first commands would compile.

    Machine code is kept beside the package, or in NUMBA_CACHE_DIR if that is set.

    \b
    Example:
      NUMBA_CACHE_DIR=/opt/asterism-cache asterism warm-up --quiet
    """

    quiet: bool = OUTPUT.flag(False, "Print only warnings.", "-q", "--quiet")


@dataclass(frozen=True)
class AppOptions(Printed):
    """Learn, watch and compare on a page in the browser.

    Open a page in the browser: drop a table, mend how it is read, learn, compare.

    The address that is printed holds a token; nobody gets in without it. Needs asterism[app].

    \b
    Example:
      asterism app --folder runs
    """

    port: int = COMPUTATION.whole(0, "Port on this machine; any free one if 0.", at_least=0)
    browser: bool = OUTPUT.flag(
        True, "Open the page in the browser.", "--browser/--no-browser", show_default=False
    )
    folder: Path = OUTPUT.flag(Path("asterism-runs"), "Folder for the runs.", type=FOLDER)
    quiet: bool = OUTPUT.flag(False, "Print only the address.", "-q", "--quiet")
