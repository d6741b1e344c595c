"""How kernels are compiled: private code, calls by address, a place for the cache, warm-up."""

from __future__ import annotations

import gc
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from click.testing import CliRunner
from numba import float64, int64
from numba.core.errors import TypingError
from numpy.typing import NDArray

from asterism.numerics import _jit
from asterism.numerics._bundle import bundle, keep
from asterism.numerics._tile_products import room_for


@_jit.inner
def _doubled_sum(values):
    total = 0.0
    for i in range(values.shape[0]):
        total += values[i]
    return 2.0 * total


@_jit.kernel(cache=False)
def _sum_by_way_of_private_code(values):
    return _doubled_sum(values) / 2.0


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


def test_private_code_is_a_part_of_its_caller() -> None:
    assert _sum_by_way_of_private_code(np.arange(5.0)) == 10.0
    (result,) = _doubled_sum.overloads.values()
    assert result.library.get_pointer_to_function(result.fndesc.llvm_func_name) == 0


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


@_jit.kernel(cache=False)
def _mixed(values, n, x):
    return n + n, n + x, values[n] + n, values[n] * x, values[1:][0], n / n


def test_remembered_types_belong_to_the_arguments() -> None:
    """Each sum and each item is looked up once per kind of argument, not once for all."""
    whole, real = np.arange(3), np.arange(3.0)
    for values, n, x in ((real, 1, 0.5), (whole, 1, 2), (whole, 1, 0.5), (real, 1, 0.5)):
        found = _mixed(values, n, x)
        expected = (n + n, n + x, values[n] + n, values[n] * x, values[1:][0], n / n)
        assert found == expected
        assert [type(a) is float for a in found] == [isinstance(b, float) for b in expected]


def test_two_states_compile_nothing_for_more() -> None:
    """Linked evidence and three states have kernels of their own, compiled when needed."""
    code = (
        "import numpy as np, asterism as am\n"
        "from asterism.numerics import _jit\n"
        "from asterism.star import _buffers, batch\n"
        "asked = []\n"
        "batch.UNITS = dict.fromkeys(range(16))\n"
        "batch.addresses = lambda *slots: asked.extend(slots)\n"
        "net = am.glauber({'A': [], 'B': ['A']}, a=1.0, b=1.0)\n"
        "noise = am.Gaussian((-1, 1), 0.4)\n"
        "seen = am.observe(am.simulate(net, 1, duration=1.0, seed=1), noise, n_observations=2)\n"
        "from asterism.timeline.build import build_evidence\n"
        "from asterism.star.problem import lay_out_evidence\n"
        "made = batch.make_batch(build_evidence(net, seen, noise), net.compiled.graph, 1.0, 0.5)\n"
        "batch.addresses_to_sweep(made.problem)\n"
        "print(sorted(asked))\n"
    )
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    answer = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout
    assert answer.strip() == "[2, 3, 4, 6, 7]"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs users")
def test_without_a_place_for_the_cache_a_private_one_is_made(tmp_path: Path) -> None:
    """Home and package cannot be written: kernels still compile, and nobody else reads them."""
    code = (
        "from numba.core.caching import CompileResultCacheImpl as places\n"
        "places._locator_classes = places._locator_classes[:1]  # the one that a setting names\n"
        "import numba\n"
        "from asterism.numerics._tile_products import room_for\n"
        "print(numba.config.CACHE_DIR)\n"
        "print(room_for(3))\n"
    )
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    environment.pop("NUMBA_CACHE_DIR", None)
    environment["PYTHONPATH"] = str(Path(_jit.__file__).parents[2])
    answer = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    ).stdout.split()
    folder = Path(answer[0])
    assert folder.parent == tmp_path
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert int(answer[1]) == room_for(3)
    assert list(folder.rglob("*.nbi"))


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


@_jit.inner
def _power_of(value, exponent):
    return value**exponent


@_jit.kernel(cache=False)
def _powers(value, exponent):
    return _power_of(value, 2) + _power_of(value, 3) + _power_of(value, exponent)


def test_private_code_is_compiled_once_for_all_numbers() -> None:
    assert _powers(2.0, 4) == 28.0
    assert len(_power_of.overloads) == 1


@_jit.kernel(cache=False)
def _cannot_be_compiled(value):
    return value.no_such_thing


def test_garbage_is_collected_again_after_compiling() -> None:
    assert gc.isenabled()
    with pytest.raises(TypingError):
        _cannot_be_compiled(1.0)
    assert gc.isenabled()


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
        wait(_powers)  # nobody has begun this one
    assert other.poll() is None
    other.kill()
    other.wait()
    assert asked == ["_fill_with"] * 3
    wait(_fill_with)  # who has died compiles nothing
