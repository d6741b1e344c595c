"""Speed of a sweep with two, three, four and five states per node: nanoseconds, and ratios.

Prints a table and writes it to a folder: python benchmarks/states.py -o out/ [--before SRC]
Nodes on a circle, each led by the one before it; noisy measurements; equal steps. The cases take
turns, and the shortest processor time of each counts, so that a busy machine disturbs the ratios
little. "chain" allows jumps between neighbouring states only. With ``--before``, the source folder
of another version, that version is measured first, by the same script.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import Row, option_parser, show_and_write, side_by_side, told_by

import asterism as am

try:
    from asterism.star.batch import make_batch, run
    from asterism.star.problem import Parameters
    from asterism.timeline.build import build_evidence
except ModuleNotFoundError:  # where version 0.1 has them
    from asterism.inference.batch import make_batch, run
    from asterism.inference.evidence_builder import build_evidence
    from asterism.inference.parameters import Parameters

_NODES = 10
_SWEEPS = 6
LIMITS = {3: 4.0, 4: 8.0}


def circle(n_states: int, *, chain: bool, seed: int = 0) -> am.Network:
    """Random rates; every state is left at a total rate of about one."""
    rng = np.random.default_rng(seed)
    names = [f"n{i}" for i in range(_NODES)]
    rates = np.exp(rng.uniform(np.log(0.25), np.log(4.0), (_NODES, *[n_states] * 3)))
    distance = np.abs(np.subtract.outer(np.arange(n_states), np.arange(n_states)))
    rates *= (distance == 1) if chain else (distance > 0)
    rates /= rates.sum(axis=-1).mean()
    return am.Network(
        {n: [names[i - 1]] for i, n in enumerate(names)},
        dict(zip(names, rates)),
        states={n: [str(s) for s in range(n_states)] for n in names},
    )


def measured_circle(
    n_states: int, *, chain: bool, n_trajectories: int = 2, duration: float = 40.0
) -> tuple[am.Network, Any]:
    """The network, and twenty noisy values of each node and trajectory."""
    network = circle(n_states, chain=chain)
    emission = am.Gaussian(means=tuple(float(s) for s in range(n_states)), scale=0.5)
    paths = am.simulate(network, n_trajectories, duration=duration, seed=1)
    values = am.observe(paths, emission, n_observations=20, seed=2)
    return network, build_evidence(network, values, emission)


def sweeps_of(n_states: int, *, corrected: bool, chain: bool = False, step: float = 0.1) -> Any:
    """A function that sweeps, and the number of nodes × steps × sweeps that it does."""
    network, evidence = measured_circle(n_states, chain=chain)
    compiled = network.compiled
    batch = make_batch(
        evidence,
        compiled.graph,
        compiled.relaxation_rate,
        1.0,
        time_step=step,
        is_corrected=corrected,
    )
    parameters = Parameters.of(compiled, "star")

    def work() -> None:
        run(batch, parameters, tolerance=0.0, max_sweeps=_SWEEPS)

    return work, _NODES * int(batch.grid.step_start[-1]) * _SWEEPS


def measure(repeats: int = 30) -> list[Row]:
    """Rows of the table: nanoseconds per node, step and sweep, then ratios to two states."""
    rows: list[Row] = []
    cases = [(size, False) for size in (2, 3, 4, 5)] + [(5, True)]
    for corrected in (False, True):
        kind = "corrected steps" if corrected else "plain steps"
        work = [sweeps_of(size, corrected=corrected, chain=chain) for size, chain in cases]
        best = [float("inf")] * len(cases)
        for sweep, _ in work:
            sweep()
        for _ in range(repeats):
            for i, (sweep, n_updates) in enumerate(work):
                begin = time.process_time()
                sweep()
                best[i] = min(best[i], 1e9 * (time.process_time() - begin) / n_updates)
        for (size, chain), value in zip(cases, best):
            name = f"{size} states{' in a chain' if chain else ''}, {kind}"
            rows.append((f"{name}, ns", value, ""))
            if size > 2:
                limit = "" if chain or size not in LIMITS else f"at most {LIMITS[size]:g}"
                rows.append((f"{name}, times two states", value / best[0], limit))
    return rows


def clusters(repeats: int = 5) -> list[Row]:
    """The same for clusters, whose joint states are many and jumps few."""
    from asterism.engine.rules.clusters import solve

    rows: list[Row] = []
    work = {}
    for size in (2, 3, 4):
        network, evidence = measured_circle(size, chain=False, n_trajectories=1, duration=10.0)

        def sweeps(network: Any = network, evidence: Any = evidence) -> int:
            found = solve(network, evidence, time_step=0.2, max_sweeps=_SWEEPS)
            return int(found.n_sweeps)

        work[size] = sweeps
        sweeps()
    best = dict.fromkeys(work, float("inf"))
    for _ in range(repeats):
        for size, sweeps in work.items():
            begin = time.process_time()
            n = sweeps()
            best[size] = min(best[size], (time.process_time() - begin) / n)
    for size in (3, 4):
        rows.append((f"clusters, {size} states, times two states", best[size] / best[2], ""))
        pairs = (size**2 * 2 * (size - 1)) / 8
        rows.append((f"clusters, {size} states, jumps of a pair, times two states", pairs, ""))
        rows.append((f"clusters, {size} states, full matrix of a pair, the same", size**4 / 16, ""))
    return rows


def main() -> None:
    parser = option_parser(__doc__, "benchmarks/results")
    parser.add_argument("--before", type=Path, help="src folder of another version")
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--tell", action="store_true", help="print JSON only")
    options = parser.parse_args()
    if options.tell:
        print(json.dumps(measure(options.repeats)))
        return
    repeats = ("--repeats", str(options.repeats))
    before = told_by(__file__, options.before, "--tell", *repeats) if options.before else None
    rows = measure(options.repeats)
    if before is not None:
        rows = side_by_side(before, rows)
    rows += clusters()
    show_and_write(rows, options.output / "states.csv")


if __name__ == "__main__":
    main()
