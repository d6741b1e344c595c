"""``asterism simulate``: measurements, or complete paths, of a network whose truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from asterism.commands.console import Console, Done
from asterism.commands.emissions import parse_emission
from asterism.commands.exits import Refused
from asterism.commands.options import SimulateOptions
from asterism.commands.outputs import require_file
from asterism.data.files import write_table
from asterism.errors import ModelError, counted
from asterism.model.emissions import Exact, Gaussian
from asterism.model.network import Network

#: noise of the default emission: the paper's
SCALE = 0.2


def run(options: SimulateOptions, console: Console) -> Done:
    """Simulate and write the table, and what was asked for beside it."""
    from asterism.commands.own_files import write_edges
    from asterism.simulation.simulator import observe, simulate

    written = [options.output, options.save_network, options.save_truth]
    for path in filter(None, written):
        require_file(path, options.force)
        path.parent.mkdir(parents=True, exist_ok=True)
    network = make_network(options)
    if options.emission and len(network.drifts) == network.n_nodes:
        raise Refused("The noise of continuous nodes is in the network: leave out --emission.")
    duration = options.duration
    if duration is None and options.transitions is None:
        duration = 10.0
    with console.progress() as progress:
        drawn = simulate(
            network,
            n_trajectories=options.trajectories,
            duration=duration,
            n_transitions=options.transitions,
            seed=[options.seed, 0],
            n_jobs=options.jobs,
            minutes=options.minutes,
            progress=progress,
        )
    if options.paths and network.drifts:
        write_table(options.output, drawn.to_frame())
        amount = "fine paths"
    elif options.paths:
        drawn.save(options.output)
        amount = counted(drawn.n_jumps, "jump")
    else:
        observed = observe(
            drawn,
            _emissions(options.emission, network),
            n_observations=options.observations,
            interval=options.interval,
            missing=options.missing,
            seed=[options.seed, 1],
        )
        observed.to_csv(options.output)
        amount = counted(observed.n_measurements, "measurement")
    if options.save_network is not None:
        network.save(options.save_network)
    if options.save_truth is not None:
        edges = [(p, child) for child in network.nodes for p in network.parents[child]]
        write_edges(edges, options.save_truth)
    console.say(
        f"{options.output}: {amount} of {counted(network.n_nodes, 'node')} in "
        f"{counted(options.trajectories, 'trajectory')}, seed {options.seed}."
    )
    return Done(
        {
            "output": str(options.output),
            "n_nodes": network.n_nodes,
            "n_trajectories": options.trajectories,
            "n_jumps": None if network.drifts else drawn.n_jumps,
            "seed": options.seed,
        }
    )


def make_network(options: SimulateOptions) -> Network:
    """The one network that was asked for."""
    asked = [options.network, options.glauber, options.random]
    if sum(one is not None for one in asked) != 1:
        raise Refused(
            "Name one network: a file NETWORK.json, --glauber GRAPH (such as tree:14) or "
            "--random N."
        )
    from asterism.model.generators import glauber, random_network
    from asterism.model.names import random_parents

    if options.network is not None:
        if not options.network.is_file():
            raise Refused(f"There is no file {str(options.network)!r}.")
        return Network.load(options.network)
    if options.random is not None:
        return random_network(
            options.random, options.n_states, options.max_parents, seed=options.seed
        )
    graph: Any = options.glauber
    kind, _, size = str(graph).partition(":")
    if kind == "random":
        if not size.isdigit() or int(size) < 1:
            raise Refused(f"--glauber {graph!r}: write random:N with the number of nodes.")
        graph = random_parents(int(size), 0, options.max_parents, seed=options.seed)
    try:
        return glauber(graph, a=options.a, b=options.b, align=not options.anti_align)
    except ModelError as error:
        raise Refused(str(error)) from None  # there is no file that could be wrong


def _emissions(specifications: Sequence[str], network: Network) -> dict[str, Any]:
    """Gaussian levels from −1 to 1 where nothing else was asked for.

    Beside continuous nodes the states themselves are then seen.
    """
    result: dict[str, Any] = {}
    jumping = [node for node in network.nodes if node not in network.drifts]
    for node in jumping:
        size = len(network.states[node])
        usual = Gaussian(tuple(np.linspace(-1.0, 1.0, size)), SCALE)
        result[node] = Exact() if network.drifts else usual
    for text in specifications:
        name, equals, kind = text.rpartition("=")
        if equals and name not in result:
            raise Refused(f"--emission {text!r} names {name!r}, which is not a node that jumps.")
        for node in [name] if equals else jumping:
            size = len(network.states[node])
            made = parse_emission(kind, size)
            if None in (getattr(made, "means", 0), getattr(made, "scale", 0)):
                raise Refused(
                    f"--emission {text!r} leaves parameters open, which a simulation needs: "
                    "write gaussian:-1,1:0.2 or poisson:1,10."
                )
            if made.n_states not in (None, size):
                raise Refused(
                    f"--emission {text!r} is for {made.n_states} states, but node {node!r} has "
                    f"{size}."
                )
            result[node] = made
    return result
