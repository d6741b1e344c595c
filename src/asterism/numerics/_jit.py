"""The one place that says how numba compiles.

Python calls functions decorated with :func:`kernel`. Signatures are lazy, so importing compiles
nothing; machine code is cached on disk; the interpreter lock is released so that threads can run
kernels side by side. Division by zero follows IEEE rules (numpy's error model): callers check their
inputs, and a branch per division would only prevent vectorisation. Functions that only kernels call
are decorated with :func:`inner` or :func:`inlined`.

Compiled files are marked by an underscore (``star/_solve.py``) and lie beside the prose that uses
them. ``compiler_cache.py`` says where machine code is kept.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from numba.core import cgutils

from asterism.numerics.compiler_cache import folder_of, forget_old_code, say_it_fails

_SETTINGS: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract"},
    "no_cfunc_wrapper": True,
}

BEFORE_COMPILING: list[Callable[[Any], None]] = []
"""Called with a kernel before it is compiled or loaded: to wait for a process that compiles it."""


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function that Python calls; ``options`` override the project's options."""
    settings = {**_SETTINGS, "cache": True, **options}

    def decorate(f: Callable[..., Any]) -> Any:
        if not settings["cache"] or numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
            return numba.njit(**settings)(f)
        # numba asks for this setting when it decorates: nobody else's kernels are concerned
        before = numba.config.CACHE_DIR  # type: ignore[attr-defined]
        numba.config.CACHE_DIR = str(folder_of(f))  # type: ignore[attr-defined]
        try:
            dispatcher = numba.njit(**settings)(f)
        finally:
            numba.config.CACHE_DIR = before  # type: ignore[attr-defined]
        dispatcher.compile = _compiling(dispatcher, settings)
        return dispatcher

    return decorate if function is None else decorate(function)


def _compiling(dispatcher: Any, settings: dict[str, Any]) -> Callable[[Any], Any]:
    """Compile or load a kernel; if the cache is full or damaged, do without it and say so."""
    compile_or_load = dispatcher.compile
    twins: list[Any] = []  # numba forgets code whose dispatcher nobody holds: callers need it

    def compile_now(signature: Any) -> Any:
        for ask in BEFORE_COMPILING:
            ask(dispatcher)
        folder = cache_folder(dispatcher)
        forget_old_code(folder.parent)
        try:
            return compile_or_load(signature)
        except numba.core.errors.NumbaError:
            raise
        except Exception as error:
            say_it_fails(folder.parent.parent, error)
        arguments = numba.core.sigutils.normalize_signature(signature)[0]
        if arguments not in dispatcher.overloads:  # it could not be loaded
            twin = numba.njit(**{**settings, "cache": False})(dispatcher.py_func)
            twin.compile(signature)
            twins.append(twin)
            dispatcher.add_overload(twin.overloads[arguments])
        return dispatcher.overloads[arguments].entry_point

    return compile_now


def inner(
    function: Callable[..., Any] | None = None, *, allocates: bool = False, **options: Any
) -> Any:
    """For functions that only kernels call.

    Python cannot call them: the wrappers that would unpack their many arrays are left out. Nor do
    they count references to arrays, which their callers hold anyway, unless they create some
    (``allocates``). Both together halve the time the whole set takes to compile, and views cost
    next to nothing.

    numba compiles ``f(x, 1)`` and ``f(x, n)`` apart. Callers of large functions write ``int(1)``
    and ``bool(True)`` instead, which are numbers like any other.
    """
    settings = {"cache": False, "no_cpython_wrapper": True, "_nrt": allocates, **options}
    return kernel(function, **settings)


