"""The flags of single commands, where they are many, and those about states (``panel.py``).

Flags that most commands share are in ``options.py``.
"""

from __future__ import annotations

from pathlib import Path

import click

from asterism.commands import options as o
from asterism.inference.methods import (
    METHODS,
    methods_that_learn_rates,
    methods_that_score_graphs,
)
from asterism.learning.search.searches import SEARCHES

#: in the order in which help lists them
panel_options: o.Decorator = o.several(
    click.option(
        "--allowed",
        multiple=True,
        metavar="[NODE:]1>2,2>3",
        help="Only these transitions can happen; in quotes, or the shell takes > for itself.",
    ),
    click.option(
        "--absorbing", multiple=True, metavar="[NODE:]STATE", help="State that is never left."
    ),
    o.switch("--progressive", help="Only later states can be entered; the last is never left."),
    click.option(
        "--order",
        multiple=True,
        metavar="[NODE:]mild,severe,dead",
        help="Order of the states; by size or alphabet if not given.",
    ),
    click.option(
        "--exact-entry",
        multiple=True,
        metavar="[NODE:]STATE",
        help="State whose rows say exactly when it was entered, such as death.",
    ),
    click.option(
        "--state-code",
        multiple=True,
        metavar="[NODE:]VALUE=STATE",
        help="Value that stands for a state known for certain, such as 999=dead.",
    ),
    click.option(
        "--censored",
        multiple=True,
        metavar="[NODE:]VALUE=1,2,3",
        help="Value that only says the state is one of several, such as 99=1,2,3.",
    ),
)

#: those of ``panel_options``
PANEL_FLAGS = (
    *("allowed", "absorbing", "progressive"),
    *("exact_entry", "state_code", "censored", "order"),
)

INTERVENTIONS = o.file(
    "--interventions", "Table of nodes set by the experimenter: trajectory,node,start,end,state."
)

learn_options: o.Decorator = o.several(
    o.table_options,
    o.run_option,
    o.max_parents_option("Largest number of parents of a node."),
    o.whole("--min-parents", 0, "Smallest number of parents of a node.", at_least=0),
    o.choice(
        *("--family-prior", "sparse", "uniform", "by_size"),
        help="Expected before the data: few edges, all sets of parents alike, or all numbers of "
        "parents alike.",
    ),
    o.file("--edge-prior", "Table with prior probabilities of edges: parent,child,probability."),
    INTERVENTIONS,
    o.choice(
        *("--graph", "probable", "map"),
        help="Show the edges that reach --threshold, or the most probable parents of each node.",
    ),
    o.setting(
        "--threshold",
        type=click.FloatRange(0, 1, min_open=True),
        default=0.5,
        help="An edge is in the graph from this probability on.",
    ),
    click.option(
        "--minutes",
        type=o.POSITIVE,
        metavar="M",
        help="Time to spend: sampling takes what the star search leaves of it.",
    ),
    click.option(
        "--null",
        type=click.IntRange(min=1),
        metavar="N",
        help="Also search N times in permuted data, to see what arises by chance.",
    ),
    o.emission_option,
    o.states_option,
    o.switch("--refine-emissions", help="Fit learned emissions again on the graph that was found."),
    o.prior_option,
    click.option(
        "--sample",
        is_flag=False,
        flag_value=0.0,
        default=None,
        type=o.AMOUNT,
        metavar="[MINUTES]",
        help="Draw graphs, rates and paths from their posterior, for at most MINUTES minutes.",
    ),
    o.choice(
        *("--method", "auto", *methods_that_score_graphs()),
        help="How hidden states are computed; auto: by the star, then by sampling if the network "
        "is small.",
    ),
    o.choice(
        *("--search", "auto", *SEARCHES),
        help="Score every set of parents (exhaustive), or only sets of the best candidates "
        "(screened).",
    ),
    o.whole("--candidates", 10, "Candidate parents of each node that a screened search keeps."),
    o.choice(
        *("--initial", "learn", "uniform"),
        help="How probable each state is at the start of a trajectory.",
    ),
    o.several_names(
        "--exogenous",
        "Nodes set from outside, such as a treatment: they can be parents, but have none.",
    ),
    panel_options,
    o.several_edges("--required", "Edge that must be in the graph; repeat the flag for more."),
    o.several_edges("--forbidden", "Edge that must not be in the graph; repeat the flag for more."),
    o.whole("--n-init", 1, "Number of graphs from which the search starts."),
    o.accuracy_options(
        tolerance="Accuracy of the computed probabilities.",
        time_step="Time step of the computation; chosen automatically if not given.",
        max_sweeps="Largest number of sweeps over all nodes.",
        n_sweeps=20,
    ),
    o.jobs_option,
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="Score on the workers of this dask scheduler, such as tcp://host:8786.",
    ),
    o.seed_option,
    o.truth_option,
    o.switch("--resume", help="Continue an interrupted run."),
    click.option("--title", help="Title of the report."),
    o.config_option,
    o.result_options,
)

