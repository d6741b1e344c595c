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


@_jit.unit((float64[::1], int64), cache=False)
def _fill_all_with(values, n):
    for i in range(n):
        values[i] = i + 1.0


# the table of the package keeps its own entries only
_jit.UNITS.pop(_fill_all_with.slot)


@_jit.kernel(cache=False)
def _call_by_address(table, values, n):
    _fill_all_with(table, values, n)
    return values[n - 1]


def test_a_kernel_is_called_by_its_address() -> None:
    values = np.zeros(8)
    assert _call_by_address(_jit.addresses(_fill_all_with), values, 5) == 5.0
    np.testing.assert_array_equal(values, [1, 2, 3, 4, 5, 0, 0, 0])


def test_what_is_asked_for_is_in_the_table_of_addresses() -> None:
    from asterism.numerics._matrix_step import general_propagator

    found = _jit.addresses(general_propagator)
    assert found[general_propagator.slot] != 0
    assert _jit.is_ready(general_propagator)
    assert _jit.addresses() is found


def test_two_kernels_cannot_share_a_slot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_jit, "_TABLE", np.zeros(1, dtype=np.int64))
    monkeypatch.setattr(_jit, "UNITS", {})

    def first(n):
        return n

    def second(n):
        return n

    _jit.unit((int64,), returns=int64)(first)
    with pytest.raises(ValueError, match=r"second.*first.*rename"):
        _jit.unit((int64,), returns=int64)(second)


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
        "from asterism.star import batch\n"
        "asked = []\n"
        "batch.addresses = lambda *units: asked.extend(unit.name for unit in units)\n"
        "net = am.glauber({'A': [], 'B': ['A']}, a=1.0, b=1.0)\n"
        "noise = am.Gaussian((-1, 1), 0.4)\n"
        "seen = am.observe(am.simulate(net, 1, duration=1.0, seed=1), noise, n_observations=2)\n"
        "from asterism.timeline.build import build_evidence\n"
        "from asterism.star.problem import lay_out_evidence\n"
        "made = batch.make_batch(build_evidence(net, seen, noise), net.compiled.graph, 1.0, 0.5)\n"
        "batch.addresses_to_sweep(made.problem)\n"
        "asked = {name.split('.')[-1] for name in asked}\n"
        "assert {'node_generator', 'pass_messages', 'store_moments'} <= asked\n"
        "others = {'general_propagator', 'general_moments', 'pass_many_states', 'ask_links',"
        " 'fourth_order', 'corrections_of_many'}\n"
        "assert others <= {one.name.split('.')[-1] for one in _jit.UNITS.values()}\n"
        "print(sorted(others & asked))\n"
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

    fill = _fill_all_with.dispatcher
    begun = f"{fill.py_func.__module__}.{fill.py_func.__name__}"
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
        wait(fill)  # returns at once until the other process has spoken
        wait(_call_by_address)  # nobody has begun this one
    assert other.poll() is None
    other.kill()
    other.wait()
    assert asked == ["_fill_all_with"] * 3
    wait(fill)  # who has died compiles nothing