def inlined(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Like :func:`inner`, for what a sweep calls per node: always a part of its callers' code.

    Passing bundles of arrays from function to function takes longer than updating a node that has
    few steps.
    """
    return inner(function, forceinline=True, **options)


def view(function: Callable[..., Any]) -> Any:
    """For functions that return a view of an array, and for those that one kernel calls once.

    They are compiled as a part of their callers, not by themselves as well: :func:`inner` functions
    of this kind make kernels a fifth slower to compile.
    """
    return kernel(function, cache=False, inline="always", no_cpython_wrapper=True)


def unit(
    arguments: tuple[Any, ...], *, returns: Any = None, allocates: bool = False, **options: Any
) -> Callable[[Callable[..., Any]], Any]:
    """For functions that other kernels call by their address.

    A unit is compiled once, by itself, however many kernels call it, and only if somebody needs it;
    the callers are compiled without it. ``arguments`` and ``returns`` are its types. A caller puts
    the table that :func:`addresses` gives before the arguments. A unit's slot in the table follows
    from its name; two units that fall on one slot are refused when they are defined.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        settings = {"no_cpython_wrapper": True, "_nrt": allocates, **options}
        dispatcher = kernel(function, **settings)
        name = f"{function.__module__}.{function.__name__}"
        slot = zlib.crc32(name.encode()) % len(_TABLE)
        if slot in UNITS and UNITS[slot].name != name:
            raise ValueError(f"{name} and {UNITS[slot].name} have one slot: rename one of them")
        call: Any = _call(dispatcher, arguments, returns, slot)
        call.name, call.slot, call.arguments, call.dispatcher = name, slot, arguments, dispatcher
        UNITS[slot] = call
        return call

    return decorate


def _call(dispatcher: Any, arguments: tuple[Any, ...], returns: Any, slot: int) -> Any:
    """What stands for a unit in the code of other kernels: a call of what lies in its slot."""
    if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
        return lambda table, *values: dispatcher(*values)
    from llvmlite import ir  # type: ignore[import-untyped]
    from numba.core import types
    from numba.core.errors import NumbaTypeError
    from numba.extending import intrinsic

    result_type = types.none if returns is None else returns

    @intrinsic
    def call(typing_context: Any, table: Any, *values: Any) -> Any:
        for i, (is_given, wanted) in enumerate(zip(values, arguments, strict=True)):
            if is_given != wanted:
                name = dispatcher.py_func.__name__
                raise NumbaTypeError(f"argument {i} of {name} must be {wanted}, not {is_given}")

        def generate(context: Any, builder: Any, signature: Any, parts: Any) -> Any:
            entries = context.make_array(signature.args[0])(context, builder, parts[0]).data
            address = builder.load(builder.gep(entries, [ir.Constant(ir.IntType(64), slot)]))
            function_type = context.call_conv.get_function_type(result_type, arguments)
            pointer = builder.inttoptr(address, function_type.as_pointer())
            given = cgutils.unpack_tuple(builder, parts[1])
            status, result = context.call_conv.call_function(
                builder, pointer, result_type, arguments, given
            )
            with cgutils.if_unlikely(builder, status.is_error):
                context.call_conv.return_status_propagate(builder, status)
            return context.get_dummy_value() if returns is None else result

        return result_type(table, types.StarArgTuple(values)), generate

    return call


UNITS: dict[int, Any] = {}
"""Kernels that are called by address, by slot."""
_TABLE = np.zeros(1024, dtype=np.int64)
"""Where they lie in this process, by slot; zero if not compiled yet."""


def addresses(*units: Any) -> Any:
    """The table of addresses with these units in it; compiles what is missing.

    Without the compiler nothing has an address.
    """
    for one in units:
        if _TABLE[one.slot] == 0 and not numba.config.DISABLE_JIT:  # type: ignore[attr-defined]
            one.dispatcher.compile(one.arguments)
            result = one.dispatcher.overloads[one.arguments]
            name = result.fndesc.llvm_func_name
            _TABLE[one.slot] = result.library.get_pointer_to_function(name)
    return _TABLE


def is_ready(one: Any) -> bool:
    """Whether a unit has its address in this process, or needs none."""
    return bool(_TABLE[one.slot]) or numba.config.DISABLE_JIT  # type: ignore[attr-defined]


def cache_folder(dispatcher: Any) -> Path:
    """Where the machine code of a kernel is kept."""
    return Path(dispatcher.stats.cache_path)


def is_on_disk(dispatcher: Any) -> bool:
    """Whether machine code of a kernel, as it is now, waits in the cache (or there is none)."""
    if not hasattr(dispatcher, "stats"):
        return True
    file = os.path.basename(dispatcher.py_func.__code__.co_filename).removesuffix(".py")
    pattern = f"{file}.{dispatcher.py_func.__qualname__}-*.nbi"
    return any(cache_folder(dispatcher).glob(pattern))