fit_options: o.Decorator = o.several(
    o.table_options,
    o.file("--network", "The graph with its states, a network JSON file."),
    o.file("--edges", "The graph: a table with parent,child."),
    panel_options,
    click.option(
        "--covariate",
        multiple=True,
        metavar="COLUMN[:NODE][:1>2,…]",
        help="Column that changes the rates of all nodes and transitions, or of some.",
    ),
    o.several_names("--equal-effects", "Covariates with one effect for all of their transitions."),
    click.option("--fix", multiple=True, metavar="[NODE:]1>2=RATE", help="A rate that is known."),
    click.option("--equal", multiple=True, metavar="[NODE:]1>2=2>3", help="Rates that are equal."),
    click.option(
        "--misreported",
        multiple=True,
        metavar="[NODE:]1>2,…",
        help="States may be misreported: true>reported, only in these ways.",
    ),
    o.several_names("--ignore", "Columns to leave out."),
    o.run_option,
    o.emission_option,
    o.whole("--states", 2, "Hidden states of measured numbers.", at_least=2),
    click.option(
        "--method",
        default="auto",
        show_default=True,
        metavar="|".join(("auto", *methods_that_learn_rates())),
        help="How the hidden states between measurements are computed.",
    ),
    click.option(
        "--prior",
        callback=lambda c, p, v: o.prior(c, p, v, alone="auto"),
        metavar="SHAPE[,RATE]",
        help="Gamma prior of the rates; maximum likelihood if not given.",
    ),
    o.choice("--initial", "learn", "uniform", help="How probable each state is at the start."),
    o.setting(
        "--level",
        type=click.FloatRange(0, 1, min_open=True, max_open=True),
        default=0.95,
        help="Level of the intervals.",
    ),
    o.whole("--n-init", 1, "Number of starts; the best fit is kept."),
    o.minutes_option,
    o.jobs_option,
    o.seed_option,
    click.option("--title", help="Title of the report."),
    o.config_option,
    o.result_options,
)

simulate_options: o.Decorator = o.several(
    click.argument("network", type=o.FILE, required=False),
    click.option(
        "--glauber",
        metavar="GRAPH",
        help="Spins that align with their parents on tree:N, plain-tree:N, chain:N, ring:N, "
        "cycle:N, empty:N, full:N or random:N.",
    ),
    click.option(
        "--random",
        type=click.IntRange(min=1),
        metavar="N",
        help="Simulate a random network with N nodes.",
    ),
    o.setting(
        *("-o", "--output"), type=o.FILE, default=Path("DATA.csv"), help="The table to write."
    ),
    o.whole("--trajectories", 20, "Number of trajectories."),
    click.option(
        "--duration",
        type=o.AMOUNT,
        help="Length of each trajectory; 10 if neither this nor --transitions is given.",
    ),
    click.option(
        "--transitions",
        type=click.IntRange(min=0),
        help="Number of jumps of each trajectory, instead of --duration.",
    ),
    o.whole("--observations", 10, "Number of measurements of each trajectory."),
    click.option(
        "--interval",
        type=o.POSITIVE,
        help="Time between measurements; at random times if not given.",
    ),
    o.setting(
        "--missing",
        type=click.FloatRange(0, 1, max_open=True),
        default=0.0,
        help="Share of the values that are missing.",
    ),
    o.emission_option,
    o.switch("--paths", help="Write complete paths instead of measurements."),
    o.setting("-a", type=o.POSITIVE, default=1.0, help="Glauber rate."),
    o.setting("-b", type=float, default=0.6, help="Glauber coupling."),
    o.switch(
        "--anti-align",
        help="Spins avoid the state of their parents (the sign printed in the paper).",
    ),
    o.max_parents_option("Largest number of parents in random graphs."),
    o.whole("--n-states", 2, "Number of states of each node, with --random.", at_least=2),
    o.new_file("--save-network", "Also write the network, as JSON."),
    o.new_file("--save-truth", "Also write the true edges, as a table."),
    o.minutes_option,
    o.jobs_option,
    o.seed_option,
    o.config_option,
    o.result_options,
)

infer_options: o.Decorator = o.several(
    o.table_options,
    o.file("--network", "The network, a JSON file.", required=True),
    o.run_option,
    INTERVENTIONS,
    o.emission_option,
    o.choice(
        *("--method", *METHODS),
        help="Approximations for any size, or exact for small networks.",
    ),
    o.accuracy_options(
        tolerance="Accuracy of the computed probabilities.",
        time_step="Time step of the computation; chosen automatically if not given.",
        max_sweeps="Largest number of iterations for a trajectory.",
        n_sweeps=200,
    ),
    o.minutes_option,
    o.jobs_option,
    o.unverified_option,
    o.config_option,
    o.result_options,
)

report_options: o.Decorator = o.several(
    click.argument("run", type=o.OLD_FOLDER),
    click.option("-o", "--output", type=o.FILE, help="The page; RUN/report.html if not given."),
    o.setting(
        "--threshold",
        type=click.FloatRange(0, 1),
        default=0.5,
        help="Show edges with at least this probability.",
    ),
    click.option(
        *("--node", "nodes"),
        multiple=True,
        callback=o.names,
        metavar="A,B,…",
        help="Nodes whose courses are drawn; the page starts with the first.",
    ),
    o.switch("--figures", help="Also write figures, as PNG, SVG and PDF."),
    click.option(
        *("--format", "formats"),
        multiple=True,
        callback=o.names,
        metavar="png,svg,pdf",
        help="Write figures in these formats only.",
    ),
    o.truth_option,
    o.unverified_option,
    o.result_options,
)
