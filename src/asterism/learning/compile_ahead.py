"""Compiles, in a process of its own, the kernels that a search needs last.

numba compiles one function at a time, and the kernel that sweeps takes most of it. While the main
process compiles that one from its beginning, a second process (this module, run by itself) compiles
its other end, and then the kernels that score families and read off courses, on a toy problem. Both
find each other's results in numba's cache on disk. Only the first search after an installation has
anything to compile.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from asterism.numerics.child_process import start_child


@contextmanager
def compiling_ahead(screened: bool) -> Iterator[None]:
    """Run the second process beside a screened search, if there is anything to compile."""
    if not screened or (os.cpu_count() or 1) < 2 or _is_compiled():
        yield
        return
    process = start_child(
        "asterism.learning.compile_ahead",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        # numba writes its cache files whole: nothing half-written stays behind
        process.kill()
        process.wait()


def _is_compiled() -> bool:
    from asterism.learning.search._local import score_families
    from asterism.numerics._jit import is_on_disk

    return is_on_disk(score_families)


def compile_kernels() -> None:
    """Call the kernels on two nodes with two measurements each."""
    import numpy as np
    import pandas as pd

    from asterism.data.observations import Observations
    from asterism.evidence.build import build_evidence
    from asterism.learning.search.score import make_scorer
    from asterism.learning.search.screened import score_piece
    from asterism.learning.tasks import SharedInput
    from asterism.model.emissions import Gaussian
    from asterism.model.network import Network
    from asterism.star import _grid_steps as refinement
    from asterism.star._between_points import marginals_at
    from asterism.star._readings import Messages
    from asterism.star.batch import make_batch

    rates = np.array([[-1.0, 1.0], [1.0, -1.0]])
    network = Network({"a": [], "b": []}, {"a": rates, "b": rates})
    table = pd.DataFrame({"trajectory": 0, "time": [0.0, 1.0], "a": [-1.0, 1.0], "b": [1.0, -1.0]})
    evidence = build_evidence(network, Observations.from_frame(table), Gaussian((-1, 1), 0.5))
    allowed = (~np.eye(2, dtype=bool),) * 2
    scorer = make_scorer(
        evidence, [2, 2], allowed, 5.0, 5.0, "star", network.compiled.initial, (rates,) * 2,
        relaxation_rate=2.0, step=0.5,
    )  # fmt: skip
    problem = scorer.problem_of(((), ()))
    _compile_end_of_sweep(problem)
    # the courses in the end are computed on corrected steps, and compared between two grids
    coarse, fine = (
        make_batch(evidence, network.compiled.graph, 2.0, 0.5, n, is_corrected=True) for n in (1, 2)
    )
    coarse.moments[:] = 1.0
    grids = (coarse.problem, coarse.moments, fine.problem, fine.moments, np.array([0]))
    refinement.prolong(*grids, np.array([2]))
    refinement.largest_change(*grids, np.array([2]), np.zeros(1))
    steps = len(problem.width)
    shared = SharedInput(
        problem=problem,
        table=network.compiled.rates,
        initial=network.compiled.initial,
        geometric=False,
        moments=np.tile(problem.width / 2.0, 8),
        lone_rates=(rates,) * 2,
        allowed=allowed,
        shape=5.0,
        rate=5.0,
        digamma=False,
    )
    score_piece(shared, np.array([0]), [np.array([[-1], [1]])])
    messages = Messages(
        np.zeros(8 * steps),
        np.ones(4 * (steps + 1)),
        np.ones(4 * (steps + 1)),
        np.full((2, steps), -1, dtype=np.int32),
        np.full((2, steps + 1), -1, dtype=np.int32),
    )
    marginals_at(
        problem,
        0,
        messages,
        problem.width,
        np.ones(steps + 1, dtype=np.bool_),
        np.array([0]),
        np.zeros(1),
        np.zeros((1, 4)),
    )


def _compile_end_of_sweep(problem: Any) -> None:
    """What ``star._solve.iterate`` calls after the generators: the last first."""
    from numba import boolean, float64, int64, typeof, types

    from asterism.star import _buffers as buffers
    from asterism.star import _messages as passes
    from asterism.star import _messages as sweep
    from asterism.star import _node as node_steps
    from asterism.star import _readings as readings
    from asterism.star import _solve as anderson
    from asterism.star import _solve as statistics

    def compiled(dispatcher: Any, *arguments: Any) -> Any:
        """The type of what it returns."""
        dispatcher.compile(arguments)
        return dispatcher.overloads[arguments].signature.return_type

    data = typeof(problem)  # type: ignore[no-untyped-call]
    row, table = float64[::1], float64[:, ::1]
    work = compiled(buffers.make_work, data, int64)
    states = types.int32[:, ::1]
    members = (row, row, row, states, states)
    messages = types.NamedTuple(members, readings.Messages)  # type: ignore[no-untyped-call]
    memory = compiled(anderson.make_history, int64)
    compiled(statistics.add_statistics, data, row, boolean, row, int64, row, row, work)
    compiled(anderson.mix_alone, memory, row, int64, table)
    compiled(sweep.link_totals, data, row, int64)
    of_node = (int64, int64, work)  # trajectory, node
    compiled(node_steps.store_moments, data, row, boolean, float64, boolean, *of_node)
    compiled(readings.read_node, data, int64, int64, boolean, int64, messages, row, work)
    compiled(readings.keep_first_backward, data, int64, messages, work)
    compiled(passes.forward_pass, data, row, *of_node)
    compiled(passes.backward_pass, data, row, *of_node)
    compiled(passes.evaluate_marks, data, row, *of_node)


if __name__ == "__main__":
    compile_kernels()
