"""Compiles kernels before they are needed: beside a search, or all of them on request.

numba compiles one function at a time, and the kernel that sweeps takes most of it. While the main
process compiles that one, a second process (this module, run by itself) compiles the kernels that
score families and read off marginals over time, on a toy problem, and leaves them in numba's cache
on disk. It says what it begins: the main process waits for that, and compiles itself what is not
begun yet.
Only the first search after an installation has anything to compile.

:func:`warm_up` runs every kind of work once on toy problems. A container or a cluster does that
when it is set up.
"""

from __future__ import annotations

import gc
import os
import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from asterism.numerics.child_process import start_child


@contextmanager
def compiling_ahead() -> Iterator[None]:
    """Run the second process beside a screened search, if there is anything to compile.

    The sooner the better: where one runs already, nothing is done.
    """
    if _RUNNING or (os.cpu_count() or 1) < 2 or _is_compiled():
        yield
        return
    from asterism.numerics._jit import BEFORE_COMPILING

    process = start_child(
        "asterism.learning.compile_ahead",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    wait = _waiting_for(process)
    usual = gc.get_threshold()
    BEFORE_COMPILING.append(wait)
    _RUNNING.append(process)
    gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*usual)
        _RUNNING.remove(process)
        BEFORE_COMPILING.remove(wait)
        # numba writes its cache files whole: nothing half-written stays behind
        process.kill()
        process.wait()


#: Objects made between two searches for cycles of garbage, and how often older ones are searched
#: too. Compiling makes millions that live on; searching them all took a seventh of the time.
_SELDOM = (50_000, 20, 50)
_RUNNING: list[subprocess.Popen[bytes]] = []
"""The second process, while there is one."""


def _waiting_for(process: subprocess.Popen[bytes]) -> Callable[[Any], None]:
    """What waits until another process has compiled a kernel, if it has begun to."""
    from asterism.numerics._jit import is_on_disk

    begun: set[str] = set()

    def listen() -> None:
        if process.stdout is not None:
            with process.stdout as lines:
                begun.update(line.decode().strip() for line in lines)

    def wait(kernel: Any) -> None:
        while _name(kernel) in begun and process.poll() is None and not is_on_disk(kernel):
            time.sleep(0.05)

    threading.Thread(target=listen, daemon=True).start()
    return wait


def _name(kernel: Any) -> str:
    return f"{kernel.py_func.__module__}.{kernel.py_func.__name__}"


def _say_what_begins() -> None:
    """Print the name of each kernel as its compilation begins."""
    from numba.core import event

    class Speaker(event.Listener):
        def on_start(self, event: Any) -> None:
            print(_name(event.data["dispatcher"]), flush=True)

        def on_end(self, event: Any) -> None:
            """Its file on disk says that."""

    register: Any = event.register
    register("numba:compile", Speaker())


