"""How kernels are compiled: calls by address, bundles, warm-up, waiting for another process."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from click.testing import CliRunner
from numba import float64, int64
from numpy.typing import NDArray

from asterism.numerics import _jit
from asterism.numerics._bundle import bundle, keep


@_jit.kernel(cache=False)
def _fill_with(values, n):
    for i in range(n):
        values[i] = i + 1.0


_SLOT = 63
_fill_from_afar = _jit.separate(_fill_with, (float64[::1], int64), _SLOT)
# the table of the package keeps its own entries only
_SEPARATE = _jit.UNITS.pop(_SLOT)


@_jit.kernel(cache=False)
def _call_by_address(address, values, n):
    _fill_from_afar(address, (values, n))
    return values[n - 1]


def test_a_kernel_is_called_by_its_address() -> None:
    dispatcher, arguments = _SEPARATE
    dispatcher.compile(arguments)
    result = dispatcher.overloads[arguments]
    address = result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
    values = np.zeros(8)
    assert _call_by_address(address, values, 5) == 5.0
    np.testing.assert_array_equal(values, [1, 2, 3, 4, 5, 0, 0, 0])


def test_what_is_asked_for_is_in_the_table_of_addresses() -> None:
    from asterism.numerics import _matrix_step

    found = _jit.addresses(_matrix_step.PROPAGATOR)
    assert found[_matrix_step.PROPAGATOR] != 0
    assert _jit.addresses() is found


class _Room(NamedTuple):
    values: NDArray[np.float64]
    n: int


@_jit.inner
def _sum_of_room(room):
    total = 0.0
    for i in range(room.n):
        total += room.values[i]
    return total


@_jit.kernel(cache=False)
def _sum_as_bundle(n):
    room = _Room(np.ones(8), n)
    total = _sum_of_room(bundle(room))
    keep(room)
    return total


def test_functions_take_bundles_and_named_tuples_alike() -> None:
    assert _sum_as_bundle(5) == 5.0
    assert _sum_of_room.py_func(_Room(np.ones(8), 3)) == 3.0


def test_two_states_compile_nothing_for_more() -> None:
    """Linked evidence, three states and smooth steps have kernels of their own."""
    code = (
        "import numpy as np, asterism as am\n"
        "from asterism.numerics import _jit\n"
        "from asterism.star import _buffers, batch\n"
        "asked = []\n"
        "batch.UNITS = dict.fromkeys(range(32))\n"
        "batch.addresses = lambda *slots: asked.extend(slots)\n"
        "net = am.glauber({'A': [], 'B': ['A']}, a=1.0, b=1.0)\n"
        "noise = am.Gaussian((-1, 1), 0.4)\n"
        "seen = am.observe(am.simulate(net, 1, duration=1.0, seed=1), noise, n_observations=2)\n"
        "from asterism.timeline.build import build_evidence\n"
        "from asterism.star.problem import lay_out_evidence\n"
        "made = batch.make_batch(build_evidence(net, seen, noise), net.compiled.graph, 1.0, 0.5)\n"
        "batch.addresses_to_sweep(made.problem)\n"
        "from asterism.numerics._matrix_step import MOMENTS, PROPAGATOR\n"
        "b = _buffers\n"
        "assert {b.NODE_GENERATOR, b.PASS_MESSAGES, b.STORE_MOMENTS} <= set(asked)\n"
        "others = {PROPAGATOR, MOMENTS, b.PASS_MANY_STATES, b.LINKS, b.FOURTH_ORDER}\n"
        "print(sorted(others & set(asked)))\n"
    )
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    answer = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert answer.strip() == "[]"


def test_warm_up_says_what_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    from asterism.cli import main
    from asterism.commands import warm_up

    def only_tells(tell):
        tell("toy problems")
        return Path("somewhere")

    monkeypatch.setattr(warm_up, "warm_up", only_tells)
    result = CliRunner().invoke(main, ["warm-up", "--json"])
    assert result.exit_code == 0
    assert '"folder": "somewhere"' in result.stdout
    assert "toy problems" in result.stderr


def test_a_process_waits_for_a_kernel_that_another_one_has_begun(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from asterism.learning import compile_ahead

    begun = f"{_fill_with.py_func.__module__}.{_fill_with.py_func.__name__}"
    other = subprocess.Popen(
        [sys.executable, "-c", f"import time; print({begun!r}, flush=True); time.sleep(60)"],
        stdout=subprocess.PIPE,
    )
    answers = [False, False, True]
    asked: list[str] = []

    def is_on_disk(kernel: Any) -> bool:
        asked.append(kernel.py_func.__name__)
        return answers.pop(0)

    monkeypatch.setattr(_jit, "is_on_disk", is_on_disk)
    wait = compile_ahead._waiting_for(other)
    deadline = time.monotonic() + 30.0
    while answers and time.monotonic() < deadline:
        wait(_fill_with)  # returns at once until the other process has spoken
        wait(_call_by_address)  # nobody has begun this one
    assert other.poll() is None
    other.kill()
    other.wait()
    assert asked == ["_fill_with"] * 3
    wait(_fill_with)  # who has died compiles nothing