def warm_up(tell: Callable[[str], None]) -> Path:
    """Compile what inference and learning use; where the machine code is kept."""
    import numpy as np

    import asterism as am
    from asterism.inference.methods import METHODS
    from asterism.learning.search.searches import SEARCHES
    from asterism.numerics._jit import UNITS, addresses, cache_folder
    from asterism.star._solve import iterate

    for n_states in (2, 3):
        tell(f"networks of {n_states} states: simulation, inference")
        network = am.random_network(n_nodes=3, n_states=n_states, max_parents=1, seed=1)
        emission = am.Gaussian(means=tuple(float(s) for s in range(n_states)), scale=0.3)
        paths = am.simulate(network, 3, duration=5.0, seed=1)
        measured = am.observe(paths, emission, n_observations=6, seed=2)
        for method in (m.name for m in METHODS.values() if m.has_evidence):
            posterior = am.infer(network, measured, emission, method=method)
            posterior.marginals(np.array([0.5, 1.5]))
        posterior.sample(2, seed=0)
        for search in SEARCHES:
            tell(f"networks of {n_states} states: {search} search")
            learner = am.StructureLearner(
                emission=emission,
                max_parents=1,
                search=search,
                n_jobs=1,
                accuracy=am.Accuracy(max_sweeps=2),
                method="star",
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                learner.fit(measured)
        tell(f"networks of {n_states} states: sampling")
        am.StructureLearner(
            emission=emission,
            max_parents=1,
            method="sample",
            n_jobs=1,
            sampling=am.Sampling(max_draws=10),
        ).fit(measured)
        tell(f"networks of {n_states} states: rates of a given graph")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            am.ParameterLearner(network.graph, emission=emission).fit(measured)
    tell("recorded jumps and joint measurements")
    addresses(*UNITS.values())
    return cache_folder(iterate)


def _is_compiled() -> bool:
    from asterism.learning.search._local import score_families
    from asterism.numerics._jit import is_on_disk

    return is_on_disk(score_families)


def compile_kernels() -> None:
    """Call the kernels on two nodes with two measurements each."""
    import numpy as np
    import pandas as pd

    from asterism.clusters._region_chain import (
        backward_pass,
        forward_pass,
        series_ahead,
        series_back,
    )
    from asterism.data.observations import Observations
    from asterism.learning.search.coupled import Extrapolation
    from asterism.learning.search.score import GridPlan, SingleStart, make_scorer
    from asterism.learning.search.screened import score_piece
    from asterism.model.emissions import Gaussian
    from asterism.model.network import Network
    from asterism.numerics._jit import addresses
    from asterism.star._averages import configuration_weights
    from asterism.star._between_points import marginals_at
    from asterism.star._fourth_order import fourth_order
    from asterism.star._kept_messages import Messages, keep_messages
    from asterism.star._messages import pass_messages
    from asterism.star._node import add_statistics, collect_pull, propagate_block, step_moments
    from asterism.star.batch import make_batch
    from asterism.star.problem import Parameters
    from asterism.timeline.build import build_evidence

    # the main process begins with the grid and the loop around these, and needs them last
    addresses(pass_messages, collect_pull, propagate_block, step_moments)
    addresses(configuration_weights, add_statistics)

    rates = np.array([[-1.0, 1.0], [1.0, -1.0]])
    network = Network({"a": [], "b": []}, {"a": rates, "b": rates})
    table = pd.DataFrame({"trajectory": 0, "time": [0.0, 1.0], "a": [-1.0, 1.0], "b": [1.0, -1.0]})
    evidence = build_evidence(network, Observations.from_frame(table), Gaussian((-1, 1), 0.5))
    allowed = (~np.eye(2, dtype=bool),) * 2
    scorer = make_scorer(
        evidence,
        SingleStart([2, 2], allowed, network.compiled.initial, (rates,) * 2),
        (5.0, 5.0),
        GridPlan(relaxation_rate=2.0, step=0.5),
        "star",
    )
    problem = scorer.problem_of(((), ()))
    steps = len(problem.width)
    solution: Any = SimpleNamespace(
        parents=((), ()),
        rates=network.compiled.rates,
        initial=network.compiled.initial,
        moments=np.tile(problem.width / 2.0, 8),
    )
    shared = scorer.shared_input(solution)
    score_piece(shared, np.array([0]), [np.array([[-1], [1]])])
    # it consists of code that was compiled just now
    Extrapolation(problem, Parameters.of(network.compiled, "star")).improve()
    # exact inference compares edges with unmeasured causes (learning/search/unmeasured.py)
    # the longest first: the main process begins at the other end
    addresses(series_ahead, forward_pass, series_back, backward_pass)
    # marginals in the end are computed on corrected steps
    make_batch(evidence, network.compiled.graph, 2.0, 0.5, is_corrected=True)
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
        addresses(fourth_order, keep_messages),
    )


if __name__ == "__main__":
    gc.set_threshold(*_SELDOM)
    _say_what_begins()
    compile_kernels()
